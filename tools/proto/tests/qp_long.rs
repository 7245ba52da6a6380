// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Several long messages of a queue pair under way: how many, in which order they end, and what a peer
//! that breaks the rules gets. `qp_sim` runs them in every order of events.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod qp;
mod trunk;

use qp::end::{number_of, End};
use qp::user::{Op, Wr};
use qp::world::{Do, World};
use weft_proto::cqe::Status;
use weft_proto::fifo::Arrived;
use weft_proto::protocol::Protocol;
use weft_proto::qp::State;
use weft_proto::request::{Address, Data, Extent, Extents, Lane, Message, Part};
use weft_proto::trunk::Layout;

const SERVE: usize = 0;
const TAKE_CELL: usize = 1;
/// The most long messages of a queue pair, and the most parts of them that are lent.
const MESSAGES: usize = 8;
const PARTS: usize = 8;
/// The most parts of one message that is alone.
const PARTS_ALONE: usize = 4;
/// A message that is too long for the eager ring, and one of many parts.
const LONG: usize = 40_000;
const LONGER: usize = 300_000;

/// Two ends whose first queue pairs are joined.
fn joined(has_dma: bool) -> World {
    let layout = Layout::of_arena(4 << 20).expect("large enough");
    let mut world = World::new([layout; 2], &[Protocol::PUSH], has_dma);
    world.finish();
    world
}

fn post(world: &mut World, op: Op, len: usize, bad: bool) {
    world.run((0, 0, Do::Post(Wr { op, len, bad })));
}

/// Takes a step of an end as often as there is something to do.
fn all(world: &mut World, end: usize, step: usize) {
    while world.step(end, 0, step) {}
}

/// How many cells and words an end has sent.
fn sent(world: &World, end: usize) -> usize {
    world.ends[end].link.sent as usize
}

/// What the completions of the sender say.
fn ends(world: &World) -> Vec<Status> {
    let user = &world.ends[0].qps[0].user;
    user.sent.iter().map(|cqe| cqe.status).collect()
}

#[test]
fn q_2_so_many_long_messages_and_parts_are_under_way_and_no_more() {
    let mut world = joined(false);
    for _ in 0..2 * MESSAGES {
        post(&mut world, Op::Send, LONG, false);
    }
    world.run((1, 0, Do::Recv(2 * MESSAGES)));
    let before = sent(&world, 0);
    all(&mut world, 0, SERVE);
    assert_eq!(sent(&world, 0) - before, MESSAGES, "intents");
    let before = sent(&world, 1);
    all(&mut world, 1, TAKE_CELL);
    all(&mut world, 1, SERVE);
    assert_eq!(sent(&world, 1) - before, PARTS, "parts lent");
    world.finish();
    world.check();
    assert_eq!(ends(&world), [Status::Success; 2 * MESSAGES]);
}

#[test]
fn q_2_a_long_message_that_is_alone_is_lent_fewer_parts() {
    let mut world = joined(true);
    post(&mut world, Op::Write { imm: false }, LONGER, false);
    let before = sent(&world, 1);
    all(&mut world, 0, SERVE);
    all(&mut world, 1, TAKE_CELL);
    all(&mut world, 1, SERVE);
    assert_eq!(sent(&world, 1) - before, PARTS_ALONE, "parts lent");
    world.finish();
    world.check();
}

#[test]
fn q_2_all_else_waits_for_long_messages() {
    for op in [Op::Send, Op::Read, Op::Add, Op::Invalidate] {
        let mut world = joined(true);
        world.run((1, 0, Do::Recv(4)));
        post(&mut world, Op::Send, LONG, false);
        post(&mut world, Op::Send, LONG, false);
        post(&mut world, op, 8, false);
        post(&mut world, Op::Send, LONG, false);
        let before = sent(&world, 0);
        all(&mut world, 0, SERVE);
        assert_eq!(sent(&world, 0) - before, 2, "behind long messages: {op:?}");
        world.finish();
        world.check();
        assert_eq!(ends(&world), [Status::Success; 4]);
    }
}

/// One of the messages is refused: those before it are received, and those behind it are not.
#[test]
fn q_2_a_long_message_is_refused_when_those_before_it_are_done() {
    for has_dma in [false, true] {
        let mut world = joined(has_dma);
        for n in 0..5 {
            post(&mut world, Op::Write { imm: true }, LONG, n == 3);
        }
        world.run((1, 0, Do::Recv(5)));
        all(&mut world, 0, SERVE);
        all(&mut world, 1, TAKE_CELL);
        assert_eq!(world.ends[1].qps[0].machine.state(), State::Rts, "too soon");
        world.finish();
        world.check();
        let first = [Status::Success; 3];
        assert_eq!(ends(&world)[..3], first);
        assert_eq!(ends(&world)[3..], [Status::RemoteAccess, Status::Flushed]);
        let received = &world.ends[1].qps[0].user.received;
        let statuses: Vec<_> = received.iter().map(|cqe| cqe.status).collect();
        assert_eq!(statuses[..3], first);
        assert_eq!(statuses[3..], [Status::Flushed; 2]);
    }
}

/// There are fewer receive requests than messages: what is before is received, the rest comes again.
#[test]
fn q_2_long_messages_without_receive_request_come_again() {
    for has_dma in [false, true] {
        let mut world = joined(has_dma);
        for _ in 0..MESSAGES {
            post(&mut world, Op::Send, LONG, false);
        }
        world.run((1, 0, Do::Recv(3)));
        let before = sent(&world, 1);
        all(&mut world, 0, SERVE);
        all(&mut world, 1, TAKE_CELL);
        all(&mut world, 1, SERVE);
        assert_eq!(sent(&world, 1) - before, 3, "parts, and no word yet");
        world.finish();
        world.check();
        assert_eq!(ends(&world), [Status::Success; MESSAGES]);
    }
}

/// The receiver's user ends the queue pair: each receive request that was taken ends once, in order.
#[test]
fn q_2_receive_requests_of_long_messages_are_flushed_in_order() {
    let mut world = joined(false);
    for _ in 0..5 {
        post(&mut world, Op::Send, LONG, false);
    }
    world.run((1, 0, Do::Recv(3)));
    all(&mut world, 0, SERVE);
    all(&mut world, 1, TAKE_CELL);
    world.run((1, 0, Do::Fail));
    world.finish();
    world.check();
    let received = &world.ends[1].qps[0].user.received;
    let identities: Vec<_> = received.iter().map(|cqe| (cqe.wr_id, cqe.status)).collect();
    assert_eq!(identities, [0, 1, 2].map(|n| (n, Status::Flushed)));
}

fn given(world: &mut World, psn: u16, lane: Lane, message: Message) {
    let arrived = Arrived {
        lane,
        address: Address {
            qpn: number_of(0),
            psn,
        },
        message,
    };
    let World { ends, memories, .. } = world;
    let [_, end]: &mut [End; 2] = ends;
    end.given(&arrived, &memories[1], &memories[0]);
}

fn write(data: Data) -> Message {
    Message::Write {
        data,
        to: 0,
        stag: 2 << 24,
        imm: None,
    }
}

fn is_violated(world: &World) -> bool {
    let machine = &world.ends[1].qps[0].machine;
    machine.state() == State::Err && machine.why() == Status::Protocol
}

#[test]
fn q_2_a_peer_that_begins_too_many_long_messages_is_refused() {
    let mut world = joined(false);
    for psn in 0..=MESSAGES as u16 {
        assert!(!is_violated(&world), "{psn}");
        given(&mut world, psn, Lane::Receive, write(Data::Long(9000)));
    }
    assert!(is_violated(&world));
    world.ends[1].check_memory();
}

#[test]
fn q_2_a_peer_that_sends_something_else_behind_a_long_message_is_refused() {
    let mut world = joined(false);
    given(&mut world, 0, Lane::Receive, write(Data::Long(9000)));
    assert!(!is_violated(&world));
    let short = Data::Inline(trunk::inline(&[1]));
    given(&mut world, 1, Lane::Receive, write(short));
    assert!(is_violated(&world));
}

#[test]
fn q_2_a_peer_that_lends_more_than_it_may_is_refused() {
    let mut world = joined(false);
    // The other end sends here.
    let op = Op::Write { imm: false };
    world.run((
        1,
        0,
        Do::Post(Wr {
            op,
            len: LONGER,
            bad: false,
        }),
    ));
    all(&mut world, 1, SERVE);
    let mut extents = Extents::NONE;
    let at = Layout::of_arena(4 << 20)
        .expect("large enough")
        .staging_at() as u32;
    assert!(extents.push(Extent { at, bytes: 64 }));
    for number in 0..=PARTS as u64 {
        assert!(!is_violated(&world), "{number}");
        let part = Part {
            number,
            offset: 64 * number,
        };
        given(
            &mut world,
            0,
            Lane::Transmit,
            Message::Lend { part, extents },
        );
    }
    assert!(is_violated(&world));
}
