// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The requester's end of a queue pair: work requests, from the send queue to their completion.
//!
//! Requests complete in the order in which they were posted. A request that takes more than an
//! acknowledgement (reads, atomics, and long messages if data are pulled), or that concerns memory of
//! this end only, is the last one under way: nothing is sent behind it until it is done, which is enough
//! to keep the order. Long messages with data that are pushed follow each other, up to [`MESSAGES`]; all
//! else waits for them.
//!
//! [`MESSAGES`]: super::segment::MESSAGES
//!
//! This file keeps the requests; the submodules send, answer and complete them. The transfer of data
//! from and to the peer is in `push` and `pull`.

use super::{
    env::Heap,
    request::{Request, Wait},
    segment::{Grants, Pulling},
};
use crate::proto::{
    cqe::Status,
    wqe::{Identity, Opcode, SendWqe, Senseless},
};
use core::ops::{Deref, DerefMut};

mod answers;
mod completion;
mod send;

/// Most requests of a queue pair that are under way.
const WINDOW: usize = 64;

/// Whether the peer has refused what is to be sent again, as it had no receive request (RNR).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rnr {
    /// It has not.
    No,
    /// It has, and will report when it has one.
    Waits,
    /// It has one now.
    Over,
}

/// Requests under way. Each is identified by its index, counted from the oldest; those that are sent to
/// the peer also by their number (psn).
pub struct Requester<H: Heap> {
    requests: [Option<H::Request>; WINDOW],
    first: usize,
    count: usize,
    /// How many of them were sent; the rest is to be sent, or sent again.
    pub(super) sent: usize,
    next_psn: u32,
    /// Nothing is sent behind the last of them.
    fence_wait: bool,
    rnr: Rnr,
    /// The peer has refused a request by NAK, and is in ERR. Memory that it granted or exposed before may
    /// be heard of after that: words and cells have a FIFO each.
    pub(super) refused: bool,
    /// How many of the requests that were sent are long messages with data that are pushed.
    longs: usize,
    /// Memory that the peer has granted for them; if data are pulled, that it has exposed for the last
    /// request.
    pub(super) grants: Grants,
    /// Segments that the DMA engine has, and behind which DONE was not sent yet.
    pub(super) moving: usize,
    pub(super) pulling: Pulling,
}

impl<H: Heap> Requester<H> {
    pub(super) const fn new() -> Self {
        Self {
            requests: [const { None }; WINDOW],
            first: 0,
            count: 0,
            sent: 0,
            next_psn: 0,
            fence_wait: false,
            rnr: Rnr::No,
            refused: false,
            longs: 0,
            grants: Grants::NONE,
            moving: 0,
            pulling: Pulling::NONE,
        }
    }

    pub(super) fn get(&self, n: usize) -> Option<&Request> {
        if n >= self.count {
            return None;
        }
        let place = self.requests.get((self.first + n) % WINDOW)?;
        place.as_ref().map(Deref::deref)
    }

    pub(super) fn get_mut(&mut self, n: usize) -> Option<&mut Request> {
        if n >= self.count {
            return None;
        }
        let place = self.requests.get_mut((self.first + n) % WINDOW)?;
        place.as_mut().map(DerefMut::deref_mut)
    }

    fn push(&mut self, request: H::Request) {
        if let Some(place) = self.requests.get_mut((self.first + self.count) % WINDOW) {
            *place = Some(request);
            self.count += 1;
        }
    }

    /// Returns how many requests are under way: each gets its completion.
    pub(super) const fn under_way(&self) -> usize {
        self.count
    }

    /// Returns how many requests are under way, less those that the peer has refused for want of a receive
    /// request, and that were not sent again.
    pub(super) const fn unrefused(&self) -> usize {
        match self.rnr {
            Rnr::No => self.count,
            Rnr::Waits | Rnr::Over => self.sent,
        }
    }

    /// Returns the index of the newest request.
    pub(super) const fn last(&self) -> Option<usize> {
        self.count.checked_sub(1)
    }

    /// Returns whether all requests that were sent are answered.
    pub(super) const fn is_quiet(&self) -> bool {
        self.sent == 0
    }

    /// Returns the number of the request that is sent next.
    pub(super) fn next_number(&self) -> u16 {
        let mut unsent = (self.sent..self.count).filter_map(|n| self.get(n));
        let first = unsent.find(|request| request.is_sent());
        first.map_or(self.next_psn, |request| request.psn) as u16
    }

    /// Prepares a quiet requester for another session: clears what the peer has reported on requests
    /// that are to be sent again.
    pub(super) fn rewind(&mut self) {
        self.rnr = Rnr::No;
        self.longs = 0;
        self.grants = Grants::NONE;
        self.moving = 0;
        self.pulling = Pulling::NONE;
    }

    /// Fills in a request after its work request was taken from the send queue.
    fn begin(&mut self, request: &mut Request, identity: Identity, sense: Result<(), Senseless>) {
        request.opcode = identity.opcode;
        request.psn = 0;
        request.acked = false;
        request.byte_len = 0;
        if sense.is_err() {
            request.wqe = SendWqe::BLANK;
            request.wqe.wr_id = identity.wr_id;
            request.wait = Wait::Failed(Status::LocalRequest);
            self.fence_wait = true;
            return;
        }
        let all = request.wqe.tail.bytes();
        request.wait = match request.wqe.opcode {
            Opcode::Send | Opcode::Write | Opcode::WriteImm => Wait::Ack,
            Opcode::Read => Wait::Read {
                done: 0,
                all,
                coming: 0,
            },
            Opcode::ReadAll => Wait::Size,
            Opcode::FetchAdd | Opcode::CmpSwap => Wait::Value,
            Opcode::BindMw | Opcode::LocalInv => Wait::Turn,
        };
        request.psn = self.next_psn;
        if !matches!(request.wait, Wait::Turn | Wait::Read { all: 0, .. }) {
            self.next_psn = self.next_psn.wrapping_add(1);
        }
        if !matches!(request.wait, Wait::Ack) {
            self.fence_wait = true;
        }
    }

    /// Removes and returns the oldest request.
    pub(super) fn pop(&mut self) -> Option<H::Request> {
        if self.count == 0 {
            return None;
        }
        let request = self.requests.get_mut(self.first)?.take();
        let is_long = |request: &H::Request| matches!(request.wait, Wait::Long);
        if self.sent > 0 && request.as_ref().is_some_and(is_long) {
            self.longs = self.longs.saturating_sub(1);
        }
        self.first = (self.first + 1) % WINDOW;
        self.count -= 1;
        self.sent = self.sent.saturating_sub(1);
        if self.count == 0 {
            self.fence_wait = false;
            self.longs = 0;
            self.grants = Grants::NONE;
        }
        request
    }

    /// Goes back to request `n`: it and those behind it are to be sent again. Those before it were
    /// carried out.
    fn go_back(&mut self, n: usize) {
        self.sent = n;
        let is_long = |request: &Request| matches!(request.wait, Wait::Long);
        let sent = (0..n).filter_map(|n| self.get(n));
        self.longs = sent.filter(|request| is_long(request)).count();
        self.grants = Grants::NONE;
    }

    /// Returns the index of the request with this number among those that were sent.
    pub(super) fn find(&self, psn: u16) -> Option<usize> {
        let is = |request: &Request| request.psn as u16 == psn && request.has_psn();
        (0..self.sent).find(|&n| self.get(n).is_some_and(is))
    }

    /// Returns whether the request with this number was completed before.
    fn is_past(&self, psn: u16) -> bool {
        let mut all = (0..self.count).filter_map(|n| self.get(n));
        let oldest = all
            .find(|request| request.has_psn())
            .map_or(self.next_psn, |request| request.psn);
        (1..=0x7fff).contains(&(oldest as u16).wrapping_sub(psn))
    }

    /// Marks all requests before `psn` as carried out, and that one too if `with`. Returns false if no
    /// such request was sent.
    pub(super) fn acked(&mut self, psn: u16, with: bool) -> bool {
        let Some(last) = self.find(psn) else {
            return false;
        };
        for n in 0..last + usize::from(with) {
            if let Some(request) = self.get_mut(n) {
                request.acked = true;
            }
        }
        true
    }
}
