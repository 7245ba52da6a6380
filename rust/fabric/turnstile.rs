// SPDX-License-Identifier: GPL-2.0

//! Lets calls of users through one by one, or has them wait in front of it.

use crate::sys::{
    drain::{Drain, Refused},
    waitq::WaitQueue,
};
use kernel::prelude::*;

/// Who is inside stays as long as he likes; who comes while it is shut waits.
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

    /// `ERESTARTSYS`: a signal came before it was opened; `EAGAIN`: more are inside than can be counted.
    pub(super) fn enter(&self) -> Result<Inside<'_>> {
        loop {
            match self.drain.enter() {
                Ok(()) => return Ok(Inside(self)),
                Err(Refused::Closed) => self.waiters.wait(|| !self.drain.is_closed())?,
                Err(Refused::Busy) => return Err(EAGAIN),
            }
        }
    }

    /// Lets nothing in until it is opened. Returns whether nothing is inside.
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

/// A call that is inside.
pub(crate) struct Inside<'a>(&'a Turnstile);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.drain.leave();
    }
}
