// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Fabrics in which messages are lost, repeated, late and spoilt, links fail and nodes die, at any
//! moment: once it is quiet all is as it has to be, and at no time a packet goes round in circles.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

mod often;

use proptest::prelude::*;
use weft_sim::{
    check,
    rng::Rng,
    topology::{Kind, Topology},
    world::{Faults, World},
};

/// How long a fabric may take that is left alone, in ms. A node that is silent is asked for 1.2 s, and
/// looked for again after 1 s.
const LIMIT: u64 = 60_000;

fn hwids(nodes: usize, rng: &mut Rng) -> Vec<u64> {
    let mut hwids: Vec<u64> = (0..nodes as u64).map(|n| 0x100 + 3 * n).collect();
    rng.shuffle(&mut hwids);
    hwids
}

fn kind() -> impl Strategy<Value = Kind> {
    (0..Kind::ALL.len()).prop_map(|n| Kind::ALL[n])
}

fn faults() -> impl Strategy<Value = Faults> {
    (0..40u32, 0..100u32, 0..100u32, 0..20u32).prop_map(|(lost, doubled, late, spoilt)| Faults {
        lost,
        doubled,
        late,
        spoilt,
    })
}

/// Does one bad or good thing.
fn strike(world: &mut World, rng: &mut Rng) {
    let links = world.topology.links();
    let nodes = world.topology.len();
    let node = rng.below(nodes as u64) as usize;
    let off = (0..nodes).filter(|n| world.manager(*n).is_none()).count();
    match rng.below(6) {
        0 if off * 3 < nodes => world.power_off(node),
        0 | 1 => {
            if world.manager(node).is_none() {
                world.power_on(node);
            }
        }
        2 => {
            // The master, if there is one.
            let master = (0..nodes).find(|n| {
                let manager = world.manager(*n);
                manager.is_some_and(|m| m.master() == world.hwids[*n])
            });
            if let Some(master) = master.filter(|_| off * 3 < nodes) {
                world.power_off(master);
            }
        }
        _ if links.is_empty() => {}
        n => {
            let (end, _) = links[rng.below(links.len() as u64) as usize];
            let how = rng.below(8);
            world.set_wire(end, |wire| match (n, how) {
                (3, _) => wire.up = !wire.up,
                (4, _) => wire.up = true,
                (_, 0) => wire.excluded = !wire.excluded,
                (_, how) if how < 4 => wire.speed = 1 + how as u8,
                (_, how) => wire.width = 1 << (how - 4),
            });
        }
    }
}

fn survives(world: &mut World, rng: &mut Rng, strikes: u64) -> Result<(), String> {
    for _ in 0..strikes {
        world.run(rng.below(400));
        check::no_loops(world)?;
        strike(world, rng);
    }
    check::settle(world, 500, LIMIT).map(|_| ())
}

/// A fabric, and what happens to it.
struct Fabric {
    kind: Kind,
    nodes: usize,
    seed: u64,
    faults: Faults,
    strikes: u64,
    keyed: bool,
}

impl Fabric {
    fn heals(&self) -> Result<(), String> {
        let mut rng = Rng::new(self.seed);
        let hwids = hwids(self.nodes, &mut rng);
        let topology = Topology::of(self.kind, self.nodes, self.seed);
        let mut world = World::off(topology, hwids, self.seed);
        if self.keyed {
            world.give_keys(7);
        }
        for node in 0..world.topology.len() {
            world.power_on(node);
        }
        world.faults = self.faults;
        survives(&mut world, &mut rng, self.strikes)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: often::cases(60), ..ProptestConfig::default() })]

    #[test]
    fn n_6_any_fabric_heals_after_any_faults(
        kind in kind(),
        nodes in 2..14usize,
        seed in any::<u64>(),
        faults in faults(),
        strikes in 0..25u64,
        keyed: bool,
    ) {
        let result = Fabric { kind, nodes, seed, faults, strikes, keyed }.heals();
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}

/// Standbys had a list that was out of date for good: a port had changed and changed back, the master had
/// written during a survey, a node had been silent in an exploration.
#[test]
fn n_6_fabrics_heal_that_did_not_before() {
    let faults = |lost, doubled, late, spoilt| Faults { lost, doubled, late, spoilt };
    let random = |nodes, seed, faults, strikes, keyed| Fabric {
        kind: Kind::Random,
        nodes,
        seed,
        faults,
        strikes,
        keyed,
    };
    let fabrics = [
        random(7, 17369044896688599912, faults(5, 92, 69, 3), 17, true),
        random(13, 4265181673407331294, faults(4, 97, 9, 5), 5, false),
        Fabric {
            kind: Kind::Ring,
            ..random(13, 5687357806122488747, faults(18, 21, 59, 7), 2, false)
        },
    ];
    for (at, fabric) in fabrics.iter().enumerate() {
        assert_eq!(fabric.heals(), Ok(()), "number {at}");
    }
}
