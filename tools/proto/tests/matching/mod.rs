// SPDX-License-Identifier: GPL-2.0 OR MIT

//! An engine beside its model: both are given the same steps, and have to say the same.
//!
//! A step is a word, so that proptest, a generator of numbers and a fuzzer can all make steps.

#![allow(dead_code)] // Not all of it is used by each of them.

pub mod model;
pub mod queues;

use model::{Model, Told};
use weft_proto::matching::{
    endpoint::{Config, Endpoint, State},
    engine::{hand_over::Given, Engine},
    entry::Entry,
    outcome::{CacheHint, Order, Outcome, Reason, Receipt, Reply},
    request::{Buffer, Command, Criteria, Header, List, Message, Op, Options, Work},
    storage::NONE,
};

pub const SEED: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

/// An engine over vectors.
pub type VecEngine = Engine<Vec<Entry>, Vec<u32>>;

pub fn engine(entries: usize, reserve: u32) -> VecEngine {
    Engine::new(
        vec![Entry::FREE; entries],
        vec![NONE; 2 * entries],
        SEED,
        reserve,
    )
}

/// Of an endpoint that matches, without limits.
pub const MATCHING: Config = Config {
    matching: true,
    space_check: false,
    hand_over: false,
    limit: u32::MAX,
};

/// A receive, as programs post them.
pub fn receive(source: Option<u32>, bits: u64, ignore: u64, context: u64) -> Buffer {
    Buffer {
        criteria: Criteria {
            source,
            bits,
            ignore,
        },
        address: 0x10_0000 + context * 0x1_0000,
        length: 4096,
        offset: 0,
        min_free: 0,
        context,
        options: Options {
            put: true,
            full: true,
            ..Options::default()
        },
    }
}

/// Memory for messages that are put behind each other.
pub fn slab(address: u64, length: u64, context: u64) -> Buffer {
    Buffer {
        criteria: Criteria::ANY,
        address,
        length,
        offset: 0,
        min_free: 64,
        context,
        options: Options {
            put: true,
            persistent: true,
            manage_local: true,
            ..Options::default()
        },
    }
}

/// An eager message.
pub fn eager(source: u32, bits: u64, bytes: u32) -> Message {
    Message {
        op: Op::Put,
        source,
        bits,
        length: u64::from(bytes),
        eager: bytes,
        offset: None,
        data: 0,
        cookie: 0,
        sequence: 0,
        payload: 0,
    }
}

pub fn appends(list: List, buffer: Buffer) -> Work {
    Work::Command(Command::Append(list, buffer))
}

/// The receipt of a message that has met a buffer.
pub fn received(outcome: Outcome) -> Receipt {
    match outcome {
        Outcome::Receive(receipt) => receipt,
        other => panic!("not received: {other:?}"),
    }
}

fn told_by(reply: &Reply) -> Told {
    Told {
        outcome: reply.outcome,
        more: reply.more,
        freed: reply.freed,
        hold: reply.order.hold,
        again: reply.order.again,
        resume: reply.resume,
    }
}

/// An engine of a few entries with three endpoints, and the model.
pub struct Pair {
    engine: VecEngine,
    endpoints: Vec<Endpoint>,
    model: Model,
    now: u64,
    /// What the cache of each endpoint would have.
    cached: Vec<bool>,
    /// Which kinds of replies there were, a bit each.
    pub answers: u64,
}

const ENDPOINTS: usize = 3;
const MASKS: [u64; 8] = [0, 0, 0, u64::MAX, 1, 2, 4, 6];

impl Pair {
    /// The first word says how large all is.
    pub fn new(word: u64) -> Self {
        let capacity = 6 + (word & 31) as usize;
        let reserve = ((word >> 5) & 3) as usize;
        let configs: Vec<Config> = (0..ENDPOINTS)
            .map(|n| {
                let bits = word >> (8 + 8 * n);
                Config {
                    matching: bits & 7 != 0,
                    space_check: (bits >> 3) & 1 != 0,
                    hand_over: (bits >> 4) & 1 != 0,
                    limit: match (bits >> 5) & 7 {
                        0 => 5,
                        1 => 9,
                        _ => 1000,
                    },
                }
            })
            .collect();
        let engine = Engine::new(
            vec![Entry::FREE; capacity],
            // Few, so that keys meet in a bucket.
            vec![NONE; 8],
            SEED,
            reserve as u32,
        );
        let mut new = Self {
            engine,
            endpoints: (0..)
                .zip(&configs)
                .map(|(n, config)| Endpoint::new(n, *config))
                .collect(),
            model: Model::new(capacity, reserve, &configs),
            now: 0,
            cached: vec![false; ENDPOINTS],
            answers: 0,
        };
        for n in 0..ENDPOINTS {
            if (word >> (32 + n)) & 1 == 0 {
                new.execute(n, Work::Command(Command::Enable));
            }
            if (word >> (36 + n)) & 1 == 0 {
                let mut request = slab(0x5000_0000, 1 << 20, 1000);
                request.criteria = Criteria::ANY;
                new.execute(n, appends(List::Request, request));
            }
        }
        new
    }

    fn execute(&mut self, n: usize, work: Work) {
        let mut reply = self
            .append_only(n, &work)
            .unwrap_or_else(|| self.engine.execute(&mut self.endpoints[n], &work, self.now));
        let mut told = self.model.execute(n, &work, self.now);
        loop {
            assert_eq!(told_by(&reply), told, "{work:?}");
            self.note(n, &reply);
            if !reply.more {
                break;
            }
            reply = self.engine.go_on(&mut self.endpoints[n]);
            told = self.model.go_on(n);
        }
        self.agree();
    }

    /// As buffers of the second endpoint are appended if nothing else comes of it: then nothing does.
    fn append_only(&mut self, n: usize, work: &Work) -> Option<Reply> {
        let (1, Work::Command(Command::Append(list, buffer))) = (n, work) else {
            return None;
        };
        let reply = self
            .engine
            .append_only(&mut self.endpoints[n], *list, buffer)?;
        let is_only = matches!(reply.outcome, Outcome::Appended | Outcome::Rejected(_));
        let ends = !reply.more && reply.freed.is_none() && reply.order == Order::DONE;
        assert!(is_only && ends, "{work:?}: {reply:?}");
        Some(reply)
    }

    fn note(&mut self, n: usize, reply: &Reply) {
        self.answers |= 1 << kind_of(&reply.outcome);
        self.answers |= u64::from(reply.more) << KINDS;
        self.answers |= u64::from(reply.freed.is_some()) << (KINDS + 1);
        self.answers |= 1 << (KINDS + 2 + reply.resume as u64);
        match reply.order.cache {
            CacheHint::Allocate(_) => {
                let config = &self.model.endpoints[n].config;
                assert!(!config.matching && !config.space_check);
                let receipt = received(reply.outcome);
                assert!(!receipt.full && !receipt.counting && !receipt.unlinked);
                self.cached[n] = true;
            }
            CacheHint::Deallocate => self.cached[n] = false,
            CacheHint::Keep => {}
        }
    }

    fn agree(&self) {
        assert_eq!(self.engine.free() as usize, self.model.free());
        for (endpoint, model) in self.endpoints.iter().zip(&self.model.endpoints) {
            assert_eq!(endpoint.state(), model.state);
            let lists = [
                List::Priority,
                List::Overflow,
                List::Unexpected,
                List::Request,
                List::Claimed,
            ];
            for list in lists {
                assert_eq!(endpoint.count(list) as usize, model.count(list), "{list:?}");
            }
        }
        for (cached, model) in self.cached.iter().zip(&self.model.endpoints) {
            assert!(!cached || model.count(List::Priority) > 0);
        }
    }

    fn give(&mut self, n: usize, most: u64) {
        for _ in 0..most {
            let given = self.engine.give(&mut self.endpoints[n]);
            if self.model.endpoints[n].state != State::Onload {
                assert_eq!(given, None);
                return;
            }
            match (given, self.model.give(n)) {
                (Some(Given::End(order, resume)), None) => {
                    assert_eq!(order.hold, Some(false));
                    assert_eq!(resume, self.model.resume(n, false));
                }
                (given, expected) => assert_eq!(given, expected),
            }
            self.agree();
        }
    }

    fn close(&mut self, n: usize) {
        loop {
            let given = self.engine.clear(&mut self.endpoints[n]);
            assert_eq!(given, self.model.clear(n));
            if given.is_none() {
                break;
            }
        }
        self.cached[n] = false;
        assert_eq!(self.engine.relieve(), self.model.relieve());
        self.agree();
        assert_eq!(self.model.endpoints[n].entries(), 0);
    }

    /// Does the step of a word.
    pub fn step(&mut self, word: u64) {
        let n = (word >> 4) as usize % ENDPOINTS;
        let bits = word >> 8;
        let number = |at: u32, most: u64| (bits >> at) & most;
        let ignore = MASKS[number(5, 7) as usize];
        let criteria = Criteria {
            source: (number(8, 3) != 0).then_some(number(0, 3) as u32),
            bits: number(2, 7),
            ignore,
        };
        let context = number(16, 7);
        let command = |command| Work::Command(command);
        let work = match word & 15 {
            0..=3 => appends(
                List::Priority,
                Buffer {
                    criteria,
                    address: 0x1000 * (1 + number(10, 63)),
                    length: number(10, 63),
                    offset: number(40, 7) & number(10, 7),
                    min_free: number(25, 15) as u32,
                    context,
                    options: Options {
                        persistent: number(19, 3) == 0,
                        manage_local: number(21, 1) != 0,
                        put: number(43, 7) != 0,
                        get: number(46, 1) != 0,
                        full: number(22, 1) != 0,
                        counting: number(23, 3) == 0,
                    },
                },
            ),
            4 => {
                let mut buffer = slab(0x1_0000 * (1 + context), 40 + number(10, 63), context);
                buffer.min_free = number(25, 63) as u32;
                buffer.options.persistent = number(19, 3) != 0;
                buffer.options.manage_local = number(21, 7) != 0;
                if number(46, 3) == 0 {
                    buffer.criteria = criteria;
                }
                let list = match number(50, 3) {
                    0 => List::Request,
                    _ => List::Overflow,
                };
                appends(list, buffer)
            }
            5..=8 => Work::Message(Message {
                op: match number(37, 15) {
                    0 => Op::Get,
                    1 => Op::Atomic,
                    2 => Op::Fetch,
                    _ => Op::Put,
                },
                source: number(0, 3) as u32,
                bits: number(2, 7),
                length: number(10, 63),
                eager: number(29, 63) as u32,
                offset: (number(34, 7) == 0).then(|| number(35, 3)),
                data: number(16, 0xffff),
                cookie: number(3, 0xffff),
                sequence: 0,
                payload: 0,
            }),
            9 if number(30, 1) == 0 => command(Command::Search(criteria)),
            9 => command(Command::SearchAndDelete {
                criteria,
                context,
                discard: number(31, 3) == 0,
            }),
            10 => command(Command::Receive {
                context,
                address: 0x9000,
                length: number(10, 63),
            }),
            11 => command(Command::Unlink { context }),
            12 => return self.give(n, number(0, 15)),
            13 => {
                self.now += number(0, 63) * 4_000_000;
                command(Command::Report {
                    entries: number(6, 7) as u32,
                })
            }
            14 if number(31, 1) == 0 => command(Command::AppendHeader(Header {
                source: number(0, 3) as u32,
                bits: number(2, 7),
                length: number(10, 63),
                eager: (number(10, 63) / 2) as u32,
                data: 5,
                cookie: 6,
                address: 0x8000,
                context,
            })),
            14 => command(Command::Enable),
            _ => match number(52, 15) {
                0 => command(Command::Disable),
                1..=3 => command(Command::HandOver),
                4 => return self.close(n),
                5 => {
                    let more = number(0, 7) as usize;
                    let entries = self.engine.entries_mut();
                    entries.extend(vec![Entry::FREE; more]);
                    self.model.capacity += more;
                    return self.agree();
                }
                // What makes no sense.
                6 => appends(List::Claimed, receive(None, 0, 0, context)),
                7 => {
                    let mut buffer = receive(None, 0, 0, context);
                    buffer.address = u64::MAX - 5;
                    appends(List::Priority, buffer)
                }
                _ => command(Command::Enable),
            },
        };
        self.execute(n, work);
    }

    /// Ends: all endpoints are closed, and all entries are free.
    pub fn end(&mut self) {
        for n in 0..ENDPOINTS {
            self.close(n);
        }
        assert_eq!(self.engine.free() as usize, self.model.capacity);
    }
}

const KINDS: u64 = 18;
/// All of what can come of steps.
pub const ALL_ANSWERS: u64 = (1 << (KINDS + 5)) - 1;

/// A number for each kind of outcome.
fn kind_of(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Receive(_) => 0,
        Outcome::Unexpected(_) => 1,
        Outcome::Software(_) => 2,
        Outcome::Appended => 3,
        Outcome::Unlinked(_) => 4,
        Outcome::Found(_) => 5,
        Outcome::Claimed(_) => 6,
        Outcome::Discarded(_) => 7,
        Outcome::NotFound => 8,
        Outcome::State(_) => 9,
        Outcome::Noted => 10,
        Outcome::HandOver => 11,
        Outcome::Held => 12,
        Outcome::Return => 13,
        Outcome::Drop(_) => 14,
        Outcome::NoSpace => 15,
        Outcome::Rejected(Reason::NoEntry) => 16,
        Outcome::Rejected(_) => 17,
    }
}

/// Plays the steps of some words. Returns which kinds of replies there were, as a number.
pub fn play(words: impl IntoIterator<Item = u64>) -> u64 {
    let mut words = words.into_iter();
    let mut pair = Pair::new(words.next().unwrap_or(0));
    for word in words {
        pair.step(word);
    }
    pair.end();
    pair.answers
}

/// Numbers that look random: xorshift.
pub struct Numbers(pub u64);

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Some(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }
}
