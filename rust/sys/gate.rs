// SPDX-License-Identifier: GPL-2.0

//! A value that can be taken away from those who use it.
//!
//! Entering never blocks: it succeeds or fails at once. A reader-writer lock would not do, as a task
//! in an ioctl may fault and so wait for `mmap_lock`, while another holds `mmap_lock` in a page fault
//! and enters; a writer that waits in between would close the circle. Hard interrupts enter, too.

use crate::sys::{drain::Drain, waitq::WaitQueue};
use core::{cell::UnsafeCell, ops::Deref};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Full, Release},
};

/// A value that is there between [`Gate::open`] and [`Gate::revoke`].
#[pin_data]
pub(crate) struct Gate<T> {
    drain: Drain,
    used: Atomic<bool>,
    #[pin]
    left: WaitQueue,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: The value is handed out by shared reference, and moved out when the gate is drained.
unsafe impl<T: Send + Sync> Sync for Gate<T> {}
// SAFETY: As above.
unsafe impl<T: Send> Send for Gate<T> {}

impl<T> Gate<T> {
    /// A closed gate.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            drain: Drain::closed(),
            used: Atomic::new(false),
            left <- WaitQueue::new(c"weft gate", kernel::static_lock_class!()),
            value: UnsafeCell::new(None),
        })
    }

    /// Opens the gate, once until [`Gate::renew`]; another time `value` is dropped, with `EBUSY`.
    pub(crate) fn open(&self, value: T) -> Result {
        if self.used.xchg(true, Full) {
            return Err(EBUSY);
        }
        // SAFETY: The gate is closed and empty, and only one caller gets here: there is no reference to the value.
        unsafe { *self.value.get() = Some(value) };
        self.drain.reopen();
        Ok(())
    }

    /// Enters, unless the gate is closed.
    pub(crate) fn enter(&self) -> Option<Guard<'_, T>> {
        self.drain.enter().ok()?;
        // SAFETY: `open` has set the value; `revoke` takes it when those inside have left.
        match unsafe { (*self.value.get()).as_ref() } {
            Some(value) => Some(Guard { gate: self, value }),
            None => {
                self.leave();
                None
            }
        }
    }

    /// Returns whether it lets nothing in.
    pub(crate) fn is_closed(&self) -> bool {
        self.drain.is_closed()
    }

    /// Closes the gate, calls `closed`, which has to wake those who sleep inside, waits until all
    /// have left and returns the value. Once: then, and if it never was open, `None`.
    pub(crate) fn revoke(&self, closed: impl FnOnce()) -> Option<T> {
        // A gate that was not opened stays closed.
        self.used.xchg(true, Full);
        if !self.drain.close() {
            return None;
        }
        closed();
        self.left.wait_through(|| self.drain.is_drained());
        // SAFETY: The gate is closed and drained, and only one caller gets here.
        unsafe { (*self.value.get()).take() }
    }

    fn leave(&self) {
        if self.drain.leave() {
            self.left.wake_all();
        }
    }

    /// A gate that was revoked can be opened once more. To be called by the one that has revoked it, unless
    /// another caller does so, too.
    pub(crate) fn renew(&self) {
        self.used.store(false, Release);
    }
}

/// Keeps the value of a [`Gate`] where it is.
pub(crate) struct Guard<'a, T> {
    gate: &'a Gate<T>,
    value: &'a T,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.gate.leave();
    }
}
