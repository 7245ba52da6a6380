// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What standbys ask to know which nodes are there, counted.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

use weft_proto::nm::{
    message::{Message, listing::LISTED},
    packet::{ENVELOPE_BYTES, HEADER_BYTES},
};
use weft_sim::{
    check,
    topology::{Kind, Topology},
    world::World,
};

const NODES: usize = 16;

/// Questions that standbys have sent, not relayed: for a part of the master's list, and for ports.
fn questions(sent: &[((usize, u8), Vec<u8>)], master: usize) -> (usize, usize) {
    // PathCounter: it has passed no node yet.
    let begun = sent.iter().filter(|(_, bytes)| bytes[ENVELOPE_BYTES + 3] == 0);
    let others = begun.filter(|((node, _), _)| *node != master);
    let mut counts = (0, 0);
    for (_, bytes) in others {
        match Message::parse(&bytes[ENVELOPE_BYTES + HEADER_BYTES..]) {
            Ok((_, Message::ListRequest { .. })) => counts.0 += 1,
            Ok((_, Message::PortsRequest { .. })) => counts.1 += 1,
            _ => {}
        }
    }
    counts
}

fn ring() -> World {
    World::new(Topology::of(Kind::Ring, NODES, 1), (1..=NODES as u64).collect(), 1)
}

/// A list in which standbys trust saves them a question to each node: 16 nodes are four parts of it.
#[test]
fn a_standby_asks_the_master_for_its_list_and_no_node_that_has_not_changed() {
    let parts = NODES.div_ceil(LISTED);
    assert_eq!(parts, 4);
    let mut world = ring();
    world.record = Some(Vec::new());
    check::settle(&mut world, 500, 5000).unwrap();
    // Every host explores; every standby surveys once.
    let sent = world.record.replace(Vec::new()).unwrap();
    assert_eq!(questions(&sent, 0), (15 * parts, 15 * 15));

    // Two standbys report another speed of a link: each standby asks these two, or the other one.
    world.set_wire((5, 1), |wire| wire.speed = 1);
    let ends = [5, world.topology.peer((5, 1)).unwrap().0];
    assert!(!ends.contains(&0));
    check::settle(&mut world, 500, 5000).unwrap();
    let sent = world.record.replace(Vec::new()).unwrap();
    assert_eq!(questions(&sent, 0), (15 * parts, 15 * 2 - 2));
}

/// The master may hang while a standby asks it: the standby finds another, no later than by its polls.
#[test]
fn a_survey_does_not_wait_for_a_master_that_is_silent() {
    let mut world = ring();
    check::settle(&mut world, 500, 5000).unwrap();
    world.set_wire((5, 1), |wire| wire.speed = 1);
    // The master has written, and no standby has its list.
    world.record = Some(Vec::new());
    let commit = |(_, bytes): &((usize, u8), Vec<u8>)| {
        let message = Message::parse(&bytes[ENVELOPE_BYTES + HEADER_BYTES..]);
        matches!(message, Ok((_, Message::Commit { .. })))
    };
    while !world.record.as_ref().unwrap().iter().any(commit) {
        world.run(1);
    }
    let hung = world.now();
    world.hang(0);
    let obeys = |world: &World, node| world.manager(node).is_some_and(|m| m.master() == 2);
    while !(1..NODES).all(|node| obeys(&world, node)) {
        world.run(10);
        // Polls are 500 ms apart; 1.2 s is a question, and 0.3 s the same to the one that was silent.
        assert!(world.now() - hung < 500 + 2 * 1200 + 300 + 500, "{} ms", world.now() - hung);
    }
}
