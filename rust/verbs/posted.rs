// SPDX-License-Identifier: GPL-2.0

//! A queue of work requests that a user posts to mapped memory: send, receive or shared receive.
//!
//! The user writes entries, then their count, and may write both at any time: an entry is decoded word by
//! word, each of which is loaded once. This file must not know what is in an entry.

use crate::{
    proto::wqe::{QueueShape, POSTED_AT, TAKEN_AT},
    sys::{
        pages::{look, release, Pages},
        words::Words,
    },
};
use kernel::{prelude::*, sync::Arc};

/// The user's count exceeds the entries of the queue.
#[derive(Debug)]
pub(crate) struct Overposted;

/// The driver's end of a queue.
pub(crate) struct Posted {
    memory: Arc<Pages>,
    /// The offset of the queue in it.
    at: usize,
    shape: QueueShape,
    taken: u64,
    /// The highest count that [`Posted::has_more`] has seen.
    seen: u64,
}

impl Posted {
    /// Makes a queue that begins at `at` of `memory`, a multiple of 8. `EINVAL`: it does not fit
    /// there.
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
            seen: 0,
        })
    }

    pub(crate) fn shape(&self) -> &QueueShape {
        &self.shape
    }

    /// Returns the number of entries that were posted and not taken.
    pub(crate) fn pending(&self) -> Result<u32, Overposted> {
        // Inside the memory, by `new`.
        let posted = self.memory.read64(self.at + POSTED_AT).unwrap_or(0);
        self.shape.pending(posted, self.taken).ok_or(Overposted)
    }

    /// Returns whether entries were posted since the previous call.
    pub(crate) fn has_more(&mut self) -> bool {
        // Inside the memory, by `new`.
        let posted = self.memory.read64(self.at + POSTED_AT).unwrap_or(0);
        self.shape.tells_of_more(posted, self.taken, &mut self.seen)
    }

    /// Takes the next entry and returns the result of `f`, which decodes its words. The user may
    /// overwrite the entry then. `None`: the queue is empty.
    #[inline]
    pub(crate) fn take<R>(
        &mut self,
        f: impl FnOnce(Words<'_>) -> R,
    ) -> Result<Option<R>, Overposted> {
        if self.pending()? == 0 {
            return Ok(None);
        }
        // The entry was written before the count that was read.
        look();
        let at = self.at + self.shape.entry_at(self.taken);
        let words = self.shape.stride() as usize / size_of::<u64>();
        // Inside the memory, by `new`, and shorter than a page.
        let entry = self.memory.words(at, words).map_err(|_| Overposted)?;
        let decoded = f(entry);
        self.taken += 1;
        // All words are loaded before the user may write over the entry.
        release();
        let _ = self.memory.write64(self.at + TAKEN_AT, self.taken);
        Ok(Some(decoded))
    }
}
