// SPDX-License-Identifier: GPL-2.0

//! How a node gets a port, and how it loses it: for good, for another port, or while the function is
//! reset or does not answer.
//!
//! It must not know what goes over the links: it takes them down, and looks at them when they may come
//! up again.

use super::{super::PortGuard, Node, TIMER};
use crate::{
    fabric::Reason,
    hw::Port,
    proto::heartbeat::SILENCE_MS,
    sys::{trace, work},
};
use kernel::{
    device::Device,
    prelude::*,
    sync::{
        atomic::{Acquire, Full, Release},
        Arc,
    },
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// The longest time to wait until links are quiesced: a peer that says nothing for so long is given up. What
/// is under way then ends with an error.
const HOLD_TIME: Delta = Delta::from_millis(SILENCE_MS as i64);
/// How often to look whether they are.
const HOLD_POLL: Delta = Delta::from_millis(1);

impl Node {
    /// Gives the node its port; links may come up. After an error the caller has to call
    /// [`Node::revoke`].
    pub(crate) fn open(self: &Arc<Self>, port: KBox<dyn Port>) -> Result {
        let port = self.give_port(port)?;
        self.look(&**port);
        Ok(())
    }

    /// Removes the port for good: waits until nothing uses it, and nothing can enter it afterwards.
    /// Sleeps. May be called again.
    pub(crate) fn revoke(self: &Arc<Self>) {
        self.await_no_port();
        let listed = self.listed.lock().take();
        drop(listed);
        self.take_port(Reason::Removed, || self.tell_closed());
        if let Some(client) = self.client() {
            client.retired();
        }
    }

    /// No port follows the one that the node was detached from: calls that wait for it end. For
    /// [`Node::revoke`], and before what waits for these calls. Sleeps.
    pub(crate) fn await_no_port(&self) {
        if self.parked.xchg(false, Full) {
            self.tell_closed();
        }
        self.calls.open();
    }

    /// Detaches the node from its port, as [`Node::revoke`] does, but until another port follows by
    /// [`Node::adopt`]: calls of users wait meanwhile, and what can outlast the port is kept. Sleeps.
    /// May be called again.
    pub(crate) fn park(self: &Arc<Self>) {
        self.hold();
        self.parked.store(true, Release);
        self.calls.shut();
        self.take_port(Reason::Link, || self.wake_manager());
        if let Some(client) = self.client() {
            client.parked();
        }
        self.gate.renew();
    }

    /// Attaches the detached node to the port of `dev`. After an error the caller has to call
    /// [`Node::park`] or [`Node::revoke`].
    pub(crate) fn adopt(self: &Arc<Self>, dev: &Device, port: KBox<dyn Port>) -> Result {
        self.home.set(dev);
        if let Some(client) = self.client() {
            client.adopted(self);
        }
        if let Some(far) = self.far() {
            far.forget();
        }
        let port = self.give_port(port)?;
        self.parked.store(false, Release);
        self.accept(&**port);
        self.calls.open();
        self.is_back(&**port);
        self.loop_again(&**port);
        Ok(())
    }

    /// Opens the loopback of another port, if the client keeps something on that of the former one.
    fn loop_again(&self, port: &dyn Port) {
        let mut links = port.loopback_links();
        let used = links.any(|link| self.client().is_some_and(|client| client.is_used(link)));
        if !used {
            return;
        }
        if let Err(e) = self.open_loopback() {
            self.complain(fmt!("no loopback: {:?}; what was open on it ends", e));
        }
    }

    /// Opens the gate with `port`, and starts it.
    fn give_port(self: &Arc<Self>, port: KBox<dyn Port>) -> Result<PortGuard<'_>> {
        self.gate.open(port)?;
        *self.me.lock() = Some(self.clone());
        for inbox in &self.inboxes {
            inbox.set_node(Some(self.clone()));
        }
        let port = self.gate.enter().ok_or(ENODEV)?;
        port.start()?;
        Ok(port)
    }

    /// Closes the gate and stops the port. `tell` has to wake what sleeps while it has entered the port.
    /// When this returns no work item of the node runs. Sleeps.
    fn take_port(self: &Arc<Self>, reason: Reason, tell: impl FnOnce()) {
        drop(self.me.lock().take());
        for inbox in &self.inboxes {
            drop(inbox.set_node(None));
        }
        if let Some(port) = self.gate.revoke(tell) {
            // From here on nothing else uses the port: event handlers find the gate closed.
            self.links_down(&*port, reason);
            port.stop();
            drop(port);
            self.cancel_work();
        }
    }

    /// Cancels all work items: none runs when this returns. Sleeps.
    fn cancel_work(self: &Arc<Self>) {
        // First: it queues those of the links.
        work::cancel_delayed::<_, TIMER>(self);
        for inbox in &self.inboxes {
            inbox.cancel();
        }
        self.cancel_managing();
    }

    /// Quiesces all links, so that what can outlast its session does. Returns false if this takes longer
    /// than [`HOLD_TIME`], or if the function stops answering. Sleeps.
    fn hold(&self) -> bool {
        let Some(port) = self.port_at_work() else {
            return true;
        };
        let since = Instant::<Monotonic>::now();
        loop {
            let still = self.hold_now(&**port);
            if still || since.elapsed() >= HOLD_TIME || !port.is_present() {
                return still;
            }
            fsleep(HOLD_POLL);
        }
    }

    /// Has both ends of each link begin nothing new. Returns true if nothing is in flight.
    pub(super) fn hold_now(&self, port: &dyn Port) -> bool {
        // All links each time: a link that was quiesced may not be any more.
        let mut still = true;
        for link in self.links(port) {
            still &= link.hold(self, port);
        }
        still
    }

    /// Prepares for a reset of a function that still works: first quiesces all links, then does
    /// [`Node::reset_prepare`]. Sleeps.
    pub(crate) fn rest(self: &Arc<Self>) {
        self.hold();
        self.reset_prepare();
    }

    /// Prepares for a reset of the function: takes all links down, and keeps them down until
    /// [`Node::reset_done`]. Sleeps.
    pub(crate) fn reset_prepare(self: &Arc<Self>) {
        self.paused.store(true, Release);
        self.wake_manager();
        // What work items read from the function from here on means nothing.
        self.cancel_work();
        if let Some(port) = self.gate.enter() {
            self.links_down(&**port, Reason::Link);
            port.suspend();
        }
    }

    /// Handles that the bus has given the function up: as [`Node::reset_prepare`], and users get `ENODEV`
    /// until a reset brings the function back. Sleeps.
    pub(crate) fn give_up(self: &Arc<Self>) {
        self.reset_prepare();
        self.gone.store(true, Release);
        dev_err!(
            self.dev(),
            "the bus has not recovered from an error: users get ENODEV; reset the function, or bind it again\n"
        );
        self.tell_closed();
    }

    /// Brings the node back after a reset of the function. After an error the timer keeps looking
    /// whether the function answers.
    pub(crate) fn reset_done(&self) -> Result {
        let port = self.gate.enter().ok_or(ENODEV)?;
        let resumed = port.resume();
        // A function that does not answer may do so later.
        self.gone.store(resumed.is_err(), Release);
        self.paused.store(false, Release);
        if resumed.is_ok() {
            self.is_back(&**port);
        } else {
            self.tell_closed();
            self.watch_later();
        }
        resumed
    }

    /// Checks whether the function answers, and returns true if it does and works. If it stops
    /// answering, takes its links down; users get `ENODEV` until it answers again. Also brings back a
    /// virtual function that its owner has reset.
    pub(super) fn watch(&self, port: &dyn Port) -> bool {
        let present = port.is_present();
        match (present, self.gone.load(Acquire)) {
            (true, true) => {
                if let Err(e) = port.restart() {
                    self.complain(fmt!("the function answers, but does not start: {:?}", e));
                    return false;
                }
                self.gone.store(false, Release);
                dev_info!(self.dev(), "the function answers again\n");
                self.is_back(port);
            }
            (false, false) => {
                dev_err!(
                    self.dev(),
                    "the function does not answer: all reads are ones; users get ENODEV\n"
                );
                trace::port_event(&self.dev(), trace::Port::Gone, 0);
                self.gone.store(true, Release);
                self.links_down(port, Reason::Removed);
                port.suspend();
                self.tell_closed();
            }
            (true, false) if port.owner().is_some_and(|owner| owner.was_reset()) => {
                self.links_down(port, Reason::Link);
                port.suspend();
                if let Err(e) = port.resume() {
                    // This is tried again as for a function that did not answer.
                    self.complain(fmt!("was reset, and does not start: {:?}", e));
                    self.gone.store(true, Release);
                    self.tell_closed();
                    return false;
                }
                dev_info!(self.dev(), "was reset by its physical function\n");
                self.is_back(port);
            }
            (true, false) | (false, true) => {}
        }
        present
    }

    /// Resumes after the function has come back: tells the owner whether there are users, has the routes
    /// written again, and looks at the links, which may come up.
    fn is_back(&self, port: &dyn Port) {
        self.tell_users(port);
        if let Some(manager) = self.manager() {
            manager.forget();
        }
        self.look(port);
        // Users may have kicked meanwhile.
        if let Some(client) = self.client() {
            client.kicked();
        }
    }

    fn tell_closed(&self) {
        if let Some(client) = self.client() {
            client.closed();
        }
        self.waiters.wake_all();
        self.reaching.wake_all();
        self.wake_manager();
    }
}
