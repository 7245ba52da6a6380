// SPDX-License-Identifier: GPL-2.0

//! Where the work of an interface is done: in its thread, or in a task of the process that calls.
//!
//! A call does it at once, so that a message wakes no thread; what the thread is at, what takes long, and what may have
//! to wait for a page is left to it.
//!
//! A program that looks for events again and again says so: its calls then take what hosts have sent, too, and neither
//! the thread nor a work item is woken meanwhile. Both come by from time to time (`polled.rs`), so that all goes on when
//! the program does not call any more. This file must not know what there is to be done.

use super::{
    bell::Call,
    direct::Own,
    interface::{Interface, Worker},
};
use crate::sys::{
    clock,
    thread::{should_stop, Run},
};
use kernel::{
    sync::atomic::{Full, Relaxed},
    time::Msecs,
};

/// After how long a command that found no place is tried again.
const AGAIN_MS: Msecs = 1;
/// How long the thread sleeps at most before something is begun again.
const MOST_MS: u64 = 60_000;
/// How long the thread leaves the work to a program that has called.
const LEFT_MS: Msecs = 8;
/// Rounds in a call: the thread does the rest.
const ROUNDS: usize = 64;
/// How often a step is done in a round, as long as there is more of the same: all else has its turn then.
const IN_A_ROW: usize = 16;

/// Does a step again and again. Returns whether there was something to be done.
fn in_a_row(mut step: impl FnMut() -> bool) -> bool {
    (0..IN_A_ROW).take_while(|_| step()).count() > 0
}

impl Interface {
    /// Does some of what there is to be done, without waiting. Returns whether there was something.
    fn round(&self, worker: &mut Worker) -> bool {
        self.rings.look_again();
        worker.full = None;
        worker.blocked = false;
        worker.starved = false;
        let listed = in_a_row(|| {
            let carried = self.carry_out(worker);
            let gave = self.give(worker);
            in_a_row(|| self.take_command(worker)) | carried | gave
        });
        if !listed {
            self.say_stored(worker);
        }
        let relieved = self.relieve();
        let pulled = self.pull(worker);
        let begun = in_a_row(|| self.send_now(worker) || self.begin(worker));
        let sent = in_a_row(|| self.send(worker));
        let supplied = self.supply(worker);
        let served = self.serve(worker);
        let ended = self.end(worker);
        self.tell(worker);
        listed | relieved | pulled | begun | sent | supplied | served | ended
    }

    /// Returns whether there is something to be done that did not ring before the last round, or is to be tried again.
    fn has_work(&self, worker: &Worker) -> bool {
        self.bell.is_rung() || worker.waits() || self.rings.has_news(&worker.counts)
    }

    /// Does what a task of a process asks for. Waits for no page.
    pub(super) fn called(&self, call: Call) {
        let bell = &self.bell;
        if call == Call::Rest {
            self.matcher.polled(|peer| peer.leave());
            if bell.polled.end() {
                bell.sleep.wake_all();
            }
            return;
        }
        // Another process has no part in what this one's memory is used for.
        let worker = self.mm.is_current().then(|| self.worker.try_lock());
        let Some(mut worker) = worker.flatten() else {
            // What is at it looks again.
            bell.ring();
            return;
        };
        if call == Call::Poll && bell.polled.renew() {
            // The thread is to come by.
            bell.sleep.wake_all();
        }
        bell.called.store(true, Relaxed);
        worker.called = true;
        let mut more = false;
        for _ in 0..ROUNDS {
            let rung = bell.hush();
            if call == Call::Poll {
                let mut own = Own(self, &mut worker);
                self.matcher.polled(|peer| peer.attend(&mut own));
                // Then the thread would sleep.
                if !more && !rung && !self.has_work(&worker) {
                    break;
                }
            }
            more = self.round(&mut worker);
            if call == Call::Poll {
                self.matcher.polled(|peer| peer.answer_now());
            }
            if !more && !bell.is_rung() {
                break;
            }
        }
        self.say_stored(&mut worker);
        worker.called = false;
        let left = core::mem::take(&mut worker.left);
        // The thread knows how long to sleep.
        more |= worker.starved || worker.later.is_some();
        drop(worker);
        // Also those that a call of another kind, another interface or the thread has left: they may be all that a peer
        // waits for.
        self.matcher.polled(|peer| peer.answer_now());
        bell.called.xchg(false, Full);
        if left {
            bell.need();
        }
        if more || bell.is_rung() {
            bell.rung.store(0, Relaxed);
            bell.ring();
        }
    }

    /// Does all that there is to be done. Returns how long to sleep at most, if that is known, unless something has
    /// come since.
    fn turn(&self) -> Option<Option<Msecs>> {
        let mut worker = self.worker.lock();
        self.rings.set_idle(false);
        loop {
            if should_stop() {
                return None;
            }
            self.bell.hush();
            if !self.round(&mut worker) {
                break;
            }
        }
        self.rings.set_idle(true);
        if self.rings.has_news(&worker.counts) {
            return None;
        }
        let later = worker.later.map(|later| {
            let left = later.saturating_sub(clock::now_ms());
            left.clamp(AGAIN_MS.into(), MOST_MS) as Msecs
        });
        match worker.starved {
            true => Some(Some(AGAIN_MS)),
            false => Some(later),
        }
    }
}

impl Run for Interface {
    fn run(&self) {
        let bell = &self.bell;
        while !should_stop() {
            let needed = || bell.needed.load(Relaxed) || should_stop();
            if !needed() && bell.polled.lapse() {
                let over = || needed() || !bell.polled.is_current();
                let _ = bell.sleep.wait_ms(over, LEFT_MS);
                continue;
            }
            bell.needed.store(false, Relaxed);
            let Some(until) = self.turn() else {
                continue;
            };
            // What polls from here on is to be looked after.
            let rung = || bell.is_rung() || needed() || bell.polled.is_current();
            let _ = match until {
                Some(ms) => bell.sleep.wait_ms(rung, ms),
                None => bell.sleep.wait(rung),
            };
        }
        let mut worker = self.worker.lock();
        self.say_stored(&mut worker);
        if let Some(carry) = worker.now.take() {
            self.state.lock().carry(carry);
        }
    }
}
