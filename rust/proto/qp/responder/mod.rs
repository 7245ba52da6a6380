// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The responder's end of a queue pair: requests of the peer, carried out in order.
//!
//! A request is carried out, begun or rejected when it is taken out of the FIFO: none waits there. An
//! answer that finds no room is kept here until there is room. Several long messages can be under way,
//! but nothing else besides them. They end in order, and so does a request behind them that was not
//! begun: a NAK acknowledges what was before it.
//!
//! This file keeps the state of the responder; the submodules act on it. The transfer of data from and
//! to the peer is in `push` and `pull`.

use super::{env::Heap, inbound::Reading, inbounds::Inbounds};
use crate::proto::{cqe::Status, request::Outgoing, word::Says};

mod carry_out;
mod message;
mod reply;

/// Requests that a responder has under way, and answers that are due.
pub struct Responder<H: Heap> {
    expected: u16,
    /// Requests are dropped until `expected` comes.
    pub(super) drops: bool,
    /// The peer has had an RNR NAK; RNR cleared is due once there is a receive request.
    owes_recv: bool,
    /// Number of the last request that was carried out, if its acknowledgement is due.
    pub(super) ack: Option<u16>,
    say: Option<(u16, Says)>,
    answer: Option<(u16, Outgoing<'static>)>,
    pub(super) inbound: Inbounds<H>,
    /// What is to be told of the request behind `inbound`, when all of these are complete.
    pub(super) verdict: Option<(u16, Verdict)>,
    /// A read of which not all data were posted yet.
    pub(super) reading: Option<Reading>,
    /// The DMA engine moves the data of a read.
    pub(super) moving: bool,
}

impl<H: Heap> Responder<H> {
    pub(super) const fn new() -> Self {
        Self {
            expected: 0,
            drops: false,
            owes_recv: false,
            ack: None,
            say: None,
            answer: None,
            inbound: Inbounds::new(),
            verdict: None,
            reading: None,
            moving: false,
        }
    }

    /// Returns the number of the request that is carried out next.
    pub(super) const fn expected(&self) -> u16 {
        self.expected
    }

    /// Returns whether no request is being carried out, or waits for its answer.
    pub(super) fn is_quiet(&self) -> bool {
        !self.is_busy() && self.say.is_none()
    }

    /// Returns whether a request is under way behind which the peer sends nothing until it is done.
    fn is_busy(&self) -> bool {
        !self.inbound.is_empty() || self.is_alone()
    }

    /// Returns whether a request is under way that is the only one.
    fn is_alone(&self) -> bool {
        self.answer.is_some() || self.reading.is_some() || self.moving
    }

    /// Returns whether the peer may send a request now, `long` if it is a long message with data that
    /// are pushed.
    fn may_begin(&self, long: bool) -> bool {
        let behind = self.inbound.is_empty() || long && !self.inbound.is_full();
        behind && !self.is_alone()
    }

    /// Prepares a quiet responder for another session: the peer sends the requests again that found no
    /// receive request.
    pub(super) fn rewind(&mut self) {
        self.owes_recv = false;
        self.ack = None;
    }

    /// Ends what is under way. Returns the next receive request that was taken for a message that has
    /// not completely come, in the order of the messages, and the operation of its completion.
    pub(super) fn give_up(&mut self) -> Option<(u64, u8)> {
        self.reading = None;
        while let Some(message) = self.inbound.pop() {
            self.ack = None;
            if let Some(recv) = message.goal.recv() {
                return Some(recv);
            }
        }
        match self.verdict.take() {
            Some((_, Verdict::Rejected(reject))) => reject.recv.map(|(id, op, _)| (id, op)),
            _ => None,
        }
    }

    /// Records a word to be sent for request `psn`. It implies the acknowledgement of all before it.
    pub(super) fn says(&mut self, psn: u16, says: Says) {
        self.ack = None;
        self.say = Some((psn, says));
    }

    /// Returns whether nothing is due or under way.
    fn is_idle(&self) -> bool {
        self.ack.is_none()
            && self.say.is_none()
            && self.answer.is_none()
            && self.inbound.is_empty()
            && self.reading.is_none()
            && !self.owes_recv
    }
}

/// What the peer is told of a request that was not begun.
pub(super) enum Verdict {
    /// There was no receive request.
    NoRecv,
    /// It was rejected.
    Rejected(Reject),
}

/// Rejection of a request: the status for the peer, and the completion of its receive request.
pub(super) struct Reject {
    says: Status,
    recv: Option<(u64, u8, Status)>,
}

impl From<Status> for Reject {
    fn from(says: Status) -> Self {
        Self { says, recv: None }
    }
}
