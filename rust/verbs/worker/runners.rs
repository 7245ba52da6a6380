// SPDX-License-Identifier: GPL-2.0

//! Decides which thread runs the engine of a link, a work item or a user that calls `WEFT_KICK`, for
//! how long, and what announces new work when no thread does.
//!
//! What a run does is in the parent module; users that sleep between two runs are in `sleepers`.

use super::{Core, Rest, Worker};
use crate::{
    fabric::Node,
    hw::Port,
    proto::watch::SOON,
    sys::{clock, work},
    verbs::{qp::Qp, trunk::Io},
};
use kernel::{
    sync::{
        atomic::Relaxed,
        lock::{mutex::MutexBackend, Guard},
        Arc,
    },
    time::{delay::fsleep, Delta},
    workqueue::WorkItem,
};

/// The budget of a run by the work item, in cells, control words and requests.
const BUDGET: usize = 512;
/// How long the work item polls without anything to do, in microseconds, before it sleeps. On a link that
/// connects no queue pairs it does not: an answer to a message of [`Control`](super::Control) takes a program
/// of the peer, and is worth no wait.
const LINGER_US: u64 = 50;
/// How long it polls at most while work comes all the time, in microseconds, before it lets others
/// run.
const SHIFT_US: u64 = 1000;
/// The time to the next poll of a peer that is not asked to ring because the link is loaded.
const HOLD: Delta = Delta::from_micros(200);

impl WorkItem for Worker {
    type Pointer = Arc<Worker>;

    fn run(this: Arc<Worker>) {
        let Some(node) = this.node.lock().clone() else {
            return;
        };
        let Ok(port) = node.port() else {
            return;
        };
        let mut core = this.core.lock();
        core.watch.begins();
        let mut rest = this.turn(&mut core, &node, &**port, BUDGET);
        let awake = !core.watch.asleep || core.is_moving();
        let idle = matches!(rest, Rest::Idle | Rest::Later);
        if idle && !core.watch.expects_users() {
            if awake {
                rest = this.linger(&mut core, &node, &**port);
            } else if core.watch.doubts() {
                rest = this.make_sure(&mut core, &node, &**port, rest);
            }
        }
        let delay = match rest {
            Rest::More | Rest::Hold => 0,
            Rest::Yield => return,
            Rest::Idle if core.is_asleep() || core.trunk.is_none() => return,
            Rest::Later | Rest::Idle => SOON,
        };
        core.watch.timer = true;
        if let Rest::Hold = rest {
            // Users may run the engine meanwhile.
            drop(core);
            fsleep(HOLD);
        }
        // The port is entered: `Worker::rest` cancels the work after all have left.
        work::again_unbound_in(&this, delay);
    }
}

impl Worker {
    /// Queues the work item if something of the peer is waited for: there may be work. Any context, with the
    /// port entered.
    pub(in crate::verbs) fn rung(self: &Arc<Self>) {
        if self.is_awaited() {
            work::run_unbound_in(self, 0);
        }
    }

    /// Adds `qp` to the run queue: a user has posted to it.
    pub(in crate::verbs) fn posted(&self, qp: &Arc<Qp>) {
        let mut core = self.hurry();
        Self::enqueue(&mut core, qp, &mut qp.inner.lock());
    }

    /// Runs the engine for the queue pairs that were [`Worker::posted`], or for messages that are due, in a thread
    /// of the driver.
    pub(in crate::verbs) fn serve_posted(self: &Arc<Self>, node: &Node, port: &dyn Port) {
        let mut core = self.hurry();
        let rest = self.turn(&mut core, node, port, BUDGET);
        self.go_on(&mut core, &rest, 0);
    }

    /// Runs the engine in the thread of a user. `qp`, if given, has work.
    pub(in crate::verbs) fn kick(
        self: &Arc<Self>,
        node: &Node,
        port: &dyn Port,
        qp: Option<&Arc<Qp>>,
        budget: usize,
    ) {
        let mut core = self.hurry();
        if let Some(qp) = qp {
            Self::enqueue(&mut core, qp, &mut qp.inner.lock());
        }
        let rest = self.turn(&mut core, node, port, budget);
        let delay = core.watch.user_ran();
        self.go_on(&mut core, &rest, delay);
    }

    /// Prepares for a user that may have run the engine and is going to sleep: the work item runs,
    /// and asks for a doorbell if nothing comes.
    pub(in crate::verbs) fn user_sleeps(self: &Arc<Self>) {
        let mut core = self.hurry();
        core.watch.user_sleeps();
        if !core.is_asleep() && core.trunk.is_some() {
            core.watch.timer = true;
            work::run_unbound_in(self, 0);
        }
    }

    /// Locks the core. A thread that only polls gives it up for the caller.
    pub(super) fn hurry(&self) -> Guard<'_, Core, MutexBackend> {
        self.waiting.fetch_add(1, Relaxed);
        let core = self.core.lock();
        self.waiting.fetch_sub(1, Relaxed);
        core
    }

    /// Queues the work item in `delay` jiffies if there is work left, or if no doorbell announces new
    /// work.
    pub(super) fn go_on(self: &Arc<Self>, core: &mut Core, rest: &Rest, delay: usize) {
        let idle = matches!(rest, Rest::Idle) && core.is_asleep();
        if !idle && !core.watch.timer && core.trunk.is_some() {
            core.watch.timer = true;
            work::again_unbound_in(self, delay);
        }
    }

    /// Polls for a while, then asks the peer to ring, unless the link is loaded.
    fn linger(&self, core: &mut Core, node: &Node, port: &dyn Port) -> Rest {
        let Ok(arena) = port.arena(self.link) else {
            return Rest::Idle;
        };
        let Ok(io) = Io::new(node, port, self.link, &arena) else {
            return Rest::Idle;
        };
        let most = if self.has_users() { LINGER_US } else { 0 };
        let begin = clock::now_us();
        let mut since = begin;
        let mut was_asleep = core.watch.asleep;
        let mut moves = 0;
        // An arrival clears it.
        core.watch.asleep = true;
        let rest = loop {
            let rest = self.turn(core, node, port, BUDGET);
            if !matches!(rest, Rest::Idle | Rest::Later) {
                break rest;
            }
            if !core.watch.asleep {
                // Something came, and a peer that was asked to ring has done so: polls as long again.
                (was_asleep, core.watch.asleep, since) = (false, true, clock::now_us());
                core.watch.begins_again();
                if since.saturating_sub(begin) >= SHIFT_US {
                    break Rest::More;
                }
            }
            if self.waiting.load(Relaxed) != 0 {
                // The waiting thread continues, and needs a processor for it.
                break Rest::Yield;
            }
            let Some(trunk) = &mut core.trunk else {
                break Rest::Idle;
            };
            let now = trunk.moving.begun_and_done();
            if now != moves {
                (moves, since) = (now, clock::now_us());
            }
            if clock::now_us().saturating_sub(since) >= most {
                core.watch.asleep = was_asleep;
                if core.watch.holds_off() {
                    core.watch.asleep = false;
                    return Rest::Hold;
                }
                return Self::fall_asleep(core, &io, rest, true);
            }
            core::hint::spin_loop();
        };
        // Unless the peer was asked before, it is not asked to ring now.
        core.watch.asleep &= was_asleep;
        rest
    }

    /// Asks the peer to ring, unless that was done and nothing has come since; for an echo as well, if
    /// `echoes` and that was not done. `rest` is what the last run has left. Returns what is left now.
    pub(super) fn fall_asleep(core: &mut Core, io: &Io<'_>, rest: Rest, echoes: bool) -> Rest {
        let Some(trunk) = &mut core.trunk else {
            return Rest::Idle;
        };
        if let Some(mover) = io.mover().filter(|_| !trunk.moving.is_idle()) {
            trunk.moving.report(mover);
        }
        let watch = &mut core.watch;
        let (asks, echoes) = (!watch.asleep, echoes && (!watch.asleep || watch.unsure));
        if !asks && !echoes {
            return rest;
        }
        if core.hold.holds(clock::now_ms) {
            // Nothing is written to the peer now: there may be no route to it. It is asked when this end
            // goes on.
            return Rest::Later;
        }
        if asks {
            trunk.ask(io);
        }
        if echoes {
            trunk.echo(io);
        } else {
            io.port.expect(io.link);
        }
        core.watch.sleeps(echoes);
        rest
    }

    /// Asks the peer, which was asked to ring, for an echo.
    fn make_sure(&self, core: &mut Core, node: &Node, port: &dyn Port, rest: Rest) -> Rest {
        self.with_io(node, port, |io| Self::fall_asleep(core, io, rest, true))
            .unwrap_or(Rest::Idle)
    }
}
