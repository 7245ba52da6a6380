// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The work requests that were posted to a function, until their completions were reported to their
//! users. A completion is accepted only if it is the next one, belongs to the oldest outstanding
//! request, and can be true of it.

use super::element::Cqe;
use core::ops::DerefMut;

/// The highest status that an endpoint reports.
const LAST_STATUS: u32 = 4;
/// Status of a work request that the endpoint does not complete any more.
pub const FLUSHED: u32 = 5;
const OK: u32 = 0;

/// A work request that was posted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The id that the poster of the request knows it by.
    pub cookie: u64,
    /// Bytes that it reads.
    pub bytes: u64,
    /// It is to report their checksum.
    pub sums: bool,
}

/// The completion of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Cookie of the [`Entry`].
    pub cookie: u64,
    /// Status from the endpoint, or [`FLUSHED`].
    pub status: u32,
    /// Checksum of the bytes read if it was asked for, else 0.
    pub crc: u32,
    /// Bytes that were done.
    pub bytes: u64,
}

/// The endpoint has written a completion that cannot be true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolError;

/// A slot for a work request, and then for its completion.
#[derive(Clone, Copy, Debug)]
pub enum Slot {
    /// The request is under way.
    Posted(Entry),
    /// The request is done, and its completion was not reported yet.
    Done(Completion),
}

impl Default for Slot {
    fn default() -> Self {
        Self::Posted(Entry::default())
    }
}

/// The work requests of a function, in memory that the caller provides: as many slots as its queues
/// have elements.
pub struct Ledger<M> {
    slots: M,
    /// Counts since the function was enabled, modulo 2^32: `told` <= `done` <= `posted`.
    posted: u32,
    done: u32,
    told: u32,
}

impl<M: DerefMut<Target = [Slot]>> Ledger<M> {
    /// Creates the ledger of a function that was just enabled. The number of slots is a power of two.
    pub fn new(slots: M) -> Self {
        Self {
            slots,
            posted: 0,
            done: 0,
            told: 0,
        }
    }

    /// Resets the ledger when the function was enabled again.
    pub fn begin(&mut self) {
        (self.posted, self.done, self.told) = (0, 0, 0);
    }

    fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns how many requests were posted, modulo 2^32.
    pub fn posted(&self) -> u32 {
        self.posted
    }

    /// Returns how many requests are done, modulo 2^32.
    pub fn done(&self) -> u32 {
        self.done
    }

    /// Returns how many requests are under way.
    pub fn outstanding(&self) -> u32 {
        self.posted.wrapping_sub(self.done)
    }

    /// Returns how many completions were not reported yet.
    pub fn waiting(&self) -> u32 {
        self.done.wrapping_sub(self.told)
    }

    /// Returns how many more requests can be posted.
    pub fn room(&self) -> u32 {
        self.count()
            .saturating_sub(self.posted.wrapping_sub(self.told))
    }

    /// Returns the index of the queue element for the request, or the completion, of that number.
    pub fn element(&self, number: u32) -> usize {
        (number & self.count().wrapping_sub(1)) as usize
    }

    /// Records a request and returns its number for the endpoint. `None`: there is no room.
    pub fn post(&mut self, entry: Entry) -> Option<u32> {
        if self.room() == 0 {
            return None;
        }
        let number = self.posted;
        let at = self.element(number);
        *self.slots.get_mut(at)? = Slot::Posted(entry);
        self.posted = number.wrapping_add(1);
        Some(number)
    }

    /// Returns whether a CQE of this number is the next one.
    pub fn is_next(&self, number: u32) -> bool {
        self.outstanding() != 0 && number == self.done.wrapping_add(1)
    }

    fn oldest(&self) -> Option<Entry> {
        match self.slots.get(self.element(self.done)) {
            Some(Slot::Posted(entry)) if self.outstanding() != 0 => Some(*entry),
            _ => None,
        }
    }

    fn finish(&mut self, done: Completion) {
        let at = self.element(self.done);
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Slot::Done(done);
        }
        self.done = self.done.wrapping_add(1);
    }

    /// Accepts the next completion (see [`Self::is_next`]). It is kept until [`Self::tell`].
    pub fn complete(&mut self, cqe: &Cqe) -> Result<Completion, ProtocolError> {
        let entry = self.oldest().ok_or(ProtocolError)?;
        let done = cqe.bytes <= entry.bytes && (cqe.status != OK || cqe.bytes == entry.bytes);
        let its = cqe.cookie == u64::from(self.done);
        if !self.is_next(cqe.number) || !its || !done || cqe.status > LAST_STATUS {
            return Err(ProtocolError);
        }
        let completion = Completion {
            cookie: entry.cookie,
            status: cqe.status,
            crc: if entry.sums { cqe.crc } else { 0 },
            bytes: cqe.bytes,
        };
        self.finish(completion);
        Ok(completion)
    }

    /// Completes everything under way as [`FLUSHED`], for a function that completes nothing any more.
    pub fn flush(&mut self) {
        while let Some(entry) = self.oldest() {
            self.finish(Completion {
                cookie: entry.cookie,
                status: FLUSHED,
                crc: 0,
                bytes: 0,
            });
        }
    }

    /// Returns how many completions were reported, modulo 2^32.
    pub fn told(&self) -> u32 {
        self.told
    }

    /// Returns completion number `n` of those to be reported, the oldest being 0.
    pub fn next(&self, n: u32) -> Option<Completion> {
        if n >= self.waiting() {
            return None;
        }
        match self.slots.get(self.element(self.told.wrapping_add(n))) {
            Some(Slot::Done(done)) => Some(*done),
            _ => None,
        }
    }

    /// Marks `count` completions as reported, which follow the first `told`. Returns false, and changes
    /// nothing, if another caller has reported some of them meanwhile, or there are not so many.
    pub fn tell(&mut self, told: u32, count: u32) -> bool {
        let its = told == self.told && count <= self.waiting();
        if its {
            self.told = told.wrapping_add(count);
        }
        its
    }
}
