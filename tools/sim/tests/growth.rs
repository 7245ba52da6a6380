// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A fabric grows past what its nodes can explore, while data pass it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

mod often;

use proptest::prelude::*;
use weft_sim::{
    growth::Growth,
    rng::Rng,
    topology::{Kind, Topology},
};

/// What a node can explore, how many nodes there are first, and how many in the end.
const CARRIES: usize = 40;
const FIRST: usize = 32;
const ALL: usize = 56;

fn grows(kind: Kind, seed: u64, faults: (u32, u32), dies: bool) {
    let mut hwids: Vec<u64> = (1..=ALL as u64).collect();
    Rng::new(seed).shuffle(&mut hwids);
    let mut growth = Growth::new(Topology::of(kind, ALL, seed), hwids, CARRIES, seed);
    for node in 0..FIRST {
        growth.power(node, true);
    }
    while growth.now % 200 != 199 || !growth.is_whole() {
        growth.step();
        assert!(growth.now < 20_000, "{kind}: not settled while it is small");
    }
    assert!(growth.nodes.iter().flatten().all(|node| node.large().is_none()));
    let mut rng = Rng::new(seed);
    let lid = |growth: &Growth, node: usize| growth.nodes[node].as_ref().unwrap().lid();
    let before: Vec<u32> = (0..FIRST).map(|node| lid(&growth, node)).collect();
    growth.faults = faults;
    for node in FIRST..ALL {
        growth.power(node, true);
    }
    let grown = growth.now;
    // One that no other way of the first nodes needs: the last of them has no node below it.
    let dead = FIRST - 1;
    let pairs: Vec<_> = (0..200).map(|_| [0; 2].map(|_| rng.below(dead as u64) as usize)).collect();
    let mut checked = 0;
    loop {
        growth.step();
        if growth.changed {
            checked += 1;
            for [from, to] in &pairs {
                let end = growth.follow(*from, before[*to]);
                let now = growth.now - grown;
                assert_eq!(end, Some(Some(*to)), "{kind}, {now} ms: {from} to {to}");
            }
        }
        if dies && growth.nodes[dead].as_ref().is_some_and(|node| node.large().is_some()) {
            growth.power(dead, false);
        }
        if (growth.now - grown) % 500 == 499 && growth.is_whole() {
            break;
        }
        assert!(growth.now < grown + 30_000, "{kind}: not settled when it has grown");
    }
    assert!(checked > 10, "{checked} rounds in which routes changed");
    assert!(growth.nodes.iter().flatten().all(|node| node.large().is_some()));
    let after: Vec<u32> = (0..dead).map(|node| lid(&growth, node)).collect();
    assert_eq!(after[..], before[..dead], "local ids outlive the change of the mode");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: often::cases(30), ..ProptestConfig::default() })]

    #[test]
    fn n_6_a_fabric_changes_its_mode_and_no_route_is_lost_meanwhile(
        kind in prop_oneof![Just(Kind::Tree), Just(Kind::Random), Just(Kind::Switched)],
        seed in any::<u64>(),
        faults in (0..50u32, 0..100u32),
    ) {
        grows(kind, seed, faults, false);
    }

    #[test]
    fn n_6_a_fabric_changes_its_mode_though_a_node_dies(
        seed in any::<u64>(),
        faults in (0..50u32, 0..100u32),
    ) {
        grows(Kind::Tree, seed, faults, true);
    }
}
