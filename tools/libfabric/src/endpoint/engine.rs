// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What an endpoint does: operations of the program become commands and messages, events become completions.
//!
//! The driver carries 64 match bits (`bits.rs`) and 64 bits of data, and says the hardware id and the number of the
//! source. What is for regions is in `remote.rs` and `exposed.rs`, what waits for what is before it in `fences.rs`.
//!
//! The order in which commands are given is that in which the program has posted receives. Commands that find no slot
//! wait behind each other; a buffer for which there is no list entry is appended again before later ones.

use super::area::{Area, Outgoing, length};
use super::backlog::Backlog;
use super::bits::{BEGIN, DATA, SLAB, TAG, TAGGED, Wanted};
use super::exposed::Exposed;
use super::filled::Filled;
use super::operations::{Operation, Operations, Receive, What};
use super::overflow::Overflow;
use super::task::Sending;
use super::told::{Report, Telling};
use crate::fi::*;
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr::slice_from_raw_parts;
use weft::matching::{Access, Append, Command, Event, Matching, Memory, Message};

/// The rings of an interface.
pub trait Rings {
    fn command(&mut self, command: &Command) -> bool;
    fn send(&mut self, message: &Message<'_>) -> bool;
    fn access(&mut self, access: &Access<'_>) -> bool;
    fn ring(&self) -> weft::Result<()>;
    fn poll(&mut self) -> weft::Result<()>;
    fn take(&mut self) -> Option<Event>;
    fn give_back(&mut self) -> weft::Result<()>;
}

impl Rings for Matching {
    fn command(&mut self, command: &Command) -> bool {
        Matching::command(self, command)
    }

    fn send(&mut self, message: &Message<'_>) -> bool {
        Matching::send(self, message)
    }

    fn access(&mut self, access: &Access<'_>) -> bool {
        Matching::access(self, access)
    }

    fn ring(&self) -> weft::Result<()> {
        Matching::ring(self)
    }

    fn poll(&mut self) -> weft::Result<()> {
        Matching::poll(self)
    }

    fn take(&mut self) -> Option<Event> {
        Matching::take(self)
    }

    fn give_back(&mut self) -> weft::Result<()> {
        Matching::give_back(self)
    }
}

/// How many operations there can be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// What a program is told of.
    pub sends: usize,
    /// What is with the driver, or in its ring.
    pub under_way: usize,
    pub receives: usize,
    /// List entries for regions: as many as two for each.
    pub regions: usize,
    /// Bytes for messages that wait.
    pub overflow: usize,
}

/// What an endpoint has.
#[derive(Debug)]
pub struct Engine<R> {
    pub(super) rings: R,
    pub(super) operations: Operations,
    pub(super) overflow: Overflow,
    pub(super) exposed: Exposed,
    pub(super) limits: Limits,
    pub(super) sends: usize,
    /// Those of them that the program is not told of.
    pub(super) injected: usize,
    pub(super) receives: usize,
    /// Commands that found no slot, by the number of what they are about.
    pub(super) waiting: VecDeque<(u64, Command)>,
    /// Buffers that found no list entry.
    pub(super) starved: VecDeque<(u64, Command)>,
    /// What waits until all that was before it, to the same target, is over; and what is behind that.
    pub(super) fenced: Backlog,
    /// What there is no room for yet.
    pub(super) late: Backlog,
}

impl<R: Rings> Engine<R> {
    /// Has slabs receive, and the interface match: an event with the number [`BEGIN`] says that it does.
    pub fn new(rings: R, limits: Limits) -> Self {
        let overflow = Overflow::new(limits.overflow);
        let mut engine = Engine {
            rings,
            operations: Operations::default(),
            overflow,
            exposed: Exposed::default(),
            limits,
            sends: 0,
            injected: 0,
            receives: 0,
            waiting: VecDeque::new(),
            starved: VecDeque::new(),
            fenced: Backlog::default(),
            late: Backlog::default(),
        };
        engine.supply();
        engine.waiting.push_back((BEGIN, Command::enable(BEGIN)));
        engine.flush();
        engine
    }

    pub fn rings(&mut self) -> &mut R {
        &mut self.rings
    }

    /// How many sends, and receives, can be begun.
    pub fn room(&self) -> (usize, usize) {
        (
            self.limits.sends.saturating_sub(self.sends + self.fenced.len() + self.late.len()),
            self.limits.receives.saturating_sub(self.receives),
        )
    }

    /// Whether the driver has all commands, or was given as many as it has slots for now.
    pub fn is_settled(&mut self) -> bool {
        self.flush();
        self.waiting.is_empty() && !self.fenced.stuck && !self.late.stuck
    }

    /// Whether messages are under way that the program may take for sent.
    pub fn is_injecting(&self) -> bool {
        self.injected > 0 || self.fenced.is_injecting() || self.late.is_injecting()
    }

    // --- what the program begins

    /// Sends a message.
    ///
    /// # Safety
    ///
    /// The pieces can be read: now, if the message is injected, or else until it is over.
    pub unsafe fn send(&mut self, sending: &Sending, pieces: &[Iovec]) -> Result<(), c_int> {
        self.admit_send()?;
        let tagged = sending.kind == FI_TAGGED;
        let mut bits = if tagged { TAGGED | (sending.tag & TAG) } else { 0 };
        if sending.data.is_some() {
            bits |= DATA;
        }
        let data = sending.data.unwrap_or(0);
        // SAFETY: As the caller says: it is the driver that reads them, until the message is over. A copy is kept with
        // the operation as long.
        let mut bytes = unsafe { Outgoing::of(pieces, sending.inject) };
        let number = self.operations.insert(Operation {
            context: sending.context,
            kind: sending.kind,
            telling: sending.telling,
            to: Some(sending.to),
            what: What::Send { _bytes: bytes.own.take(), injected: sending.inject },
        });
        let message = match bytes.memory {
            Some(memory) => Some(Message::new(sending.to, memory, number)),
            None => Message::in_ring(sending.to, bytes.short(), number),
        };
        let posted = message.is_some_and(|m| self.rings.send(&m.bits(bits).data(data)));
        self.begun(number, posted, sending.inject)
    }

    pub(super) fn admit_send(&self) -> Result<(), c_int> {
        if self.has_room() { Ok(()) } else { Err(FI_EAGAIN) }
    }

    /// Whether another message may be with the driver, if it has a slot.
    pub(super) fn has_room(&self) -> bool {
        self.sends < self.limits.under_way
    }

    /// An operation is in the ring, if there was room for it.
    pub(super) fn begun(&mut self, number: u64, posted: bool, inject: bool) -> Result<(), c_int> {
        if !posted {
            self.operations.remove(number);
            return Err(FI_EAGAIN);
        }
        self.sends += 1;
        self.injected += usize::from(inject);
        // Otherwise the port is gone; what is in the ring is over when the endpoint is closed.
        self.rings.ring().map_err(|_| FI_ENODEV)
    }

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
        let receive = Receive { append: None, unlinking: false, pieces };
        let number =
            self.begun_receive(context, wanted.kind, telling.into(), What::Receive(receive));
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
        let criteria = wanted.criteria();
        self.give(
            number,
            match (claims, drops) {
                (_, true) => Command::discard(&criteria, number),
                (true, _) => Command::claim(&criteria, number),
                _ => Command::search(&criteria, number),
            },
        )
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
        let own = |(of, _): &(u64, Command)| *of == number;
        let before = self.starved.len() + self.waiting.len();
        self.starved.retain(|command| !own(command));
        self.waiting.retain(|command| !own(command));
        if self.starved.len() + self.waiting.len() < before {
            // The driver has not heard of it.
            self.fail(number, FI_ECANCELED, 0, report);
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
        if self.receives >= self.limits.receives { Err(FI_EAGAIN) } else { Ok(()) }
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

    // --- commands

    fn append(&mut self, number: u64, append: &Append) -> Result<(), c_int> {
        self.feed();
        self.give(number, Command::append(append))
    }

    /// Gives the driver a command, behind those that wait.
    pub(super) fn give(&mut self, number: u64, command: Command) -> Result<(), c_int> {
        self.waiting.push_back((number, command));
        if self.flush() { Ok(()) } else { Err(FI_ENODEV) }
    }

    /// Gives the driver what waits, as far as there are slots; false if the port is gone.
    pub(super) fn flush(&mut self) -> bool {
        let mut any = false;
        while let Some((_, command)) = self.waiting.front() {
            if !self.rings.command(command) {
                break;
            }
            self.waiting.pop_front();
            any = true;
        }
        !any || self.rings.ring().is_ok()
    }

    /// Has what found no entry tried again, before what waits: it is older.
    pub(super) fn feed(&mut self) {
        while let Some(starved) = self.starved.pop_back() {
            self.waiting.push_front(starved);
        }
    }

    /// Has slabs receive, if there are too few.
    pub(super) fn supply(&mut self) {
        while let Some(slab) = self.overflow.next() {
            let number = SLAB | slab as u64;
            let command = self.overflow.command(slab, number);
            self.waiting.push_back((number, command));
        }
    }
}

/// The pieces that a program names.
///
/// # Safety
///
/// There are `count` of them, or none, for as long as the reference is used.
pub unsafe fn pieces<'a>(from: *const Iovec, count: usize) -> &'a [Iovec] {
    if from.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: As the caller says.
    unsafe { &*slice_from_raw_parts(from, count) }
}
