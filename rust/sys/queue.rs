// SPDX-License-Identifier: GPL-2.0

//! A queue of a fixed size: putting allocates nothing.

use super::memory::Memory;
use kernel::prelude::*;

/// The queue.
pub(crate) struct Queue<T> {
    ring: Memory<T>,
    head: usize,
    count: usize,
}

impl<T: Copy> Queue<T> {
    /// Makes an empty queue of `depth` places, which hold `blank` at first.
    pub(crate) fn new(blank: T, depth: usize) -> Result<Self> {
        Ok(Self {
            ring: Memory::new(blank, depth)?,
            head: 0,
            count: 0,
        })
    }

    /// Queues `element`. Returns false if there is no room.
    #[must_use]
    pub(crate) fn put(&mut self, element: T) -> bool {
        let ring = self.ring.as_mut();
        let depth = ring.len();
        if self.count >= depth {
            return false;
        }
        let place = ring.get_mut((self.head + self.count) % depth);
        let Some(place) = place else {
            return false;
        };
        *place = element;
        self.count += 1;
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns whether there is an element for which `f` returns true.
    pub(crate) fn any(&self, f: &dyn Fn(&T) -> bool) -> bool {
        let ring = self.ring.as_ref();
        let mut places = (self.head..).take(self.count);
        places.any(|at| ring.get(at % ring.len().max(1)).is_some_and(f))
    }

    /// Takes the oldest element.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.count = self.count.checked_sub(1)?;
        let ring = self.ring.as_ref();
        let element = ring.get(self.head).copied();
        self.head = (self.head + 1) % ring.len().max(1);
        element
    }
}
