// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The manager of large fabrics, in small ones, with faults, and in one that is not so small.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

mod often;

use proptest::prelude::*;
use weft_sim::{
    rng::Rng,
    scale::{Measured, Scale},
    topology::{Kind, Topology},
};

/// How long a fabric may take that is left alone, in ms. Nodes register with their master end to end, at last every
/// 16 s: there and back over the 20 links of the longest chain, which lose one of 20 each, it is one try of eight.
const LIMIT: u64 = 2_000_000;

fn scale(kind: Kind, nodes: usize, seed: u64) -> Scale {
    let mut hwids: Vec<u64> = (1..=nodes as u64).collect();
    Rng::new(seed).shuffle(&mut hwids);
    Scale::new(Topology::of(kind, nodes, seed), hwids, seed)
}

fn quiet(scale: &mut Scale) -> Result<Measured, String> {
    if !scale.run(LIMIT, |_| ()) {
        return Err(format!("not quiet after {LIMIT} rounds: {}", scale.busy()));
    }
    scale.check(10_000, 1)
}

#[test]
fn n_5_the_chain_of_fig_5_gives_table_4_at_scale_too() {
    let mut topology = Topology::new(3);
    topology.join((0, 0), (2, 2));
    topology.join((0, 2), (1, 2));
    let mut scale = Scale::new(topology, vec![2, 3, 4], 1);
    scale.power_on_all();
    quiet(&mut scale).unwrap();
    let lids = scale.nodes.iter().flatten().map(|node| node.lid());
    assert_eq!(lids.collect::<Vec<_>>(), [1, 3, 2]);
}

#[test]
fn p_5_every_kind_of_fabric_converges() {
    for kind in Kind::ALL {
        for nodes in [1, 2, 3, 16, 32, 64, 400] {
            // No route has more than 32 links.
            if nodes > 32 && matches!(kind, Kind::Chain | Kind::Ring) {
                continue;
            }
            let mut scale = scale(kind, nodes, nodes as u64);
            scale.power_on_all();
            let result = quiet(&mut scale);
            assert!(result.is_ok(), "{kind} of {nodes}: {result:?}");
        }
    }
}

/// No packet goes round in circles.
fn no_loops(scale: &Scale) -> Result<(), String> {
    for from in 0..scale.nodes.len() {
        for node in scale.nodes.iter().flatten().filter(|node| node.lid() != 0) {
            if scale.follow(from, node.lid()) == Some(None) {
                return Err(format!("round {}: {from} to {} goes round", scale.now, node.lid()));
            }
        }
    }
    Ok(())
}

fn survives(scale: &mut Scale, rng: &mut Rng, strikes: u64) -> Result<(), String> {
    scale.power_on_all();
    let links = scale.topology.links();
    for strike in 0..=strikes {
        let rounds = if strike == strikes { LIMIT } else { rng.below(150) };
        let end = scale.now + rounds;
        let mut changed = 0;
        while scale.now < end && scale.step() {
            if scale.changed > changed {
                changed = scale.changed;
                no_loops(scale)?;
            }
        }
        if strike == strikes {
            break;
        }
        let node = rng.below(scale.nodes.len() as u64) as usize;
        match rng.below(4) {
            3 if !links.is_empty() => {
                let (end, _) = links[rng.below(links.len() as u64) as usize];
                scale.set_speed(end, (1 + rng.below(4) as u8, 1 << rng.below(4)));
            }
            0 => scale.power(node, false),
            1 => {
                if scale.nodes[node].is_none() {
                    scale.power(node, true);
                }
            }
            _ if links.is_empty() => {}
            _ => {
                let (end, _) = links[rng.below(links.len() as u64) as usize];
                let up = scale.passes(end).is_some();
                scale.link(end, !up);
            }
        }
    }
    quiet(scale).map(|_| ())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: often::cases(100), ..ProptestConfig::default() })]

    #[test]
    fn n_6_any_fabric_heals_after_any_faults_at_scale_too(
        kind in (0..Kind::ALL.len()).prop_map(|n| Kind::ALL[n]),
        nodes in 2..24usize,
        seed in any::<u64>(),
        faults in (0..50u32, 0..150u32, 0..150u32),
        strikes in 0..20u64,
    ) {
        let mut scale = scale(kind, nodes, seed);
        scale.faults = faults;
        let result = survives(&mut scale, &mut Rng::new(seed), strikes);
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}

/// An area had come apart, and a node with more ports than ways that it keeps did not see the other part.
#[test]
fn n_6_a_fabric_heals_that_did_not_before_at_scale_too() {
    let seed = 9395757666561786447;
    let mut scale = scale(Kind::Switched, 20, seed);
    scale.faults = (7, 1, 0);
    assert_eq!(survives(&mut scale, &mut Rng::new(seed), 12), Ok(()));
}

#[test]
fn n_5_ids_are_kept_when_the_master_dies_and_returns_at_scale_too() {
    for (kind, nodes) in [(Kind::Ring, 32), (Kind::Torus, 100), (Kind::Random, 100)] {
        let mut scale = scale(kind, nodes, 5);
        scale.power_on_all();
        quiet(&mut scale).unwrap();
        let lids = |scale: &Scale| -> Vec<u32> {
            scale.nodes.iter().map(|node| node.as_ref().map_or(0, |node| node.lid())).collect()
        };
        let before = lids(&scale);
        let master = scale.hwids.iter().position(|hwid| *hwid == 1).unwrap();
        scale.power(master, false);
        quiet(&mut scale).unwrap();
        scale.power(master, true);
        quiet(&mut scale).unwrap();
        let after = lids(&scale);
        for node in (0..nodes).filter(|node| *node != master) {
            assert_eq!(after[node], before[node], "{kind}: {node}");
        }
        assert!(!before.contains(&after[master]), "{kind}: an id was given away again");
    }
}

/// All pairs that are reachable, each with the nodes on the way.
fn ways(scale: &Scale) -> Vec<(usize, u32, Vec<usize>)> {
    let mut ways = Vec::new();
    for from in 0..scale.nodes.len() {
        for to in scale.nodes.iter().flatten().map(|node| node.lid()) {
            let (mut node, mut way) = (from, vec![from]);
            while let Some(here) = scale.nodes[node].as_ref().filter(|here| here.lid() != to) {
                let Some(port) = here.routes().lookup(to) else {
                    break;
                };
                let Some((next, _)) = scale.passes((node, port)) else {
                    break;
                };
                node = next;
                way.push(node);
            }
            ways.push((from, to, way));
        }
    }
    ways
}

#[test]
fn n_6_the_death_of_a_node_leaves_all_other_routes_in_force() {
    for (kind, nodes) in [(Kind::Torus, 64), (Kind::Random, 60), (Kind::Tree, 60)] {
        for dead in [5, 20, 41] {
            let mut scale = scale(kind, nodes, 3);
            scale.power_on_all();
            quiet(&mut scale).unwrap();
            let lost = scale.nodes[dead].as_ref().unwrap().lid();
            let before = ways(&scale);
            let others: Vec<_> = before
                .into_iter()
                .filter(|(_, to, way)| *to != lost && !way.contains(&dead))
                .collect();
            assert!(others.len() > nodes * nodes / 3);
            scale.power(dead, false);
            let mut changed = 0;
            loop {
                if std::mem::replace(&mut changed, scale.changed) != scale.changed {
                    for (from, to, way) in &others {
                        let end = scale.follow(*from, *to).flatten().map(|end| end.0);
                        let now = scale.now;
                        assert_eq!(end, way.last().copied(), "{kind} {now}: {from} to {to}");
                    }
                }
                if !scale.step() {
                    break;
                }
            }
            if kind != Kind::Tree {
                quiet(&mut scale).unwrap();
            }
        }
    }
}

#[test]
fn n_8_routes_heed_speed_at_scale_too() {
    // The ring's shorter way becomes the dearer one, and the other way round again.
    let mut scale = scale(Kind::Ring, 8, 1);
    scale.power_on_all();
    quiet(&mut scale).unwrap();
    let lid = scale.nodes[2].as_ref().unwrap().lid();
    let hops = |scale: &Scale| scale.follow(0, lid).flatten().unwrap().1;
    assert_eq!(hops(&scale), 2);
    scale.set_speed((0, 0), (1, 1));
    quiet(&mut scale).unwrap();
    assert_eq!(hops(&scale), 6);
    scale.set_speed((0, 0), (3, 8));
    quiet(&mut scale).unwrap();
    assert_eq!(hops(&scale), 2);
    // An excluded link carries nothing, though messages pass it.
    scale.set_speed((0, 0), (0, 0));
    quiet(&mut scale).unwrap();
    assert_eq!(hops(&scale), 6);
}

#[test]
fn p_5_a_host_finds_another_by_its_hardware_id_and_keeps_no_list() {
    let mut scale = scale(Kind::Random, 400, 2);
    scale.power_on_all();
    quiet(&mut scale).unwrap();
    let master = scale.hwids.iter().position(|hwid| *hwid == 1).unwrap();
    for (number, node) in scale.nodes.iter().enumerate() {
        let count = node.as_ref().unwrap().directory().count();
        assert_eq!(count, if number == master { 400 } else { 0 });
    }
    for (from, to) in [(7, 300), (300, 7), (master, 9), (9, master)] {
        scale.found = None;
        scale.find(from, scale.hwids[to]);
        quiet(&mut scale).unwrap();
        let found = scale.found.unwrap();
        assert_eq!(
            (found.hwid, found.lid),
            (scale.hwids[to], scale.nodes[to].as_ref().unwrap().lid())
        );
    }
    scale.found = None;
    scale.find(7, 401);
    quiet(&mut scale).unwrap();
    assert_eq!(scale.found.map(|name| name.lid), Some(0), "there is no such node");
}

#[test]
fn n_6_assignments_are_at_every_host_and_outlive_the_master() {
    let text: Vec<u8> = (0..3000).map(|n| n as u8).collect();
    // Hosts at switches, which are between them.
    let mut scale = scale(Kind::Switched, 64, 4);
    scale.faults = (20, 50, 50);
    scale.power_on_all();
    quiet(&mut scale).unwrap();
    let master = (0..64).min_by_key(|node| scale.hwids[*node]).unwrap();
    assert!(!scale.set_assignments((master + 1) % 64, b"of a standby"));
    assert!(scale.set_assignments(master, &text));
    // The master dies before all have them.
    let first = |scale: &Scale| {
        let mut standbys = scale.nodes.iter().flatten().filter(|node| node.tree().parent().0 != 0);
        standbys.any(|node| node.assignments().bytes() == text)
    };
    while !first(&scale) {
        assert!(scale.step());
    }
    scale.power(master, false);
    quiet(&mut scale).unwrap();
    scale.power(master, true);
    quiet(&mut scale).unwrap();
    for node in scale.nodes.iter().flatten() {
        assert!(node.assignments().bytes() == text, "{}", node.lid());
    }
}

#[test]
fn p_5_tables_grow_with_the_root_of_the_nodes_and_routes_are_hardly_longer() {
    for (kind, most) in [(Kind::Torus, 1.3), (Kind::Random, 1.3), (Kind::Tree, 1.01)] {
        for nodes in [64, 256, 576] {
            let mut scale = scale(kind, nodes, 1);
            scale.power_on_all();
            let measured = quiet(&mut scale).unwrap();
            let limit = 4.0 * (nodes as f64).sqrt();
            assert!(measured.routes.1 as f64 <= limit, "{kind} of {nodes}: {measured:?}");
            assert!(measured.stretch <= most, "{kind} of {nodes}: {measured:?}");
            assert!(measured.longest <= 32, "{kind} of {nodes}: {measured:?}");
        }
    }
}

#[test]
fn p_5_local_ids_outlive_growth_and_merging() {
    let lids = |scale: &Scale| -> Vec<u32> {
        scale.nodes.iter().map(|node| node.as_ref().map_or(0, |node| node.lid())).collect()
    };
    // Two fabrics of half the nodes each: the links between them are down.
    let mut scale = scale(Kind::Torus, 576, 6);
    let half = |node: usize| node % 24 < 12;
    let between = scale.topology.links().into_iter().filter(|(a, b)| half(a.0) != half(b.0));
    for (end, _) in between.clone() {
        scale.link(end, false);
    }
    // They grow: first all rows but two.
    for node in 0..528 {
        scale.power(node, true);
    }
    quiet(&mut scale).unwrap();
    let first = lids(&scale);
    for node in 528..576 {
        scale.power(node, true);
    }
    quiet(&mut scale).unwrap();
    let grown = lids(&scale);
    let kept = |before: &[u32], after: &[u32]| {
        let both = before.iter().zip(after).enumerate();
        let changed = both.filter(|(_, (before, after))| **before != 0 && before != after);
        assert_eq!(changed.collect::<Vec<_>>(), []);
    };
    kept(&first, &grown);
    for (end, _) in between {
        scale.link(end, true);
    }
    quiet(&mut scale).unwrap();
    kept(&grown, &lids(&scale));
}

#[test]
fn p_5_a_node_without_memory_lacks_routes_until_it_has_some() {
    let mut scale = scale(Kind::Random, 100, 7);
    scale.left = Some(6);
    scale.power(50, true);
    scale.left = None;
    for node in (0..100).filter(|node| *node != 50) {
        scale.power(node, true);
    }
    // It tries again and again, so the fabric is never quiet.
    assert!(!scale.run(60_000, |_| ()));
    scale.run(10, |_| ());
    assert!(scale.nodes[50].as_ref().unwrap().routes().is_short(), "{}", scale.busy());
    assert!(scale.nodes[50].as_ref().unwrap().routes().count() <= 6);
    scale.grow(50);
    quiet(&mut scale).unwrap();
    assert!(!scale.nodes[50].as_ref().unwrap().routes().is_short());
}

#[test]
fn n_6_an_area_that_comes_apart_is_found_in_both_parts() {
    let mut wide = 0;
    for dead in 0..24 {
        let mut scale = scale(Kind::Ring, 24, 1);
        scale.power_on_all();
        quiet(&mut scale).unwrap();
        scale.power(dead, false);
        let result = quiet(&mut scale);
        assert!(result.is_ok(), "{dead}: {result:?}");
        let entries = |node: &weft_sim::scale::Manager| node.routes().entries().to_vec();
        wide += scale.nodes.iter().flatten().flat_map(entries).filter(|e| e.way.wide).count();
        // It is whole again.
        scale.power(dead, true);
        let result = quiet(&mut scale);
        assert!(result.is_ok(), "{dead} again: {result:?}");
    }
    assert!(wide != 0, "no area has come apart");
}
