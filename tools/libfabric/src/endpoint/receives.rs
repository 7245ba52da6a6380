// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Receives of an endpoint: buffers for one message or for many, searches, messages that were claimed.
//!
//! As many buffers have a list entry as there may be. Those behind them wait here, in the order in which they were
//! posted, until others are over, or until a message for them has come (`claims.rs`). A program that is told FI_EAGAIN tries
//! again, and MPI does so in MPI_Irecv: ranks that all post more receives than there are entries, before any
//! sends, would wait for each other for ever.

use super::area::{Area, length};
use super::bits::{TAGGED, WITH_TAG, Wanted};
use super::early::Search;
use super::engine::{Engine, Rings};
use super::filled::Filled;
use super::operations::{Operation, Receive, What};
use super::told::{Report, Telling};
use crate::fi::*;
use std::ffi::{c_int, c_void};
use weft::matching::{Append, Command, Criteria, Memory};

/// How many buffers wait at most: a program that has more does not take what has come.
pub const UNPOSTED: usize = 1 << 16;

/// Which of the queues of buffers that wait has what is for a message.
fn class(criteria: &Criteria) -> usize {
    if criteria.bits & TAGGED != 0 { WITH_TAG } else { 0 }
}

impl<R: Rings> Engine<R> {
    /// Posts a buffer for one message.
    ///
    /// # Safety
    ///
    /// The pieces can be written until the receive is over.
    pub unsafe fn receive(
        &mut self,
        wanted: &Wanted,
        pieces: &[Iovec],
        context: *mut c_void,
        telling: impl Into<Telling>,
    ) -> Result<(), c_int> {
        self.admit_receive()?;
        // SAFETY: As the caller says; what is the provider's is kept with the operation.
        let (memory, pieces) = unsafe { Self::buffer(pieces) };
        let what = What::Receive(Receive { append: None, unlinking: false, pieces });
        if let Some(message) = self.early.take(&wanted.criteria()) {
            let (kind, telling) = (wanted.kind, telling.into());
            self.receives += 1;
            let by = Operation { context, kind, telling, to: None, what };
            self.receive_early(&message, by, &memory);
            return self.give_waiting();
        }
        let number = self.begun_receive(context, wanted.kind, telling.into(), what);
        let append = Append::once(wanted.criteria(), memory, number);
        if let Some(Operation { what: What::Receive(receive), .. }) = self.operations.get(number) {
            receive.append = Some(append);
        }
        self.append(number, &append)
    }

    /// Posts a buffer for messages behind each other, until it has less room than `least`.
    ///
    /// # Safety
    ///
    /// The memory can be written until it is said to be the program's again.
    pub unsafe fn receive_many(
        &mut self,
        wanted: &Wanted,
        piece: Iovec,
        least: usize,
        context: *mut c_void,
        telling: impl Into<Telling>,
    ) -> Result<(), c_int> {
        self.admit_receive()?;
        let (at, bytes) = (piece.iov_base.cast::<u8>(), piece.iov_len);
        // SAFETY: As the caller says.
        let memory = unsafe { Memory::new(at, bytes) };
        let least = u32::try_from(least).unwrap_or(u32::MAX);
        let filled = Filled::new(at as u64, bytes as u64);
        let append = Append::many(wanted.criteria(), memory, 0, least);
        let what = What::Many { append, filled, unlinking: false };
        let number = self.begun_receive(context, wanted.kind, telling.into(), what);
        let numbered = Append::many(wanted.criteria(), memory, number, least);
        if let Some(Operation { what: What::Many { append, .. }, .. }) = self.operations.get(number)
        {
            *append = numbered;
        }
        self.append(number, &numbered)
    }

    /// Asks whether a message waits: drops it if it `drops`, claims it for a receive with the same context if it
    /// `claims`.
    pub fn search(
        &mut self,
        wanted: &Wanted,
        context: *mut c_void,
        reported: bool,
        claims: bool,
        drops: bool,
    ) -> Result<(), c_int> {
        self.admit_receive()?;
        let claims = claims && !drops;
        let what = What::Search { claims };
        let number = self.begun_receive(context, wanted.kind, reported.into(), what);
        let search = Search { number, criteria: wanted.criteria(), claims, drops };
        if self.early.has_any() || self.has_unposted(&search.criteria) {
            self.early.search(search);
            return Ok(());
        }
        self.give(number, search.command())
    }

    /// Receives the message that was claimed with the context, or drops it.
    ///
    /// # Safety
    ///
    /// As [`Self::receive`].
    pub unsafe fn receive_claimed(
        &mut self,
        pieces: &[Iovec],
        context: *mut c_void,
        reported: bool,
        drops: bool,
    ) -> Result<(), c_int> {
        let claimed = |what: &What| matches!(what, What::Claimed);
        let number = self.operations.find(context, claimed).ok_or(FI_EINVAL)?;
        let (memory, pieces) = match drops {
            true => (Memory::NONE, None),
            // SAFETY: As the caller says.
            false => unsafe { Self::buffer(pieces) },
        };
        let Some(operation) = self.operations.get(number) else { return Err(FI_EINVAL) };
        operation.telling = reported.into();
        operation.what = match drops {
            true => What::Drop,
            false => What::Receive(Receive { append: None, unlinking: false, pieces }),
        };
        self.give(number, Command::receive(&memory, number))
    }

    /// Takes the oldest receive with a context back, unless a message was for it.
    pub fn cancel(&mut self, context: *mut c_void, report: &mut impl Report) -> Result<(), c_int> {
        let can = |what: &What| match what {
            What::Receive(receive) => receive.append.is_some() && !receive.unlinking,
            What::Many { filled, unlinking, .. } => !unlinking && !filled.was_taken_back(),
            _ => false,
        };
        let number = self.operations.find(context, can).ok_or(FI_ENOENT)?;
        let kept = |engine: &Self| engine.unposted() + engine.waiting.len();
        let before = kept(self);
        self.unposted.iter_mut().for_each(|queue| queue.retain(|(of, _)| *of != number));
        self.waiting.retain(|(of, _)| *of != number);
        if kept(self) < before {
            // The driver has not heard of it.
            self.fail(number, FI_ECANCELED, 0, report);
            self.post_more();
            self.flush();
            return Ok(());
        }
        match self.operations.get(number).map(|operation| &mut operation.what) {
            Some(What::Receive(receive)) => receive.unlinking = true,
            Some(What::Many { unlinking, .. }) => *unlinking = true,
            _ => {}
        }
        self.give(number, Command::unlink(number))
    }

    fn admit_receive(&self) -> Result<(), c_int> {
        let most = self.limits.receives + UNPOSTED;
        if self.receives >= most { Err(FI_EAGAIN) } else { Ok(()) }
    }

    fn begun_receive(
        &mut self,
        context: *mut c_void,
        kind: u64,
        telling: Telling,
        what: What,
    ) -> u64 {
        self.receives += 1;
        self.operations.insert(Operation { context, kind, telling, to: None, what })
    }

    /// Where a message is to be stored: in the piece of the program, or in memory of the provider if there are more.
    ///
    /// # Safety
    ///
    /// The memory can be written as long as the driver uses it, and what is returned is kept as long.
    pub(super) unsafe fn buffer(pieces: &[Iovec]) -> (Memory, Option<(Area, Vec<Iovec>)>) {
        match pieces {
            [] => (Memory::NONE, None),
            // SAFETY: As the caller says.
            [one] => (unsafe { Memory::new(one.iov_base.cast(), one.iov_len) }, None),
            _ => {
                let area = Area::new(length(pieces));
                // SAFETY: As the caller says.
                (unsafe { area.memory() }, Some((area, pieces.to_vec())))
            }
        }
    }

    // --- entries

    /// How many buffers wait.
    pub(super) fn unposted(&self) -> usize {
        self.unposted.iter().map(|queue| queue.len()).sum()
    }

    /// How many are with the driver, or in its ring.
    fn posted(&self) -> usize {
        self.buffers.saturating_sub(self.unposted())
    }

    /// Gives the driver a buffer, or keeps it behind those that wait.
    fn append(&mut self, number: u64, append: &Append) -> Result<(), c_int> {
        let class = class(append.criteria());
        let asking = class == WITH_TAG && self.early.is_asking();
        let waits =
            asking || !self.unposted[class].is_empty() || self.posted() >= self.limits.receives;
        self.buffers += 1;
        if !waits {
            return self.give(number, Command::append(append));
        }
        self.unposted[class].push_back((number, *append));
        self.claim_more();
        self.give_waiting()
    }

    /// The driver has found no entry for a buffer: it waits before those that were posted later.
    pub(super) fn refused(&mut self, number: u64, append: &Append) {
        let Engine { unposted, operations, .. } = self;
        let queue = &mut unposted[class(append.criteria())];
        let age = operations.age(number);
        let at = queue.partition_point(|(other, _)| operations.age(*other) < age);
        queue.insert(at, (number, *append));
    }

    /// Has buffers posted that have waited, as far as there may be more.
    pub(super) fn post_more(&mut self) {
        let mut room = self.limits.receives.saturating_sub(self.posted());
        let asking = self.early.is_asking();
        let Engine { unposted, waiting, .. } = self;
        for (class, queue) in unposted.iter_mut().enumerate() {
            if class == WITH_TAG && asking {
                continue;
            }
            let count = room.min(queue.len());
            waiting.extend(queue.drain(..count).map(|(n, append)| (n, Command::append(&append))));
            room -= count;
        }
    }

    /// Whether a message can be for a buffer that waits, and for this as well.
    pub(super) fn has_unposted(&self, criteria: &Criteria) -> bool {
        let queue = &self.unposted[class(criteria)];
        queue.iter().any(|(_, append)| append.criteria().overlaps(criteria))
    }
}
