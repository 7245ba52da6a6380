// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Which hosts are neighbours. A switch passes on what comes in at one of its two
//! cables to the other; one with more would have to be told where to, and is
//! refused until there are routing tables.

use super::{End, HostEnd, Node, Path, Topology};

/// The paths between hosts, or a cable and what is wrong with it.
pub fn paths(topology: &Topology) -> Result<Vec<Path>, (usize, String)> {
    for (n, switch) in topology.switches.iter().enumerate() {
        let mut cables = (0..topology.cables.len())
            .filter(|&c| topology.cables[c].ends.iter().any(|e| e.node == Node::Switch(n)));
        if let Some(third) = cables.nth(2) {
            return Err((
                third,
                format!(
                    "switch {}: {} is its third link; a switch joins two until it can \
                     route, take the link out",
                    switch.name,
                    topology.cable_name(third)
                ),
            ));
        }
    }
    let mut paths: Vec<Path> = vec![];
    for (first, cable) in topology.cables.iter().enumerate() {
        for (side, end) in cable.ends.into_iter().enumerate() {
            let Some(start) = host_end(end) else { continue };
            if paths.iter().any(|p| p.ends.contains(&start)) {
                continue;
            }
            if let Some(mut path) = walk(topology, start, first) {
                // Where both hosts sit at the same side of their cables, the
                // cable that comes first in the file decides.
                if side == 1 {
                    path.ends.reverse();
                    path.cables.reverse();
                    path.via.reverse();
                }
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

fn host_end(end: End) -> Option<HostEnd> {
    match end.node {
        Node::Host(host) => Some(HostEnd { host, link: end.port }),
        Node::Switch(_) => None,
    }
}

/// Follows the cables from `start` to the next host. Ends, for no switch has more
/// than two cables and `start` is no switch.
fn walk(topology: &Topology, start: HostEnd, first: usize) -> Option<Path> {
    let mut at = End { node: Node::Host(start.host), port: start.link };
    let mut cable = first;
    let (mut cables, mut via) = (vec![], vec![]);
    loop {
        cables.push(cable);
        let [a, b] = topology.cables[cable].ends;
        let far = if a == at { b } else { a };
        match far.node {
            Node::Host(host) => {
                let ends = [start, HostEnd { host, link: far.port }];
                return Some(Path { ends, cables, via });
            }
            Node::Switch(switch) => {
                via.push(switch);
                let leaving = |e: &End| e.node == far.node && *e != far;
                let mut all = topology.cables.iter().enumerate();
                (cable, at) =
                    all.find_map(|(n, c)| c.ends.iter().find(|e| leaving(e)).map(|e| (n, *e)))?;
            }
        }
    }
}
