// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Hierarchies that a master hands to nodes: what arrives, and what becomes of it when messages are lost,
//! nodes die, and masters follow each other.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

mod often;

use proptest::prelude::*;
use weft_proto::nm::{
    mastership::Mastership,
    message::{Differ, MAX_PIECE, Message, Piece, Taken, Write},
    node::{Failure, HAND_MS, Role},
    packet::{Direction, MAX_BYTES, MAX_PAYLOAD, Packet},
    path::Path,
};
use weft_sim::{
    check,
    rng::Rng,
    topology::{Kind, Topology},
    world::{Faults, MAX_HIERARCHY, NONSENSE, World},
};

/// Nodes in a row, of which the first has the lowest id: 10, 11 and so on.
fn chain(nodes: u64) -> World {
    let mut world = World::new(Topology::chain(nodes as usize), (10..10 + nodes).collect(), 3);
    check::settle(&mut world, 500, 10_000).unwrap();
    world
}

fn text(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|n| (n as u8).wrapping_mul(7) ^ seed).collect()
}

/// What a node has for its hierarchy.
fn has(world: &World, node: usize) -> &[u8] {
    &world.hosts[node].as_ref().unwrap().hierarchy
}

fn told(world: &World, node: usize) -> u32 {
    world.hosts[node].as_ref().unwrap().told
}

/// Waits for what becomes of the hand-over of `node`, and says how long that took.
fn outcome(world: &mut World, node: usize) -> (Result<(), Failure>, u64) {
    let start = world.now();
    while world.now() < start + 2 * HAND_MS {
        let handed = world.manager(node).and_then(|m| m.handed());
        if let Some(over) = handed {
            return (over, world.now() - start);
        }
        world.run(5);
    }
    panic!("it goes on and on");
}

fn hand(world: &mut World, from: usize, to: u64, bytes: &[u8]) -> Result<(), Failure> {
    world.hand(from, to, bytes)?;
    outcome(world, from).0
}

#[test]
fn mr_3_a_master_hands_each_host_its_hierarchy() {
    let mut world = chain(4);
    for (node, len) in [(3, MAX_HIERARCHY), (1, 1), (2, MAX_PIECE), (0, 3 * MAX_PIECE + 1)] {
        let bytes = text(len, node as u8);
        assert_eq!(hand(&mut world, 0, 10 + node as u64, &bytes), Ok(()));
        assert_eq!(has(&world, node), bytes);
        // The same again is nothing new to it.
        assert_eq!(hand(&mut world, 0, 10 + node as u64, &bytes), Ok(()));
        assert_eq!(told(&world, node), 1);
        assert_eq!(hand(&mut world, 0, 10 + node as u64, b"less"), Ok(()));
        assert_eq!((has(&world, node), told(&world, node)), (&b"less"[..], 2));
    }
    // No node looks at all again because of it.
    let found = |world: &World| world.manager(2).unwrap().found();
    let before = found(&world);
    hand(&mut world, 0, 12, b"more").unwrap();
    world.run(500);
    assert_eq!(found(&world), before);
}

#[test]
fn mr_3_what_cannot_be_handed_over_says_why() {
    let mut world = chain(3);
    assert_eq!(hand(&mut world, 0, 99, b"x"), Err(Failure::Silent), "no such node");
    assert_eq!(hand(&mut world, 1, 12, b"x"), Err(Failure::Stale), "no master");
    let long = vec![0; MAX_HIERARCHY + 1];
    assert_eq!(hand(&mut world, 0, 12, &long), Err(Failure::NoRoom));
    hand(&mut world, 0, 12, b"good").unwrap();
    let nonsense = [&[NONSENSE][..], &text(300, 1)].concat();
    for (node, to) in [(2, 12), (0, 10)] {
        let before = has(&world, node).to_vec();
        assert_eq!(hand(&mut world, 0, to, &nonsense), Err(Failure::Bad));
        assert_eq!(has(&world, node), before, "what it had stays");
    }
    world.hang(2);
    world.hand(0, 12, b"y").unwrap();
    let (over, took) = outcome(&mut world, 0);
    assert_eq!(over, Err(Failure::Silent));
    assert!((1000..=1500).contains(&took), "after {took} ms");
}

#[test]
fn mr_3_a_switch_has_no_hierarchy() {
    let topology = Topology::of(Kind::Switched, 4, 1);
    let nodes = topology.len();
    let mut world = World::new(topology, (10..10 + nodes as u64).collect(), 3);
    check::settle(&mut world, 500, 10_000).unwrap();
    let switch = (0..nodes).find(|n| world.topology.is_switch(*n)).unwrap();
    let master = (0..nodes).find(|n| world.hwids[*n] == world.manager(*n).unwrap().master());
    let to = world.hwids[switch];
    assert_eq!(hand(&mut world, master.unwrap(), to, b"x"), Err(Failure::NoRoom));
}

#[test]
fn hp_2_a_host_lets_go_before_it_says_that_it_has_taken() {
    let mut world = chain(3);
    for (node, to) in [(2, 12), (0, 10)] {
        world.hosts[node].as_mut().unwrap().holds = true;
        world.hand(0, to, b"new").unwrap();
        world.run(3000);
        // It is told, once, but the master is not told yes.
        assert_eq!((has(&world, node), told(&world, node)), (&b"new"[..], 1));
        assert_eq!(world.manager(0).unwrap().handed(), None);
        world.hosts[node].as_mut().unwrap().holds = false;
        world.run(300);
        assert_eq!(world.manager(0).unwrap().handed(), Some(Ok(())));
        assert_eq!(told(&world, node), 1);
        // One that never does costs no more than it may.
        world.hosts[node].as_mut().unwrap().holds = true;
        world.hand(0, to, b"other").unwrap();
        let (over, took) = outcome(&mut world, 0);
        assert_eq!(over, Err(Failure::Late));
        assert!((HAND_MS..HAND_MS + 200).contains(&took), "after {took} ms");
        world.hosts[node].as_mut().unwrap().holds = false;
        assert_eq!(hand(&mut world, 0, to, b"other"), Ok(()), "later it does");
    }
}

#[test]
fn mr_3_a_hand_over_waits_while_the_fabric_is_looked_at() {
    let mut world = chain(5);
    // Something changes at each end, and both at once.
    world.hosts[2].as_mut().unwrap().holds = true;
    world.hand(0, 12, &text(500, 1)).unwrap();
    for _ in 0..4 {
        world.run(250);
        world.set_wire((3, 1), |wire| wire.width = 33 - wire.width.min(32));
    }
    world.hosts[2].as_mut().unwrap().holds = false;
    assert_eq!(outcome(&mut world, 0).0, Ok(()));
    assert_eq!(has(&world, 2), text(500, 1));
    assert_eq!(told(&world, 2), 1);
}

#[test]
fn mr_3_a_late_refusal_does_not_end_a_look_at_the_fabric() {
    let mut world = chain(3);
    world.hang(2);
    world.hand(0, 12, b"x").unwrap();
    world.set_wire((0, 0), |wire| wire.width = 33 - wire.width.min(32));
    world.run(100);
    let role = |world: &World| world.manager(0).unwrap().role();
    assert_eq!(role(&world), Role::Unknown, "it looks for everybody");
    assert_eq!(world.manager(0).unwrap().handed(), None);
    let mastership = world.manager(0).unwrap().info().mastership;
    let next = world.topology.peer((0, 0)).unwrap();
    for xid in 1..1000 {
        let ack =
            Message::Ack { from: 12, taken: Taken::Stale, mastership, differ: Differ::default() };
        let mut payload = [0; MAX_PAYLOAD];
        let len = ack.encode(xid, &mut payload).unwrap();
        let path = Path::new(&[0]).unwrap();
        let packet = Packet::new(Direction::ToMaster, path, &payload[..len]).unwrap();
        let mut bytes = [0; MAX_BYTES];
        let len = packet.encode(&mut bytes);
        world.send(next, bytes[..len].to_vec());
    }
    world.run(10);
    assert_eq!(world.manager(0).unwrap().handed(), Some(Err(Failure::Stale)));
    assert_eq!(role(&world), Role::Unknown, "it does so still");
    world.go_on(2);
    check::settle(&mut world, 500, 20_000).unwrap();
    assert_eq!(hand(&mut world, 0, 12, b"x"), Ok(()));
}

#[test]
fn mr_3_another_life_of_a_host_gets_nothing_that_was_for_the_last() {
    let mut world = chain(3);
    hand(&mut world, 0, 12, b"first").unwrap();
    world.hosts[2].as_mut().unwrap().holds = true;
    world.hand(0, 12, b"second").unwrap();
    world.run(50);
    world.power_off(2);
    world.power_on(2);
    assert_eq!(outcome(&mut world, 0).0, Err(Failure::Silent));
    assert_eq!(has(&world, 2), b"", "it begins without one");
    check::settle(&mut world, 500, 20_000).unwrap();
    assert_eq!(hand(&mut world, 0, 12, b"second"), Ok(()));
    assert_eq!(has(&world, 2), b"second");
}

#[test]
fn mr_3_the_master_that_follows_hands_over_and_the_last_one_does_not() {
    let mut world = World::off(Topology::ring(4), vec![40, 10, 30, 20], 3);
    for node in [0, 2, 3] {
        world.power_on(node);
    }
    check::settle(&mut world, 500, 20_000).unwrap();
    assert_eq!(hand(&mut world, 3, 40, b"of 20"), Ok(()));
    world.hosts[0].as_mut().unwrap().holds = true;
    world.hand(3, 40, b"again of 20").unwrap();
    world.run(50);
    world.power_on(1);
    assert_eq!(outcome(&mut world, 3).0, Err(Failure::Stale));
    check::settle(&mut world, 500, 20_000).unwrap();
    assert_eq!(has(&world, 0), b"again of 20", "another master takes nothing away");
    world.hosts[0].as_mut().unwrap().holds = false;
    assert_eq!(hand(&mut world, 3, 40, b"of 20"), Err(Failure::Stale));
    assert_eq!(hand(&mut world, 1, 40, b"of 10"), Ok(()));
    assert_eq!(has(&world, 0), b"of 10");
}

#[test]
fn n_6_a_hierarchy_needs_a_mastership_that_counts_and_names_its_reader() {
    let mut world = chain(3);
    hand(&mut world, 0, 11, b"good").unwrap();
    let info = *world.manager(1).unwrap().info();
    let good = Write { mastership: info.mastership, version: 1000, to: 11, life: info.life };
    let with = |term, master| Mastership { term, master };
    let term = info.mastership.term;
    let forge = |world: &mut World, write, xid, direction| {
        let piece = Piece::of(5, b"forged", 0);
        let mut payload = [0; MAX_PAYLOAD];
        let len = Message::Hierarchy { write, piece }.encode(xid, &mut payload).unwrap();
        let path = Path::new(&[0]).unwrap();
        let packet = Packet::new(direction, path, &payload[..len]).unwrap();
        let mut bytes = [0; MAX_BYTES];
        let len = packet.encode(&mut bytes);
        world.send((0, 0), bytes[..len].to_vec());
        world.run(5);
    };
    for write in [
        Write { mastership: with(term - 1, 10), ..good },
        Write { mastership: with(term + 1, 12), ..good },
        Write { mastership: with(term + 1, 11), ..good },
        Write { version: 0, ..good },
        Write { to: 12, ..good },
        Write { life: info.life + 1, ..good },
    ] {
        forge(&mut world, write, 1000, Direction::FromMaster);
        assert_eq!(has(&world, 1), b"good", "{write:?}");
    }
    forge(&mut world, good, 1000, Direction::ToMaster);
    assert_eq!(has(&world, 1), b"good");
    forge(&mut world, good, 1, Direction::FromMaster);
    assert_eq!(has(&world, 1), b"good", "one that was overtaken by that which it has");
    forge(&mut world, good, 1000, Direction::FromMaster);
    assert_eq!(has(&world, 1), b"forged", "by right of its own master");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: often::cases(60), ..ProptestConfig::default() })]

    /// Messages are lost, come twice, late, spoilt: a hierarchy arrives whole or not at all, and who is
    /// told that it has arrived is told the truth.
    #[test]
    fn mr_3_a_hierarchy_arrives_whole_or_not_at_all(
        nodes in 2..6usize,
        seed in any::<u64>(),
        faults in (0..150u32, 0..200u32, 0..200u32, 0..50u32),
        lens in prop::collection::vec(1..=MAX_HIERARCHY, 1..6),
    ) {
        let mut rng = Rng::new(seed);
        let mut world = World::new(Topology::chain(nodes), (10..10 + nodes as u64).collect(), seed);
        check::settle(&mut world, 500, 20_000).unwrap();
        let (lost, doubled, late, spoilt) = faults;
        world.faults = Faults { lost, doubled, late, spoilt };
        let mut may = vec![vec![vec![]]; nodes];
        for (n, len) in lens.into_iter().enumerate() {
            let node = rng.below(nodes as u64) as usize;
            let bytes = text(len, n as u8);
            let over = hand(&mut world, 0, 10 + node as u64, &bytes);
            if over.is_ok() {
                may[node].clear();
            }
            may[node].push(bytes);
            prop_assert!(may[node].iter().any(|may| may == has(&world, node)), "{over:?}");
        }
        // Of what was given up some may still be on its way; what was taken since is not touched by it.
        world.faults = Faults::default();
        world.run(100);
        for (node, may) in may.iter().enumerate() {
            prop_assert!(may.iter().any(|may| may == has(&world, node)), "node {node}");
        }
        check::settle(&mut world, 500, 60_000).unwrap();
        for node in 0..nodes {
            prop_assert_eq!(hand(&mut world, 0, 10 + node as u64, b"in the end"), Ok(()));
            prop_assert_eq!(has(&world, node), b"in the end");
        }
    }
}
