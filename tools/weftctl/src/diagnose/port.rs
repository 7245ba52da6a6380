// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Checks of a port that the driver has: its fabric, its cables, what it counts.

use super::finding::{Finding, Place};
use super::snapshot::{Family, Function, Link, Port};

/// Counters of what a peer, or this host, was not allowed; and what each means.
const COUNTERS: [(&str, &str, &str); 5] = [
    ("in_denied", "accesses of neighbours were refused", "who is at the other end? `weftctl show`"),
    (
        "doorbells_denied",
        "doorbells were refused",
        "the two ends are of different versions, or a neighbour tries what it may not",
    ),
    (
        "messages_dropped",
        "mailbox messages were dropped, as they came faster than they were read",
        "a neighbour floods this host, or this host's processors are too busy: `top`, `dmesg`",
    ),
    ("out_dropped", "own writes led nowhere", "normal when a link goes down in mid-transfer"),
    ("out_ones", "own reads led nowhere", "normal when a link goes down in mid-transfer"),
];

/// One message dropped of so many is nothing to worry about.
const FEW: u64 = 32;

pub fn check(function: &Function, port: &Port) -> Vec<Finding> {
    let here = || Place::Function(function.address.clone());
    if port.fabric == Some(false) {
        let what = "is not attached to a fabric: weft-fabric has ended, or never ran";
        return vec![Finding::fault("fabric-gone", here(), what).mend(
            "where the emulated hosts run: `weft-fabric run TOPOLOGY.toml --dir DIR`, DIR being \
             that of the port's fabric=DIR/port.sock; ports attach themselves again",
        )];
    }
    let mut found = Vec::new();
    if !port.links.is_empty() && port.links.iter().all(Link::is_unplugged) {
        let what = "none of its links has a cable";
        found.push(Finding::fault("no-cable", here(), what).mend(
            "plug one in; emulated: a [[link]] with this host in the topology, \
             `weft-fabric check` reads it",
        ));
    }
    // Where a link was lost, something was on its way.
    let lost = port.links.iter().any(|link| !matches!(link.ended.as_str(), "" | "none"));
    for (name, what, mend) in COUNTERS {
        // An ivshmem drops what has no receiver, and says hello to any peer that may come.
        if function.family == Family::Ivshmem && name == "messages_dropped" {
            continue;
        }
        let counted = |name| port.counters.get(name).copied().unwrap_or(0);
        let count = counted(name);
        if count != 0 {
            let what = format!("{what}: {count} (counters/{name})");
            // Where a whole fabric begins all speak at once; what got lost is said again.
            let few = name == "messages_dropped" && count <= counted("rx_messages") / FEW;
            let finding = match lost || few || name.starts_with("out_") {
                true => Finding::note("port-errors", here(), what),
                false => Finding::warning("port-errors", here(), what),
            };
            found.push(finding.mend(mend));
        }
    }
    found
}
