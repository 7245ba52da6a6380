// SPDX-License-Identifier: GPL-2.0

//! A node and its port: how it is given one, and how it loses it, for good, for another one, or while
//! the function is reset or silent.
//!
//! It must not know what goes over the links: it has them go down, and looks at them when they may come
//! up again.

use super::{super::PortGuard, timer::WATCH_MS, Node, TIMER};
use crate::{
    fabric::Reason,
    hw::Port,
    sys::{trace, work},
};
use kernel::{
    pci,
    prelude::*,
    sync::{
        atomic::{Acquire, Full, Release},
        Arc,
    },
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// How long neighbours are waited for when they are asked to begin nothing.
const HOLD_TIME: Delta = Delta::from_millis(500);
/// How often it is looked whether they have come to rest.
const HOLD_POLL: Delta = Delta::from_millis(1);

impl Node {
    /// Gives the node its port; links may come up. After a failure [`Node::revoke`] is to be called.
    pub(crate) fn open(self: &Arc<Self>, port: KBox<dyn Port>) -> Result {
        let port = self.give_port(port)?;
        self.look(&**port);
        Ok(())
    }

    /// Takes the port away for good. Sleeps; may be called again.
    pub(crate) fn revoke(self: &Arc<Self>) {
        if self.parked.xchg(false, Full) {
            self.tell_closed();
        }
        self.calls.open();
        self.take_port(Reason::Removed, || self.tell_closed());
        if let Some(client) = self.client() {
            client.retired();
        }
    }

    /// Takes the port away as [`Node::revoke`] does; there will be another one, by [`Node::adopt`], until
    /// which calls of users wait, and what can outlast the port does. Sleeps; may be called again.
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

    /// Gives the node that is parked a port again, of `dev`. After a failure it is to be parked again,
    /// or revoked.
    pub(crate) fn adopt(self: &Arc<Self>, dev: &pci::Device, port: KBox<dyn Port>) -> Result {
        self.home.set(dev);
        if let Some(client) = self.client() {
            client.adopted(self);
        }
        let port = self.give_port(port)?;
        self.parked.store(false, Release);
        self.accept(&**port);
        self.calls.open();
        self.is_back(&**port);
        Ok(())
    }

    /// Opens the gate with `port`, and starts it.
    fn give_port(self: &Arc<Self>, port: KBox<dyn Port>) -> Result<PortGuard<'_>> {
        self.gate.open(port)?;
        *self.me.lock() = Some(self.clone());
        let port = self.gate.enter().ok_or(ENODEV)?;
        port.start()?;
        Ok(port)
    }

    /// Closes the gate, and stops the port: `tell` is to wake those who wait inside. Nothing of the node
    /// runs on its own when this returns.
    fn take_port(self: &Arc<Self>, reason: Reason, tell: impl FnOnce()) {
        drop(self.me.lock().take());
        if let Some(port) = self.gate.revoke(tell) {
            // From here on nothing else uses the port; events find the gate closed.
            self.links_down(&*port, reason);
            port.stop();
            drop(port);
            self.cancel_work();
        }
    }

    /// None of the work items runs, or will, when this returns. Sleeps.
    fn cancel_work(self: &Arc<Self>) {
        work::cancel_delayed::<_, TIMER>(self);
        self.cancel_managing();
    }

    /// Has all that is under way over the links completed, and nothing begun, for what outlasts its
    /// session to do so. False: that takes too long, or a peer does not know of it.
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

    /// Has both ends of each link begin nothing. True: nothing is under way.
    pub(super) fn hold_now(&self, port: &dyn Port) -> bool {
        // All of them each time: what one has said is not true for long.
        let mut still = true;
        for link in self.links(port) {
            still &= link.hold(self, port);
        }
        still
    }

    /// As [`Node::reset_prepare`], of a function that works still, and does so again before long: first
    /// both ends of each link come to rest.
    pub(crate) fn rest(self: &Arc<Self>) {
        self.hold();
        self.reset_prepare();
    }

    /// The function is going to be reset: all links go down and stay so until [`Node::reset_done`].
    pub(crate) fn reset_prepare(self: &Arc<Self>) {
        self.paused.store(true, Release);
        self.wake_manager();
        // What they read of the function from here on says nothing.
        self.cancel_work();
        if let Some(port) = self.gate.enter() {
            self.links_down(&**port, Reason::Link);
            port.suspend();
        }
    }

    /// The function was reset.
    pub(crate) fn reset_done(&self) -> Result {
        let port = self.gate.enter().ok_or(ENODEV)?;
        let resumed = port.resume();
        // If it does not answer, it may do so later.
        self.gone.store(resumed.is_err(), Release);
        self.paused.store(false, Release);
        if resumed.is_ok() {
            self.is_back(&**port);
        } else {
            self.tell_closed();
            self.run_in(WATCH_MS);
        }
        resumed
    }

    /// Looks whether the function answers, and lets go of one that does not: its links are down and
    /// its users get `ENODEV`, until it answers again.
    pub(super) fn watch(&self, port: &dyn Port) -> bool {
        let present = port.is_present();
        match (present, self.gone.load(Acquire)) {
            (true, true) => {
                if let Err(e) = port.restart() {
                    self.complain(fmt!("the function answers, but does not start: {:?}", e));
                    return false;
                }
                self.gone.store(false, Release);
                dev_info!(self.pci(), "the function answers again\n");
                self.is_back(port);
            }
            (false, false) => {
                dev_err!(
                    self.pci(),
                    "the function does not answer: all reads are ones; users get ENODEV\n"
                );
                trace::port_event(&self.pci(), trace::Port::Gone, 0);
                self.gone.store(true, Release);
                self.links_down(port, Reason::Removed);
                port.suspend();
                self.tell_closed();
            }
            (true, false) if port.owner().is_some_and(|owner| owner.was_reset()) => {
                self.links_down(port, Reason::Link);
                port.suspend();
                if let Err(e) = port.resume() {
                    // Tried again as one that does not answer.
                    self.complain(fmt!("was reset, and does not start: {:?}", e));
                    self.gone.store(true, Release);
                    self.tell_closed();
                    return false;
                }
                dev_info!(self.pci(), "was reset by its physical function\n");
                self.is_back(port);
            }
            (true, false) | (false, true) => {}
        }
        present
    }

    /// The function works again: it hears what it has missed of its users, and links may come up.
    fn is_back(&self, port: &dyn Port) {
        self.tell_users(port);
        if let Some(manager) = self.manager() {
            manager.forget();
        }
        self.look(port);
        // Users may have rung meanwhile.
        if let Some(client) = self.client() {
            client.kicked();
        }
    }

    fn tell_closed(&self) {
        if let Some(client) = self.client() {
            client.closed();
        }
        self.waiters.wake_all();
        self.wake_manager();
    }
}
