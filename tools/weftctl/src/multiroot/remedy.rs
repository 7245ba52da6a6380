// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What mends an assignment that did not come to pass, by what is known of its endpoint and host.

use super::assignment::{Assignment, State};
use super::known::{Component, Known};
use super::name::Names;

/// What mends what became of an assignment, with the command; empty where nothing is wrong.
pub fn mend(assignment: &Assignment, known: &Known) -> String {
    let names = Names::new(known.components.as_deref());
    let (ve, host) = (names.ve(assignment.endpoint, assignment.ve), names.of(assignment.root));
    let component = |hwid| known.component(hwid);
    let take_back = format!("`weftctl withdraw {ve}` takes it back");
    match assignment.state {
        None | Some(State::Done) => String::new(),
        Some(State::Waits) => {
            "it takes a second or two from the last change of the fabric: `weftctl events` shows \
             them; `dmesg` of this host, if it stays so"
                .into()
        }
        Some(State::NoEndpoint) => format!(
            "is it on, and its cable in? `weftctl tree` shows what there is; emulated: `plugged` in \
             the topology, `weft-fabric status`; if it will not come, {take_back}"
        ),
        Some(State::NoVe) => {
            let endpoint = names.of(assignment.endpoint);
            let has = match component(assignment.endpoint).map(|component| component.ves) {
                Some(ves) if ves > 0 => format!("it has {ves}, from 0 on: "),
                _ => String::new(),
            };
            format!("{has}{take_back}, `weftctl assign {endpoint} {host}` gives one that is free")
        }
        Some(State::NoRoot) => format!(
            "is host {host} on, its cable in, its driver loaded (`modprobe weft` there)? \
             `weftctl tree` shows who is there; if it will not come, {take_back}"
        ),
        Some(State::NoLid) => {
            let lacks = |component: Option<&Component>| component.is_some_and(|c| c.lid == 0);
            match (lacks(component(assignment.root)), lacks(component(assignment.endpoint))) {
                (true, _) => format!(
                    "host {host} was found, and its driver takes no part: is it alive? `modprobe weft` \
                     there; if manager/allow is not 0, here or there, that list has to name the other host as \
                     well: `echo {} >manager/allow` here, in the directory of the port's function",
                    assignment.root
                ),
                (false, true) => format!(
                    "endpoint {} does not answer the master's messages: `weftctl tree`, \
                     `weftctl diagnose`",
                    names.of(assignment.endpoint)
                ),
                _ => "the master gives them in a second or two: `weftctl tree` shows LIDs".into(),
            }
        }
        Some(State::NoWay) => format!(
            "switches that route have to join them by links that are up: `weftctl tree`; hosts pass \
             nothing on; emulated: `routes = true` of switches in the topology, `weft-fabric route \
             walk HOST LID`; or {take_back}"
        ),
        Some(State::NoPlane) => format!(
            "a link carries the hierarchies of 15 hosts: join them by another switch, or withdraw \
             what other hosts have beyond it; `weftctl tree --vh all` shows that; {take_back}"
        ),
        Some(State::NoRoom) => format!(
            "host {host} has as much as one host can: something of 16 endpoints, or 85 places in its \
             hierarchy, of which each switch on the way takes one: `weftctl tree --vh {host}` shows \
             them, `weftctl withdraw ENDPOINT` makes room"
        ),
        Some(State::Failed) => {
            "it is tried again; `dmesg` of this host names the component and its \
                                answer; switches obey the master only if `managers` of the \
                                topology does not leave it out"
                .into()
        }
        Some(State::NotTaken) => format!(
            "it is tried again; is host {host} alive? there: `weftctl diagnose`; what it is to lose it \
             has to let go of first, and a neighbour of it that hangs may hold on to that; a driver \
             of another version may not understand what it is told"
        ),
        Some(_) => "use weftctl and the driver of one release".into(),
    }
}
