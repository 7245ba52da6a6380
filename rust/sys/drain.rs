// SPDX-License-Identifier: GPL-2.0

//! A count of those inside of something that can be closed: closed, it lets nothing in, and is drained
//! when the last has left.
//!
//! One atomic word: entering never waits, in any context. How the last one is waited for, and what is
//! inside, is the matter of [`super::gate`], [`super::slots`] and of others that are built on this.

use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed};

/// Set while it is closed. The bits below count those inside.
const CLOSED: u32 = 1 << 31;

/// The count.
pub(crate) struct Drain(Atomic<u32>);

/// Why nothing gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is closed.
    Closed,
    /// There are as many inside as can be counted, or, asked to close only if there are none, some.
    Busy,
}

impl Drain {
    /// Open, with nothing inside.
    pub(crate) const fn open() -> Self {
        Self(Atomic::new(0))
    }

    /// Closed and drained.
    pub(crate) const fn closed() -> Self {
        Self(Atomic::new(CLOSED))
    }

    /// Replaces the word by what `f` makes of it; the word before.
    fn update(&self, f: impl Fn(u32) -> Result<u32, Refused>) -> Result<u32, Refused> {
        let mut now = self.0.load(Relaxed);
        loop {
            match self.0.cmpxchg(now, f(now)?, Full) {
                Ok(before) => return Ok(before),
                Err(other) => now = other,
            }
        }
    }

    /// One more is inside, until [`Drain::leave`].
    pub(crate) fn enter(&self) -> Result<(), Refused> {
        let entered = self.update(|now| match now {
            _ if now & CLOSED != 0 => Err(Refused::Closed),
            _ if now == CLOSED - 1 => Err(Refused::Busy),
            _ => Ok(now + 1),
        });
        entered.map(|_| ())
    }

    /// One less. True: that was the last one of what is closed.
    pub(crate) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Full) == CLOSED + 1
    }

    /// Nothing enters any more. False: so it was before.
    pub(crate) fn close(&self) -> bool {
        let closed = self.update(|now| match now & CLOSED {
            0 => Ok(now | CLOSED),
            _ => Err(Refused::Closed),
        });
        closed.is_ok()
    }

    /// The same, if nothing is inside.
    pub(crate) fn close_idle(&self) -> Result<(), Refused> {
        let closed = self.update(|now| match now {
            0 => Ok(CLOSED),
            _ if now & CLOSED != 0 => Err(Refused::Closed),
            _ => Err(Refused::Busy),
        });
        closed.map(|_| ())
    }

    /// Lets others in again, whatever is inside. False: it was open.
    pub(crate) fn reopen(&self) -> bool {
        let opened = self.update(|now| match now & CLOSED {
            0 => Err(Refused::Busy),
            _ => Ok(now & !CLOSED),
        });
        opened.is_ok()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Acquire) & CLOSED != 0
    }

    /// Whether it is closed and nothing is inside.
    pub(crate) fn is_drained(&self) -> bool {
        self.0.load(Acquire) == CLOSED
    }
}
