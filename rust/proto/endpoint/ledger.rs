// SPDX-License-Identifier: GPL-2.0

//! What was posted to a function and is not completed yet: a completion counts only if it is the
//! next one, of the work that is the oldest, and says of it what can be true.

use super::element::Cqe;
use core::ops::DerefMut;

/// The last status that an endpoint tells.
const LAST_STATUS: u32 = 4;
const OK: u32 = 0;

/// A piece of work that was posted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Whoever has posted it knows it by that.
    pub cookie: u64,
    /// Bytes that it reads.
    pub bytes: u64,
    /// It is to tell their checksum.
    pub sums: bool,
}

/// What became of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// As it was posted.
    pub cookie: u64,
    /// As the endpoint tells it.
    pub status: u32,
    /// Of what was read, if that was to be told.
    pub crc: u32,
    /// Bytes that were done.
    pub bytes: u64,
}

/// The endpoint has told what cannot be true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Liar;

/// The work of a function, in memory that whoever makes it gives: as many entries as its queues
/// have.
pub struct Ledger<M> {
    entries: M,
    /// Counted round since the function was enabled.
    posted: u32,
    done: u32,
}

impl<M: DerefMut<Target = [Entry]>> Ledger<M> {
    /// Of a function that was just enabled. The number of entries is a power of two.
    pub fn new(entries: M) -> Self {
        Self {
            entries,
            posted: 0,
            done: 0,
        }
    }

    /// The function was enabled once more.
    pub fn begin(&mut self) {
        (self.posted, self.done) = (0, 0);
    }

    fn count(&self) -> u32 {
        self.entries.len() as u32
    }

    /// How many were posted, counted round,
    pub fn posted(&self) -> u32 {
        self.posted
    }

    /// and how many are done.
    pub fn done(&self) -> u32 {
        self.done
    }

    /// How many are under way.
    pub fn outstanding(&self) -> u32 {
        self.posted.wrapping_sub(self.done)
    }

    /// How many more can be posted.
    pub fn room(&self) -> u32 {
        self.count().saturating_sub(self.outstanding())
    }

    /// The element of a queue that has the work, or the completion, of that number.
    pub fn element(&self, number: u32) -> usize {
        (number & self.count().wrapping_sub(1)) as usize
    }

    /// Notes one: the number by which the endpoint is to know it. `None`: there is no room.
    pub fn post(&mut self, entry: Entry) -> Option<u32> {
        if self.room() == 0 {
            return None;
        }
        let number = self.posted;
        let at = self.element(number);
        *self.entries.get_mut(at)? = entry;
        self.posted = number.wrapping_add(1);
        Some(number)
    }

    /// Whether a CQE of this number is the next one.
    pub fn is_next(&self, number: u32) -> bool {
        self.outstanding() != 0 && number == self.done.wrapping_add(1)
    }

    /// Takes the next completion, which [`Self::is_next`].
    pub fn complete(&mut self, cqe: &Cqe) -> Result<Completion, Liar> {
        let entry = *self.entries.get(self.element(self.done)).ok_or(Liar)?;
        let done = cqe.bytes <= entry.bytes && (cqe.status != OK || cqe.bytes == entry.bytes);
        let its = cqe.cookie == u64::from(self.done);
        if !self.is_next(cqe.number) || !its || !done || cqe.status > LAST_STATUS {
            return Err(Liar);
        }
        self.done = self.done.wrapping_add(1);
        Ok(Completion {
            cookie: entry.cookie,
            status: cqe.status,
            crc: if entry.sums { cqe.crc } else { 0 },
            bytes: cqe.bytes,
        })
    }

    /// Takes the oldest one back, of a function that tells of none any more.
    pub fn flush(&mut self) -> Option<u64> {
        if self.outstanding() == 0 {
            return None;
        }
        let entry = *self.entries.get(self.element(self.done))?;
        self.done = self.done.wrapping_add(1);
        Some(entry.cookie)
    }
}
