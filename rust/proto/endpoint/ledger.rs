// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What was posted to a function, until whoever has posted it was told what became of it: a
//! completion counts only if it is the next one, of the work that is the oldest, and says of it what
//! can be true.

use super::element::Cqe;
use core::ops::DerefMut;

/// The last status that an endpoint tells.
const LAST_STATUS: u32 = 4;
/// Of work that no endpoint tells of any more.
pub const FLUSHED: u32 = 5;
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
    /// As the endpoint tells it, or [`FLUSHED`].
    pub status: u32,
    /// Of what was read, if that was to be told.
    pub crc: u32,
    /// Bytes that were done.
    pub bytes: u64,
}

/// The endpoint has told what cannot be true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolError;

/// A place for a piece of work, and then for what became of it.
#[derive(Clone, Copy, Debug)]
pub enum Slot {
    /// It is under way.
    Posted(Entry),
    /// It is done, and nobody was told.
    Done(Completion),
}

impl Default for Slot {
    fn default() -> Self {
        Self::Posted(Entry::default())
    }
}

/// The work of a function, in memory that whoever makes it gives: as many slots as its queues have
/// elements.
pub struct Ledger<M> {
    slots: M,
    /// Counted round since the function was enabled; the later ones are never in front of the
    /// earlier.
    posted: u32,
    done: u32,
    told: u32,
}

impl<M: DerefMut<Target = [Slot]>> Ledger<M> {
    /// Of a function that was just enabled. The number of slots is a power of two.
    pub fn new(slots: M) -> Self {
        Self {
            slots,
            posted: 0,
            done: 0,
            told: 0,
        }
    }

    /// The function was enabled once more.
    pub fn begin(&mut self) {
        (self.posted, self.done, self.told) = (0, 0, 0);
    }

    fn count(&self) -> u32 {
        self.slots.len() as u32
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

    /// How many are done that nobody was told of.
    pub fn waiting(&self) -> u32 {
        self.done.wrapping_sub(self.told)
    }

    /// How many more can be posted.
    pub fn room(&self) -> u32 {
        self.count()
            .saturating_sub(self.posted.wrapping_sub(self.told))
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
        *self.slots.get_mut(at)? = Slot::Posted(entry);
        self.posted = number.wrapping_add(1);
        Some(number)
    }

    /// Whether a CQE of this number is the next one.
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

    /// Takes the next completion, which [`Self::is_next`]. It is kept until [`Self::tell`].
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

    /// All that is under way is [`FLUSHED`], of a function that tells of nothing any more.
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

    /// How many completions were told, counted round.
    pub fn told(&self) -> u32 {
        self.told
    }

    /// What is to be told next, and `n` after that.
    pub fn next(&self, n: u32) -> Option<Completion> {
        if n >= self.waiting() {
            return None;
        }
        match self.slots.get(self.element(self.told.wrapping_add(n))) {
            Some(Slot::Done(done)) => Some(*done),
            _ => None,
        }
    }

    /// `count` completions were told, after `told` had been. False: so were some of them by
    /// somebody else, and it does not count.
    pub fn tell(&mut self, told: u32, count: u32) -> bool {
        let its = told == self.told && count <= self.waiting();
        if its {
            self.told = told.wrapping_add(count);
        }
        its
    }
}
