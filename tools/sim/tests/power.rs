// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Links that follow their traffic, and routes that follow the links: with traffic that stays the same
//! all comes to rest.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

mod often;

use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_proto::nm::{
    port::PORTS,
    power::{Governor, LEAST, Rate, SAMPLE_MS, Seen},
};
use weft_sim::{
    check,
    rng::Rng,
    topology::{End, Kind, Topology},
    world::World,
};

const MOST: Rate = Rate { speed: 4, width: 8 };
/// Traffic is counted in slots; in which of a sample's an end looks, is by lot.
const SLOTS: u64 = 5;
const SLOT_MS: u64 = SAMPLE_MS / SLOTS;
/// By then all has come to rest: a link goes from the most to the least in 12 s, and meanwhile routes move
/// what it carries to others, which do the same.
const RESTLESS_MS: u64 = 30_000;
const LIMIT_MS: u64 = 180_000;
/// From the most to the least.
const STEPS: u32 = 6;

struct Flow {
    from: usize,
    to: usize,
    /// Bytes a second.
    rate: u64,
    path: Vec<End>,
}

/// An end of a link, with a governor of its own, as a port has one.
struct Watch {
    end: End,
    slot: u64,
    governor: Governor,
    /// What the link has carried, out and in.
    carried: [u64; 2],
}

impl Watch {
    fn wants(&self) -> Rate {
        self.governor.target().unwrap_or(MOST)
    }
}

/// By which ports a packet leaves, if it gets there.
fn path(world: &World, from: usize, to: usize) -> Option<Vec<End>> {
    let lid = world.manager(to)?.info().lid;
    let (mut at, mut path) = (from, Vec::new());
    while at != to {
        let port = world.route(at, lid)?;
        path.push((at, port));
        at = world.passes((at, port))?.0;
        assert!(path.len() <= world.topology.len(), "a packet goes round in circles");
    }
    Some(path)
}

struct Case {
    world: World,
    watches: Vec<Watch>,
    flows: Vec<Flow>,
    /// More than a link carries does not pass it.
    full: bool,
    /// How often a flow took another way, and a link another rate; and when last.
    moves: u32,
    rates: u32,
    last: u64,
}

impl Case {
    fn new(kind: Kind, nodes: usize, flows: usize, seed: u64, full: bool) -> Self {
        let mut rng = Rng::new(seed);
        let mut hwids: Vec<u64> = (0..nodes as u64).map(|n| 0x100 + 3 * n).collect();
        rng.shuffle(&mut hwids);
        let mut world = World::new(Topology::of(kind, nodes, seed), hwids, seed);
        let mut watches = Vec::new();
        for end in (0..nodes).flat_map(|node| (0..PORTS as u8).map(move |port| (node, port))) {
            let (node, _) = end;
            if let Some((peer, _)) = world.topology.peer(end) {
                world.set_wire(end, |wire| (wire.speed, wire.width) = (MOST.speed, MOST.width));
                // A switch leaves the links of hosts to the hosts.
                if world.topology.is_switch(node) && !world.topology.is_switch(peer) {
                    continue;
                }
                let mut governor = Governor::default();
                governor.set(true);
                watches.push(Watch { end, slot: rng.below(SLOTS), governor, carried: [0; 2] });
            }
        }
        check::settle(&mut world, 500, LIMIT_MS).unwrap();
        let mut flow = || {
            // Switches come first, and have nothing to send.
            let (first, hosts) =
                (world.topology.switches.len(), nodes - world.topology.switches.len());
            let from = rng.below(hosts as u64) as usize;
            let to = (from + 1 + rng.below(hosts as u64 - 1) as usize) % hosts;
            let (from, to) = (first + from, first + to);
            // From next to nothing to a full link.
            let top = MOST.bytes() >> rng.below(10);
            let rate = top / 2 + rng.below(top / 2);
            Flow { from, to, rate, path: path(&world, from, to).unwrap() }
        };
        let flows = (0..flows).map(|_| flow()).collect();
        Self { world, watches, flows, full, moves: 0, rates: 0, last: 0 }
    }

    fn run(&mut self) {
        for slot in 0..LIMIT_MS / SLOT_MS {
            self.world.run(SLOT_MS);
            let now = slot * SLOT_MS;
            for flow in &mut self.flows {
                // While routes change a packet may meet a node that has none.
                let path = path(&self.world, flow.from, flow.to).unwrap_or_default();
                if !path.is_empty() && path != flow.path {
                    flow.path = path;
                    (self.moves, self.last) = (self.moves + 1, now);
                }
            }
            self.carry();
            for at in 0..self.watches.len() {
                if self.watches[at].slot == slot % SLOTS && self.sample(at, now) {
                    (self.rates, self.last) = (self.rates + 1, now);
                }
            }
        }
    }

    fn rate(&self, end: End) -> Rate {
        let wire = self.world.wire(end).unwrap();
        Rate { speed: wire.speed, width: wire.width }
    }

    fn carry(&mut self) {
        let mut loads = BTreeMap::<End, u64>::new();
        for flow in &self.flows {
            for end in &flow.path {
                *loads.entry(*end).or_default() += flow.rate * SLOT_MS / 1000;
            }
        }
        for at in 0..self.watches.len() {
            let end = self.watches[at].end;
            let most = match self.full {
                true => self.rate(end).bytes() * SLOT_MS / 1000,
                false => u64::MAX,
            };
            let ends = [end, self.world.topology.peer(end).unwrap()];
            for (bytes, end) in self.watches[at].carried.iter_mut().zip(ends) {
                *bytes += loads.get(&end).copied().unwrap_or(0).min(most);
            }
        }
    }

    /// An end looks at its link. True: the link runs at another rate now.
    fn sample(&mut self, at: usize, now: u64) -> bool {
        let end = self.watches[at].end;
        let is = self.rate(end);
        let watch = &mut self.watches[at];
        let before = watch.wants();
        watch.governor.look(now, Some(Seen { most: MOST, is, trained: 1, carried: watch.carried }));
        let mine = watch.wants();
        if mine == before {
            return false;
        }
        let peer = self.world.topology.peer(end).unwrap();
        let theirs = self.watches.iter().find(|w| w.end == peer).map_or(MOST, Watch::wants);
        let rate =
            Rate { speed: mine.speed.min(theirs.speed), width: mine.width.min(theirs.width) };
        self.world.set_wire(end, |wire| (wire.speed, wire.width) = (rate.speed, rate.width));
        rate != is
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: often::cases(60), ..ProptestConfig::default() })]

    #[test]
    fn n_8_with_constant_traffic_links_and_routes_come_to_rest(
        kind in (0..Kind::ALL.len()).prop_map(|n| Kind::ALL[n]),
        nodes in 3..12usize,
        flows in 1..20usize,
        seed in any::<u64>(),
        full in any::<bool>(),
    ) {
        let mut case = Case::new(kind, nodes, flows, seed, full);
        case.run();
        prop_assert!(case.last < RESTLESS_MS, "{} moves, {} rates, {} ms",
            case.moves, case.rates, case.last);
        // Each link goes down once, and up once for what moves to it; when it does, all flows may move.
        let links = case.world.topology.links().len() as u32;
        prop_assert!(case.rates <= 2 * STEPS * links, "{} rates of {links} links", case.rates);
        prop_assert!(case.moves <= case.rates * flows as u32, "{} moves", case.moves);
    }
}

#[test]
fn n_8_the_links_without_traffic_slow_down_and_the_one_with_it_stays() {
    let mut case = Case::new(Kind::Ring, 5, 1, 1, true);
    case.flows[0].rate = MOST.bytes() / 2;
    let path = case.flows[0].path.clone();
    case.run();
    let links = case.watches.len() as u32 / 2;
    assert_eq!((case.moves, &case.flows[0].path), (0, &path));
    assert_eq!(case.rates, STEPS * (links - path.len() as u32));
    for watch in &case.watches {
        let peer = case.world.topology.peer(watch.end).unwrap();
        let carries = path.contains(&watch.end) || path.contains(&peer);
        assert_eq!(case.rate(watch.end), if carries { MOST } else { LEAST });
    }
}
