// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queues of match requests, whose slots all queues share. This file is independent of what the queues are for.

use super::{
    free::{Chained, Free},
    request::{Command, Request, Work},
    storage::{Storage, NONE},
};

/// A slot for a request that waits, or is being executed.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    next: u32,
    request: Request,
}

impl Slot {
    /// Initial value for memory.
    pub const FREE: Self = Self {
        next: NONE,
        request: Request {
            endpoint: 0,
            class: 0,
            work: Work::Command(Command::Disable),
        },
    };
}

impl Chained for Slot {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// A queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    first: u32,
    last: u32,
    pub count: u32,
}

impl Queue {
    pub const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        count: 0,
    };
}

/// The slots.
pub(super) struct Slots<R> {
    slots: R,
    free: Free,
}

impl<R: Storage<Slot>> Slots<R> {
    pub const fn new(slots: R) -> Self {
        Self {
            slots,
            free: Free::ALL,
        }
    }

    /// Returns whether at least half of the slots are free.
    pub fn has_half(&self) -> bool {
        self.free.count(&self.slots) >= self.slots.count() / 2
    }

    /// Puts a request into a free slot.
    pub fn take(&mut self, request: Request) -> Option<u32> {
        let (at, slot) = self.free.take(&mut self.slots)?;
        *slot = Slot {
            next: NONE,
            request,
        };
        Some(at)
    }

    /// Frees a slot that is in no queue.
    pub fn put(&mut self, at: u32) {
        self.free.put(&mut self.slots, at);
    }

    pub fn request(&self, at: u32) -> Option<Request> {
        self.slots.at(at).map(|slot| slot.request)
    }

    pub fn push(&mut self, queue: &mut Queue, at: u32) {
        match self.slots.at_mut(queue.last) {
            Some(last) => last.next = at,
            None => queue.first = at,
        }
        if let Some(slot) = self.slots.at_mut(at) {
            slot.next = NONE;
        }
        queue.last = at;
        queue.count += 1;
    }

    /// Puts a slot in front of all others.
    pub fn push_front(&mut self, queue: &mut Queue, at: u32) {
        if let Some(slot) = self.slots.at_mut(at) {
            slot.next = queue.first;
        }
        if queue.first == NONE {
            queue.last = at;
        }
        queue.first = at;
        queue.count += 1;
    }

    /// Takes the first slot out.
    pub fn pop(&mut self, queue: &mut Queue) -> Option<u32> {
        let at = queue.first;
        let slot = self.slots.at(at)?;
        queue.first = slot.next;
        if queue.first == NONE {
            queue.last = NONE;
        }
        queue.count = queue.count.saturating_sub(1);
        Some(at)
    }
}
