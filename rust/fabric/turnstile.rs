// SPDX-License-Identifier: GPL-2.0

//! Lets calls of users through one by one, or has them wait in front of it.

use crate::sys::waitq::WaitQueue;
use kernel::{
    prelude::*,
    sync::atomic::{Acquire, Atomic, Full},
};

/// Who is inside stays as long as he likes; who comes while it is shut waits.
#[pin_data]
pub(super) struct Turnstile {
    inside: Atomic<i32>,
    shut: Atomic<bool>,
    #[pin]
    waiters: WaitQueue,
}

impl Turnstile {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inside: Atomic::new(0),
            shut: Atomic::new(false),
            waiters <- WaitQueue::new(c"weft turnstile", kernel::static_lock_class!()),
        })
    }

    /// `ERESTARTSYS`: a signal came before it was opened.
    pub(super) fn enter(&self) -> Result<Inside<'_>> {
        loop {
            let inside = Inside(self);
            self.inside.fetch_add(1, Full);
            if !self.shut.load(Acquire) {
                return Ok(inside);
            }
            drop(inside);
            self.waiters.wait(|| !self.shut.load(Acquire))?;
        }
    }

    /// True: nobody is inside, or comes in until it is opened.
    pub(super) fn shut(&self) -> bool {
        self.shut.xchg(true, Full);
        self.inside.load(Acquire) == 0
    }

    pub(super) fn open(&self) {
        if self.shut.xchg(false, Full) {
            self.waiters.wake_all();
        }
    }
}

/// Somebody who is inside.
pub(crate) struct Inside<'a>(&'a Turnstile);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Full);
    }
}
