// SPDX-License-Identifier: GPL-2.0

//! The queue pairs that a session of a link connects, by index: a run of the engine finds the
//! recipient of a cell without a lock of the port.
//!
//! A queue pair is in it while its path names the session and the session has not ended. Both change
//! with the worker's core and the queue pair locked.

use super::{qp::Qp, table};
use kernel::{prelude::*, sync::Arc};

/// The queue pairs of one end of a link.
pub(super) struct Members {
    slots: KVVec<Option<Arc<Qp>>>,
    count: usize,
}

impl Members {
    pub(super) const fn new() -> Self {
        Self {
            slots: KVVec::new(),
            count: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds a queue pair that is not in it.
    pub(super) fn add(&mut self, qp: Arc<Qp>) -> Result {
        let index = table::index(qp.number()).ok_or(EINVAL)?;
        while self.slots.len() <= index {
            self.slots.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Some(qp);
            self.count += 1;
        }
        Ok(())
    }

    pub(super) fn find(&self, qpn: u32) -> Option<&Arc<Qp>> {
        let slot = self.slots.get(table::index(qpn)?)?;
        slot.as_ref().filter(|qp| qp.number() == qpn)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Qp>> {
        self.slots.iter().flatten()
    }

    pub(super) fn remove(&mut self, qpn: u32) {
        if self.find(qpn).is_none() {
            return;
        }
        let slot = table::index(qpn).and_then(|index| self.slots.get_mut(index));
        if slot.is_some_and(|slot| slot.take().is_some()) {
            self.count -= 1;
        }
    }

    /// Removes all queue pairs.
    pub(super) fn clear(&mut self) {
        self.slots = KVVec::new();
        self.count = 0;
    }
}
