// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Checks of the endpoints that hosts share: at the master, what became of each assignment and
//! what is the matter with what it has found; elsewhere what keeps this host from using
//! what was given to it.

use super::finding::{Finding, Level, Place};
use super::host::logged;
use super::snapshot::{Function, Port, Snapshot};
use crate::multiroot::{Assignment, Component, Known, Names, State, assignment, remedy};

pub fn check(snapshot: &Snapshot, function: &Function, port: &Port) -> Vec<Finding> {
    let known = &port.known;
    let names = Names::new(known.components.as_deref());
    let mut found: Vec<_> =
        known.assignments.iter().filter_map(|w| unfulfilled(w, known)).collect();
    for component in known.components.iter().flatten() {
        found.extend(component_itself(component, &names));
        found.extend(driverless(component, port, &names));
        found.extend(unassigned(component, known, &names));
    }
    found.extend(no_endpoint_slots(function, port));
    found.extend(held(function, port));
    found.extend(failed(snapshot, function, port));
    found
}

/// Whether no assignment is on its way.
pub fn is_complete(port: &Port) -> bool {
    !port
        .known
        .assignments
        .iter()
        .any(|assignment| assignment.state.is_some_and(assignment::passes))
}

/// An assignment that is not fulfilled, by its reason.
fn unfulfilled(assignment: &Assignment, known: &Known) -> Option<Finding> {
    let state = assignment.state?;
    let id = match state {
        State::Done => return None,
        State::Waits => "assignment-waits",
        State::NoEndpoint => "assignment-no-endpoint",
        State::NoVe => "assignment-no-ve",
        State::NoRoot => "assignment-no-host",
        State::NoLid => "assignment-no-lid",
        State::NoWay => "assignment-no-way",
        State::NoPlane => "assignment-no-plane",
        State::NoRoom => "assignment-no-room",
        State::Failed => "assignment-not-written",
        State::NotTaken => "assignment-not-taken",
        _ => "assignment-unknown",
    };
    let names = Names::new(known.components.as_deref());
    let at = Place::Component(format!("endpoint {}", names.ve(assignment.endpoint, assignment.ve)));
    let what = format!("is to be host {}'s, and is not: {state}", names.of(assignment.root));
    let level = if state == State::Waits { Level::Warning } else { Level::Fault };
    Some(Finding { level, ..Finding::fault(id, at, what) }.mend(remedy::mend(assignment, known)))
}

fn at(component: &Component, names: &Names<'_>) -> Place {
    Place::Component(format!("{} {}", component.kind, names.of(component.hwid)))
}

/// What a component says of itself.
fn component_itself(component: &Component, names: &Names<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let here = || at(component, names);
    if component.there && !component.vpd_in_order {
        let what = "its VPD, which say what it is and where, are not in order";
        found.push(Finding::warning("vpd-broken", here(), what).mend(format!(
            "they are not used, its hardware id, {}, names it; write them anew with its maker's \
             tool, then take it out and put it in again; emulated: `weft-fabric inject list`",
            component.hwid
        )));
    }
    if component.replaced {
        let what = format!(
            "it is another one than under its hardware id, {}, before: another part or serial number",
            component.hwid
        );
        found.push(Finding::note("component-replaced", here(), what).mend(
            "what is assigned holds for it as well, `weftctl assignments` shows that; if it is not the one that \
             should be there, take it out",
        ));
    }
    found
}

/// A host that the master has found by its port, and whose driver says nothing.
fn driverless(component: &Component, port: &Port, names: &Names<'_>) -> Option<Finding> {
    let id = component.hwid.to_string();
    // What is among the nodes and does not answer is said there.
    let is_node = port.nodes.iter().any(|node| node.hwid == id);
    if component.kind != "host" || !component.there || is_node {
        return None;
    }
    let what = "its port is there, and its driver takes no part in the fabric";
    let mend = "is it alive? there: `modprobe weft`; is it loaded, `weftctl diagnose`; if \
                manager/allow is not 0, there or here, that list has to name the other host as well";
    Some(Finding::warning("host-no-driver", at(component, names), what).mend(mend))
}

/// An endpoint of which no host is to have anything.
fn unassigned(component: &Component, known: &Known, names: &Names<'_>) -> Option<Finding> {
    let assigned = known.assignments.iter().any(|assignment| assignment.endpoint == component.hwid);
    if component.kind != "endpoint" || !component.there || assigned {
        return None;
    }
    let name = names.of(component.hwid);
    let what = format!("is assigned to no host; it has {} virtual endpoints", component.ves);
    let finding = Finding::note("endpoint-unassigned", at(component, names), what);
    Some(finding.mend(format!("`weftctl assign {name} HOST`; hosts: {}", hosts(known, names))))
}

fn hosts(known: &Known, names: &Names<'_>) -> String {
    let hosts = known.components.iter().flatten().filter(|c| c.kind == "host");
    let all: Vec<_> = hosts.map(|host| names.of(host.hwid)).collect();
    all.join(", ")
}

/// What is this host's own, and its programs cannot open.
fn no_endpoint_slots(function: &Function, port: &Port) -> Option<Finding> {
    let own = port.known.hierarchies.first()?;
    let given = own.places.iter().filter(|place| place.given.is_some()).count();
    if given == 0 || port.endpoint_slots != Some(0) {
        return None;
    }
    let what = format!(
        "{given} virtual endpoints are this host's, and its port has nothing left for their functions"
    );
    let finding =
        Finding::warning("endpoint-no-slots", Place::Function(function.address.clone()), what);
    Some(finding.mend(
        "programs that open one get ENOSPC: a port has to have 16 slots, and apertures, doorbells and \
         pages in proportion; emulated: `-device weft-port,slots=16`; `weftctl withdraw` at the master \
         gives them to others",
    ))
}

/// What has no route now, and goes on when it has one.
fn held(function: &Function, port: &Port) -> Option<Finding> {
    let held = port.endpoint_held.filter(|held| *held > 0)?;
    let of = port.endpoint_functions.unwrap_or(held);
    let what = format!(
        "{held} of {of} functions of shared endpoints are held: the route there, or back, is lost or has changed"
    );
    let finding = Finding::note("endpoint-held", Place::Function(function.address.clone()), what);
    Some(finding.mend(
        "they go on where they were when there is a route, and fail after 30 s without one; if they stay \
         held: `weftctl tree` and `weftctl slots` at the master show what is not there",
    ))
}

/// What has failed in the hands of a program, which alone was told so.
fn failed(snapshot: &Snapshot, function: &Function, port: &Port) -> Option<Finding> {
    let address = &function.address;
    let count = port.endpoint_failures;
    if count == 0 {
        return None;
    }
    // "weft 0000:01:00.0: endpoint 0xc…: function 0 of virtual endpoint 1 has failed: setup"
    let line = logged(snapshot, &[&format!(" {address}: endpoint "), "has failed: "]);
    let last = line.and_then(|line| Some(line.split_once(&format!(" {address}: "))?.1));
    let what = match last {
        Some(last) => format!("; the last: {last}"),
        None => String::new(),
    };
    let why = last.and_then(|last| last.rsplit(' ').next()).unwrap_or_default();
    let mend = match why {
        _ if why.ends_with("queue") => {
            "the endpoint could not reach this host's memory: is the way back there? `weftctl tree` at \
             the master; emulated: `weft-fabric route walk ENDPOINT LID`, of this host"
        }
        "setup" | "overrun" => "is the driver of a release that fits the endpoint?",
        "disabled" => "was the endpoint without power? who else writes to its registers?",
        "nonsense" => "do not trust this endpoint: `weftctl withdraw` at the master",
        _ => "`dmesg` says which, and what has failed",
    };
    let what = format!(
        "{count} functions of shared endpoints have failed under their programs \
         (endpoint_failures){what}"
    );
    let finding = Finding::note("endpoint-failed", Place::Function(address.clone()), what);
    Some(finding.mend(format!("a program that goes on opens it again; {mend}")))
}
