// SPDX-License-Identifier: GPL-2.0

//! The initiator's end of a queue pair: work requests, from the send queue to their completion.
//!
//! Requests complete in the order in which they were posted. What takes more than an acknowledgement
//! (long messages, reads, atomics), and what concerns memory of this end only, is the last one under
//! way: nothing is sent behind it until it is done, so that order needs nothing more.
//!
//! Here is which requests there are; they are sent, answered and completed in the modules of this one.
//! How data get to the peer, or from there, is in `pushes` and `pulls`.

use super::{
    cx::Cx,
    data::{Refused, Source},
    parts::{Parts, Pulling, PARTS},
    qp::Qp,
};
use crate::proto::{
    cqe::Status,
    wqe::{Identity, Opcode, SendWqe, Senseless, Tail},
};
use kernel::prelude::*;

mod answers;
mod completion;
mod request;
mod send;

pub(super) use self::request::{Request, Wait};

/// Requests of a queue pair that are under way, at most.
const WINDOW: usize = 64;

/// What an initiator knows.
pub(super) struct Initiator {
    requests: [Option<KBox<Request>>; WINDOW],
    first: usize,
    pub(super) count: usize,
    /// How many of them were sent; the rest has to be sent, or sent anew.
    pub(super) sent: usize,
    next_psn: u32,
    /// The last of them is one behind which nothing is sent.
    held: bool,
    /// The peer had no receive request, and will say when there is one.
    starved: bool,
    /// What the peer has lent for the last request; if data are pulled, what it has put down for it.
    pub(super) parts: Parts,
    pub(super) pulling: Pulling,
}

impl Initiator {
    pub(super) const fn new() -> Self {
        Self {
            requests: [const { None }; WINDOW],
            first: 0,
            count: 0,
            sent: 0,
            next_psn: 0,
            held: false,
            starved: false,
            parts: [None; PARTS],
            pulling: Pulling::NONE,
        }
    }

    pub(super) fn get(&mut self, n: usize) -> Option<&mut Request> {
        if n >= self.count {
            return None;
        }
        let place = self.requests.get_mut((self.first + n) % WINDOW)?;
        place.as_deref_mut()
    }

    fn push(&mut self, request: KBox<Request>) {
        if let Some(place) = self.requests.get_mut((self.first + self.count) % WINDOW) {
            *place = Some(request);
            self.count += 1;
        }
    }

    /// How many requests are under way: each gets its completion.
    pub(super) fn under_way(&self) -> usize {
        self.count
    }

    /// Whether nothing that was sent waits for an answer.
    pub(super) fn is_quiet(&self) -> bool {
        self.sent == 0
    }

    /// The number of the request that is sent next.
    pub(super) fn next_number(&mut self) -> u16 {
        let first = (self.sent..self.count)
            .find_map(|n| self.get(n).filter(|r| r.is_heard_of()).map(|r| r.psn));
        first.unwrap_or(self.next_psn) as u16
    }

    /// Of one that is quiet: the peer forgets what it has said of what is to be sent anew.
    pub(super) fn rest(&mut self) {
        self.starved = false;
        self.parts = [None; PARTS];
        self.pulling = Pulling::NONE;
    }

    /// Fills in a request whose work request was taken from the send queue.
    fn begin(
        &mut self,
        request: &mut Request,
        who: Identity,
        sense: core::result::Result<(), Senseless>,
    ) {
        request.opcode = who.opcode;
        request.psn = 0;
        request.acked = false;
        request.byte_len = 0;
        if sense.is_err() {
            request.wqe = SendWqe::BLANK;
            request.wqe.wr_id = who.wr_id;
            request.wait = Wait::Failed(Status::LocalRequest);
            self.held = true;
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
            self.held = true;
        }
    }

    /// Takes the oldest request out.
    pub(super) fn pop(&mut self) -> Option<KBox<Request>> {
        if self.count == 0 {
            return None;
        }
        let request = self.requests.get_mut(self.first)?.take();
        self.first = (self.first + 1) % WINDOW;
        self.count -= 1;
        self.sent = self.sent.saturating_sub(1);
        if self.count == 0 {
            self.held = false;
            self.parts = [None; PARTS];
        }
        request
    }

    /// The place of the request with this number among those that were sent.
    pub(super) fn find(&mut self, psn: u16) -> Option<usize> {
        (0..self.sent).find(|&n| {
            self.get(n)
                .is_some_and(|r| r.psn as u16 == psn && r.has_psn())
        })
    }

    /// Whether the request with this number was completed before.
    fn is_past(&mut self, psn: u16) -> bool {
        let next = self.next_psn;
        let oldest = (0..self.count)
            .find_map(|n| self.get(n).filter(|r| r.has_psn()).map(|r| r.psn))
            .unwrap_or(next);
        (1..=0x7fff).contains(&(oldest as u16).wrapping_sub(psn))
    }

    /// All requests up to `psn` are carried out, that one too if `with`. False: no such one was sent.
    pub(super) fn acked(&mut self, psn: u16, with: bool) -> bool {
        let Some(last) = self.find(psn) else {
            return false;
        };
        for n in 0..last + usize::from(with) {
            if let Some(request) = self.get(n) {
                request.acked = true;
            }
        }
        true
    }
}

/// What a list's element that was refused makes of its request.
pub(super) fn local(why: Refused) -> Status {
    match why {
        Refused::Denied => Status::LocalProt,
        // Memory of this end: there is no other word for it.
        Refused::Failed => Status::LocalProt,
    }
}

impl Qp {
    /// The data of a request of this queue pair.
    pub(super) fn source<'a>(&'a self, cx: &Cx<'a>, tail: &'a Tail) -> Source<'a> {
        Source {
            memory: cx.memory,
            pd: &self.made.pd,
            tail,
        }
    }
}
