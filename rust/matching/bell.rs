// SPDX-License-Identifier: GPL-2.0

//! What wakes the thread of an interface, unless a task of its process does its work.
//!
//! This file must not know what there is to be done.

use super::{polled::Polled, WAITING};
use crate::sys::waitq::WaitQueue;
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Full, Relaxed},
};

/// So much has come, taken by a call of another program, and the program that polls has not called: before there is no
/// place for more, the thread does the work.
const MANY: u32 = WAITING / 2;

/// What a call is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// There is something in the rings.
    Look,
    /// The same, or something may have come; and the program calls again soon.
    Poll,
    /// The program is about to sleep.
    Rest,
}

/// What wakes the thread.
#[pin_data]
pub(super) struct Bell {
    #[pin]
    pub(super) sleep: WaitQueue,
    /// How often it was rung, and not heard.
    pub(super) rung: Atomic<u32>,
    /// A task does the work.
    pub(super) called: Atomic<bool>,
    /// The thread is to do the work.
    pub(super) needed: Atomic<bool>,
    pub(super) polled: Polled,
}

impl Bell {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            sleep <- WaitQueue::new(c"weft matching sleep", kernel::static_lock_class!()),
            rung: Atomic::new(0),
            called: Atomic::new(false),
            needed: Atomic::new(false),
            polled: Polled::new(),
        })
    }

    /// Has everything looked at: by the thread, or by the task that does its work. What rings does so behind what it has
    /// changed. Any context.
    pub(super) fn ring(&self) {
        match self.rung.fetch_add(1, Full) {
            // Otherwise what does the work looks at this.
            0 if !self.called.load(Relaxed) && !self.polled.is_current() => self.sleep.wake_all(),
            MANY if !self.called.load(Relaxed) && self.polled.is_current() => self.need(),
            _ => {}
        }
    }

    pub(super) fn is_rung(&self) -> bool {
        self.rung.load(Relaxed) != 0
    }

    /// What rings from here on is looked at again. Returns whether it has rung before.
    pub(super) fn hush(&self) -> bool {
        self.rung.xchg(0, Full) != 0
    }

    /// Has the thread do the work, whatever polls.
    pub(super) fn need(&self) {
        self.needed.xchg(true, Full);
        self.sleep.wake_all();
    }
}
