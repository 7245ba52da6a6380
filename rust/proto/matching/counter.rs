// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Counting events, and operations that they trigger.
//!
//! A counter counts successes and failures. A triggered operation waits until its counter has counted as many
//! successes as its threshold says, or as many of both; those of one counter that wait for the same are in the order
//! of their thresholds, and of one threshold in the order in which they came. This file is independent of what the
//! operations are.

use super::{
    free::{Chained, Free},
    storage::{Storage, NONE},
};

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Operations that have succeeded.
    Successes,
    /// All that have ended.
    All,
}

/// The operations that wait for the same.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

/// A counter.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    success: u64,
    failure: u64,
    /// By what they wait for.
    lists: [List; 2],
}

impl Counter {
    /// Initial value for memory.
    pub const ZERO: Self = Self {
        success: 0,
        failure: 0,
        lists: [List {
            first: NONE,
            last: NONE,
        }; 2],
    };

    /// Returns what has been counted, of what operations wait for.
    const fn reached(&self) -> [u64; 2] {
        [self.success, self.success.saturating_add(self.failure)]
    }
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
    pub fn add(&mut self, counter: u32, of: Of, threshold: u64, operation: u64) -> bool {
        let list = of as usize;
        let Some(mut after) = self
            .counters
            .at(counter)
            .map(|counter| counter.lists[list].last)
        else {
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
        self.join((counter, list), (after, at), (at, before));
        true
    }

    /// Takes out the next operation whose threshold is reached.
    pub fn due(&mut self, counter: u32) -> Option<u64> {
        let counted = *self.counters.at(counter)?;
        let heads = counted.lists.iter().zip(counted.reached());
        let reached = |(list, reached): (&List, u64)| {
            let trigger = self.triggers.at(list.first)?;
            (trigger.threshold <= reached).then_some(list.first)
        };
        let mut heads = heads.map(reached);
        let list = heads.position(|at| at.is_some())?;
        self.remove(counter, list, counted.lists[list].first)
    }

    /// Takes out the first operation, whatever its threshold: when the counter is closed.
    pub fn cancel(&mut self, counter: u32) -> Option<u64> {
        let lists = self.counters.at(counter)?.lists;
        let list = lists.iter().position(|list| list.first != NONE)?;
        self.remove(counter, list, lists[list].first)
    }

    /// Takes out an operation that its program gives up, whatever its threshold. Returns false if it does not wait for
    /// this counter. Costs a step for each in front of it.
    pub fn withdraw(&mut self, counter: u32, operation: u64) -> bool {
        let Some(lists) = self.counters.at(counter).map(|counter| counter.lists) else {
            return false;
        };
        for (list, ends) in lists.iter().enumerate() {
            let mut at = ends.first;
            while let Some(trigger) = self.triggers.at(at) {
                if trigger.operation == operation {
                    return self.remove(counter, list, at).is_some();
                }
                at = trigger.next;
            }
        }
        false
    }

    fn remove(&mut self, counter: u32, list: usize, at: u32) -> Option<u64> {
        let trigger = *self.triggers.at(at)?;
        let around = (trigger.prev, trigger.next);
        self.join((counter, list), around, around);
        self.free.put(&mut self.triggers, at);
        Some(trigger.operation)
    }

    /// Makes `second` follow `first`, and `third` be in front of `fourth`, in a list of a counter.
    fn join(
        &mut self,
        (counter, list): (u32, usize),
        (first, second): (u32, u32),
        (third, fourth): (u32, u32),
    ) {
        let Some(counter) = self.counters.at_mut(counter) else {
            return;
        };
        let ends = &mut counter.lists[list];
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
