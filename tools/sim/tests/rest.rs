// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Ways that are in use come to lead elsewhere: hosts are asked to rest before, and to go on afterwards.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

mod often;

use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_proto::nm::node::rest::{LEASE_MS, REST_MS, REST_WHOLE_MS};
use weft_sim::{
    check,
    rng::Rng,
    topology::{End, Kind, Topology},
    world::World,
};

const LIMIT: u64 = 20_000;

fn hosts(world: &World) -> impl Iterator<Item = usize> + Clone + '_ {
    (0..world.topology.len()).filter(|n| !world.topology.is_switch(*n))
}

/// The ways of all pairs of hosts that can talk, and the local id of the second one.
fn ways(world: &World) -> BTreeMap<(usize, usize), (u32, Vec<End>)> {
    let pairs = hosts(world).flat_map(|a| hosts(world).map(move |b| (a, b)));
    let lid = |node| Some(world.manager(node)?.info().lid);
    let ways = pairs.filter_map(|(a, b)| Some(((a, b), (lid(b)?, check::way(world, a, b)?))));
    ways.collect()
}

/// Lets the fabric come to rest. Whenever the way of a pair changes that had one before and after, both
/// hosts rest, but for those that never do.
fn settle(world: &mut World, what: &str) -> Result<(), String> {
    let (start, mut calm) = (world.now(), world.now());
    let mut before = ways(world);
    while world.now() - calm < 100 {
        let ms = world.now();
        // A master that has used the last route itself goes on in the same instant.
        let rested: Vec<bool> = (0..world.topology.len()).map(|n| world.rests(n)).collect();
        world.step();
        if world.now() != ms {
            if let Err(why) = check::agreed(world) {
                calm = world.now();
                if calm - start > LIMIT {
                    return Err(format!("{what}: {why}"));
                }
            }
        }
        if !std::mem::take(&mut world.wrote) {
            continue;
        }
        let now = ways(world);
        for ((from, to), (lid, way)) in &now {
            let old = before.get(&(*from, *to));
            // Where two fabrics meet that have given the same local id, one that has it is another node now.
            if old.is_some_and(|(same, old)| same == lid && old != way) {
                let rests = |node: usize| {
                    let busy = world.hosts[node].as_ref().is_some_and(|host| host.busy);
                    busy || rested[node]
                };
                if !rests(*from) || !rests(*to) {
                    return Err(format!(
                        "{what}: {} ms later the way from {from} to {to} changes under way",
                        world.now() - start
                    ));
                }
            }
        }
        before = now;
    }
    Ok(())
}

/// Cables come and go.
fn sequence(kind: Kind, nodes: usize, seed: u64, busy: bool) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut hwids: Vec<u64> = (0..nodes as u64).map(|n| 0x100 + 3 * n).collect();
    rng.shuffle(&mut hwids);
    let mut world = World::new(Topology::of(kind, nodes, seed), hwids, seed);
    check::settle(&mut world, 500, LIMIT)?;
    if hosts(&world).any(|n| world.rests(n)) {
        return Err("no node had a way before".into());
    }
    if let Some(host) = world.hosts[0].as_mut() {
        host.busy = busy;
    }
    for _ in 0..12 {
        let links = world.topology.links();
        if links.is_empty() {
            break;
        }
        let (end, _) = links[rng.below(links.len() as u64) as usize];
        let up = world.wire(end).unwrap().up;
        world.link(end, !up);
        let what = format!("cable {end:?} {}", if up { "out" } else { "in" });
        settle(&mut world, &what)?;
        if let Some(still) = hosts(&world).find(|n| world.rests(*n)) {
            return Err(format!("{what}: {still} rests for ever"));
        }
    }
    check::routed(&world)
}

fn kind() -> impl Strategy<Value = Kind> {
    (0..Kind::ALL.len()).prop_map(|n| Kind::ALL[n])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: often::cases(60), ..ProptestConfig::default() })]

    #[test]
    fn n_6_whose_way_changes_has_nothing_under_way(
        kind in kind(),
        nodes in 3..9usize,
        seed in 0..1_000_000u64,
        busy in any::<bool>(),
    ) {
        let result = sequence(kind, nodes, seed, busy);
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}

/// Six in a ring, of which one cable is plugged or unplugged, until a route changes. The time that it takes.
fn change(plugged: bool, busy: Option<usize>) -> (World, u64) {
    let mut world = World::new(Topology::ring(6), (0x100..0x106).collect(), 1);
    let end = world.topology.links()[0].0;
    world.link(end, !plugged);
    check::settle(&mut world, 500, LIMIT).unwrap();
    if let Some(host) = busy.and_then(|node| world.hosts[node].as_mut()) {
        host.busy = true;
    }
    let (began, before) = (world.now(), ways(&world));
    world.link(end, plugged);
    // What an unplugged cable carried is out of reach until the routes change.
    let waits = |world: &World| match plugged {
        true => ways(world) == before,
        false => ways(world).len() < before.len(),
    };
    assert!(waits(&world));
    while waits(&world) {
        world.run(1);
        assert!(world.now() - began < LIMIT);
    }
    let took = world.now() - began;
    (world, took)
}

#[test]
fn n_6_a_node_that_never_rests_is_not_waited_for_long() {
    for (plugged, limit) in [(true, REST_WHOLE_MS), (false, REST_MS)] {
        let (_, calm) = change(plugged, None);
        for node in 0..6 {
            let (_, took) = change(plugged, Some(node));
            assert!(took >= limit, "{plugged} {node}: {took} ms");
            assert!(took < calm + limit + 100, "{plugged} {node}: {took} ms, {calm} without");
        }
    }
}

#[test]
fn n_6_a_node_that_rests_late_is_waited_for_where_nothing_is_lost() {
    let (_, calm) = change(true, None);
    for node in 0..6 {
        for late in [10, 300, 1000, REST_WHOLE_MS - 200] {
            let mut world = World::new(Topology::ring(6), (0x100..0x106).collect(), 1);
            let end = world.topology.links()[0].0;
            world.link(end, false);
            check::settle(&mut world, 500, LIMIT).unwrap();
            world.hosts[node].as_mut().unwrap().busy = true;
            let (began, before) = (world.now(), ways(&world));
            world.link(end, true);
            world.run(calm + late);
            assert_eq!(ways(&world), before, "{node}: changed under way");
            world.hosts[node].as_mut().unwrap().busy = false;
            while ways(&world) == before {
                world.run(1);
                let took = world.now() - began;
                assert!(took < calm + late + 100, "{node}: {took} ms, ready after {late}");
            }
        }
    }
}

#[test]
fn n_6_a_master_that_dies_leaves_no_node_at_rest() {
    let (mut world, _) = change(true, None);
    assert!((1..6).all(|n| world.rests(n)));
    world.hang(0);
    let mut rests = 0;
    while (1..6).any(|n| world.rests(n)) {
        world.run(1);
        rests += 1;
        assert!(rests <= LEASE_MS, "the next master has no ways to change here");
    }
}
