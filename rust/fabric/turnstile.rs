// SPDX-License-Identifier: GPL-2.0

//! The entry gate of users' calls: open, it lets them in; shut, they wait.
//!
//! A call that sleeps until a peer or a user does something is not inside meanwhile: the gate would be
//! shut to all others for as long. The same holds of a call that accesses memory of its caller, since the
//! provider of a page may be a program.

use crate::sys::{
    drain::{Drain, Refused},
    waitq::WaitQueue,
};
use core::cell::Cell;
use kernel::prelude::*;

/// Calls that are inside are not limited in time. Calls that come while the gate is shut wait for it.
#[pin_data]
pub(super) struct Turnstile {
    drain: Drain,
    #[pin]
    waiters: WaitQueue,
}

impl Turnstile {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            drain: Drain::open(),
            waiters <- WaitQueue::new(c"weft turnstile", kernel::static_lock_class!()),
        })
    }

    /// Enters; waits while the gate is shut. `ERESTARTSYS`: a signal came before it was opened;
    /// `EAGAIN`: more calls are inside than can be counted.
    pub(super) fn enter(&self) -> Result<Inside<'_>> {
        self.enter_as(true)
    }

    /// As [`Self::enter`], but never waits: `EAGAIN` while the gate is shut, also from [`Inside::asleep`].
    pub(super) fn try_enter(&self) -> Result<Inside<'_>> {
        self.enter_as(false)
    }

    fn enter_as(&self, waits: bool) -> Result<Inside<'_>> {
        self.go_in(waits)?;
        Ok(Inside {
            gate: self,
            is_in: Cell::new(true),
            waits,
        })
    }

    fn go_in(&self, waits: bool) -> Result {
        loop {
            match self.drain.enter() {
                Ok(()) => return Ok(()),
                Err(Refused::Closed) if !waits => return Err(EAGAIN),
                Err(Refused::Closed) => self.waiters.wait(|| !self.drain.is_closed())?,
                Err(Refused::Busy) => return Err(EAGAIN),
            }
        }
    }

    /// Shuts the gate. Returns true if no call is inside; then none enters until [`Self::open`].
    pub(super) fn shut(&self) -> bool {
        self.drain.close();
        self.drain.is_drained()
    }

    pub(super) fn open(&self) {
        if self.drain.reopen() {
            self.waiters.wake_all();
        }
    }
}

/// A call that is inside, until this is dropped, except in [`Inside::asleep`].
pub(crate) struct Inside<'a> {
    gate: &'a Turnstile,
    is_in: Cell<bool>,
    /// It waits when it enters again.
    waits: bool,
}

impl Inside<'_> {
    /// Leaves the gate, for the rest of the call unless [`Inside::asleep`] enters it again.
    pub(crate) fn leave(&self) {
        if self.is_in.replace(false) {
            self.gate.drain.leave();
        }
    }

    /// Leaves the gate, calls `f`, which sleeps until a peer or a user does something, and enters again.
    /// The function may be replaced meanwhile: `f` and the caller must not have the port entered.
    ///
    /// Returns the error of [`Turnstile::enter`], after which the call is outside and ends, else what `f`
    /// returns. Sleeps.
    pub(crate) fn asleep<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.leave();
        let slept = f();
        self.gate.go_in(self.waits)?;
        self.is_in.set(true);
        slept
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
