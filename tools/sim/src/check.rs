// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What has to be true of a fabric: always, and once it is quiet.
//!
//! Found out here in another way than by the managers: components by flooding, costs by
//! Floyd and Warshall, routes by following them.

use crate::{topology, world::World};
use std::collections::BTreeMap;
use weft_proto::nm::{
    kind::is_host,
    node::Role,
    port::{PORTS, Port},
};

/// Where a packet for a local id ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// At the node that has the id: which, over what cost and how many links.
    At(usize, u64, u32),
    /// At a node without a route, or with one over a link that is down.
    Nowhere,
    /// Never.
    Loop,
}

/// The ends by which data leaves nodes on its way, if it arrives.
pub fn way(world: &World, from: usize, to: usize) -> Option<Vec<topology::End>> {
    let lid = world.manager(to)?.info().lid;
    let (mut at, mut way) = (from, vec![]);
    while at != to {
        let port = world.route(at, lid)?;
        way.push((at, port));
        at = world.passes((at, port))?.0;
        if way.len() > world.topology.len() {
            return None;
        }
    }
    Some(way)
}

/// Follows the routes from `node` to the local id `lid`.
pub fn follow(world: &World, mut node: usize, lid: u32) -> End {
    let (mut cost, mut hops) = (0, 0);
    loop {
        let Some(manager) = world.manager(node) else {
            return End::Nowhere;
        };
        if manager.info().lid == lid {
            return End::At(node, cost, hops);
        }
        let Some(port) = world.route(node, lid) else {
            return End::Nowhere;
        };
        let (Some(peer), Some(here)) = (world.passes((node, port)), link_cost(world, (node, port)))
        else {
            return End::Nowhere;
        };
        cost += here;
        hops += 1;
        node = peer.0;
        if hops as usize > world.topology.len() {
            return End::Loop;
        }
    }
}

/// What a link costs that takes data.
fn link_cost(world: &World, end: (usize, u8)) -> Option<u64> {
    world.passes(end)?;
    let wire = world.wire(end)?;
    let port = Port { peer: 1, speed: wire.speed, width: wire.width, excluded: wire.excluded };
    port.cost().map(u64::from)
}

/// Whether the nodes at both ends may take part.
fn joined(world: &World, end: (usize, u8)) -> Option<usize> {
    let allowed =
        |node: usize| world.allowed.is_empty() || world.allowed.contains(&world.hwids[node]);
    let peer = world.passes(end)?.0;
    (allowed(end.0) && allowed(peer)).then_some(peer)
}

/// The nodes that are on and can talk to each other, in groups.
pub fn components(world: &World) -> Vec<Vec<usize>> {
    let mut seen = vec![false; world.topology.len()];
    let mut groups = Vec::new();
    for start in 0..seen.len() {
        if seen[start] || world.manager(start).is_none() {
            continue;
        }
        seen[start] = true;
        let mut group = vec![start];
        let mut at = 0;
        while let Some(node) = group.get(at).copied() {
            at += 1;
            for port in 0..PORTS as u8 {
                if let Some(peer) = joined(world, (node, port)) {
                    if !std::mem::replace(&mut seen[peer], true) {
                        group.push(peer);
                    }
                }
            }
        }
        groups.push(group);
    }
    groups
}

/// No packet goes round in circles, whatever node sends it and whatever routes are being replaced.
pub fn no_loops(world: &World) -> Result<(), String> {
    let on = (0..world.topology.len()).filter(|node| world.manager(*node).is_some());
    let nodes: Vec<usize> = on.collect();
    let mut lids: Vec<u32> =
        nodes.iter().filter_map(|node| world.manager(*node).map(|m| m.info().lid)).collect();
    lids.sort_unstable();
    lids.dedup();
    for node in &nodes {
        for lid in &lids {
            if follow(world, *node, *lid) == End::Loop {
                let now = world.now();
                return Err(format!("{now} ms: node {node} to lid {lid} goes round"));
            }
        }
    }
    Ok(())
}

/// A node of this group could be its master.
fn has_host(world: &World, group: &[usize]) -> bool {
    group.iter().any(|node| is_host(world.hwids[*node]))
}

/// One master in each component, the host with the lowest id, and everybody obeys it. Switches among
/// themselves have none.
pub fn agreed(world: &World) -> Result<(), String> {
    for group in components(world) {
        let hwids = group.iter().map(|node| world.hwids[*node]);
        let lowest = hwids.filter(|hwid| is_host(*hwid)).min();
        if lowest.is_none() {
            continue;
        }
        for node in &group {
            let Some(manager) = world.manager(*node) else {
                continue;
            };
            if !manager.is_quiet() || Some(manager.master()) != lowest {
                return Err(format!(
                    "{} ms: node {node} ({:#x}) is {:?} of {:#x}, not quiet under {lowest:x?}",
                    world.now(),
                    world.hwids[*node],
                    manager.role(),
                    manager.master(),
                ));
            }
            let is_master = manager.role() == Role::Master;
            if is_master != (Some(world.hwids[*node]) == lowest) {
                return Err(format!("node {node} is {:?}", manager.role()));
            }
        }
    }
    Ok(())
}

/// Local ids are unique, and every pair is routed by a cheapest way.
pub fn routed(world: &World) -> Result<(), String> {
    for group in components(world) {
        if !has_host(world, &group) {
            continue;
        }
        let mut lids = BTreeMap::new();
        for node in &group {
            let lid = world.manager(*node).map_or(0, |m| m.info().lid);
            if lid == 0 && group.len() > 1 {
                return Err(format!("node {node} has no lid"));
            }
            if let Some(other) = lids.insert(lid, *node) {
                return Err(format!("nodes {node} and {other} have lid {lid}"));
            }
        }
        let best = cheapest(world, &group);
        for (a, from) in group.iter().enumerate() {
            for (b, to) in group.iter().enumerate() {
                let lid = world.manager(*to).map_or(0, |m| m.info().lid);
                let end = follow(world, *from, lid);
                let right = match best[a][b] {
                    u64::MAX => end == End::Nowhere,
                    cost => matches!(end, End::At(node, c, _) if node == *to && c == cost),
                };
                if !right {
                    let best = best[a][b];
                    return Err(format!("{from} to {to} (lid {lid}): {end:?}, best is {best}"));
                }
            }
        }
    }
    Ok(())
}

/// Each host has a list of all nodes of its group, with their local ids and their ports as they are.
pub fn listed(world: &World) -> Result<(), String> {
    for group in components(world) {
        for host in group.iter().filter(|node| is_host(world.hwids[**node])) {
            let Some(manager) = world.manager(*host) else {
                continue;
            };
            let members = manager.members();
            let known = members.all().iter().filter(|m| m.known).count();
            if known != group.len() {
                return Err(format!("{host} lists {known} nodes of {}", group.len()));
            }
            for node in &group {
                let member = members.get(world.hwids[*node]);
                let Some((member, other)) = member.zip(world.manager(*node)) else {
                    return Err(format!("{host} does not list {node}"));
                };
                let (lid, ports) = (member.info.lid, member.ports);
                if (lid, &ports) != (other.info().lid, other.ports()) {
                    return Err(format!("{host} lists {node} with lid {lid}, {ports:?}"));
                }
            }
        }
    }
    Ok(())
}

/// What the cheapest way costs between any two of a group, `u64::MAX` where there is none.
fn cheapest(world: &World, group: &[usize]) -> Vec<Vec<u64>> {
    let count = group.len();
    let mut best = vec![vec![u64::MAX; count]; count];
    for (a, node) in group.iter().enumerate() {
        best[a][a] = 0;
        for port in 0..PORTS as u8 {
            let peer = joined(world, (*node, port));
            let place = peer.and_then(|peer| group.iter().position(|n| *n == peer));
            if let (Some(b), Some(cost)) = (place, link_cost(world, (*node, port))) {
                best[a][b] = best[a][b].min(cost);
            }
        }
    }
    for via in 0..count {
        for a in 0..count {
            for b in 0..count {
                let way = best[a][via].saturating_add(best[via][b]);
                best[a][b] = best[a][b].min(way);
            }
        }
    }
    best
}

/// Lets time pass until every component has had one quiet master for `calm` ms; then checks all.
/// Loops are looked for whenever routes change, if the fabric is small.
pub fn settle(world: &mut World, calm: u64, limit: u64) -> Result<u64, String> {
    settle_telling(world, calm, limit, |_| ())
}

/// As [`settle`]; tells now and then how far it is.
pub fn settle_telling(
    world: &mut World,
    calm: u64,
    limit: u64,
    mut tell: impl FnMut(&World),
) -> Result<u64, String> {
    let start = world.now();
    let mut quiet_since = None;
    loop {
        world.wrote = false;
        let until = world.now() + 10;
        while world.now() < until {
            world.run(1);
            if std::mem::take(&mut world.wrote) && world.topology.len() <= 26 {
                no_loops(world)?;
            }
        }
        tell(world);
        match agreed(world) {
            Ok(()) => {
                let since = *quiet_since.get_or_insert(world.now());
                if world.now() - since >= calm {
                    routed(world)?;
                    listed(world)?;
                    return Ok(since - start);
                }
            }
            Err(why) if world.now() - start > limit => return Err(why),
            Err(_) => quiet_since = None,
        }
    }
}
