// SPDX-License-Identifier: GPL-2.0

//! A sleeper that the peer's doorbell is to wake, as the interrupt sees it.
//!
//! This file must not know what is waited for.

use kernel::sync::atomic::{Acquire, Atomic, Full, Release};

/// There is no sleeper, or the peer has rung.
const NO: u32 = 0;
const YES: u32 = 1;
/// The event that it sleeps for has come, but no doorbell yet.
const DUE: u32 = 2;

/// Whether a user sleeps until an event comes.
pub(crate) struct Sleeper(Atomic<u32>);

impl Sleeper {
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(NO))
    }

    /// A user is about to sleep. Ordered before the caller's next look: a doorbell that misses the sleeper has come
    /// before that look, and what was rung for before the doorbell.
    pub(crate) fn sleeps(&self) {
        self.0.xchg(YES, Full);
    }

    /// The peer has rung: returns whether there is a sleeper whose event `has_come`. The caller then wakes all. Called in
    /// hard interrupts.
    ///
    /// If it has not come, the peer knows the event index and rings again. So a doorbell that is rung for
    /// nothing wakes no program.
    pub(crate) fn rung(&self, has_come: impl FnOnce() -> bool) -> bool {
        // Pairs with `sleeps`: either the sleeper is seen here, or it sees what has come.
        let slept = self.0.load(Acquire);
        if slept == NO {
            return false;
        }
        if has_come() {
            // A sleeper that comes meanwhile is woken by the caller, and looks again.
            self.0.store(NO, Release);
            return true;
        }
        if slept == DUE {
            // Another thread has taken what had come: its doorbell was not lost.
            let _ = self.0.cmpxchg(DUE, YES, Full);
        }
        false
    }

    /// Returns whether the event had come at the previous call already and still has no doorbell: the doorbell was lost,
    /// since one on its way arrives within the time between two calls. The caller then wakes all.
    pub(crate) fn recheck(&self, has_come: impl FnOnce() -> bool) -> bool {
        let slept = self.0.load(Acquire);
        if slept == NO || !has_come() {
            return false;
        }
        let again = slept == DUE;
        let next = if again { NO } else { DUE };
        // A doorbell in between takes precedence.
        self.0.cmpxchg(slept, next, Full).is_ok() && again
    }
}
