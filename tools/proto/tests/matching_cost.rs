// SPDX-License-Identifier: GPL-2.0 OR MIT

//! L-1 and L-2: a match costs the same with one entry in the list as with all, counted in accesses to entries.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

mod matching;

use matching::{appends, eager, receive, received, slab, MATCHING, SEED};
use std::cell::Cell;
use std::rc::Rc;
use weft_proto::matching::{
    endpoint::Endpoint,
    engine::Engine,
    entry::Entry,
    outcome::Outcome,
    request::{Command, List, Work},
    storage::{Storage, NONE},
};

/// Entries, in chunks that are added one by one; counts accesses.
struct Counted {
    chunks: Vec<Vec<Entry>>,
    visits: Rc<Cell<u64>>,
}

const CHUNK: u32 = 1024;

impl Storage<Entry> for Counted {
    fn count(&self) -> u32 {
        self.chunks.len() as u32 * CHUNK
    }

    fn at(&self, index: u32) -> Option<&Entry> {
        self.visits.set(self.visits.get() + 1);
        self.chunks
            .get((index / CHUNK) as usize)?
            .get((index % CHUNK) as usize)
    }

    fn at_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.visits.set(self.visits.get() + 1);
        self.chunks
            .get_mut((index / CHUNK) as usize)?
            .get_mut((index % CHUNK) as usize)
    }
}

struct World {
    engine: Engine<Counted, Vec<u32>>,
    endpoint: Endpoint,
    visits: Rc<Cell<u64>>,
}

/// Room for one more than the deepest list, and for the overflow buffers.
const ENTRIES: usize = 65_536 + 1024;

impl World {
    fn new() -> Self {
        let visits = Rc::new(Cell::new(0));
        let entries = Counted {
            chunks: vec![],
            visits: visits.clone(),
        };
        let mut new = Self {
            engine: Engine::new(entries, vec![NONE; 2 * ENTRIES], SEED, 0),
            endpoint: Endpoint::new(7, MATCHING),
            visits,
        };
        new.execute(Work::Command(Command::Enable));
        new
    }

    /// Executes a request, and returns what came of it and how many accesses it took.
    fn execute(&mut self, work: Work) -> (Outcome, u64) {
        if self.engine.free() == 0 {
            let more = vec![Entry::FREE; CHUNK as usize];
            self.engine.entries_mut().chunks.push(more);
        }
        let before = self.visits.get();
        let reply = self.engine.execute(&mut self.endpoint, &work, 0);
        assert!(!reply.more);
        (reply.outcome, self.visits.get() - before)
    }
}

const DEPTHS: [u64; 4] = [1, 64, 1024, 65_535];

/// The most accesses of a match: of a thousand at each depth, the mean and the largest number.
fn flat(name: &str, mut measure: impl FnMut(u64) -> Vec<u64>) {
    let mut means = vec![];
    for depth in DEPTHS {
        let counts = measure(depth);
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let most = counts.iter().max().expect("some");
        println!("{name}: depth {depth}: {mean:.1} accesses a match, {most} at the most");
        means.push(mean);
        // A bucket has two keys on the average.
        assert!(*most <= 200, "{name}, depth {depth}: {most}");
    }
    let (least, most) = (means[0].max(1.0), means.iter().copied().fold(0.0, f64::max));
    assert!(most <= 1.5 * least, "{name}: {means:?}");
}

/// Each round receives with what is deep in the list, and appends it again.
fn posted(depth: u64, criteria: impl Fn(u64) -> (Option<u32>, u64, u64)) -> Vec<u64> {
    let mut world = World::new();
    let post = |world: &mut World, n: u64| {
        let (source, bits, ignore) = criteria(n);
        let (outcome, _) = world.execute(appends(List::Priority, receive(source, bits, ignore, n)));
        assert_eq!(outcome, Outcome::Appended);
    };
    for n in 0..depth {
        post(&mut world, n);
    }
    let rounds = 500;
    let mut counts = vec![];
    for n in 0..rounds {
        // The newest, so that all others are in front of it.
        let wanted = depth - 1 + n;
        let (_, bits, _) = criteria(wanted);
        let (outcome, count) = world.execute(Work::Message(eager(3, bits, 64)));
        let receipt = received(outcome);
        counts.push(count);
        post(&mut world, depth + n);
        // Behind it there is none with the same key that is older.
        assert!(receipt.unlinked);
    }
    counts
}

#[test]
fn l_2_a_match_is_flat_exact() {
    flat("posted, exact", |depth| posted(depth, |n| (Some(3), n, 0)));
}

#[test]
fn l_2_a_match_is_flat_with_any_source_and_ignored_bits() {
    flat("posted, any source", |depth| {
        posted(depth, |n| (None, n, 0))
    });
    flat("posted, ignored bits", |depth| {
        posted(depth, |n| (Some(3), n, 0xff << 56))
    });
    flat("posted, one key", |depth| {
        posted(depth, |_| (Some(3), 5, 0))
    });
    flat("posted, any message", |depth| {
        posted(depth, |_| (None, 0, u64::MAX))
    });
    flat("posted, four classes", |depth| {
        posted(depth, |n| match n % 4 {
            0 => (Some(3), n, 0),
            1 => (None, n, 0),
            2 => (Some(3), n, 0xff << 56),
            _ => (None, n, 0xff << 56),
        })
    });
}

/// The same of messages that wait, and receives that look for the newest or the oldest of them.
fn unexpected(depth: u64, criteria: impl Fn(u64) -> (Option<u32>, u64, u64)) -> Vec<u64> {
    let mut world = World::new();
    // All classes are in use.
    let classes = [
        (Some(3), 0),
        (None, 0),
        (None, u64::MAX),
        (Some(3), u64::MAX),
    ];
    for (source, ignore) in classes {
        let receive = receive(source, u64::MAX, ignore, 1);
        world.execute(appends(List::Priority, receive));
        world.execute(Work::Command(Command::Unlink { context: 1 }));
    }
    world.execute(appends(List::Overflow, slab(0x1000_0000, 1 << 40, 2)));
    let send = |world: &mut World, n: u64| {
        let (outcome, _) = world.execute(Work::Message(eager(3, n, 16)));
        assert!(matches!(outcome, Outcome::Unexpected(_)), "{outcome:?}");
    };
    for n in 0..depth {
        send(&mut world, n);
    }
    let mut counts = vec![];
    for n in 0..500 {
        let (source, bits, ignore) = criteria(depth - 1 + n);
        let receive = receive(source, bits, ignore, 1);
        let (outcome, count) = world.execute(appends(List::Priority, receive));
        received(outcome);
        counts.push(count);
        send(&mut world, depth + n);
    }
    counts
}

#[test]
fn l_2_a_receive_of_an_unexpected_message_is_flat() {
    flat("unexpected, exact", |depth| {
        unexpected(depth, |n| (Some(3), n, 0))
    });
    flat("unexpected, any source", |depth| {
        unexpected(depth, |n| (None, n, 0))
    });
    flat("unexpected, any message", |depth| {
        unexpected(depth, |_| (None, 0, u64::MAX))
    });
    flat("unexpected, any of a source", |depth| {
        unexpected(depth, |_| (Some(3), 0, u64::MAX))
    });
}

/// A probe of what is not there, and a cancelled receive, do not depend on the depth either.
#[test]
fn l_2_a_search_and_an_unlink_are_flat() {
    flat("search of what is not there", |depth| {
        let mut world = World::new();
        world.execute(appends(List::Overflow, slab(0x1000_0000, 1 << 40, 2)));
        for n in 0..depth {
            world.execute(Work::Message(eager(3, n, 16)));
        }
        (0..100)
            .map(|n| {
                let criteria = receive(None, (1 << 40) | n, 0, 1).criteria;
                let (outcome, count) = world.execute(Work::Command(Command::Search(criteria)));
                assert_eq!(outcome, Outcome::NotFound);
                count
            })
            // The first makes a class of what it looks for.
            .skip(1)
            .collect()
    });
    flat("unlink, one context", |depth| {
        let mut world = World::new();
        let post = |world: &mut World, n| {
            world.execute(appends(List::Priority, receive(Some(3), n, 0, 9)))
        };
        for n in 0..depth {
            post(&mut world, n);
        }
        (0..100)
            .map(|n| {
                post(&mut world, depth + n);
                let (outcome, count) = world.execute(Work::Command(Command::Unlink { context: 9 }));
                assert_eq!(outcome, Outcome::Unlinked(9));
                count
            })
            .collect()
    });
}
