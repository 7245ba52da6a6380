// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The two ends of a channel's ring.
//!
//! ```text
//!   Sender                                             Receiver
//!     |  payload, then head of cell i  -- window -->  area  |
//!     |                                                     |
//!   area  <-- window --  credit: cells consumed             |
//! ```
//!
//! A program is an end, or a kernel for one of its clients; it makes no difference to the other end. Each end
//! stores through its window into the peer's area and loads from its own; [`Area`] and [`Window`] cannot do
//! the reverse. A [`Sender`] fills cells as long as it has credit, a [`Receiver`] takes them in order and
//! returns credit in batches. The peer can write what is loaded at any time: each word is loaded once, checked,
//! and then used.
//!
//! An end that sleeps has left an *event index* in the other end's area: the number of cells after which
//! its doorbell is to be rung. Each end checks the index after its stores (`needs_kick`). A store and
//! the index may cross on the bridge; the sleeping end's kernel finds such a store by an echo, see
//! `Documentation/protocol.rst`. This file is independent of doorbells, sleep and mappings.

use super::cell::{
    bulk_place, Fault, Head, Kind, Seen, Shape, BULK_UNIT, CREDIT_AT, DATA_AT, INLINE_BYTES,
    RECV_EVENT_AT, SEND_EVENT_AT, SPLIT_AT, SPLIT_BYTES, TAG_AT,
};
use super::{
    fence::Fence,
    payload::Payload,
    window::{passed, Area, Window},
};

/// Reason why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no room until the peer has consumed as many cells as this, counted from the first.
    Full(u64),
    /// The payload is longer than this many bytes, the size of the bulk ring.
    TooLong(u32),
    /// The last cell has been sent.
    Finished,
    /// The peer broke the protocol.
    Corrupt(Fault),
}

impl From<Fault> for SendError {
    fn from(fault: Fault) -> Self {
        Self::Corrupt(fault)
    }
}

/// The end that fills cells.
///
/// Positions in the bulk ring only rise, like cell numbers. For each cell that is not yet consumed,
/// `starts` holds the position from which on the bulk ring is in use while this cell is the oldest one:
/// the start of its own payload, or, if it has none, the earliest start of the next payload.
pub struct Sender<S> {
    shape: Shape,
    produced: u64,
    credit: u64,
    position: u64,
    starts: S,
    finished: bool,
    kicked: u64,
}

impl<S: AsRef<[u64]> + AsMut<[u64]>> Sender<S> {
    /// Creates the sender of a new channel. `starts` is its memory, one word per cell; returns `None` if
    /// it is shorter.
    pub fn new(shape: Shape, starts: S) -> Option<Self> {
        if starts.as_ref().len() < shape.cells() as usize {
            return None;
        }
        Some(Self {
            shape,
            produced: 0,
            credit: 0,
            position: 0,
            starts,
            finished: false,
            kicked: 0,
        })
    }

    /// Returns the number of cells sent so far.
    pub fn produced(&self) -> u64 {
        self.produced
    }

    /// Returns how many bytes of the bulk ring were written so far, with what was left out at its end.
    pub fn bulk(&self) -> u64 {
        self.position
    }

    /// Returns the number of cells that the peer is known to have consumed.
    #[cfg_attr(MODULE, expect(dead_code, reason = "used by weft"))]
    pub fn credit(&self) -> u64 {
        self.credit
    }

    /// Returns whether the last cell has been sent.
    #[cfg_attr(MODULE, expect(dead_code, reason = "used by weft"))]
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Sends one message. Nothing is stored unless all of it fits.
    pub fn send<A: Area, W: Window>(
        &mut self,
        area: &A,
        window: &W,
        payload: &(impl Payload + ?Sized),
        tag: u64,
    ) -> Result<(), SendError> {
        if self.finished {
            return Err(SendError::Finished);
        }
        let bytes = payload.bytes();
        if bytes > self.shape.bulk() as usize {
            return Err(SendError::TooLong(self.shape.bulk()));
        }
        let at = self.shape.cell_at(self.produced);
        if bytes <= INLINE_BYTES {
            self.reserve(area, self.position, 0)?;
            window.store(at + TAG_AT, tag);
            payload.store(window, at + DATA_AT);
            self.publish(window, Kind::Inline, bytes);
        } else {
            let offset = self.reserve_bulk(area, bytes)?;
            payload.store(window, self.shape.bulk_at() + offset as usize);
            window.store(at + TAG_AT, tag);
            window.store(at + DATA_AT, offset);
            self.publish(window, Kind::Bulk, bytes);
        }
        Ok(())
    }

    /// Sends a short message as [`Self::send`] does, but one that does not fit the cell is split: what begins behind its
    /// first 40 bytes is in a line of its own. `payload` has up to [`SHORT_BYTES`].
    pub fn send_short<A: Area, W: Window>(
        &mut self,
        area: &A,
        window: &W,
        payload: &[u8],
        tag: u64,
    ) -> Result<(), SendError> {
        let Some((first, rest)) = payload
            .split_at_checked(SPLIT_BYTES)
            .filter(|_| payload.len() > INLINE_BYTES)
        else {
            return self.send(area, window, payload, tag);
        };
        if self.finished {
            return Err(SendError::Finished);
        }
        if payload.len() > SHORT_BYTES {
            return Err(SendError::TooLong(SHORT_BYTES as u32));
        }
        let at = self.shape.cell_at(self.produced);
        let offset = self.reserve_bulk(area, rest.len())?;
        window.write(self.shape.bulk_at() + offset as usize, rest);
        // One run of stores, behind the place of the head.
        window.store(at + TAG_AT, tag);
        window.store(at + DATA_AT, offset);
        window.write(at + SPLIT_AT, first);
        self.publish(window, Kind::Split, payload.len());
        Ok(())
    }

    /// Sends the last cell, which says that no more will be sent.
    pub fn finish<A: Area, W: Window>(&mut self, area: &A, window: &W) -> Result<(), SendError> {
        if self.finished {
            return Err(SendError::Finished);
        }
        self.reserve(area, self.position, 0)?;
        self.publish(window, Kind::Fin, 0);
        self.finished = true;
        Ok(())
    }

    /// Returns whether the peer's receiver sleeps and its doorbell is to be rung for what was sent since
    /// the last call.
    pub fn needs_kick<A: Area, W: Window>(&mut self, area: &A, window: &W) -> bool {
        if self.kicked == self.produced {
            return false;
        }
        window.mb(Fence::WakeReceiver);
        let event = area.load(RECV_EVENT_AT);
        passed(
            event,
            core::mem::replace(&mut self.kicked, self.produced),
            self.produced,
        )
    }

    /// Loads and returns the number of cells that the peer has consumed.
    ///
    /// No fence: a store into a cell that has become free depends on the value loaded here, and no
    /// processor makes a speculative store visible.
    pub fn refresh<A: Area>(&mut self, area: &A) -> Result<u64, Fault> {
        let credit = area.load(CREDIT_AT);
        if credit < self.credit || credit > self.produced {
            return Err(Fault::Credit);
        }
        self.credit = credit;
        Ok(credit)
    }

    /// Returns the position in the bulk ring for a payload of `room` bytes.
    fn place(&self, room: u64) -> u64 {
        let bulk = u64::from(self.shape.bulk());
        if self.position % bulk + room <= bulk {
            self.position
        } else {
            self.position.next_multiple_of(bulk)
        }
    }

    /// Makes sure that a cell is free, and `room` bytes of the bulk ring from `start` on.
    fn reserve<A: Area>(&mut self, area: &A, start: u64, room: u64) -> Result<(), SendError> {
        let needed = self.needed(start, room);
        if needed > self.credit && needed > self.refresh(area)? {
            return Err(SendError::Full(needed));
        }
        let slot = self.shape.slot(self.produced);
        self.starts.as_mut()[slot] = start;
        Ok(())
    }

    /// Makes sure that a cell is free, and so many bytes of the bulk ring. Returns their offset there.
    fn reserve_bulk<A: Area>(&mut self, area: &A, bytes: usize) -> Result<u64, SendError> {
        let room = bytes.next_multiple_of(BULK_UNIT) as u64;
        let start = self.place(room);
        self.reserve(area, start, room)?;
        self.position = start + room;
        // Never 0, which the compiler does not see.
        Ok(start % u64::from(self.shape.bulk()).max(1))
    }

    /// Returns the credit at which a cell is free, and `room` bytes of the bulk ring from `start` on.
    fn needed(&self, start: u64, room: u64) -> u64 {
        let starts = self.starts.as_ref();
        let cell = (self.produced + 1).saturating_sub(u64::from(self.shape.cells()));
        // Starts never decrease: a binary search finds the first cell that need not be consumed. Mostly it is the first
        // of all.
        let (mut low, mut high) = (cell.max(self.credit), self.produced);
        let clear = (start + room).saturating_sub(u64::from(self.shape.bulk()));
        if low < high && starts[self.shape.slot(low)] >= clear {
            return low;
        }
        while room > 0 && low < high {
            let middle = low + (high - low) / 2;
            if starts[self.shape.slot(middle)] >= clear {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Makes the cell valid that `reserve` has reserved and the caller has filled.
    fn publish<W: Window>(&mut self, window: &W, kind: Kind, len: usize) {
        // Bounded by the bulk ring: no bits are lost.
        let head = Head {
            kind,
            len: len as u32,
        };
        window.wmb(Fence::Publish);
        window.store(
            self.shape.cell_at(self.produced),
            head.encode(self.produced, self.shape),
        );
        self.produced += 1;
    }
}

/// A message that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender's tag.
    pub tag: u64,
    /// Bytes of payload.
    pub len: u32,
    at: usize,
    room: u32,
    /// Where its first [`SPLIT_BYTES`] are, if it is split; the others are at `at`.
    first: Option<usize>,
}

/// The longest message that is sent by [`Sender::send_short`], in bytes: what is left over of a cell, and a line.
pub const SHORT_BYTES: usize = SPLIT_BYTES + BULK_UNIT;

/// Result of [`Receiver::peek`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing yet.
    Nothing,
    /// A message.
    Message(Message),
    /// The peer will send no more.
    End,
}

/// A receiver that finds no message this many times in a row returns its credit: the sender may wait
/// for the last of it. The number is high enough that two ends that send in turn do not reach it.
const IDLE: u32 = 1024;

/// A receiver that finds the ring empty returns credit if it is for this many cells or more.
const EARLY: u64 = 16;

/// The end that empties cells.
pub struct Receiver {
    shape: Shape,
    consumed: u64,
    returned: u64,
    /// Bytes of the bulk ring that were consumed and not returned.
    owed: u32,
    idle: u32,
    finished: bool,
    kicked: u64,
}

impl Receiver {
    /// Creates the receiver of a new channel.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            consumed: 0,
            returned: 0,
            owed: 0,
            idle: 0,
            finished: false,
            kicked: 0,
        }
    }

    /// Returns the number of cells consumed so far.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Returns the next message without consuming it. May return credit to the peer if there is none.
    pub fn peek<A: Area, W: Window>(&mut self, area: &A, window: &W) -> Result<Next, Fault> {
        if self.finished {
            return Ok(Next::End);
        }
        let at = self.shape.cell_at(self.consumed);
        let head = match Head::decode(area.load(at), self.consumed, self.shape) {
            Seen::Ready(head) => head,
            Seen::Corrupt(fault) => return Err(fault),
            Seen::Empty => {
                self.rest(window);
                return Ok(Next::Nothing);
            }
        };
        area.rmb(Fence::Head);
        self.idle = 0;
        let tag = area.load(at + TAG_AT);
        let (at, room, first) = match head.kind {
            Kind::Inline => (at + DATA_AT, 0, None),
            Kind::Bulk => {
                let offset = area.load(at + DATA_AT);
                (bulk_place(offset, head.len, self.shape)?, head.len, None)
            }
            Kind::Split => {
                let offset = area.load(at + DATA_AT);
                let rest = head.len - SPLIT_BYTES as u32;
                let place = bulk_place(offset, rest, self.shape)?;
                (place, rest, Some(at + SPLIT_AT))
            }
            Kind::Fin => {
                self.finished = true;
                self.consumed += 1;
                self.flush(window);
                return Ok(Next::End);
            }
        };
        Ok(Next::Message(Message {
            tag,
            len: head.len,
            at,
            room,
            first,
        }))
    }

    /// Copies the payload of `message`, which [`Self::peek`] has returned and which is not consumed
    /// yet, from byte `from` on, a multiple of 8, or as much of it as `out` takes. Returns the number of
    /// bytes.
    pub fn copy<A: Area>(&self, area: &A, message: &Message, from: usize, out: &mut [u8]) -> usize {
        let len = out.len().min((message.len as usize).saturating_sub(from));
        let Some(out) = out.get_mut(..len).filter(|out| !out.is_empty()) else {
            return len;
        };
        let Some(first) = message.first else {
            area.read(message.at + from, out);
            return len;
        };
        // Of what is split, `from` may be in either part.
        let here = SPLIT_BYTES.saturating_sub(from).min(len);
        let (out, rest) = out.split_at_mut(here);
        if !out.is_empty() {
            area.read(first + from, out);
        }
        if !rest.is_empty() {
            area.read(message.at + from.max(SPLIT_BYTES) - SPLIT_BYTES, rest);
        }
        len
    }

    /// Consumes `message`, which [`Self::peek`] has returned: the peer may overwrite it.
    #[cfg_attr(MODULE, expect(dead_code, reason = "used by weft"))]
    pub fn consume<W: Window>(&mut self, window: &W, message: &Message) {
        self.take(message);
        self.settle(window);
    }

    /// Consumes `message`, and stores nothing: credit is returned by [`Self::settle`] or [`Self::flush`], when
    /// the peer can be reached again.
    pub fn take(&mut self, message: &Message) {
        self.consumed += 1;
        self.owed += message.room;
    }

    /// Returns credit to the peer, if it is for enough.
    pub fn settle<W: Window>(&mut self, window: &W) {
        let cells = self.consumed - self.returned;
        if cells >= u64::from(self.shape.cells() / 4) || self.owed >= self.shape.bulk() / 4 {
            self.flush(window);
        }
    }

    /// Returns all credit to the peer. To be called before sleep.
    pub fn flush<W: Window>(&mut self, window: &W) {
        if self.returned != self.consumed {
            window.wmb(Fence::Credit);
            window.store(CREDIT_AT, self.consumed);
            self.returned = self.consumed;
            self.owed = 0;
        }
    }

    /// Returns whether the peer's sender sleeps and its doorbell is to be rung for the credit returned
    /// since the last call.
    pub fn needs_kick<A: Area, W: Window>(&mut self, area: &A, window: &W) -> bool {
        if self.kicked == self.returned {
            return false;
        }
        window.mb(Fence::WakeSender);
        let event = area.load(SEND_EVENT_AT);
        passed(
            event,
            core::mem::replace(&mut self.kicked, self.returned),
            self.returned,
        )
    }

    /// Counts an unsuccessful look, and returns credit if that is due.
    fn rest<W: Window>(&mut self, window: &W) {
        self.idle = self.idle.saturating_add(1);
        if self.owed > 0 || self.consumed - self.returned >= EARLY || self.idle == IDLE {
            self.flush(window);
        }
    }
}
