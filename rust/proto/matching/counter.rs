// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Counting events, and operations that they trigger.
//!
//! A counter counts successes and failures. A triggered operation waits until its counter has counted as many
//! successes as its threshold says; those of one counter are in the order of their thresholds, and of one
//! threshold in the order in which they came. This file is independent of what the operations are.

use super::{
    free::{Chained, Free},
    storage::{Storage, NONE},
};

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Operations that have succeeded.
    pub success: u64,
    /// Operations that have failed.
    pub failure: u64,
    first: u32,
    last: u32,
}

impl Counter {
    /// Initial value for memory.
    pub const ZERO: Self = Self {
        success: 0,
        failure: 0,
        first: NONE,
        last: NONE,
    };
}

/// A triggered operation.
#[derive(Clone, Copy, Debug)]
pub struct Trigger {
    threshold: u64,
    operation: u64,
    next: u32,
    prev: u32,
}

impl Trigger {
    /// Initial value for memory.
    pub const FREE: Self = Self {
        threshold: 0,
        operation: 0,
        next: NONE,
        prev: NONE,
    };
}

impl Chained for Trigger {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// Counters with their triggered operations.
pub struct Counters<C, T> {
    counters: C,
    triggers: T,
    free: Free,
}

impl<C: Storage<Counter>, T: Storage<Trigger>> Counters<C, T> {
    /// Makes the counters. `counters` are [`Counter::ZERO`], `triggers` [`Trigger::FREE`], for all operations
    /// that wait at once.
    pub const fn new(counters: C, triggers: T) -> Self {
        Self {
            counters,
            triggers,
            free: Free::ALL,
        }
    }

    /// Returns a counter.
    pub fn get(&self, counter: u32) -> Option<&Counter> {
        self.counters.at(counter)
    }

    /// Counts. Afterwards the caller starts what is [`Self::due`].
    pub fn count(&mut self, counter: u32, success: u64, failure: u64) {
        if let Some(counter) = self.counters.at_mut(counter) {
            counter.success = counter.success.wrapping_add(success);
            counter.failure = counter.failure.wrapping_add(failure);
        }
    }

    /// Sets a counter, as its program asks for. Afterwards the caller starts what is [`Self::due`].
    pub fn set(&mut self, counter: u32, success: u64, failure: u64) {
        if let Some(counter) = self.counters.at_mut(counter) {
            counter.success = success;
            counter.failure = failure;
        }
    }

    /// Adds an operation, by which the caller knows it. Returns false if there is no such counter, or no room.
    /// It is due at once if the counter has come so far. Costs a step for each that waits for more.
    pub fn add(&mut self, counter: u32, threshold: u64, operation: u64) -> bool {
        let Some(mut after) = self.counters.at(counter).map(|counter| counter.last) else {
            return false;
        };
        let Some((at, _)) = self.free.take(&mut self.triggers) else {
            return false;
        };
        // Thresholds rise most of the time: from the end.
        let mut before = NONE;
        while let Some(trigger) = self.triggers.at(after) {
            if trigger.threshold <= threshold {
                break;
            }
            before = after;
            after = trigger.prev;
        }
        if let Some(trigger) = self.triggers.at_mut(at) {
            *trigger = Trigger {
                threshold,
                operation,
                next: before,
                prev: after,
            };
        }
        self.join(counter, after, at, at, before);
        true
    }

    /// Takes out the next operation whose threshold is reached.
    pub fn due(&mut self, counter: u32) -> Option<u64> {
        let counted = self.counters.at(counter)?;
        let (at, success) = (counted.first, counted.success);
        self.triggers
            .at(at)
            .filter(|trigger| trigger.threshold <= success)?;
        self.remove(counter, at)
    }

    /// Takes out the first operation, whatever its threshold: when the counter is closed.
    pub fn cancel(&mut self, counter: u32) -> Option<u64> {
        let at = self.counters.at(counter)?.first;
        self.remove(counter, at)
    }

    fn remove(&mut self, counter: u32, at: u32) -> Option<u64> {
        let trigger = *self.triggers.at(at)?;
        self.join(
            counter,
            trigger.prev,
            trigger.next,
            trigger.prev,
            trigger.next,
        );
        self.free.put(&mut self.triggers, at);
        Some(trigger.operation)
    }

    /// Makes `second` follow `first`, and `third` be in front of `fourth`, in the list of a counter.
    fn join(&mut self, counter: u32, first: u32, second: u32, third: u32, fourth: u32) {
        let Some(ends) = self.counters.at_mut(counter) else {
            return;
        };
        match self.triggers.at_mut(first) {
            Some(trigger) => trigger.next = second,
            None => ends.first = second,
        }
        match self.triggers.at_mut(fourth) {
            Some(trigger) => trigger.prev = third,
            None => ends.last = third,
        }
    }
}
