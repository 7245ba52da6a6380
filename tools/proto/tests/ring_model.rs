// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The rings against a queue that cannot be wrong, under everything that hardware may do.

#![allow(clippy::expect_used, clippy::panic)]

mod fabric;

use fabric::{Event, Side, To};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ops::Range;
use weft_proto::cell::{Fault, Head, Kind, Shape, RECV_EVENT_AT, SEND_EVENT_AT};
use weft_proto::payload::Pieces;
use weft_proto::ring::{Next, Receiver, SendError, Sender, SHORT_BYTES};
use weft_proto::window::Area;

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Receive,
    Flush,
    /// So many stores land at the receiver, chosen by the number.
    ToReceiver(usize, usize),
    ToSender(usize, usize),
    /// The receiver, or the sender, is about to sleep.
    ArmReceiver,
    ArmSender,
}

fn step(bulk: u32) -> impl Strategy<Value = Step> {
    let bulk = bulk as usize;
    prop_oneof![
        4 => (0usize..=48).prop_map(Step::Send),
        3 => (49..=bulk / 8).prop_map(Step::Send),
        1 => (bulk / 8..=bulk).prop_map(Step::Send),
        8 => Just(Step::Receive),
        1 => Just(Step::Flush),
        6 => (1usize..3000, any::<usize>()).prop_map(|(n, c)| Step::ToReceiver(n, c)),
        3 => (1usize..4, any::<usize>()).prop_map(|(n, c)| Step::ToSender(n, c)),
        1 => Just(Step::ArmReceiver),
        1 => Just(Step::ArmSender),
    ]
}

struct Sent {
    tag: u64,
    payload: Vec<u8>,
    /// What it occupies in the receiver's area.
    ranges: Vec<Range<usize>>,
}

struct World {
    shape: Shape,
    sender: Sender<Vec<u64>>,
    receiver: Receiver,
    at_sender: Side,
    at_receiver: Side,
    model: VecDeque<Sent>,
    number: u64,
    /// Events as the other end sees them, and how far it had come when it looked last.
    receiver_looked: u64,
    sender_looked: u64,
    /// Short messages are split, all of them.
    splits: bool,
}

impl World {
    fn new(shape: Shape) -> Self {
        World {
            shape,
            sender: Sender::new(shape, vec![0; shape.cells() as usize]).expect("long enough"),
            receiver: Receiver::new(shape),
            at_sender: Side::new(shape),
            at_receiver: Side::new(shape),
            model: VecDeque::new(),
            number: 0,
            receiver_looked: 0,
            sender_looked: 0,
            splits: false,
        }
    }

    fn payload(number: u64, len: usize) -> Vec<u8> {
        (0..len)
            .map(|n| (number as usize * 31 + n * 7 + n / 256) as u8)
            .collect()
    }

    /// Sends, or gives the credit that it waits for.
    fn send(&mut self, len: usize) -> Result<(), u64> {
        let payload = Self::payload(self.number, len);
        let (cells, bulk) = (self.sender.produced(), self.sender.bulk());
        let cell = self.shape.cell_at(cells);
        let log = self.at_receiver.log.borrow().len();
        // As programs send it, or in pieces, as clients in the kernel do.
        let (here, there) = (&self.at_sender, To(&self.at_receiver));
        let result = match self.number % 3 {
            n if len <= SHORT_BYTES && (n == 1 || self.splits) => {
                self.sender
                    .send_short(here, &there, payload.as_slice(), self.number)
            }
            0 => self
                .sender
                .send(here, &there, payload.as_slice(), self.number),
            _ => {
                let pieces = Pieces(payload.chunks(1 + self.number as usize % 29));
                self.sender.send(here, &there, &pieces, self.number)
            }
        };
        let stored = self.at_receiver.log.borrow()[log..].to_vec();
        match result {
            Err(SendError::Full(wanted)) => {
                assert_eq!(stored, [], "nothing is stored without room");
                assert!(wanted > self.sender.credit() && wanted <= self.sender.produced());
                return Err(wanted);
            }
            other => assert_eq!(other, Ok(())),
        }
        // By these two the link is known to be busy: what is stored is in one or the other.
        let stores = stored.iter().filter(|e| matches!(e, Event::Store(..)));
        let counted = 64 * (self.sender.produced() - cells) + self.sender.bulk() - bulk;
        assert!(
            8 * stores.count() as u64 <= counted,
            "{counted} are counted"
        );
        // Wherever something was stored there must be nothing that still is to be read.
        let mut ranges: Vec<Range<usize>> = vec![];
        for event in stored {
            let Event::Store(at, _) = event else { continue };
            for kept in self.model.iter().flat_map(|sent| &sent.ranges) {
                assert!(
                    !kept.contains(&at),
                    "{at:#x} is overwritten while it is in use"
                );
            }
            match ranges.last_mut() {
                Some(last) if last.end == at => last.end = at + 8,
                _ => ranges.push(at..at + 8),
            }
        }
        ranges.push(cell..cell + 64);
        self.model.push_back(Sent {
            tag: self.number,
            payload,
            ranges,
        });
        assert!(
            self.model.len() <= self.shape.cells() as usize,
            "more cells than there are"
        );
        self.number += 1;
        let event = self.at_sender.load(RECV_EVENT_AT);
        let needed = (self.sender_looked..self.sender.produced()).contains(&event);
        self.sender_looked = self.sender.produced();
        assert_eq!(
            self.sender
                .needs_kick(&self.at_sender, &To(&self.at_receiver)),
            needed
        );
        Ok(())
    }

    fn receive(&mut self) -> bool {
        let window = To(&self.at_sender);
        let next = self
            .receiver
            .peek(&self.at_receiver, &window)
            .expect("the sender is honest");
        let Next::Message(message) = next else {
            assert_eq!(next, Next::Nothing);
            return false;
        };
        // In two parts, as clients in the kernel may have them.
        let mut payload = vec![0xee; message.len as usize];
        let part = (payload.len() / 2) & !7;
        let (first, second) = payload.split_at_mut(part);
        for (from, out) in [(part, second), (0, first)] {
            let room = out.len();
            let copied = self.receiver.copy(&self.at_receiver, &message, from, out);
            assert_eq!(copied, room);
        }
        let sent = self
            .model
            .pop_front()
            .expect("nothing comes that was not sent");
        assert_eq!(message.tag, sent.tag, "out of order");
        assert!(payload == sent.payload, "message {} is torn", sent.tag);
        // At once, or as while the peer cannot be reached.
        if message.tag % 2 == 0 {
            self.receiver.consume(&window, &message);
        } else {
            self.receiver.take(&message);
            self.receiver.settle(&window);
        }
        true
    }

    /// The kick after credit was given back: exactly when the sender waits for it.
    fn check_credit_kick(&mut self) {
        let returned = self.returned();
        let event = self.at_receiver.load(SEND_EVENT_AT);
        let needed = (self.receiver_looked..returned).contains(&event);
        self.receiver_looked = returned;
        assert_eq!(
            self.receiver
                .needs_kick(&self.at_receiver, &To(&self.at_sender)),
            needed
        );
    }

    /// The credit given back last, wherever it is now.
    fn returned(&self) -> u64 {
        let log = self.at_sender.log.borrow();
        let mut credits = log.iter().rev().filter_map(|e| match e {
            Event::Store(0, word) => Some(*word),
            _ => None,
        });
        credits.next().unwrap_or(0)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Send(len) => {
                let _ = self.send(len);
            }
            Step::Receive => {
                self.receive();
                self.check_credit_kick();
            }
            Step::Flush => {
                self.receiver.flush(&To(&self.at_sender));
                assert_eq!(self.returned(), self.receiver.consumed());
                self.check_credit_kick();
            }
            Step::ToReceiver(count, choice) => {
                for n in 0..count {
                    self.at_receiver.land(choice.rotate_left(n as u32));
                }
            }
            Step::ToSender(count, choice) => {
                for n in 0..count {
                    self.at_sender.land(choice.rotate_left(n as u32));
                }
            }
            Step::ArmReceiver => self.at_sender.poke(RECV_EVENT_AT, self.receiver.consumed()),
            Step::ArmSender => self.at_receiver.poke(SEND_EVENT_AT, self.sender.credit()),
        }
    }

    /// Everything arrives and is consumed; then the ring is as good as new.
    fn drain(&mut self) {
        self.at_receiver.land_all();
        while self.receive() {}
        assert!(
            self.model.is_empty(),
            "message {} is lost",
            self.model[0].tag
        );
        self.receiver.flush(&To(&self.at_sender));
        self.at_sender.land_all();
        assert_eq!(
            self.send(self.shape.bulk() as usize),
            Ok(()),
            "an empty ring takes anything"
        );
        self.at_receiver.land_all();
        assert!(self.receive());
    }
}

fn shape(cells: u32, bulk: u32) -> Shape {
    Shape::new(cells, bulk).expect("allowed")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn messages_arrive_once_in_order_and_whole(
        cells in prop::sample::select(vec![16u32, 32]),
        bulk in prop::sample::select(vec![4096u32, 12288]),
        steps in prop::collection::vec(step(4096), 1..300),
    ) {
        let mut world = World::new(shape(cells, bulk));
        for step in &steps {
            world.step(step);
        }
        world.drain();
    }

    /// What `Full` asks for is what is needed, and no more.
    #[test]
    fn the_credit_asked_for_is_the_least(
        lens in prop::collection::vec(prop_oneof![0usize..=48, 49usize..1500], 20..60),
        then in 0usize..=4096,
    ) {
        let mut world = World::new(shape(16, 4096));
        for len in lens {
            while world.send(len).is_err() {
                world.at_receiver.land_all();
                prop_assert!(world.receive());
                world.receiver.flush(&To(&world.at_sender));
                world.at_sender.land_all();
            }
        }
        if let Err(wanted) = world.send(then) {
            world.at_receiver.land_all();
            while world.receiver.consumed() < wanted {
                prop_assert_eq!(world.send(then), Err(wanted), "the want does not change");
                prop_assert!(world.receive());
                world.receiver.flush(&To(&world.at_sender));
                world.at_sender.land_all();
            }
            prop_assert_eq!(world.send(then), Ok(()));
        }
    }

    /// Whatever a peer writes, a receiver answers, and copies from its own area only.
    #[test]
    fn no_peer_makes_a_receiver_fail(
        words in prop::collection::vec((0usize..1024, any::<u64>()), 0..64),
        heads in prop::collection::vec((0u64..16, 0u32..5000, 1u8..5, any::<u64>()), 0..16),
    ) {
        let shape = shape(16, 4096);
        let area = Side::new(shape);
        let back = Side::new(shape);
        for (at, word) in words {
            area.poke(at * 8, word);
        }
        for (number, len, kind, offset) in heads {
            let kind = match kind {
                1 => Kind::Inline,
                2 => Kind::Bulk,
                3 => Kind::Split,
                _ => Kind::Fin,
            };
            area.poke(shape.cell_at(number), Head { kind, len }.encode(number, shape));
            area.poke(shape.cell_at(number) + 16, offset);
        }
        let mut receiver = Receiver::new(shape);
        let mut buffer = vec![0; 4096 + 40];
        for _ in 0..40 {
            let Ok(Next::Message(message)) = receiver.peek(&area, &To(&back)) else { break };
            prop_assert!(message.len <= 4096 + 40);
            receiver.copy(&area, &message, 0, &mut buffer);
            receiver.consume(&To(&back), &message);
        }
    }
}

/// Without fences the very same steps go wrong: the test above can fail.
#[test]
#[should_panic(expected = "is torn")]
fn without_fences_messages_are_torn() {
    for choice in 0..64 {
        let mut world = World::new(shape(16, 4096));
        world.at_receiver.unfenced.set(true);
        for _ in 0..8 {
            world.step(&Step::Send(40));
            world.step(&Step::ToReceiver(3, choice));
            world.step(&Step::Receive);
        }
    }
}

/// Two runs of stores, each ascending within a line: two posted writes on the bridge.
#[test]
fn a_short_message_is_two_runs_of_stores() {
    for len in [0usize, 1, 8, 47, 48] {
        let mut world = World::new(shape(16, 4096));
        world.send(len).expect("room");
        let log = world.at_receiver.log.borrow();
        let words = 1 + len.div_ceil(8);
        let stores: Vec<_> = log
            .iter()
            .map(|e| match e {
                Event::Store(at, _) => Some(*at),
                Event::Fence => None,
            })
            .collect();
        let mut expected: Vec<_> = (0..words).map(|n| Some(4096 + 8 + 8 * n)).collect();
        // The last fence is that before the event index is read.
        expected.extend([None, Some(4096), None]);
        assert_eq!(stores, expected, "{len} bytes");
    }
}

/// One of a line and what fits the cell: the line, the cell but for its head, the head.
#[test]
fn a_split_message_is_three_runs_of_stores() {
    for len in [49usize, 96, 103, 104] {
        let shape = shape(16, 4096);
        let mut world = World::new(shape);
        world.splits = true;
        world.send(len).expect("room");
        let log = world.at_receiver.log.borrow();
        let stores = |from: usize, words: usize| (0..words).map(move |n| Some(from + 8 * n));
        let found: Vec<_> = log
            .iter()
            .map(|e| match e {
                Event::Store(at, _) => Some(*at),
                Event::Fence => None,
            })
            .collect();
        let mut expected: Vec<_> = stores(shape.bulk_at(), (len - 40).div_ceil(8)).collect();
        expected.extend(stores(4096 + 8, 7));
        expected.extend([None, Some(4096), None]);
        assert_eq!(found, expected, "{len} bytes");
    }
}

#[test]
fn what_is_longer_than_a_short_message_is_refused_as_one() {
    let mut world = World::new(shape(16, 4096));
    let window = To(&world.at_receiver);
    let sent = world
        .sender
        .send_short(&world.at_sender, &window, &[0; SHORT_BYTES + 1], 0);
    assert_eq!(sent, Err(SendError::TooLong(SHORT_BYTES as u32)));
}

#[test]
fn credit_is_seldom() {
    let mut world = World::new(shape(256, 65536));
    for _ in 0..1000 {
        world.send(8).expect("the receiver keeps up");
        world.at_receiver.land_all();
        assert!(world.receive());
        assert!(!world.receive());
        world.at_sender.land_all();
    }
    let credits = world
        .at_sender
        .log
        .borrow()
        .iter()
        .filter(|e| **e != Event::Fence)
        .count();
    assert_eq!(credits, 1000 / 16, "one for 16 messages");
}

#[test]
fn an_idle_receiver_gives_everything_back() {
    let mut world = World::new(shape(16, 4096));
    world.send(8).expect("room");
    world.at_receiver.land_all();
    assert!(world.receive());
    assert_eq!(world.returned(), 0);
    for _ in 0..2000 {
        assert!(!world.receive());
    }
    assert_eq!(world.returned(), 1);
    let credits = world
        .at_sender
        .log
        .borrow()
        .iter()
        .filter(|e| **e != Event::Fence)
        .count();
    assert_eq!(credits, 1);
}

#[test]
fn the_end_is_seen_after_everything_else() {
    let shape = shape(16, 4096);
    let mut world = World::new(shape);
    world.send(100).expect("room");
    world
        .sender
        .finish(&world.at_sender, &To(&world.at_receiver))
        .expect("room");
    let again = world.sender.send(
        &world.at_sender,
        &To(&world.at_receiver),
        b"x".as_slice(),
        0,
    );
    assert_eq!(again, Err(SendError::Finished));
    let again = world
        .sender
        .finish(&world.at_sender, &To(&world.at_receiver));
    assert_eq!(again, Err(SendError::Finished));
    world.at_receiver.land_all();
    assert!(world.receive());
    for _ in 0..2 {
        assert_eq!(
            world
                .receiver
                .peek(&world.at_receiver, &To(&world.at_sender)),
            Ok(Next::End)
        );
    }
    world.at_sender.land_all();
    assert_eq!(
        world.sender.refresh(&world.at_sender),
        Ok(2),
        "the end is acknowledged at once"
    );
}

#[test]
fn a_message_longer_than_the_bulk_ring_is_refused() {
    let mut world = World::new(shape(16, 4096));
    let window = To(&world.at_receiver);
    let sent = world
        .sender
        .send(&world.at_sender, &window, [0; 4097].as_slice(), 0);
    assert_eq!(sent, Err(SendError::TooLong(4096)));
}

#[test]
fn false_credit_is_found() {
    for (honest, lie) in [(0, 3), (2, 1), (2, 0), (0, u64::MAX)] {
        let mut world = World::new(shape(16, 4096));
        world.send(1).expect("room");
        world.send(1).expect("room");
        world.at_sender.poke(0, honest);
        assert_eq!(world.sender.refresh(&world.at_sender), Ok(honest));
        world.at_sender.poke(0, lie);
        assert_eq!(
            world.sender.refresh(&world.at_sender),
            Err(Fault::Credit),
            "{honest}, {lie}"
        );
    }
}

#[test]
fn a_spoilt_cell_is_found() {
    let shape = shape(16, 4096);
    let receiver = |word: u64, offset: u64| {
        let area = Side::new(shape);
        area.poke(shape.cell_at(0), word);
        area.poke(shape.cell_at(0) + 16, offset);
        Receiver::new(shape).peek(&area, &To(&Side::new(shape)))
    };
    let bulk = |len| {
        Head {
            kind: Kind::Bulk,
            len,
        }
        .encode(0, shape)
    };
    assert!(matches!(receiver(bulk(4096), 0), Ok(Next::Message(_))));
    assert_eq!(receiver(bulk(4096), 64), Err(Fault::Offset));
    assert_eq!(receiver(bulk(1), 4096), Err(Fault::Offset));
    assert_eq!(receiver(bulk(1), 1), Err(Fault::Offset));
    assert_eq!(
        receiver(
            Head {
                kind: Kind::Inline,
                len: 1
            }
            .encode(1, shape),
            0
        ),
        Err(Fault::Sequence)
    );
}

#[test]
fn a_sender_wants_a_word_a_cell() {
    assert!(Sender::new(shape(16, 4096), vec![0; 15]).is_none());
}
