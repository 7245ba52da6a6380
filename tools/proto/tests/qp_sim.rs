// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queue pairs between two ends, under every order in which engines, DMA and users may do things.
//! Whatever it is, each work request is carried out once and in order, ends once and in order, and
//! leaves nothing behind.

#![allow(clippy::expect_used, clippy::panic)]

mod trunk;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use trunk::ends::{size_of_read, End, Op, Wr, WINDOW};
use trunk::Memory;
use weft_proto::cqe::Status;
use weft_proto::protocol::Protocol;
use weft_proto::trunk::Layout;

#[derive(Clone, Copy, Debug)]
enum Do {
    Post(Wr),
    Recv(usize),
    Step(usize),
}

/// At which end, for which pair, what.
type Step = (usize, usize, Do);

fn work() -> impl Strategy<Value = Wr> {
    let len = prop_oneof![0usize..=64, 65usize..=1024, 1025usize..=70_000];
    let op = prop::sample::select(vec![
        Op::Send,
        Op::Send,
        Op::Write { imm: false },
        Op::Write { imm: true },
        Op::Read,
        Op::ReadAll,
        Op::Add,
    ]);
    (op, len, prop::bool::weighted(0.01)).prop_map(|(op, len, bad)| Wr { op, len, bad })
}

fn step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        2 => work().prop_map(Do::Post),
        1 => (1usize..4).prop_map(Do::Recv),
        20 => (0..End::STEPS).prop_map(Do::Step),
    ];
    (0usize..2, 0usize..3, what)
}

struct World {
    ends: [End; 2],
    memories: [Memory; 2],
}

impl World {
    fn new(layouts: [Layout; 2], protocols: &[Protocol]) -> Self {
        let [a, b] = layouts;
        World {
            ends: [End::new(a, b, protocols), End::new(b, a, protocols)],
            memories: [Memory::new(a), Memory::new(b)],
        }
    }

    fn step(&mut self, end: usize, pair: usize, n: usize) -> bool {
        self.ends[end].step(n, pair, &self.memories[end], &self.memories[1 - end])
    }

    fn run(&mut self, (end, pair, what): Step) {
        match what {
            Do::Post(mut wr) => {
                let pair = &mut self.ends[end].pairs[pair];
                if pair.failed {
                    return;
                }
                if wr.op == Op::ReadAll {
                    wr.len = size_of_read(pair.wrs.len() as u32);
                }
                pair.wrs.push(wr);
            }
            Do::Recv(more) => self.ends[end].pairs[pair].recvs += more,
            Do::Step(n) => {
                self.step(end, pair, n);
            }
        }
    }

    /// Goes on until nothing is left to do. Receive requests come one by one.
    fn settle(&mut self) {
        let pairs = self.ends[0].pairs.len();
        loop {
            let mut busy = false;
            for end in 0..2 {
                for pair in 0..pairs {
                    for n in 0..End::STEPS {
                        busy |= self.step(end, pair, n);
                    }
                }
            }
            if busy {
                continue;
            }
            let open = |end: usize, pair: usize| {
                let pair = &self.ends[end].pairs[pair];
                pair.ended.len() < pair.wrs.len()
            };
            let mut waiting = vec![];
            for end in 0..2 {
                for pair in 0..pairs {
                    if open(end, pair) && self.ends[1 - end].pairs[pair].recvs == 0 {
                        waiting.push((1 - end, pair));
                    }
                }
            }
            if waiting.is_empty() {
                return;
            }
            for (end, pair) in waiting {
                self.ends[end].pairs[pair].recvs = 1;
            }
        }
    }

    fn check(&self) {
        for end in 0..2 {
            for (n, pair) in self.ends[end].pairs.iter().enumerate() {
                let peer = &self.ends[1 - end].pairs[n];
                let bad = pair.wrs.iter().position(|wr| wr.bad);
                let good = bad.unwrap_or(pair.wrs.len());
                let numbers: Vec<u32> = (0..good as u32).collect();
                assert_eq!(peer.executed, numbers, "carried out");
                let expected: Vec<_> = (0..pair.wrs.len())
                    .map(|wr| {
                        let status = match wr.cmp(&good) {
                            std::cmp::Ordering::Less => Status::Success,
                            std::cmp::Ordering::Equal => Status::RemoteAccess,
                            std::cmp::Ordering::Greater => Status::Flushed,
                        };
                        (wr, status)
                    })
                    .collect();
                assert_eq!(pair.ended, expected, "ended");
            }
            let staging = &self.ends[end].staging;
            assert_eq!(
                staging.free_pages(),
                staging.pages(),
                "staging pages are left"
            );
        }
    }
}

fn protocols(bits: usize) -> Protocol {
    Protocol::of(bits as u32).expect("three bits")
}

fn play(layouts: [Layout; 2], bits: [usize; 3], steps: Vec<Step>) {
    let mut world = World::new(layouts, &bits.map(protocols));
    for step in steps {
        world.run(step);
    }
    world.settle();
    world.check();
}

fn layouts() -> impl Strategy<Value = [Layout; 2]> {
    let one = || (17u32..20).prop_map(|n| Layout::of_arena(1 << n).expect("large enough"));
    [one(), one()]
}

fn explore(cases: u32, steps: usize, bits: impl Strategy<Value = [usize; 3]>) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let what = (layouts(), bits, prop::collection::vec(step(), 1..steps));
    let done = TestRunner::new(config).run(&what, |(layouts, bits, steps)| {
        play(layouts, bits, steps);
        Ok(())
    });
    if let Err(error) = done {
        panic!("{error}");
    }
}

#[test]
fn q_2_each_work_request_is_carried_out_once_in_order_and_ends_once() {
    explore(40, 1000, Just([0, 0, 0]));
}

#[test]
fn q_3_so_it_is_in_all_eight_protocols_side_by_side() {
    explore(40, 1000, [0usize..8, 0usize..8, 0usize..8]);
}

/// More requests under way than there may be, of one kind after the other, without receive requests:
/// the initiator goes back again and again.
#[test]
fn q_2_an_initiator_goes_back_as_often_as_it_must() {
    for bits in 0..8 {
        let layout = Layout::of_arena(128 << 10).expect("large enough");
        let mut world = World::new([layout; 2], &[protocols(bits)]);
        for n in 0..4 * WINDOW {
            let op = [Op::Send, Op::Write { imm: true }, Op::Read, Op::Add][n % 4];
            let len = [8, 600, 3000, 8, 20_000][n % 5];
            let bad = false;
            world.run((0, 0, Do::Post(Wr { op, len, bad })));
        }
        world.settle();
        world.check();
    }
}

/// As the tests above, for as many seconds as `WEFT_FUZZ_SECONDS` says.
#[test]
#[ignore = "runs for WEFT_FUZZ_SECONDS"]
fn fuzz() {
    let seconds = std::env::var("WEFT_FUZZ_SECONDS")
        .ok()
        .and_then(|n| n.parse().ok());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds.unwrap_or(600));
    while std::time::Instant::now() < end {
        explore(50, 4000, [0usize..8, 0usize..8, 0usize..8]);
    }
}
