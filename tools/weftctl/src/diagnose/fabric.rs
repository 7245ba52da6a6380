// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Checks of what the manager of the fabric has come to: whether there is a master,
//! whether this host has an address, whether everybody can be reached.

use super::finding::{Finding, Place};
use super::snapshot::{Function, Link, Manager, Port};
use crate::tree::Node;

pub fn check(function: &Function, port: &Port) -> Vec<Finding> {
    let Some(manager) = &port.manager else { return Vec::new() };
    // Without neighbours there is nothing to manage.
    if port.links.iter().all(|link| link.state == "down") {
        return Vec::new();
    }
    let at_switch = port.links.iter().find(|link| link.state == "switch");
    let unrouted = at_switch.is_some() && manager.nodes > 1 && manager.routes == 0;
    let keys = keys(function, manager);
    if !is_settled(manager) || unrouted {
        return keys.into_iter().chain([unmanaged(function, at_switch, manager)]).collect();
    }
    let here = Place::Function(function.address.clone());
    let others = port.nodes.iter().filter(|node| !node.own);
    let mut found: Vec<_> = keys.into_iter().collect();
    found.extend(others.filter_map(|node| unreached(&here, port, manager, node)));
    found.extend(excluded(function, port, manager));
    // Others are not listed then: they are found when a program connects.
    if manager.mode == "scale" {
        return found;
    }
    found.extend(strangers(function, port, manager));
    let is_alone = !port.nodes.iter().any(|node| !node.own && node.kind == "host");
    if let (Some(link), false, true) = (at_switch, port.nodes.is_empty(), is_alone) {
        let at = Place::link(&function.address, link.number);
        let finding = Finding::fault("no-host", at, "no other host was found behind the switch");
        found.push(finding.mend(
            "there: is the host on, `modprobe weft`? is its cable in? emulated: `weft-fabric status`",
        ));
    }
    let missing = (manager.nodes.saturating_sub(1)).saturating_sub(manager.routes);
    if port.nodes.is_empty() && missing > 0 {
        let what = format!("of {} other nodes {missing} have no route", manager.nodes - 1);
        let finding = Finding::fault("no-route", here, what);
        found.push(finding.mend("who they are, `weftctl tree` says to who may open the port"));
    }
    found
}

/// How messages of managers are authenticated, where that is not as it should be.
fn keys(function: &Function, manager: &Manager) -> Option<Finding> {
    let here = Place::Function(function.address.clone());
    let host = short(&manager.key_mismatch_hwid);
    let (id, what, mend) = match manager.key_mismatch.as_str() {
        "here" => (
            "key-missing",
            format!("host {host} has a key for messages of managers, and this one has none"),
            "`weftctl key set FILE` here, with the key of that host; until then it believes nothing \
             that this host says"
                .to_owned(),
        ),
        "there" => (
            "key-missing",
            format!("host {host} has no key for messages of managers, and this one has"),
            format!(
                "on host {host}: `weftctl key set FILE`, with the key of this one; until then this \
                 host believes nothing that it says"
            ),
        ),
        "differs" => (
            "key-differs",
            format!("host {host} has another key for messages of managers than this one"),
            "`weftctl key set FILE` on both, with the same key".to_owned(),
        ),
        _ if manager.authenticated.as_deref() == Some("nothing") => {
            let what = "the fabric attests no hardware ids, and there is no key: any host can speak \
                        for the master";
            let finding = Finding::note("no-authentication", here, what);
            return Some(finding.mend("`weftctl key set FILE` on all hosts, with the same key"));
        }
        _ => return None,
    };
    Some(Finding::warning(id, here, what).mend(mend))
}

/// It has a master and an address.
pub fn is_settled(manager: &Manager) -> bool {
    manager.lid != 0 && manager.role != "unknown"
}

/// Whether everybody that is known can be reached, so far.
pub fn is_complete(port: &Port) -> bool {
    port.manager.as_ref().is_none_or(|manager| {
        is_settled(manager)
            && port.nodes.iter().all(|node| node.own || reached(port, manager, node))
    })
}

/// There is no master, or the master has not given an address, or no routes.
fn unmanaged(function: &Function, at_switch: Option<&Link>, manager: &Manager) -> Finding {
    let master = short(&manager.master);
    let why = match (manager.role.as_str(), manager.lid) {
        ("unknown", _) => "no master is known: an election is under way, or no node answers".into(),
        (_, 0) => format!("the master {master} has given this host no local id yet"),
        _ => format!("there are no routes, so the switch may not obey the master {master}"),
    };
    let mend = "it takes a second or two: `weftctl events` shows role, master and lid as they come; \
                `weftctl tree` who answers. All need a weft.ko that manages the fabric; emulated: \
                `managers` in the topology names who may program switches";
    let finding = match at_switch {
        Some(Link { number, .. }) => Finding::fault(
            "switch-unmanaged",
            Place::link(&function.address, *number),
            format!("leads to a switch, behind which no host can be reached: {why}"),
        ),
        None => {
            let id = if manager.role == "unknown" { "no-master" } else { "no-lid" };
            // Neighbours are reached without.
            Finding::warning(id, Place::Function(function.address.clone()), why)
        }
    };
    finding.mend(mend)
}

/// By a link of its own, or by one that is made when it is needed, or it is none that has one.
fn reached(port: &Port, manager: &Manager, node: &Node) -> bool {
    let same =
        |link: &&Link| short(&link.peer_hwid) == node.hwid || link.lid == Some(node.lid.into());
    let in_use = manager.routed_used + manager.routed_claimed;
    let has_link = port.links.iter().any(|link| same(&link))
        || manager.routed_links.is_some_and(|links| in_use < links);
    node.known && node.links != 0 && (node.kind != "host" || has_link)
}

/// Neighbours that the manager takes no notice of.
fn strangers(function: &Function, port: &Port, manager: &Manager) -> Vec<Finding> {
    if manager.allow == 0 || port.nodes.is_empty() {
        return Vec::new();
    }
    let is_known = |link: &&Link| port.nodes.iter().any(|node| node.hwid == short(&link.peer_hwid));
    let is_near = |link: &&Link| link.lid.is_none() && !link.is_loopback();
    let next_door = port.links.iter().filter(|link| link.state == "ready" && is_near(link));
    let finding = |link: &Link| {
        let at = Place::link(&function.address, link.number);
        not_allowed(at, &format!("host {}", short(&link.peer_hwid)), &short(&link.peer_hwid))
    };
    next_door.filter(|link| !is_known(link)).map(finding).collect()
}

fn not_allowed(at: Place, who: &str, hwid: &str) -> Finding {
    let what = format!("{who} is not among the hosts that may take part, or does not answer");
    Finding::warning("not-allowed", at, what).mend(format!(
        "`echo {hwid} >manager/allow`, in the directory of the port's function, puts it on the list"
    ))
}

/// Links that the administrator keeps routes from.
fn excluded(function: &Function, port: &Port, manager: &Manager) -> Vec<Finding> {
    let is_excluded =
        |link: &&Link| 1u64.checked_shl(link.number).is_some_and(|bit| manager.excluded & bit != 0);
    let finding = |link: &Link| {
        let at = Place::link(&function.address, link.number);
        Finding::note("link-excluded", at, "no route uses it, as manager/excluded says")
            .mend("`echo 0 >manager/excluded`, in the directory of the port's function")
    };
    port.links.iter().filter(is_excluded).map(finding).collect()
}

/// What keeps a node from being reached.
fn unreached(here: &Place, port: &Port, manager: &Manager, node: &Node) -> Option<Finding> {
    if reached(port, manager, node) {
        return None;
    }
    let who = match node.lid {
        0 => format!("{} {}", node.kind, node.hwid),
        lid => format!("{} {} (LID {lid})", node.kind, node.hwid),
    };
    let at = here.clone();
    if !node.known && manager.allow != 0 {
        return Some(not_allowed(at, &who, &node.hwid));
    }
    if !node.known {
        let what = format!("{who} is there, by what a neighbour of it says, and does not answer");
        let finding = Finding::warning("node-silent", at, what);
        return Some(finding.mend(
            "is it alive? there: is weft.ko loaded, of a version that manages the fabric? does its \
             manager/allow leave out this host? `weftctl diagnose`",
        ));
    }
    if node.links == 0 {
        let what = format!("no route leads to {who}, although it answers");
        let mend = format!(
            "is the fabric changing? `weftctl events`; emulated: `weft-fabric route walk NODE {}` \
             says where it ends; `managers` in the topology has to name the master, {}",
            node.lid,
            short(&manager.master)
        );
        return Some(Finding::fault("no-route", at, what).mend(mend));
    }
    if let Some(links @ 1..) = manager.routed_links {
        let (used, claimed) = (manager.routed_used, manager.routed_claimed);
        let what = format!(
            "{who} is {} links away, and all {links} links over routes are in use: {used} by this host, \
             {claimed} by other hosts",
            node.links
        );
        return Some(Finding::note("links-in-use", at, what).mend(
            "`weftctl show` says which hosts they lead to: a connection gets one when all channels and \
             queue pairs over it are closed",
        ));
    }
    let what = format!(
        "{who} is {} links away, and no window is left for it: this port has none for links over routes",
        node.links
    );
    Some(Finding::fault("no-window", at, what).mend(
        "a cable to it; a port has up to 8 such links if it has the slots, apertures and doorbells for \
         them: `dmesg` says which it lacks",
    ))
}

/// A hardware id as `weftctl tree` writes it.
fn short(hwid: &str) -> String {
    let digits = hwid.trim_start_matches("0x").trim_start_matches('0');
    format!("0x{}", if digits.is_empty() { "0" } else { digits })
}
