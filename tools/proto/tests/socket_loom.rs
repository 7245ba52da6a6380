// SPDX-License-Identifier: GPL-2.0 OR MIT

//! S-2: the streams of sockets under every interleaving and every reordering that the language's memory model knows.
//!
//! Each word is an atomic accessed without ordering, each fence the weakest that fits its name, as in `ring_loom.rs`.

#![allow(clippy::expect_used, clippy::panic)]

mod stream;

use loom::sync::atomic::{fence, AtomicU64, Ordering};
use loom::thread;
use std::collections::BTreeMap;
use std::sync::Arc;
use stream::{send, Room};
use weft_proto::{
    fence::Fence,
    socket::{
        stream::{Found, Receiver, Sender},
        Mode, Shape, EVENT_AT, FULL_AT, MIN_HALF, SENT_AT, WQES_AT,
    },
    window::{Area, Window},
};

fn shape(mode: Mode) -> Shape {
    Shape::new(mode, MIN_HALF).expect("a page")
}

/// The words of a half that a test uses, and the fence that is missing.
struct Side {
    words: BTreeMap<usize, AtomicU64>,
    without: Option<Fence>,
}

impl Side {
    /// With the words of the first WQEs, and so many at the start of the ring.
    fn new(mode: Mode, ring: usize, without: Option<Fence>) -> Self {
        let mut at = vec![SENT_AT, WQES_AT, FULL_AT, EVENT_AT];
        if mode == Mode::Pull {
            at.extend((0..4).map(|word| 256 + 8 * word));
        }
        at.extend((0..ring).map(|word| shape(mode).start() + 8 * word));
        let words = at.into_iter().map(|at| (at, AtomicU64::new(0))).collect();
        Side { words, without }
    }
}

impl Area for Side {
    fn load(&self, at: usize) -> u64 {
        self.words[&at].load(Ordering::Relaxed)
    }

    fn rmb(&self, why: Fence) {
        if self.without != Some(why) {
            fence(Ordering::Acquire);
        }
    }
}

impl Window for Side {
    fn store(&self, at: usize, word: u64) {
        self.words[&at].store(word, Ordering::Relaxed);
    }

    fn wmb(&self, why: Fence) {
        if self.without != Some(why) {
            fence(Ordering::Release);
        }
    }

    fn mb(&self, why: Fence) {
        if self.without != Some(why) {
            fence(Ordering::SeqCst);
        }
    }
}

fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    // A ring that is filled first takes many.
    builder.max_branches = 20_000;
    builder.check(test);
}

fn bytes(from: u64, count: usize) -> Vec<u8> {
    (from..)
        .take(count)
        .map(|n| (n as u8).wrapping_add(1))
        .collect()
}

/// The ends, after the receiver has posted what it has.
fn ends(
    mode: Mode,
    ring: usize,
    without: Option<Fence>,
) -> (Arc<Side>, Arc<Side>, Sender, Receiver) {
    let here = Arc::new(Side::new(mode, ring, without));
    let there = Arc::new(Side::new(mode, ring, without));
    let mut receiver = Receiver::new(shape(mode));
    receiver.flush(&*here);
    (here, there, Sender::new(shape(mode)), receiver)
}

/// Receives `count` bytes, from position `from` on.
fn receive(
    mode: Mode,
    receiver: &mut Receiver,
    (here, there): (&Side, &Side),
    from: u64,
    count: usize,
) {
    let mut got = 0;
    while got < count {
        match receiver.look(there, here).expect("the sender is honest") {
            Found::Bytes(some) => {
                let mut out = vec![0; (some as usize).min(count - got)];
                let ring = if mode == Mode::Push { there } else { here };
                let most = out.len();
                receiver.copy(ring, most, &mut Room(&mut out));
                assert_eq!(out, bytes(from + got as u64, out.len()), "torn");
                receiver.take(out.len() as u64);
                receiver.settle(there, here);
                got += out.len();
            }
            _ => thread::yield_now(),
        }
    }
}

/// Two parts that share a word, to a receiver that is looking.
fn two_parts(mode: Mode, without: Option<Fence>) {
    explore(2, move || {
        let (here, there, mut sender, mut receiver) = ends(mode, 3, without);
        let (own, peer) = (here.clone(), there.clone());
        let sending = thread::spawn(move || {
            assert_eq!(send(&mut sender, &*own, &*peer, &bytes(0, 5)), Ok(5));
            assert_eq!(send(&mut sender, &*own, &*peer, &bytes(5, 8)), Ok(8));
        });
        receive(mode, &mut receiver, (&here, &there), 0, 13);
        sending.join().expect("sent");
    });
}

#[test]
fn what_is_pushed_is_not_torn() {
    two_parts(Mode::Push, None);
}

#[test]
fn what_is_pulled_is_not_torn() {
    two_parts(Mode::Pull, None);
}

#[test]
#[should_panic(expected = "torn")]
fn without_publish_what_is_pushed_is_torn() {
    two_parts(Mode::Push, Some(Fence::Publish));
}

#[test]
#[should_panic]
fn without_publish_what_is_pulled_is_torn() {
    two_parts(Mode::Pull, Some(Fence::Publish));
}

#[test]
#[should_panic(expected = "torn")]
fn without_head_what_is_pushed_is_torn() {
    two_parts(Mode::Push, Some(Fence::Head));
}

#[test]
#[should_panic]
fn without_head_what_is_pulled_is_torn() {
    two_parts(Mode::Pull, Some(Fence::Head));
}

/// The ring is full when the threads start: the sender stores over what was read, and not while it is read. Loom knows
/// no load that comes after a later store, so it does not show what the fence is for: `fences.rs` does, of channels.
fn full(mode: Mode) {
    explore(2, move || {
        let all = (MIN_HALF as usize - shape(mode).start()) / 8;
        let (here, there, mut sender, mut receiver) = ends(mode, all, None);
        let most = 8 * all;
        assert_eq!(
            send(&mut sender, &*here, &*there, &bytes(0, most)),
            Ok(most)
        );
        // All but the last word of it was read, before.
        receive(mode, &mut receiver, (&here, &there), 0, most - 8);
        let mark = sender.mark().map_or(0, |mark| mark + 1);
        there.store(FULL_AT, mark);
        let (own, peer) = (here.clone(), there.clone());
        let sending = thread::spawn(move || {
            while send(&mut sender, &*own, &*peer, &[0xff; 8]) == Ok(0) {
                thread::yield_now();
            }
        });
        receive(mode, &mut receiver, (&here, &there), most as u64 - 8, 8);
        sending.join().expect("sent");
    });
}

#[test]
fn what_is_not_read_is_not_stored_over() {
    full(Mode::Pull);
    full(Mode::Push);
}

/// A receiver leaves its event index and looks again, while the sender sends and looks at the index: one of them sees the
/// other.
fn asleep(mode: Mode) {
    explore(3, move || {
        let (here, there, mut sender, mut receiver) = ends(mode, 1, None);
        let (own, peer) = (here.clone(), there.clone());
        let sending = thread::spawn(move || {
            assert_eq!(send(&mut sender, &*own, &*peer, &bytes(0, 8)), Ok(8));
            sender.needs_kick(&*own, &*peer)
        });
        // As the driver does: an index that is in the way of nothing first, then its own.
        here.store(EVENT_AT, receiver.mark());
        // The echo: all that was sent before the index was seen has come.
        fence(Ordering::SeqCst);
        let found = receiver
            .look(&*there, &*here)
            .expect("the sender is honest");
        let rung = sending.join().expect("sent");
        assert!(rung || found != Found::Nothing, "asleep");
    });
}

#[test]
fn a_receiver_that_waits_is_rung_for() {
    asleep(Mode::Push);
    asleep(Mode::Pull);
}
