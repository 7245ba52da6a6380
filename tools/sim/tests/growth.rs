// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A fabric grows past what its nodes can explore, while data pass it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

mod often;

use proptest::prelude::*;
use weft_proto::nm::node::rest::REST_WHOLE_MS;
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
        // A node goes on some time after the fabric is whole again.
        let rest = growth.rests.iter().filter(|rests| **rests).count();
        if (growth.now - grown) % 500 == 499 && growth.is_whole() && rest == 0 {
            break;
        }
        let late = growth.now >= grown + 30_000;
        assert!(
            !late,
            "{kind}: not settled when it has grown, routes of {rest} nodes are quiesced"
        );
    }
    assert!(checked > 10, "{checked} rounds in which routes changed");
    assert!(growth.nodes.iter().flatten().all(|node| node.large().is_some()));
    let after: Vec<u32> = (0..dead).map(|node| lid(&growth, node)).collect();
    assert_eq!(after[..], before[..dead], "local ids outlive the change of the mode");
}

#[test]
fn p_5_a_node_changes_the_mode_when_nothing_is_under_way_or_after_its_time() {
    let hwids = (1..=ALL as u64).collect();
    let mut growth = Growth::new(Topology::of(Kind::Tree, ALL, 1), hwids, CARRIES, 1);
    for node in 0..FIRST {
        growth.power(node, true);
    }
    while growth.now % 200 != 199 || !growth.is_whole() {
        growth.step();
        assert!(growth.now < 20_000, "not settled while it is small");
    }
    let start = growth.now;
    for node in FIRST..ALL {
        growth.power(node, true);
    }
    // One comes to rest soon, another one never.
    (growth.busy[3], growth.busy[4]) = (start + 900, u64::MAX);
    let mut grown = [None; FIRST];
    // When it was not quiesced, last before that.
    let mut quiet = [start; FIRST];
    while growth.now < start + 10_000 {
        growth.step();
        for node in 0..FIRST {
            let large = growth.nodes[node].as_ref().unwrap().large().is_some();
            if large {
                grown[node].get_or_insert(growth.now);
            } else if !growth.rests[node] {
                quiet[node] = growth.now;
            }
        }
    }
    assert!(growth.rests.iter().all(|rests| !rests), "routes are quiesced for good");
    let grown = grown.map(|at| at.expect("it has changed the mode"));
    let soon = |node: usize, from: u64| (from..from + 50).contains(&grown[node]);
    assert!(soon(3, quiet[3].max(start + 900)), "{grown:?}, {start}, {}", quiet[3]);
    assert!(soon(4, quiet[4] + REST_WHOLE_MS), "{grown:?}, {}", quiet[4]);
    assert!(soon(5, quiet[5]), "{grown:?}, {}", quiet[5]);
    assert!(growth.is_whole());
}

#[test]
fn p_5_a_node_that_is_to_keep_its_mode_does_not_follow_its_neighbours() {
    let hwids = (1..=ALL as u64).collect();
    let mut growth = Growth::new(Topology::of(Kind::Tree, ALL, 1), hwids, CARRIES, 1);
    let last = ALL - 1;
    for node in 0..ALL {
        growth.power(node, true);
    }
    growth.nodes[last].as_mut().unwrap().set_limit(0);
    while growth.now < 10_000 {
        growth.step();
    }
    let mut nodes = growth.nodes.iter().flatten();
    assert!(nodes.by_ref().take(last).all(|node| node.large().is_some()));
    assert!(nodes.all(|node| node.large().is_none()));
}

#[test]
fn n_6_a_former_route_to_a_node_is_before_one_to_its_area() {
    grows(Kind::Random, 6643755901997274756, (48, 90), false);
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
