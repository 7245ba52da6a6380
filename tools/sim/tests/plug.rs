// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Nodes and cables are added and removed, one after the other: no other notices, live nodes keep
//! its local id, and in the end the tables are those of a fabric that was always so.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

mod often;

use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_sim::{
    check::{self, way},
    rng::Rng,
    topology::{End, Kind, Topology},
    world::World,
};

/// Nothing is lost here: as if a fabric were left alone but for what is plugged.
const LIMIT: u64 = 20_000;
/// How long it takes at most to see that routes have to be other ones, and to replace them.
const BRIEF: u64 = 400;

fn lids(world: &World) -> BTreeMap<usize, u32> {
    let lid = |node: usize| Some((node, world.manager(node)?.info().lid));
    (0..world.topology.len()).filter_map(lid).collect()
}

/// The nodes that keep what they had: all, but of two that were given one id in fabrics of their own one.
fn keep(before: &BTreeMap<usize, u32>, now: &BTreeMap<usize, u32>) -> Result<(), String> {
    for (node, lid) in before.iter().filter(|(_, lid)| **lid != 0) {
        let other = before.iter().any(|(n, l)| n != node && l == lid);
        if now.get(node).is_some_and(|now| now != lid) && !other {
            return Err(format!("node {node} had {lid}, of {before:?}, and now they are {now:?}"));
        }
    }
    Ok(())
}

/// The ways of all pairs that can talk, as ends.
fn ways(world: &World) -> BTreeMap<(usize, usize), Vec<End>> {
    let nodes = 0..world.topology.len();
    let pairs = nodes.clone().flat_map(|a| nodes.clone().map(move |b| (a, b)));
    pairs.filter_map(|(a, b)| Some(((a, b), way(world, a, b)?))).collect()
}

/// Adds or removes something: what, and the nodes and ends that went.
fn plug(world: &mut World, rng: &mut Rng) -> String {
    let links = world.topology.links();
    if rng.below(2) == 0 || links.is_empty() {
        let node = rng.below(world.topology.len() as u64) as usize;
        if world.manager(node).is_some() {
            world.power_off(node);
            format!("node {node} out")
        } else {
            world.power_on(node);
            format!("node {node} in")
        }
    } else {
        let (end, _) = links[rng.below(links.len() as u64) as usize];
        let up = world.wire(end).unwrap().up;
        world.link(end, !up);
        format!("cable {end:?} {}", if up { "out" } else { "in" })
    }
}

/// Lets the fabric come to rest. Whatever had a way that is whole keeps one meanwhile; if routes were just
/// being replaced, by some that this makes useless, it has one again before long.
fn rest(world: &mut World, calm: bool) -> Result<(), String> {
    let (whole, had) = (ways(world), lids(world));
    let start = world.now();
    let mut quiet = 0;
    while quiet < 500 {
        world.run(1);
        let ms = world.now() - start;
        if std::mem::take(&mut world.wrote) && (calm || ms > BRIEF) {
            let has = lids(world);
            let kept = whole.keys().filter(|(_, to)| has[to] == had[to]);
            for (from, to) in kept {
                way(world, *from, *to)
                    .ok_or_else(|| format!("{ms} ms later {from} has lost its way to {to}"))?;
            }
        }
        quiet = if check::agreed(world).is_ok() { quiet + 1 } else { 0 };
        if ms > LIMIT {
            check::agreed(world)?;
        }
    }
    check::routed(world)
}

fn sequence(kind: Kind, nodes: usize, seed: u64, steps: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut hwids: Vec<u64> = (0..nodes as u64).map(|n| 0x100 + 3 * n).collect();
    rng.shuffle(&mut hwids);
    let topology = Topology::of(kind, nodes, seed);
    let mut fresh = World::new(topology.clone(), hwids.clone(), seed);
    check::settle(&mut fresh, 500, LIMIT)?;
    let mut world = World::new(topology, hwids, seed + 1);
    check::settle(&mut world, 500, LIMIT)?;
    let mut told = vec![];
    let mut calm = true;
    for _ in 0..steps {
        let before = lids(&world);
        let was = world.now();
        told.push(plug(&mut world, &mut rng));
        // Sometimes in the middle of what the one before has caused.
        let done = match rng.below(3) {
            0 => {
                world.run(rng.below(300));
                calm = false;
                Ok(())
            }
            _ => rest(&mut world, std::mem::replace(&mut calm, true)),
        };
        let now = lids(&world);
        let done = done.and_then(|()| keep(&before, &now));
        done.map_err(|why| format!("{}: {why}; since {was} ms; {told:?}", told[told.len() - 1]))?;
    }
    for node in 0..nodes {
        if world.manager(node).is_none() {
            world.power_on(node);
        }
    }
    for (end, _) in world.topology.links() {
        world.link(end, true);
    }
    check::settle(&mut world, 500, LIMIT)?;
    check::routed(&world)?;
    let (now, then) = (ways(&world), ways(&fresh));
    match now == then {
        true => Ok(()),
        false => Err(format!("ways are {now:?}, of a fresh start {then:?}; {told:?}")),
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    (0..Kind::ALL.len()).prop_map(|n| Kind::ALL[n])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: often::cases(300), ..ProptestConfig::default() })]

    #[test]
    fn hp_2_additions_and_removals_leave_no_trace_but_in_local_ids(
        kind in kind(),
        nodes in 2..9usize,
        seed in 0..1_000_000u64,
        steps in 1..30u64,
    ) {
        let result = sequence(kind, nodes, seed, steps);
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}

#[test]
fn hp_2_what_went_wrong_once() {
    // A cable of a switch is back before its master has looked: the master finds what it knows.
    sequence(Kind::Switched, 5, 330_907, 16).unwrap();
    // A cable is pulled while questions are on their way over it: whose end has answered already says so,
    sequence(Kind::Switched, 7, 416_069, 2).unwrap();
    // or none does that the asking node hears.
    sequence(Kind::Random, 8, 946_947, 8).unwrap();
}
