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
use qp::user::{Op, Wr, LONGEST};
use qp::world::{protocols, Do, Step, World};
use weft_proto::cqe::Status;
use weft_proto::protocol::Protocol;
use weft_proto::qp::Flow;
use weft_proto::trunk::Layout;

/// More requests than may be under way.
const MANY: usize = 256;

/// Long messages, a few of which name memory that is not there, and now and then something else.
fn long_work() -> impl Strategy<Value = Wr> {
    let len = prop_oneof![
        1 => 0usize..=64,
        8 => 2000usize..=20_000,
        4 => 60_000usize..=140_000,
    ];
    let op = prop_oneof![
        9 => prop::sample::select(vec![
            Op::Send,
            Op::Write { imm: false },
            Op::Write { imm: true },
        ]),
        1 => Just(Op::Read),
    ];
    (op, len, prop::bool::weighted(0.02)).prop_map(|(op, len, bad)| Wr { op, len, bad })
}

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

fn step(ends: u32, work: impl Strategy<Value = Wr>) -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        20 => work.prop_map(Do::Post),
        10 => (1usize..4).prop_map(Do::Recv),
        200 => (0..End::STEPS).prop_map(Do::Step),
        2 => (1u32..4).prop_map(Do::LoseLoads),
        2 => prop::sample::select(vec![Flow::Open, Flow::Open, Flow::Paused, Flow::Quiesced]).prop_map(Do::Flow),
        ends => prop::sample::select(vec![Do::Fail, Do::Reset]),
    ];
    (0usize..2, 0usize..3, what)
}

fn layouts() -> impl Strategy<Value = [Layout; 2]> {
    let one = || (17u32..20).prop_map(|n| Layout::of_arena(1 << n).expect("large enough"));
    [one(), one()]
}

/// Plays `cases` games of up to `steps` steps. `ends`: how often a user ends a queue pair.
fn explore(cases: u32, steps: usize, ends: u32, bits: impl Strategy<Value = [usize; 3]>) {
    play(cases, step(ends, work()), steps, bits);
}

fn play(
    cases: u32,
    step: impl Strategy<Value = Step>,
    steps: usize,
    bits: impl Strategy<Value = [usize; 3]>,
) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let steps = prop::collection::vec(step, 1..steps);
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

/// The peer grants or exposes memory for one more segment, and refuses the request after that, as its
/// memory is gone. The NAK is a word, and may be taken before the grant, which is a cell: that is no
/// violation. The memory goes at each moment of a request in turn.
#[test]
fn m_1_a_grant_may_be_heard_of_after_the_nak_that_follows_it() {
    const SERVE: usize = 0;
    const WORDS_FIRST: [usize; 4] = [3, 4, 1, 2];
    let games = (0..8).flat_map(|bits| {
        let writes = (bits, Op::Write { imm: false }, 20);
        // Fewer segments find room than a read may have under way.
        [writes, (bits, Op::Read, 19), (bits, Op::Read, 20)]
    });
    let mut refused = 0;
    for (bits, op, shift) in games {
        let layout = Layout::of_arena(1 << shift).expect("large enough");
        for moment in 0.. {
            let mut world = World::new([layout; 2], &[protocols(bits)], false);
            world.settle();
            let (len, bad) = (LONGEST, false);
            world.run((0, 0, Do::Post(Wr { op, len, bad })));
            let mut taken = 0;
            // The end that sends the request waits until the other one has nothing more to do.
            while world.step(0, 0, SERVE) {
                while WORDS_FIRST.iter().any(|n| world.step(1, 0, *n)) {
                    world.step(1, 0, SERVE);
                    if taken == moment {
                        world.run((1, 0, Do::TakeBack));
                    }
                    taken += 1;
                }
                for n in WORDS_FIRST {
                    while world.step(0, 0, n) {}
                }
            }
            world.finish();
            world.check();
            let status = world.ends[0].qps[0].user.sent[0].status;
            if taken <= moment {
                assert_eq!(status, Status::Success);
                break;
            }
            refused += usize::from(status == Status::RemoteAccess);
        }
    }
    assert!(refused > 40, "{refused}");
}

/// Memory is taken back at any moment, in the midst of a message or a read too: the request fails, or was
/// carried out, and no end takes the other for one that breaks the protocol.
#[test]
fn m_1_memory_is_taken_back_at_any_moment() {
    let steps = || {
        prop_oneof![
            60 => step(0, work()),
            60 => step(0, long_work()),
            1 => (0usize..2, 0usize..3, Just(Do::TakeBack)),
            1 => (0usize..2, 0usize..3, Just(Do::Reset)),
        ]
    };
    play(60, steps(), 1000, Just([0, 0, 0]));
    play(60, steps(), 1000, [0usize..8, 0usize..8, 0usize..8]);
}

/// The user of a queue pair resets it as soon as there is a completion for what has come, before the engine has
/// acknowledged it: at the peer the request that was carried out has succeeded.
#[test]
fn q_2_what_was_carried_out_before_a_reset_has_succeeded() {
    const SERVE: usize = 0;
    const TAKE: [usize; 4] = [1, 2, 3, 4];
    let layout = Layout::of_arena(128 << 10).expect("large enough");
    let games = (0..8).flat_map(|bits| [Op::Send, Op::Add].map(|op| (bits, op)));
    for (bits, op) in games {
        let mut world = World::new([layout; 2], &[protocols(bits)], false);
        world.settle();
        let (len, bad) = (8, false);
        world.run((1, 0, Do::Recv(1)));
        world.settle();
        world.run((0, 0, Do::Post(Wr { op, len, bad })));
        let executed = |world: &World| world.ends[1].qps[0].user.executed.borrow().len();
        while executed(&world) == 0 {
            let mut busy = world.step(0, 0, SERVE);
            for n in TAKE {
                busy |= executed(&world) == 0 && world.step(1, 0, n);
            }
            // Some are carried out where they are served.
            busy |= executed(&world) == 0 && world.step(1, 0, SERVE);
            assert!(busy, "{bits} {op:?}: it is never carried out");
        }
        world.run((1, 0, Do::Reset));
        world.finish();
        world.check();
        let status = world.ends[0].qps[0].user.sent[0].status;
        assert_eq!(status, Status::Success, "{bits} {op:?}");
    }
}

/// Several long messages of a queue pair are under way: they end in order all the same.
#[test]
fn q_2_long_messages_overtake_nothing() {
    play(20, step(0, long_work()), 600, Just([0, 0, 0]));
    play(
        20,
        step(2, long_work()),
        600,
        [0usize..8, 0usize..8, 0usize..8],
    );
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
        play(
            50,
            step(1, long_work()),
            600,
            [0usize..8, 0usize..8, 0usize..8],
        );
    }
}
