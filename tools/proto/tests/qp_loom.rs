// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Two queue pairs under interleavings and reorderings that the language's memory model knows: the
//! machines and the FIFOs of the module, each end a thread of its own.
//!
//! Each word of the link queues is an atomic accessed without ordering, each fence the weakest that
//! fits its name. The words are those that a run of one thread touches.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod qp;
mod trunk;

use loom::sync::atomic::{fence, AtomicU64, Ordering};
use loom::thread;
use qp::end::End;
use qp::env::Trunk;
use qp::user::{Op, Wr};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use trunk::Memory;
use weft_proto::cqe::Status;
use weft_proto::fence::Fence;
use weft_proto::protocol::Protocol;
use weft_proto::trunk::Layout;
use weft_proto::window::{Area, Window};

fn layout() -> Layout {
    Layout::of_arena(128 << 10).expect("large enough")
}

/// Memory that remembers which words are used.
struct Recorder {
    memory: Memory,
    used: RefCell<BTreeSet<usize>>,
}

impl Recorder {
    fn new() -> Self {
        Self {
            memory: Memory::new(layout()),
            used: RefCell::default(),
        }
    }
}

impl Area for Recorder {
    fn load(&self, at: usize) -> u64 {
        self.used.borrow_mut().insert(at);
        self.memory.load(at)
    }

    fn rmb(&self, _: Fence) {}
}

impl Window for Recorder {
    fn store(&self, at: usize, word: u64) {
        self.used.borrow_mut().insert(at);
        self.memory.store(at, word);
    }

    fn wmb(&self, _: Fence) {}

    fn mb(&self, _: Fence) {}
}

/// The link queues of one end, in a model.
struct Side {
    words: BTreeMap<usize, AtomicU64>,
    without: Option<Fence>,
}

impl Area for Side {
    fn load(&self, at: usize) -> u64 {
        // A word that no run touches is zero, as it was when the session began.
        self.words
            .get(&at)
            .map_or(0, |word| word.load(Ordering::Relaxed))
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

fn end(protocol: Protocol) -> End {
    End::new(layout(), layout(), &[protocol], false)
}

/// All steps of an end, once. Whether there was anything to do.
fn round<M: Trunk>(end: &mut End, own: &M, peer: &M) -> bool {
    (0..End::STEPS).fold(false, |busy, n| end.step(n, 0, own, peer) || busy)
}

/// Joins both ends; then one posts a request.
fn prepare<M: Trunk>(ends: &mut [End; 2], sides: [&M; 2], wr: Wr) {
    let [a, b] = sides;
    while round(&mut ends[0], a, b) | round(&mut ends[1], b, a) {}
    ends[0].qps[0].user.post(wr);
    ends[1].qps[0].user.post_recvs(1);
}

/// One request, from its post to its completion, by two threads. The receiver's user checks the data.
fn one_request(protocol: Protocol, wr: Wr, without: Option<Fence>) {
    let recorders = [Recorder::new(), Recorder::new()];
    let [a, b] = &recorders;
    let mut ends = [end(protocol), end(protocol)];
    prepare(&mut ends, [a, b], wr);
    while round(&mut ends[0], a, b) | round(&mut ends[1], b, a) {}
    let used = recorders.map(|recorder| recorder.used.into_inner());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 100_000;
    builder.check(move || {
        let sides = used.clone().map(|used| {
            let words = used.into_iter().map(|at| (at, AtomicU64::new(0)));
            let words = words.collect();
            Arc::new(Side { words, without })
        });
        let mut ends = [end(protocol), end(protocol)];
        prepare(&mut ends, [&*sides[0], &*sides[1]], wr);
        let [mut requester, mut responder] = ends;
        let [own, peer] = sides.clone();
        let responding = thread::spawn(move || {
            while responder.qps[0].user.executed.borrow().is_empty() {
                round(&mut responder, &*peer, &*own);
                thread::yield_now();
            }
            responder
        });
        let [own, peer] = sides;
        for _ in 0..3 {
            round(&mut requester, &*own, &*peer);
            thread::yield_now();
        }
        let mut responder = responding.join().expect("ends");
        // The acknowledgement may still be on its way.
        while round(&mut responder, &*peer, &*own) | round(&mut requester, &*own, &*peer) {}
        let statuses: Vec<_> = requester.qps[0]
            .user
            .sent
            .iter()
            .map(|cqe| cqe.status)
            .collect();
        assert_eq!(statuses, [Status::Success]);
    });
}

fn send(len: usize) -> Wr {
    Wr {
        op: Op::Send,
        len,
        bad: false,
    }
}

#[test]
fn q_2_a_message_in_a_cell_is_neither_torn_nor_lost() {
    one_request(Protocol::PUSH, send(16), None);
}

#[test]
fn q_2_a_message_by_the_eager_ring_is_neither_torn_nor_lost() {
    one_request(Protocol::PUSH, send(72), None);
}

#[test]
#[should_panic(expected = "torn")]
fn without_publish_a_message_by_the_eager_ring_is_torn() {
    one_request(Protocol::PUSH, send(72), Some(Fence::Publish));
}
