// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The two directions of a socket: a stream of bytes from the [`Sender`] of one end to the [`Receiver`] of
//! the other.
//!
//! An end loads from its own half and stores into the peer's; a receiver that pulls loads from the peer's
//! half, too. The peer can write what is loaded at any time: each word is loaded once, checked, and then used.
//! An end that waits has left an event index in the peer's half, `event` or `buffer_full`; each end looks at
//! it after its stores (`needs_kick`). Stores that cross are found by an echo, as with channels
//! (Documentation/protocol.rst). This file is independent of doorbells, of sleep and of how memory is accessed.

use super::{Mode, Shape, END, EVENT_AT, FULL_AT, MAX_WQES, SEGMENT, SENT_AT, WQES_AT};
use crate::proto::{
    fence::Fence,
    window::{passed, Area, Window},
};

const WORD: usize = 8;

/// A violation of the protocol by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A count went back, or beyond what there can be.
    Count,
    /// A WQE is not for what follows in the stream.
    Wqe,
}

/// Where the bytes are that a sender sends.
pub trait Source<W> {
    /// Stores the next `count` bytes at byte `at` of `ring`, each word once, in one piece and in ascending order. `word`
    /// has the bytes before `at` of the first word, the first one in the lowest bits; then those of the last word if it
    /// is not full, which is filled with zeros. Returns how many bytes it has stored: fewer, if the next one cannot be
    /// read now.
    fn store(&mut self, ring: &W, at: usize, count: usize, word: &mut u64) -> usize;
}

/// Where the bytes go that a receiver has got.
pub trait Sink<A> {
    /// Copies `count` bytes from byte `at` of `ring` on, and returns how many: fewer, if the next one cannot be written
    /// now.
    fn load(&mut self, ring: &A, at: usize, count: usize) -> usize;
}

/// The end that sends.
pub struct Sender {
    shape: Shape,
    /// Bytes that were sent.
    sent: u64,
    /// The bytes of the last word that is not full.
    tail: u64,
    /// The count at `recv_wqes` as it was last seen.
    wqes: u64,
    /// The count of `sent` that the peer was told, and how much of it when a doorbell was last thought of.
    told: u64,
    kicked: u64,
    ended: bool,
    /// To be pulled: the WQEs that were posted, where in the stream each ends, and where the completed ones end.
    posted: u64,
    ends: [u64; MAX_WQES],
    freed: u64,
}

impl Sender {
    /// Makes the sender of a new socket.
    pub const fn new(shape: Shape) -> Self {
        Self {
            shape,
            sent: 0,
            tail: 0,
            wqes: 0,
            told: 0,
            kicked: 0,
            ended: false,
            posted: 0,
            ends: [0; MAX_WQES],
            freed: 0,
        }
    }

    /// Returns the count at `recv_wqes` beyond which there is room, if there was none at the last look.
    pub fn mark(&self) -> Option<u64> {
        (self.known_room() == 0).then_some(self.wqes)
    }

    /// Returns the number of bytes that can be sent now.
    pub fn room(&mut self, own: &impl Area) -> Result<u64, Fault> {
        let wqes = own.load(WQES_AT);
        if wqes < self.wqes {
            return Err(Fault::Count);
        }
        match self.shape.mode() {
            Mode::Push => {
                // The ring is the receiver's: none of it is posted twice.
                let most = (self.sent + self.shape.ring()) / SEGMENT;
                if wqes > most {
                    return Err(Fault::Count);
                }
                self.wqes = wqes;
            }
            Mode::Pull => {
                if wqes > self.posted {
                    return Err(Fault::Count);
                }
                if wqes != self.wqes {
                    self.freed = self.ends[(wqes - 1) as usize % MAX_WQES];
                    self.wqes = wqes;
                }
            }
        }
        Ok(self.known_room())
    }

    /// Returns the number of bytes that could be sent at the last look.
    fn known_room(&self) -> u64 {
        match self.shape.mode() {
            Mode::Push => self.wqes * SEGMENT - self.sent,
            Mode::Pull if self.posted - self.wqes == MAX_WQES as u64 => 0,
            Mode::Pull => {
                // The last word that is stored may have zeros behind the data: none of them where something
                // is still to be fetched.
                let end = (self.freed + self.shape.ring()) / WORD as u64 * WORD as u64;
                end.saturating_sub(self.sent)
            }
        }
    }

    /// Sends up to `most` bytes of `source`, as far as there is room, and returns their number.
    pub fn send<M: Area + Window>(
        &mut self,
        own: &M,
        peer: &M,
        most: usize,
        source: &mut impl Source<M>,
    ) -> Result<usize, Fault> {
        let room = self.room(own)?;
        if self.ended {
            return Ok(0);
        }
        let ring = match self.shape.mode() {
            Mode::Push => peer,
            Mode::Pull => own,
        };
        let position = self.sent;
        // At most `most`: no bits are lost.
        let count = self.fill(ring, room.min(most as u64) as usize, source);
        if count == 0 {
            return Ok(0);
        }
        match self.shape.mode() {
            Mode::Push => self.told = self.sent,
            Mode::Pull => {
                let at = Shape::wqe(self.posted);
                own.store(at, position);
                own.store(at + WORD, count as u64);
                self.ends[self.posted as usize % MAX_WQES] = self.sent;
                self.posted += 1;
                self.told = self.posted;
            }
        }
        peer.wmb(Fence::Publish);
        peer.store(SENT_AT, self.told);
        Ok(count)
    }

    /// Stores up to `most` bytes into a ring, and returns their number.
    fn fill<W>(&mut self, ring: &W, most: usize, source: &mut impl Source<W>) -> usize {
        let mut done = 0;
        while done < most {
            let place = self.shape.place(self.sent);
            let here = (most - done).min(self.shape.bytes() as usize - place);
            let stored = source.store(ring, place, here, &mut self.tail);
            self.sent += stored as u64;
            done += stored;
            if stored < here {
                break;
            }
        }
        done
    }

    /// Sends that no more will be sent.
    pub fn end(&mut self, peer: &impl Window) {
        if !self.ended {
            self.ended = true;
            self.told += 1;
            peer.wmb(Fence::Publish);
            peer.store(SENT_AT, self.told | END);
        }
    }

    /// Returns whether the peer's receiver waits and its doorbell is to be rung for what was sent since the last
    /// call.
    pub fn needs_kick(&mut self, own: &impl Area, peer: &impl Window) -> bool {
        if self.kicked == self.told {
            return false;
        }
        peer.mb(Fence::WakeReceiver);
        let event = own.load(EVENT_AT);
        passed(
            event,
            core::mem::replace(&mut self.kicked, self.told),
            self.told,
        )
    }
}

/// What a receiver finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing yet.
    Nothing,
    /// So many bytes, perhaps more behind them.
    Bytes(u64),
    /// The peer will send no more.
    End,
}

/// The end that receives.
pub struct Receiver {
    shape: Shape,
    /// Bytes that were taken.
    taken: u64,
    /// The count at `sent` as it was last seen, without the end.
    seen: u64,
    ended: bool,
    /// The count at the peer's `recv_wqes`, and what it was when a doorbell was last thought of.
    told: u64,
    kicked: u64,
    /// To be pulled: the WQEs that were fetched whole, and where the one ends that is being fetched.
    fetched: u64,
    wqe: Option<u64>,
}

impl Receiver {
    /// Makes the receiver of a new socket.
    pub const fn new(shape: Shape) -> Self {
        Self {
            shape,
            taken: 0,
            seen: 0,
            ended: false,
            told: 0,
            kicked: 0,
            fetched: 0,
            wqe: None,
        }
    }

    /// Returns the count of `sent` beyond which there is something to receive, the end included.
    pub const fn mark(&self) -> u64 {
        match self.shape.mode() {
            Mode::Push => self.taken,
            Mode::Pull => self.fetched,
        }
    }

    /// Returns the count of `sent` beyond which there is more than at the last look; `None` if no more will come.
    pub fn seen(&self) -> Option<u64> {
        (!self.ended).then_some(self.seen)
    }

    /// Looks for more. `remote` loads from the peer's half, and is used only where the socket pulls.
    pub fn look(&mut self, own: &impl Area, remote: &impl Area) -> Result<Found, Fault> {
        let sent = own.load(SENT_AT);
        let ended = sent & END != 0;
        let seen = (sent & !END)
            .checked_sub(u64::from(ended))
            .ok_or(Fault::Count)?;
        let most = match self.shape.mode() {
            Mode::Push => self.told * SEGMENT,
            Mode::Pull => self.told + MAX_WQES as u64,
        };
        let more = seen != self.seen || ended != self.ended;
        if seen < self.seen || seen > most || self.ended && more {
            return Err(Fault::Count);
        }
        own.rmb(Fence::Head);
        let left = match self.shape.mode() {
            Mode::Push => seen - self.taken,
            Mode::Pull if seen == self.fetched => 0,
            Mode::Pull => self.fetch(remote)? - self.taken,
        };
        self.seen = seen;
        self.ended = ended;
        Ok(match left {
            0 if ended => Found::End,
            0 => Found::Nothing,
            left => Found::Bytes(left),
        })
    }

    /// Returns where the WQE ends that is being fetched, the next one if there is none.
    fn fetch(&mut self, remote: &impl Area) -> Result<u64, Fault> {
        if let Some(end) = self.wqe {
            return Ok(end);
        }
        let at = Shape::wqe(self.fetched);
        let (position, length) = (remote.load(at), remote.load(at + WORD));
        if position != self.taken || length == 0 || length > self.shape.ring() {
            return Err(Fault::Wqe);
        }
        let end = self.taken + length;
        self.wqe = Some(end);
        Ok(end)
    }

    /// Has `sink` copy up to `most` bytes of what [`Self::look`] has found, and returns how many it has copied. They are
    /// not taken. `ring` is the half whose ring the bytes are in.
    pub fn copy<A>(&self, ring: &A, most: usize, sink: &mut impl Sink<A>) -> usize {
        let place = self.shape.place(self.taken);
        let here = most.min(self.shape.bytes() as usize - place);
        let copied = sink.load(ring, place, here);
        if copied < here || here == most {
            return copied;
        }
        copied + sink.load(ring, self.shape.start(), most - here)
    }

    /// Takes `count` bytes of what [`Self::look`] has found, and stores nothing: see [`Self::settle`].
    pub fn take(&mut self, count: u64) {
        self.taken += count;
        if self.wqe == Some(self.taken) {
            self.fetched += 1;
            self.wqe = None;
        }
    }

    /// Tells the sender of what was taken, if it is enough, or if it has said that it has no room. To be called after
    /// [`Self::take`], and before sleep in case the peer could not be reached then. A sender whose bytes were all taken has
    /// room afterwards.
    pub fn settle(&mut self, own: &impl Area, peer: &impl Window) {
        let ready = self.ready();
        let many = (ready - self.told) * SEGMENT >= self.shape.ring() / 4;
        let full = || own.load(FULL_AT) == self.told + 1;
        if self.shape.mode() == Mode::Pull || many || full() {
            self.flush(peer);
        }
    }

    /// Tells the sender of all that was taken. To be called at the start.
    pub fn flush(&mut self, peer: &impl Window) {
        let ready = self.ready();
        if ready != self.told {
            peer.wmb(Fence::Credit);
            peer.store(WQES_AT, ready);
            self.told = ready;
        }
    }

    /// Returns the count that the peer is to be told.
    fn ready(&self) -> u64 {
        match self.shape.mode() {
            Mode::Push => (self.taken + self.shape.ring()) / SEGMENT,
            Mode::Pull => self.fetched,
        }
    }

    /// Returns whether the peer's sender waits and its doorbell is to be rung for what it was told since the last
    /// call.
    pub fn needs_kick(&mut self, own: &impl Area, peer: &impl Window) -> bool {
        if self.kicked == self.told {
            return false;
        }
        peer.mb(Fence::WakeSender);
        let full = own.load(FULL_AT);
        let before = core::mem::replace(&mut self.kicked, self.told);
        full != 0 && passed(full - 1, before, self.told)
    }
}
