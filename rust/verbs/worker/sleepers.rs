// SPDX-License-Identifier: GPL-2.0

//! Users that run the engine of a link in `WEFT_CQ_WAIT`, and sleep between two runs.
//!
//! Such a user takes the place of the work item: it asks the peer to ring, without polling before, and
//! a doorbell wakes it, so that it runs the engine itself, takes its completion and returns. Two things
//! are left to its next run, which is mostly about to follow, when it has done something with the
//! completion: the doorbell for control words alone, and the echo of a peer that was asked to ring. What
//! is sent then answers or makes the peer ring, so that neither is needed. The work item does both a
//! jiffy later, if no run has followed by then.
//!
//! A doorbell wakes one of the users that sleep, the longest asleep first. It need not get the
//! processor soon, or may be about to leave: the work item runs a jiffy later in any case.

use super::{Rest, Worker};
use crate::{
    fabric::Node,
    hw::Port,
    proto::watch::SOON,
    sys::{
        waitq::{On, WaitQueue},
        work,
    },
    verbs::{
        cq::Next,
        qp::Qp,
        trunk::{self, Io},
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Full, Relaxed, Release},
        Arc,
    },
};

/// The users that sleep between two runs of an engine.
#[pin_data]
pub(super) struct Sleepers {
    #[pin]
    queue: WaitQueue,
    count: Atomic<u32>,
    /// The doorbell was rung, and one of them was woken to run the engine.
    called: Atomic<bool>,
}

impl Sleepers {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queue <- WaitQueue::new(c"weft engine sleepers", kernel::static_lock_class!()),
            count: Atomic::new(0),
            called: Atomic::new(false),
        })
    }

    /// Wakes one of them to run the engine. Returns false if there is none.
    fn call(&self) -> bool {
        if self.count.load(Acquire) == 0 {
            return false;
        }
        self.called.store(true, Release);
        self.queue.wake_one();
        true
    }

    /// Forgets that one was woken. Returns whether one was; what made that necessary is seen afterwards.
    fn answer(&self) -> bool {
        self.called.load(Relaxed) && self.called.xchg(false, Full)
    }
}

impl Worker {
    /// Handles the peer's doorbell, which is not always meant for the engine. Called in hard interrupts, with the port
    /// entered.
    pub(in crate::verbs) fn called(self: &Arc<Self>, port: &dyn Port) {
        if self.has_users() || self.control.listens() && self.may_be_told(port) {
            self.call();
        }
    }

    /// Handles the report of the DMA channel. Called as [`Worker::called`].
    pub(in crate::verbs) fn moved(self: &Arc<Self>) {
        if self.is_awaited() {
            self.call();
        }
    }

    /// Returns whether there may be a message of [`Control`](crate::verbs::Control).
    fn may_be_told(&self, port: &dyn Port) -> bool {
        let Some(next) = *self.next.lock() else {
            return true;
        };
        let arena = port.arena(self.link);
        arena.is_ok_and(|arena| trunk::has_come(&next, &arena))
    }

    /// Has a user that sleeps run the engine, or the work item.
    fn call(self: &Arc<Self>) {
        if self.sleepers.call() {
            work::again_unbound_in(self, SOON);
        } else {
            work::run_unbound_in(self, 0);
        }
    }

    /// Runs the engine in the thread of a user that then sleeps until `next` is there. `qp`, if given, has
    /// work.
    pub(in crate::verbs) fn run_to_sleep(
        self: &Arc<Self>,
        node: &Node,
        port: &dyn Port,
        qp: Option<&Arc<Qp>>,
        budget: usize,
        next: &Next,
    ) {
        let mut core = self.hurry();
        self.sleepers.answer();
        if let Some(qp) = qp {
            Self::enqueue(&mut core, qp, &mut qp.inner.lock());
        }
        let mut rest = self.turn_for(&mut core, node, port, budget, Some(next));
        core.watch.user_sleeps();
        if let Rest::Idle | Rest::Later = rest {
            if core.watch.holds_off_user() {
                core.watch.asleep = false;
                rest = Rest::Hold;
            } else {
                // The peer answers a request, and knows that it is to ring if it was asked before: what
                // it had written until then is in front of that doorbell.
                let answers = core.watch.asleep && core.watch.asks;
                let echoes = !answers && !next.has_ended();
                let asleep = |io: &Io<'_>| Self::fall_asleep(&mut core, io, rest, echoes);
                rest = self.with_io(node, port, asleep).unwrap_or(Rest::Idle);
            }
        }
        match rest {
            Rest::More | Rest::Hold => {
                core.watch.timer = true;
                work::run_unbound_in(self, 0);
            }
            rest => self.go_on(&mut core, &rest, SOON),
        }
    }
}

/// A user that sleeps between two runs.
pub(in crate::verbs) struct Runner<'a>(&'a Arc<Worker>);

impl<'a> Runner<'a> {
    pub(in crate::verbs) fn new(worker: &'a Arc<Worker>) -> Self {
        worker.sleepers.count.fetch_add(1, Full);
        Self(worker)
    }

    pub(in crate::verbs) fn worker(&self) -> &'a Arc<Worker> {
        self.0
    }

    /// Returns the queue to sleep on.
    pub(in crate::verbs) fn queue(&self) -> On<'a> {
        On::Turn(&self.0.sleepers.queue)
    }

    /// Returns whether a user is to run the engine. Does not sleep.
    pub(in crate::verbs) fn is_called(&self) -> bool {
        self.0.sleepers.called.load(Acquire)
    }

    /// Leaves a call to the work item: the user does not run the engine. Needs the port entered, or no call.
    pub(in crate::verbs) fn pass_on(&self) {
        if self.0.sleepers.answer() {
            self.0.rung();
        }
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        self.0.sleepers.count.fetch_sub(1, Full);
    }
}
