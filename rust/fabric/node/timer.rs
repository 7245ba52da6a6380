// SPDX-License-Identifier: GPL-2.0

//! The timer of a node: a work item that looks after the function, the links and the users, as often as
//! one of them needs it.
//!
//! Each of those says what is due.

use super::{Node, TIMER};
use crate::{
    fabric::link::Link,
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

/// How often to check the function while no link is up.
const WATCH_MS: Msecs = 1000;
/// How often to look whether users have finished after they were asked to.
const FINISH_MS: Msecs = 20;
/// After this time, directories of links that could not be made are tried again.
const SHOW_MS: Msecs = 100;
/// How often to look whether nothing is in flight while calls of users wait.
const STILL_MS: Msecs = 4;

impl WorkItem for Node {
    type Pointer = Arc<Node>;

    fn run(this: Arc<Node>) {
        // After a pause, the end of the reset starts the timer again.
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
        // Queued with the gate entered: the revocation cancels work items only after it is left.
        work::again_in::<_, TIMER>(&this, msecs_to_jiffies(delay));
    }
}

impl Node {
    /// Does what is due while the function answers. Returns after how many milliseconds to do so again.
    fn look_after(&self, port: &dyn Port) -> Msecs {
        let mut delay = WATCH_MS;
        let more = self.drain(port);
        for link in self.links(port) {
            if let Some(inbox) = self.inboxes.get(link.number()) {
                inbox.tick();
            }
            if link.is_up() {
                delay = TICK_MS as Msecs;
            }
        }
        let now = clock::now_ms();
        if let Some(client) = self.client() {
            let up = self.links(port).filter(|link| link.is_up());
            self.power.tell(port, client, up.map(Link::number), now);
        }
        if let Some(ms) = self.power.sample(port, now) {
            delay = delay.min(ms as Msecs);
        }
        if let Some(far) = self.far() {
            far.keep_aims(self);
        }
        self.clear_links(port);
        if let Some(ms) = self.keep_rest(port) {
            delay = delay.min(ms);
        }
        if !self.show_links(port) {
            delay = delay.min(SHOW_MS);
        }
        let more = self.accept(port) || more;
        if !more {
            port.unmask_messages();
        }
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

    /// Runs the timer at once: what is to be sent is sent soon. A neighbour may cause this as often as it
    /// likes, so nothing of that kind may set a later time: the timer would never run.
    pub(crate) fn hurry(&self) {
        if let Some(me) = &*self.me.lock() {
            work::run_in::<_, TIMER>(me, 0);
        }
    }

    /// Runs the timer after [`WATCH_MS`] at the latest.
    pub(super) fn watch_later(&self) {
        if let Some(me) = &*self.me.lock() {
            work::again_in::<_, TIMER>(me, msecs_to_jiffies(WATCH_MS));
        }
    }
}
