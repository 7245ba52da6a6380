// SPDX-License-Identifier: GPL-2.0

//! A count of the users of an object that can be closed: a closed object accepts no new users, and is
//! drained when the last one has left.
//!
//! The count is one atomic word: entering never waits, in any context. [`super::gate`], [`super::slots`]
//! and others that are built on it add the object, and the waiting for the last user.

use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed};

/// Set while the object is closed. The bits below are the count.
const CLOSED: u32 = 1 << 31;

/// The count.
pub(crate) struct Drain(Atomic<u32>);

/// Why [`Drain::enter`] or [`Drain::close_idle`] fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The object is closed.
    Closed,
    /// For `enter`: the count is at its maximum. For `close_idle`: the count is not 0.
    Busy,
}

impl Drain {
    /// Open, and the count is 0.
    pub(crate) const fn open() -> Self {
        Self(Atomic::new(0))
    }

    /// Closed, and the count is 0.
    pub(crate) const fn closed() -> Self {
        Self(Atomic::new(CLOSED))
    }

    /// Replaces the word by the result of `f`, unless that is an error, and returns the previous word.
    fn update(&self, f: impl Fn(u32) -> Result<u32, Refused>) -> Result<u32, Refused> {
        let mut now = self.0.load(Relaxed);
        loop {
            match self.0.cmpxchg(now, f(now)?, Full) {
                Ok(before) => return Ok(before),
                Err(other) => now = other,
            }
        }
    }

    /// Adds 1 to the count, until [`Drain::leave`]. `Closed` if the object is closed; `Busy` if the
    /// count is at its maximum.
    pub(crate) fn enter(&self) -> Result<(), Refused> {
        let entered = self.update(|now| match now {
            _ if now & CLOSED != 0 => Err(Refused::Closed),
            _ if now == CLOSED - 1 => Err(Refused::Busy),
            _ => Ok(now + 1),
        });
        entered.map(|_| ())
    }

    /// Subtracts 1 from the count. Returns true if the object is closed and this was the last user.
    pub(crate) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Full) == CLOSED + 1
    }

    /// Closes the object. Returns false if it was closed before.
    pub(crate) fn close(&self) -> bool {
        let closed = self.update(|now| match now & CLOSED {
            0 => Ok(now | CLOSED),
            _ => Err(Refused::Closed),
        });
        closed.is_ok()
    }

    /// Closes the object if the count is 0. `Closed` if it was closed before, else `Busy`.
    pub(crate) fn close_idle(&self) -> Result<(), Refused> {
        let closed = self.update(|now| match now {
            0 => Ok(CLOSED),
            _ if now & CLOSED != 0 => Err(Refused::Closed),
            _ => Err(Refused::Busy),
        });
        closed.map(|_| ())
    }

    /// Opens the object again, whatever the count is. Returns false if it was open.
    pub(crate) fn reopen(&self) -> bool {
        let opened = self.update(|now| match now & CLOSED {
            0 => Err(Refused::Busy),
            _ => Ok(now & !CLOSED),
        });
        opened.is_ok()
    }

    /// Returns whether the object is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Acquire) & CLOSED != 0
    }

    /// Returns whether the object is closed and the count is 0.
    pub(crate) fn is_drained(&self) -> bool {
        self.0.load(Acquire) == CLOSED
    }
}
