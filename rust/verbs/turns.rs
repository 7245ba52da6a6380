// SPDX-License-Identifier: GPL-2.0

//! The run queue of a link: queue pairs that wait to be serviced, in order.

use super::qp::Qp;
use kernel::{prelude::*, sync::Arc};

/// A queue of queue pairs, each of which is in it at most once.
pub(super) struct Turns {
    ring: KVVec<Option<Arc<Qp>>>,
    first: usize,
    count: usize,
}

impl Turns {
    pub(super) const fn new() -> Self {
        Self {
            ring: KVVec::new(),
            first: 0,
            count: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Makes room for `count` queue pairs in all.
    pub(super) fn reserve(&mut self, count: usize) -> Result {
        if count <= self.ring.len() {
            return Ok(());
        }
        let mut ring = KVVec::with_capacity(count.next_power_of_two(), GFP_KERNEL_ACCOUNT)?;
        while let Some(qp) = self.pop() {
            ring.push(Some(qp), GFP_KERNEL_ACCOUNT)?;
        }
        self.count = ring.len();
        self.first = 0;
        while ring.len() < ring.capacity() {
            ring.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        self.ring = ring;
        Ok(())
    }

    /// Adds a queue pair at the end. Returns false if there is no room.
    pub(super) fn push(&mut self, qp: Arc<Qp>) -> bool {
        let len = self.ring.len();
        if self.count >= len {
            return false;
        }
        match self.ring.get_mut((self.first + self.count) % len) {
            Some(place) => {
                *place = Some(qp);
                self.count += 1;
                true
            }
            None => false,
        }
    }

    pub(super) fn pop(&mut self) -> Option<Arc<Qp>> {
        let len = self.ring.len();
        if self.count == 0 {
            return None;
        }
        let qp = self.ring.get_mut(self.first)?.take();
        self.first = (self.first + 1) % len;
        self.count -= 1;
        qp
    }
}
