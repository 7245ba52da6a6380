// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The manager of large fabrics, in small ones, with faults, and in one that is not so small.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

use proptest::prelude::*;
use weft_sim::{
    bound,
    rng::Rng,
    scale::Scale,
    topology::{Kind, Topology},
};

const LIMIT: u64 = 200_000;

fn scale(kind: Kind, nodes: usize, seed: u64) -> Scale {
    let mut hwids: Vec<u64> = (1..=nodes as u64).collect();
    Rng::new(seed).shuffle(&mut hwids);
    Scale::new(Topology::of(kind, nodes, seed), hwids, seed)
}

fn quiet(scale: &mut Scale) -> Result<f64, String> {
    if !scale.run(LIMIT, |_| ()) {
        return Err(format!("not quiet after {LIMIT} rounds"));
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
    for kind in Kind::HOSTS {
        for nodes in [1, 2, 3, 16, 64, 400] {
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
        match rng.below(3) {
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
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn n_6_any_fabric_heals_after_any_faults_at_scale_too(
        kind in (0..Kind::HOSTS.len()).prop_map(|n| Kind::HOSTS[n]),
        nodes in 2..24usize,
        seed in any::<u64>(),
        faults in (0..100u32, 0..150u32, 0..150u32),
        strikes in 0..20u64,
    ) {
        let mut scale = scale(kind, nodes, seed);
        scale.faults = faults;
        let result = survives(&mut scale, &mut Rng::new(seed), strikes);
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}

#[test]
fn n_5_ids_are_kept_when_the_master_dies_and_returns_at_scale_too() {
    for kind in [Kind::Ring, Kind::Torus, Kind::Random] {
        let mut scale = scale(kind, 100, 5);
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
        for node in (0..100).filter(|node| *node != master) {
            assert_eq!(after[node], before[node], "{kind}: {node}");
        }
        assert!(!before.contains(&after[master]), "{kind}: an id was given away again");
    }
}

#[test]
fn p_5_what_a_node_keeps_and_sends_hardly_grows() {
    for kind in Kind::HOSTS {
        let mut scale = scale(kind, 1024, 1);
        scale.power_on_all();
        quiet(&mut scale).unwrap();
        let bound = bound::of(&scale, 1);
        let traffic = scale.traffic;
        assert!(traffic.messages as f64 <= 3.0 * bound.messages, "{kind}: {traffic:?}, {bound:?}");
        assert!(traffic.bytes as f64 <= 3.0 * bound.bytes, "{kind}: {traffic:?}, {bound:?}");
        assert!(scale.changed <= 3 * bound.rounds, "{kind}: {} rounds", scale.changed);
        // An interval for each child, and one for all others.
        let most = scale.nodes.iter().flatten().map(|node| node.intervals()).max();
        assert!(most <= Some(4), "{kind}: {most:?}");
    }
}
