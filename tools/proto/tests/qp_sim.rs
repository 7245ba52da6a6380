// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queue pairs between two ends, under every order in which engines, DMA and users may do things.
//! Whatever it is, each work request is carried out once and in order, ends once and in order, and
//! leaves nothing behind. The machines are those of the module.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod qp;
mod trunk;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use qp::end::End;
use qp::user::{size_of_read, Op, Wr};
use trunk::Memory;
use weft_proto::cqe::Status;
use weft_proto::protocol::Protocol;
use weft_proto::qp::Flow;
use weft_proto::trunk::Layout;

#[derive(Clone, Copy, Debug)]
enum Do {
    Post(Wr),
    Recv(usize),
    Step(usize),
    /// The next loads over the bridge bring nothing.
    LoseLoads(u32),
    /// No request is begun, or they are again.
    Flow(Flow),
    /// The user has the queue pair go to ERR.
    Fail,
    /// The user resets the queue pair and connects it again.
    Reset,
}

/// More requests than may be under way.
const MANY: usize = 256;

/// At which end, for which queue pair, what.
type Step = (usize, usize, Do);

fn work() -> impl Strategy<Value = Wr> {
    let len = prop_oneof![
        8 => 0usize..=64,
        8 => 65usize..=1024,
        6 => 1025usize..=70_000,
        // More than a read asks for at once, and more segments than may be under way.
        1 => 250_000usize..=300_000,
    ];
    let op = prop::sample::select(vec![
        Op::Send,
        Op::Send,
        Op::Write { imm: false },
        Op::Write { imm: true },
        Op::Read,
        Op::ReadAll,
        Op::Add,
        Op::Invalidate,
    ]);
    (op, len, prop::bool::weighted(0.01)).prop_map(|(op, len, bad)| Wr { op, len, bad })
}

fn step(ends: u32) -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        20 => work().prop_map(Do::Post),
        10 => (1usize..4).prop_map(Do::Recv),
        200 => (0..End::STEPS).prop_map(Do::Step),
        2 => (1u32..4).prop_map(Do::LoseLoads),
        2 => prop::sample::select(vec![Flow::Open, Flow::Open, Flow::Paused, Flow::Quiesced]).prop_map(Do::Flow),
        ends => prop::sample::select(vec![Do::Fail, Do::Reset]),
    ];
    (0usize..2, 0usize..3, what)
}

struct World {
    ends: [End; 2],
    memories: [Memory; 2],
    /// A queue pair has ended though no request was at fault.
    ended: bool,
}

impl World {
    fn new(layouts: [Layout; 2], protocols: &[Protocol], has_dma: bool) -> Self {
        let [a, b] = layouts;
        let end = |own, peer| End::new(own, peer, protocols, has_dma);
        World {
            ends: [end(a, b), end(b, a)],
            memories: [Memory::new(a), Memory::new(b)],
            ended: false,
        }
    }

    fn step(&mut self, end: usize, pair: usize, n: usize) -> bool {
        self.ends[end].step(n, pair, &self.memories[end], &self.memories[1 - end])
    }

    fn run(&mut self, (end, pair, what): Step) {
        match what {
            Do::Post(mut wr) => {
                let user = &mut self.ends[end].qps[pair].user;
                if wr.op == Op::ReadAll {
                    wr.len = size_of_read(user.next());
                }
                // Nothing is refused of a request that touches no memory.
                wr.bad &= wr.len > 0 || !matches!(wr.op, Op::Send | Op::Read);
                user.post(wr);
            }
            Do::Recv(more) => self.ends[end].qps[pair].user.post_recvs(more),
            Do::Step(n) => {
                self.step(end, pair, n);
            }
            Do::LoseLoads(count) => self.ends[end].link.lost_loads.set(count),
            Do::Flow(flow) => self.ends[end].set_flow(flow),
            Do::Fail => {
                self.ended = true;
                self.ends[end].fail(pair);
            }
            Do::Reset => {
                self.ended = true;
                let peer = &self.memories[1 - end];
                self.ends[end].reset(pair, peer);
                self.ends[end].connect(pair);
            }
        }
    }

    /// Goes on until nothing is left to do. Receive requests come one by one.
    fn finish(&mut self) {
        let pairs = self.ends[0].qps.len();
        for end in &mut self.ends {
            end.set_flow(Flow::Open);
            end.link.lost_loads.set(0);
        }
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
            let mut waiting = vec![];
            for end in 0..2 {
                for pair in 0..pairs {
                    let is_done = self.ends[end].qps[pair].user.is_done();
                    let peer = &self.ends[1 - end].qps[pair];
                    let takes = peer.machine.hears() && peer.user.free_recvs() == 0;
                    if !is_done && takes {
                        waiting.push((1 - end, pair));
                    }
                }
            }
            if waiting.is_empty() {
                return;
            }
            for (end, pair) in waiting {
                self.ends[end].qps[pair].user.post_recvs(1);
            }
        }
    }

    /// That each work request has ended, in order, and what it was to do was done.
    fn check(&mut self) {
        for end in 0..2 {
            assert!(
                self.ends[end].is_honest(),
                "the peer was taken for one that breaks the protocol"
            );
            assert!(self.ends[end].is_idle(), "something is still on its way");
            for (n, qp) in self.ends[end].qps.iter().enumerate() {
                let peer = &self.ends[1 - end].qps[n];
                let bad = |user: &qp::user::User| user.wrs.iter().any(|wr| wr.bad);
                assert!(
                    qp.user.is_done(),
                    "each has its completion: {end} {n}: {} of {}, next {:?}, {:?} {:?}, peer {:?} {:?}",
                    qp.user.sent.len(),
                    qp.user.wrs.len(),
                    qp.user.wrs[qp.user.sent.len()],
                    qp.machine.state(),
                    qp.machine.why(),
                    peer.machine.state(),
                    peer.machine.why(),
                );
                qp.user.check(&peer.user);
                if !self.ended && !bad(&qp.user) && !bad(&peer.user) {
                    let done = qp.user.sent.iter().all(|cqe| cqe.status == Status::Success);
                    assert!(done, "nothing has failed: {end} {n}");
                    self.check_executed(end, n);
                }
            }
            self.ends[end].check_all_free();
        }
    }

    /// That the peer has carried out all work requests that concern it, once and in order.
    fn check_executed(&self, end: usize, n: usize) {
        let user = &self.ends[end].qps[n].user;
        let concerns = |(n, wr): (usize, &Wr)| {
            let nothing = match wr.op {
                Op::Read => wr.len == 0,
                Op::Invalidate => true,
                _ => false,
            };
            (!nothing).then_some(n as u32)
        };
        let numbers: Vec<u32> = user.wrs.iter().enumerate().filter_map(concerns).collect();
        let peer = &self.ends[1 - end].qps[n].user;
        assert_eq!(*peer.executed.borrow(), numbers, "carried out");
        let adds = user.wrs.iter().filter(|wr| wr.op == Op::Add).count();
        assert_eq!(*peer.counter.borrow(), adds as u64, "each adds once");
    }
}

fn protocols(bits: usize) -> Protocol {
    Protocol::of(bits as u32).expect("three bits")
}

fn layouts() -> impl Strategy<Value = [Layout; 2]> {
    let one = || (17u32..20).prop_map(|n| Layout::of_arena(1 << n).expect("large enough"));
    [one(), one()]
}

/// Plays `cases` games of up to `steps` steps. `ends`: how often a user ends a queue pair.
fn explore(cases: u32, steps: usize, ends: u32, bits: impl Strategy<Value = [usize; 3]>) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let steps = prop::collection::vec(step(ends), 1..steps);
    let game = (layouts(), bits, any::<bool>(), steps);
    let done = TestRunner::new(config).run(&game, |(layouts, bits, has_dma, steps)| {
        let mut world = World::new(layouts, &bits.map(protocols), has_dma);
        for step in steps {
            world.run(step);
        }
        world.finish();
        world.check();
        Ok(())
    });
    if let Err(error) = done {
        panic!("{error}");
    }
}

#[test]
fn q_2_each_work_request_is_carried_out_once_in_order_and_ends_once() {
    explore(40, 1000, 0, Just([0, 0, 0]));
}

#[test]
fn q_3_so_it_is_in_all_eight_protocols_side_by_side() {
    explore(40, 1000, 0, [0usize..8, 0usize..8, 0usize..8]);
}

/// Queue pairs end and begin anew at any moment: nothing is heard of what was before.
#[test]
fn q_2_queue_pairs_end_and_begin_anew_at_any_moment() {
    explore(60, 1000, 4, [0usize..8, 0usize..8, 0usize..8]);
}

/// Two resets that cross: the peer acknowledges what was sent before the second, under the number of
/// what is sent after it, which it never carries out.
#[test]
fn q_2_an_acknowledgement_of_what_was_before_a_reset_acknowledges_nothing() {
    const SERVE: usize = 0;
    const TAKE_CELL: usize = 1;
    const TAKE_WORD: usize = 3;
    let layout = Layout::of_arena(128 << 10).expect("large enough");
    let mut world = World::new([layout; 2], &[Protocol::PUSH], false);
    let wr = |op| Wr {
        op,
        len: 8,
        bad: false,
    };
    let steps = |world: &mut World, end: usize, steps: &[usize]| {
        for step in steps {
            world.step(end, 0, *step);
        }
    };
    // One end says JOIN and is reset; the other one is joined by that, and sends.
    steps(&mut world, 0, &[SERVE]);
    world.run((0, 0, Do::Reset));
    world.run((0, 0, Do::Recv(2)));
    world.run((1, 0, Do::Post(wr(Op::Send))));
    steps(&mut world, 1, &[SERVE, TAKE_CELL, SERVE, SERVE]);
    // Then it is reset as well, before it has heard of the first reset.
    steps(&mut world, 0, &[SERVE]);
    world.run((1, 0, Do::Reset));
    world.run((1, 0, Do::Post(wr(Op::Write { imm: false }))));
    steps(&mut world, 1, &[TAKE_CELL]);
    steps(&mut world, 0, &[TAKE_CELL, TAKE_CELL, TAKE_CELL, SERVE]);
    steps(&mut world, 1, &[SERVE, TAKE_WORD]);
    world.finish();
    world.check();
}

/// More requests under way than there may be, of one kind after the other, without receive requests:
/// the requester goes back again and again.
#[test]
fn q_2_an_initiator_goes_back_as_often_as_it_must() {
    for bits in 0..8 {
        let layout = Layout::of_arena(128 << 10).expect("large enough");
        let mut world = World::new([layout; 2], &[protocols(bits)], bits % 2 == 0);
        for n in 0..MANY {
            let op = [Op::Send, Op::Write { imm: true }, Op::Read, Op::Add][n % 4];
            let len = [8, 600, 3000, 8, 20_000][n % 5];
            let bad = false;
            world.run((0, 0, Do::Post(Wr { op, len, bad })));
        }
        world.finish();
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
        explore(50, 1000, 4, [0usize..8, 0usize..8, 0usize..8]);
    }
}
