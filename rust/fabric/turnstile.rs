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
        self.go_in()?;
        Ok(Inside {
            gate: self,
            is_in: Cell::new(true),
        })
    }

    fn go_in(&self) -> Result {
        loop {
            match self.drain.enter() {
                Ok(()) => return Ok(()),
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
        self.gate.go_in()?;
        self.is_in.set(true);
        slept
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
