// SPDX-License-Identifier: GPL-2.0

//! A value that can be revoked from its users.
//!
//! Entering never blocks: it succeeds or fails at once. A reader-writer lock would deadlock: a task in
//! an ioctl holds it and faults, so it waits for `mmap_lock`, while another task holds `mmap_lock` in a
//! page fault and waits for the lock behind a writer that waits for the first task. Hard interrupts
//! enter, too.

use crate::sys::{drain::Drain, waitq::WaitQueue};
use core::{cell::UnsafeCell, ops::Deref};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Full, Release},
};

/// A value that can be used between [`Gate::open`] and [`Gate::revoke`].
#[pin_data]
pub(crate) struct Gate<T> {
    drain: Drain,
    used: Atomic<bool>,
    #[pin]
    left: WaitQueue,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: The value is handed out by shared reference, and moved out when no guard is left.
unsafe impl<T: Send + Sync> Sync for Gate<T> {}
// SAFETY: As above.
unsafe impl<T: Send> Send for Gate<T> {}

impl<T> Gate<T> {
    /// Makes a closed gate.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            drain: Drain::closed(),
            used: Atomic::new(false),
            left <- WaitQueue::new(c"weft gate", kernel::static_lock_class!()),
            value: UnsafeCell::new(None),
        })
    }

    /// Opens the gate with `value`. Possible once, and once more after each [`Gate::renew`].
    ///
    /// # Errors
    ///
    /// `EBUSY` if the gate was opened or revoked before; `value` is dropped then.
    pub(crate) fn open(&self, value: T) -> Result {
        if self.used.xchg(true, Full) {
            return Err(EBUSY);
        }
        // SAFETY: The gate is closed and empty, and only one caller gets here: nothing reads the value.
        unsafe { *self.value.get() = Some(value) };
        self.drain.reopen();
        Ok(())
    }

    /// Returns a guard, or `None` if the gate is closed. Any context; never waits.
    pub(crate) fn enter(&self) -> Option<Guard<'_, T>> {
        self.drain.enter().ok()?;
        // SAFETY: `open` has set the value; `revoke` takes it when all guards are dropped.
        match unsafe { (*self.value.get()).as_ref() } {
            Some(value) => Some(Guard { gate: self, value }),
            None => {
                self.leave();
                None
            }
        }
    }

    /// Returns whether the gate is closed: [`Gate::enter`] fails.
    pub(crate) fn is_closed(&self) -> bool {
        self.drain.is_closed()
    }

    /// Closes the gate, calls `closed`, waits until all guards are dropped and returns the value.
    ///
    /// `closed` must wake the tasks that sleep with a guard. Returns `None`, without a call of `closed`,
    /// if the gate is closed already; a gate that never was open cannot be opened then. Sleeps.
    pub(crate) fn revoke(&self, closed: impl FnOnce()) -> Option<T> {
        // A gate that was not opened stays closed.
        self.used.xchg(true, Full);
        if !self.drain.close() {
            return None;
        }
        closed();
        self.left.wait_through(|| self.drain.is_drained());
        // SAFETY: No guard is left or can be made, and only one caller gets here.
        unsafe { (*self.value.get()).take() }
    }

    fn leave(&self) {
        if self.drain.leave() {
            self.left.wake_all();
        }
    }

    /// Lets a gate that was revoked be opened once more. The caller has revoked it, and no other caller
    /// revokes it at the same time.
    pub(crate) fn renew(&self) {
        self.used.store(false, Release);
    }
}

/// A guard: while it exists, the value of the [`Gate`] stays.
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
