// SPDX-License-Identifier: GPL-2.0

//! The entry gate of users' calls: open, it lets them in; shut, they wait.

use crate::sys::{
    drain::{Drain, Refused},
    waitq::WaitQueue,
};
use kernel::prelude::*;

/// Calls that are inside are not limited in time. Calls that come while the gate is shut wait.
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
        loop {
            match self.drain.enter() {
                Ok(()) => return Ok(Inside(self)),
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

/// A call that is inside, until this is dropped.
pub(crate) struct Inside<'a>(&'a Turnstile);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.drain.leave();
    }
}
