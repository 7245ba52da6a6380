// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What an endpoint does: operations of the program become commands and messages, events become completions.
//!
//! The driver carries 64 match bits (`bits.rs`) and 64 bits of data, and says the hardware id and the number of the
//! source. What is for regions is in `remote.rs` and `exposed.rs`, what waits for what is before it in `fences.rs`.
//!
//! The order in which commands are given is that in which the program has posted receives (`receives.rs`). Commands that
//! find no slot wait behind each other.

use super::area::Outgoing;
use super::backlog::Backlog;
use super::bits::{BEGIN, DATA, SLAB, TAG, TAGGED, WITH_TAG};
use super::early::Early;
use super::exposed::Exposed;
use super::operations::{Operation, Operations, What};
use super::overflow::Overflow;
use super::task::Sending;
use crate::fi::*;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::ptr::slice_from_raw_parts;
use weft::matching::{Access, Append, Command, Event, Matching, Message};

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
    /// Buffers that are with the driver, or in its ring.
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
    /// Receives that are not over, with searches and messages that were claimed;
    pub(super) receives: usize,
    /// and the buffers among them.
    pub(super) buffers: usize,
    /// Buffers that wait for entries: without tags, and with.
    pub(super) unposted: [VecDeque<(u64, Append)>; 2],
    /// What was claimed for those.
    pub(super) early: Early,
    /// Commands that found no slot, by the number of what they are about.
    pub(super) waiting: VecDeque<(u64, Command)>,
    /// Slabs that found no list entry.
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
            buffers: 0,
            unposted: Default::default(),
            early: Early::default(),
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

    /// How many sends, and receives, can be begun without waiting.
    pub fn room(&self) -> (usize, usize) {
        (
            self.limits.sends.saturating_sub(self.sends + self.fenced.len() + self.late.len()),
            self.limits.receives.saturating_sub(self.receives),
        )
    }

    /// Whether what is to come next has an event. Nothing tells of slots for commands, nor of messages that receives
    /// without an entry are for.
    pub fn is_settled(&mut self) -> bool {
        self.flush();
        let begun = self.waiting.is_empty() && !self.fenced.stuck && !self.late.stuck;
        begun && self.unposted[WITH_TAG].is_empty() && !self.early.has_searches()
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

    // --- commands

    /// Gives the driver a command, behind those that wait.
    pub(super) fn give(&mut self, number: u64, command: Command) -> Result<(), c_int> {
        self.waiting.push_back((number, command));
        self.give_waiting()
    }

    /// Gives the driver what waits. FI_ENODEV: the port is gone.
    pub(super) fn give_waiting(&mut self) -> Result<(), c_int> {
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
