// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Which nodes are neighbours. A switch that routes is one; a switch that does
//! not passes on what comes in at one of its two cables to the other, and is
//! no neighbour of any.

use super::{Cable, End, HostEnd, Node, Path, Power, Topology, Trunk};
use weft_proto::nm::port::PORTS;

/// Finds which switches route, by the file's word or by their number of cables,
/// and fills in trunks and paths. Or names a cable and what is wrong with it.
pub fn resolve(topology: &mut Topology, routes: &[Option<bool>]) -> Result<(), (usize, String)> {
    for n in 0..topology.switches.len() {
        let third = cables_of(topology, n).nth(2);
        let routes = routes.get(n).copied().flatten();
        if let (Some(false), Some(third)) = (routes, third) {
            return Err((
                third,
                format!(
                    "switch {}: {} is its third link; one that does not route joins two, \
                     take \"routes = false\" or the link out",
                    topology.switches[n].name,
                    topology.cable_name(third)
                ),
            ));
        }
        topology.switches[n].routes = routes.unwrap_or(third.is_some());
        if topology.switches[n].routes {
            let node = Node::Switch(n);
            let high = |c: &Cable| c.ends.iter().any(|e| e.node == node && e.port >= PORTS as u8);
            if let Some(cable) = topology.cables.iter().position(high) {
                return Err((
                    cable,
                    format!(
                        "switch {}: {} is at a port that the network manager does not know; \
                         use one of 0 to {}",
                        topology.switches[n].name,
                        topology.cable_name(cable),
                        PORTS - 1
                    ),
                ));
            }
        }
    }
    topology.trunks = trunks(topology);
    let trunks = topology.trunks.iter().enumerate();
    let ends = trunks.flat_map(|(n, trunk)| [0, 1].map(|side| (trunk.ends[side], (n, side))));
    topology.trunk_ends = ends.collect();
    topology.paths = vec![];
    for trunk in &topology.trunks {
        let endpoint = |e: &End| match e.node {
            Node::Host(host) => topology.hosts[host].endpoint.is_some(),
            Node::Switch(_) => false,
        };
        let near = trunk.ends.iter().position(endpoint);
        let far = near.map(|near| trunk.ends[1 - near].node);
        if let (Some(near), Some(Node::Host(_))) = (near, far) {
            return Err((
                trunk.cables[0],
                format!(
                    "endpoint {}: {} does not lead to a switch that routes; put one in between",
                    topology.name(trunk.ends[near].node),
                    topology.cable_name(trunk.cables[0])
                ),
            ));
        }
    }
    for (n, cable) in topology.cables.iter().enumerate() {
        let why = topology.why_not_auto(n).filter(|_| cable.power == Power::Auto);
        if let Some(why) = why {
            return Err((n, why));
        }
    }
    for n in 0..topology.trunks.len() {
        let trunk = &topology.trunks[n];
        let [Some(a), Some(b)] = trunk.ends.map(host_end) else { continue };
        let (cables, via) = (trunk.cables.clone(), trunk.via.clone());
        topology.trunks[n].path = Some(topology.paths.len());
        topology.paths.push(Path { ends: [a, b], cables, via });
    }
    Ok(())
}

fn cables_of(topology: &Topology, switch: usize) -> impl Iterator<Item = usize> + '_ {
    let node = Node::Switch(switch);
    (0..topology.cables.len())
        .filter(move |&c| topology.cables[c].ends.iter().any(|e| e.node == node))
}

fn trunks(topology: &Topology) -> Vec<Trunk> {
    let mut trunks: Vec<Trunk> = vec![];
    for (first, cable) in topology.cables.iter().enumerate() {
        for (side, start) in cable.ends.into_iter().enumerate() {
            if joins(topology, start.node) || trunks.iter().any(|t| t.ends.contains(&start)) {
                continue;
            }
            if let Some(mut trunk) = walk(topology, start, first) {
                // Where both nodes sit at the same side of their cables, the
                // cable that comes first in the file decides.
                if side == 1 {
                    trunk.ends.reverse();
                    trunk.cables.reverse();
                    trunk.via.reverse();
                }
                trunks.push(trunk);
            }
        }
    }
    trunks
}

fn host_end(end: End) -> Option<HostEnd> {
    match end.node {
        Node::Host(host) => Some(HostEnd { host, link: end.port }),
        Node::Switch(_) => None,
    }
}

fn joins(topology: &Topology, node: Node) -> bool {
    matches!(node, Node::Switch(n) if !topology.switches[n].routes)
}

/// Follows the cables from `start` to the next node that is no join. Ends, for no
/// join has more than two cables and `start` is none.
fn walk(topology: &Topology, start: End, first: usize) -> Option<Trunk> {
    let (mut at, mut cable) = (start, first);
    let (mut cables, mut via) = (vec![], vec![]);
    loop {
        cables.push(cable);
        let [a, b] = topology.cables[cable].ends;
        let far = if a == at { b } else { a };
        match far.node {
            Node::Switch(switch) if joins(topology, far.node) => {
                via.push(switch);
                let leaving = |e: &End| e.node == far.node && *e != far;
                let mut all = topology.cables.iter().enumerate();
                (cable, at) =
                    all.find_map(|(n, c)| c.ends.iter().find(|e| leaving(e)).map(|e| (n, *e)))?;
            }
            _ => return Some(Trunk { ends: [start, far], cables, via, path: None }),
        }
    }
}
