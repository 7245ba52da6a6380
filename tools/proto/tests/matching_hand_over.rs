// SPDX-License-Identifier: GPL-2.0 OR MIT

//! L-6: 100,000 receives and as many messages go through a pool of 256 entries, from the driver's lists to those
//! of the program and back, again and again; none is lost, and none is received out of order.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

mod matching;

use matching::{eager, engine, receive, slab, Numbers, VecEngine, MATCHING};
use std::collections::VecDeque;
use weft_proto::matching::{
    cache::Line,
    dispatch::{Dispatch, SubmitError},
    endpoint::{Config, Endpoint, State},
    endpoint_queues::EndpointQueues,
    engine::hand_over::{Given, SHORT_NS},
    outcome::{Outcome, Receipt},
    queue::Slot,
    request::{Buffer, Command, Header, List, Message, Request, Work},
};

const ENTRIES: usize = 256;
const RESERVE: u32 = 32;
const COUNT: u64 = 100_000;
/// Sources, and tags of each: a message is known by both and its number among those of both.
const SOURCES: u64 = 3;
const TAGS: u64 = 5;

/// A program with its lists, as the provider will have them, over the driver's part.
struct World {
    queues: Dispatch<Vec<EndpointQueues>, Vec<Slot>, Vec<Line>, ()>,
    engine: VecEngine,
    endpoint: Endpoint,
    now: u64,
    /// The program's lists while it matches by itself: receives, and messages.
    receives: VecDeque<Buffer>,
    headers: VecDeque<Header>,
    /// It is giving them back.
    returning: bool,
    /// Messages that had no room: their source waits.
    refused: VecDeque<Message>,
    /// How often each was received, and the last number of each flow.
    received: u64,
    last: Vec<u64>,
    to_software: u64,
    to_engine: u64,
    slabs: u64,
}

impl World {
    fn new() -> Self {
        let config = Config {
            hand_over: true,
            ..MATCHING
        };
        let mut new = Self {
            queues: Dispatch::new(
                vec![EndpointQueues::CLOSED; 1],
                vec![Slot::FREE; 64],
                vec![Line::EMPTY; 1],
                [1; 4],
                32,
                (),
            ),
            engine: engine(ENTRIES, RESERVE),
            endpoint: Endpoint::new(0, config),
            now: 0,
            receives: VecDeque::new(),
            headers: VecDeque::new(),
            returning: false,
            refused: VecDeque::new(),
            received: 0,
            last: vec![0; (SOURCES * TAGS) as usize],
            to_software: 0,
            to_engine: 0,
            slabs: 0,
        };
        assert!(new.queues.open(0, 0));
        new.command(Command::Enable);
        new.command(Command::Append(
            List::Request,
            slab(1 << 50, 1 << 40, 1 << 40),
        ));
        for _ in 0..4 {
            new.slab();
        }
        new
    }

    /// Overflow memory, of which there is always some.
    fn slab(&mut self) {
        self.slabs += 1;
        let slab = slab(self.slabs << 32, 4096, (1 << 41) | self.slabs);
        self.command(Command::Append(List::Overflow, slab));
    }

    fn submit(&mut self, work: Work) -> Result<(), SubmitError> {
        self.queues.submit(Request {
            endpoint: 0,
            class: 0,
            work,
        })
    }

    /// Executes a command, and all messages that have their turn.
    fn command(&mut self, command: Command) -> Option<Outcome> {
        assert_eq!(self.submit(Work::Command(command)), Ok(()));
        let mut told = None;
        while let Some(outcome) = self.run() {
            if let Some(outcome) = outcome {
                told = Some(outcome);
                break;
            }
        }
        told
    }

    /// Executes a request; of a command returns what came of it.
    fn run(&mut self) -> Option<Option<Outcome>> {
        let job = self.queues.next(1)?;
        let request = job.request;
        let reply = self
            .engine
            .execute(&mut self.endpoint, &request.work, self.now);
        assert!(!reply.more);
        self.queues.done(job, reply.order);
        match (reply.outcome, request.work) {
            (Outcome::Receive(receipt), _) => self.receipt(&receipt),
            (Outcome::Software(receipt), _) => self.arrived(receipt.header),
            (Outcome::NoSpace, Work::Message(message)) => panic!("there is memory: {message:?}"),
            (Outcome::HandOver, _) => {
                self.returning = false;
                self.to_software += 1;
            }
            (Outcome::Return, _) => self.returning = true,
            _ => {}
        }
        Some(match request.work {
            Work::Command(_) => Some(reply.outcome),
            Work::Message(_) => None,
        })
    }

    fn receipt(&mut self, receipt: &Receipt) {
        self.count(&receipt.header);
        assert_eq!(receipt.length, 8);
    }

    fn count(&mut self, header: &Header) {
        let flow = (u64::from(header.source) * TAGS + header.bits) as usize;
        assert_eq!(header.data, self.last[flow] + 1, "in the order of its flow");
        self.last[flow] += 1;
        self.received += 1;
    }

    /// The program matches a message by itself.
    fn arrived(&mut self, header: Header) {
        let found = (self.receives.iter())
            .position(|buffer| buffer.criteria.accept(header.source, header.bits));
        match found {
            Some(at) => {
                self.receives.remove(at);
                self.count(&header);
            }
            None => self.headers.push_back(header),
        }
    }

    /// The program posts a receive: to the driver, or to its own lists.
    fn post(&mut self, buffer: Buffer) {
        if self.endpoint.state() == State::Enabled {
            let outcome = self
                .command(Command::Append(List::Priority, buffer))
                .expect("one");
            match outcome {
                Outcome::Appended | Outcome::Receive(_) => return,
                Outcome::HandOver => {}
                Outcome::Rejected(_) => {}
                other => panic!("{other:?}"),
            }
        }
        // Behind all that is handed over.
        self.take_over();
        let found = (self.headers.iter())
            .position(|header| buffer.criteria.accept(header.source, header.bits));
        match found {
            Some(at) => {
                let header = self.headers.remove(at).expect("found");
                self.count(&header);
            }
            None => self.receives.push_back(buffer),
        }
    }

    /// What the driver gives goes in front of what the program has: it is older.
    fn take_over(&mut self) {
        let (mut receives, mut headers) = (VecDeque::new(), VecDeque::new());
        while let Some(given) = self.engine.give(&mut self.endpoint) {
            match given {
                Given::Buffer(List::Priority, buffer) => receives.push_back(buffer),
                Given::Buffer(..) => {}
                Given::Header(header, claim) => {
                    assert_eq!(claim, None);
                    headers.push_back(header);
                }
                Given::End(order, _) => {
                    self.queues.apply(0, order);
                    receives.append(&mut self.receives);
                    headers.append(&mut self.headers);
                    (self.receives, self.headers) = (receives, headers);
                    return;
                }
            }
        }
    }

    /// The program says how long its lists are; gives them back when it is asked to.
    fn report(&mut self) {
        let entries = (self.receives.len() + self.headers.len()) as u32;
        self.command(Command::Report { entries });
        if !self.returning {
            return;
        }
        while let Some(buffer) = self.receives.pop_front() {
            if self.command(Command::Append(List::Priority, buffer)) != Some(Outcome::Appended) {
                // In front of what has not gone back yet.
                self.receives.push_front(buffer);
                return self.take_over();
            }
        }
        self.slab();
        while let Some(header) = self.headers.pop_front() {
            if self.command(Command::AppendHeader(header)) != Some(Outcome::Appended) {
                self.headers.push_front(header);
                return self.take_over();
            }
        }
        self.command(Command::Enable);
        assert_eq!(self.endpoint.state(), State::Enabled);
        self.returning = false;
        self.to_engine += 1;
    }

    fn send(&mut self, message: Message) {
        self.refused.push_back(message);
        while let Some(message) = self.refused.front().copied() {
            if self.submit(Work::Message(message)).is_err() {
                break;
            }
            self.refused.pop_front();
        }
    }

    fn settle(&mut self) {
        for _ in 0..200 {
            while self.run().is_some() {}
            if self.endpoint.state() == State::Onload {
                self.take_over();
            }
            if let Some(message) = self.refused.pop_front() {
                self.refused.push_front(message);
                let first = self.refused.pop_front().expect("one");
                if self.submit(Work::Message(first)).is_err() {
                    self.refused.push_front(first);
                }
            }
        }
    }
}

#[test]
fn l_6_100_000_receives_and_messages_pass_a_pool_of_256_entries() {
    let mut world = World::new();
    let mut numbers = Numbers(7);
    let mut next = || numbers.next().expect("endless");
    let flows = SOURCES * TAGS;
    let (mut messages, mut receives) = (0u64, 0u64);
    // Messages and receives run ahead of each other by turns, beyond what there are entries for.
    let mut messages_ahead = true;
    while messages < COUNT || receives < COUNT {
        if messages > receives + 400 {
            messages_ahead = false;
        } else if receives > messages + 400 {
            messages_ahead = true;
        }
        let sends = (next() % 4 == 0) != messages_ahead;
        if (sends || receives == COUNT) && messages < COUNT {
            // In an order in which neighbours differ, the same for both.
            let flow = messages * 7 % flows;
            world.send(Message {
                data: messages / flows + 1,
                ..eager((flow / TAGS) as u32, flow % TAGS, 8)
            });
            messages += 1;
        } else if receives < COUNT {
            let flow = receives * 7 % flows;
            receives += 1;
            world.post(receive(
                Some((flow / TAGS) as u32),
                flow % TAGS,
                0,
                receives,
            ));
        }
        if next() % 4 == 0 {
            while world.run().is_some() {}
        }
        if world.endpoint.state() == State::Onload && next() % 8 == 0 {
            world.take_over();
        }
        world.now += SHORT_NS / 64;
        if world.endpoint.state() == State::Software && next() % 16 == 0 {
            world.report();
        }
        if world.endpoint.count(List::Overflow) < 3 && world.endpoint.state() == State::Enabled {
            world.slab();
        }
    }
    world.settle();
    println!(
        "{} received; {} hand-overs to the program, {} back",
        world.received, world.to_software, world.to_engine
    );
    assert_eq!(world.received, COUNT, "none is lost");
    assert!(world.to_software >= 10 && world.to_engine >= 10);
    assert!(world.receives.is_empty() && world.headers.is_empty());
}
