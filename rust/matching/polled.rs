// SPDX-License-Identifier: GPL-2.0

//! Whether a task looks again and again for what would otherwise wake a thread or a work item.
//!
//! What is left to such a task is looked at from time to time, and a time in which the task has not come ends it: then
//! the thread, or the work item, does it again, and is woken again. This file must not know what there is to be done.

use kernel::sync::atomic::{Atomic, Full, Relaxed};

/// No task looks.
const NO: u32 = 0;
/// One has looked, but not since the last time that this was asked for.
const ONCE: u32 = 1;
const YES: u32 = 2;

/// Whether a task looks.
pub(super) struct Polled(Atomic<u32>);

impl Polled {
    pub(super) const fn new() -> Self {
        Self(Atomic::new(NO))
    }

    /// A task looks. Returns whether none did before: what is to call [`Self::lapse`] is told then.
    pub(super) fn renew(&self) -> bool {
        // Mostly nothing changes.
        self.0.load(Relaxed) != YES && self.0.xchg(YES, Full) == NO
    }

    /// Returns whether a task looks. If so, what was changed before this call is seen by it, or by what it is that calls
    /// [`Self::lapse`], afterwards.
    pub(super) fn is_current(&self) -> bool {
        // Ordered behind that change, as the other calls are in front of looks.
        self.0.fetch_add(0, Full) != NO
    }

    /// Returns whether a task has looked since the last call. If not, it does not look any more.
    pub(super) fn lapse(&self) -> bool {
        if self.0.load(Relaxed) == NO {
            return false;
        }
        let _ = self.0.cmpxchg(ONCE, NO, Full);
        self.0.cmpxchg(YES, ONCE, Full).is_ok()
    }

    /// The task does not look any more. Returns whether one did.
    pub(super) fn end(&self) -> bool {
        self.0.load(Relaxed) != NO && self.0.xchg(NO, Full) != NO
    }
}
