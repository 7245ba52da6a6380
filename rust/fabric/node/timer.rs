// SPDX-License-Identifier: GPL-2.0

//! A node's own clock: a work item that looks after the function, the links and the users, as often as
//! one of them needs it.
//!
//! What is due then is said by those.

use super::{Node, TIMER};
use crate::{
    hw::Port,
    proto::{
        link::TICK_MS,
        pair::{Ask, Asked},
    },
    sys::{clock, work},
};
use kernel::{
    sync::{atomic::Acquire, Arc},
    time::{msecs_to_jiffies, Msecs},
    workqueue::WorkItem,
};

/// How often the function is looked at while no link is up.
pub(super) const WATCH_MS: Msecs = 1000;
/// How often it is looked whether users have finished, when they were asked to.
const FINISH_MS: Msecs = 20;
/// How long until directories of links are tried again that cannot be made now.
pub(super) const SHOW_MS: Msecs = 100;
/// How often it is looked whether nothing is under way, while users wait.
const STILL_MS: Msecs = 4;

impl WorkItem for Node {
    type Pointer = Arc<Node>;

    fn run(this: Arc<Node>) {
        // Who has paused it sets it going again.
        let Some(port) = this.gate.enter().filter(|_| !this.is_paused()) else {
            return;
        };
        if let Some(client) = this.client() {
            client.passed(clock::now_ms());
        }
        let delay = match this.watch(&**port) {
            true => this.look_after(&**port),
            false => WATCH_MS,
        };
        // With the gate entered: the revocation cancels it when all have left.
        work::again_in::<_, TIMER>(&this, msecs_to_jiffies(delay));
    }
}

impl Node {
    /// Does what is due while the function answers; says after how many milliseconds to do so again.
    fn look_after(&self, port: &dyn Port) -> Msecs {
        let mut delay = WATCH_MS;
        let more = self.drain(port);
        for link in self.links(port) {
            if link.tick(self, port) {
                delay = TICK_MS as Msecs;
            }
        }
        if let Some(ms) = self.power.sample(port, clock::now_ms()) {
            delay = delay.min(ms as Msecs);
        }
        if let Some(ms) = self.keep_rest(port) {
            delay = delay.min(ms);
        }
        if !self.show_links(port) {
            delay = delay.min(SHOW_MS);
        }
        self.accept(port);
        let ask = Asked::of(self.asked.load(Acquire)).ask;
        if ask != Ask::GoOn {
            self.tell_left(port);
            delay = delay.min(if ask == Ask::Still {
                STILL_MS
            } else {
                FINISH_MS
            });
        }
        match more {
            true => 0,
            false => delay,
        }
    }

    /// Has what is to be sent sent soon.
    pub(crate) fn hurry(&self) {
        self.run_in(0);
    }

    /// Has the timer run after so many milliseconds.
    pub(super) fn run_in(&self, delay: Msecs) {
        if let Some(me) = &*self.me.lock() {
            work::run_in::<_, TIMER>(me, msecs_to_jiffies(delay));
        }
    }
}
