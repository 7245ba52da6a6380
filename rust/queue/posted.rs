// SPDX-License-Identifier: GPL-2.0

//! A queue of work requests that a user posts into mapped memory: send, receive, shared receive.
//!
//! The user writes entries and then their count; an entry is copied once, and what comes back is the
//! copy. It must not know what is in an entry.

use crate::{
    proto::wqe::{QueueShape, MAX_SEND_BYTES, POSTED_AT, TAKEN_AT},
    sys::pages::{look, release, Pages},
};
use kernel::{prelude::*, sync::Arc};

/// The user has counted more entries than there are.
#[derive(Debug)]
pub(crate) struct Overposted;

/// The copy of an entry.
pub(crate) struct Entry {
    bytes: [u8; MAX_SEND_BYTES],
    stride: usize,
}

impl Entry {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.stride).unwrap_or_default()
    }
}

/// The driver's end of a queue.
pub(crate) struct Posted {
    memory: Arc<Pages>,
    /// Where in it the queue begins.
    at: usize,
    shape: QueueShape,
    taken: u64,
}

impl Posted {
    /// A queue that begins at `at` of `memory`, a multiple of 8. `EINVAL`: it does not fit there.
    pub(crate) fn new(memory: Arc<Pages>, at: usize, shape: QueueShape) -> Result<Self> {
        let end = at.checked_add(shape.bytes()).ok_or(EINVAL)?;
        if at % size_of::<u64>() != 0 || end > memory.bytes() {
            return Err(EINVAL);
        }
        Ok(Self {
            memory,
            at,
            shape,
            taken: 0,
        })
    }

    pub(crate) fn shape(&self) -> &QueueShape {
        &self.shape
    }

    /// How many entries wait to be taken.
    pub(crate) fn pending(&self) -> Result<u32, Overposted> {
        // Inside the memory, by `new`.
        let posted = self.memory.read64(self.at + POSTED_AT).unwrap_or(0);
        self.shape.pending(posted, self.taken).ok_or(Overposted)
    }

    /// Takes the next entry: the user may write over it.
    pub(crate) fn take(&mut self) -> Result<Option<Entry>, Overposted> {
        if self.pending()? == 0 {
            return Ok(None);
        }
        // The entry was written before the count that was read.
        look();
        let mut entry = Entry {
            bytes: [0; MAX_SEND_BYTES],
            stride: self.shape.stride() as usize,
        };
        let at = self.at + self.shape.entry_at(self.taken);
        if let Some(bytes) = entry.bytes.get_mut(..entry.stride) {
            // Inside the memory, by `new`.
            let _ = self.memory.copy_in(at, bytes);
        }
        self.taken += 1;
        // The copy is made before the user may write over the entry.
        release();
        let _ = self.memory.write64(self.at + TAKEN_AT, self.taken);
        Ok(Some(entry))
    }
}
