// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The responder's end of a queue pair: requests of the peer, carried out in order.
//!
//! A request is carried out, begun or rejected when it is taken out of the FIFO: none waits there. What
//! has to be said then, and finds no room, waits here, in a place of its own.
//!
//! Here is what is under way; what is done with it is in the modules of this one. How data get to the
//! peer, or from there, is in `push` and `pull`.

use super::{env::Heap, inbound::Reading};
use crate::proto::{cqe::Status, request::Message, word::Says};

mod carry_out;
mod message;
mod reply;

/// What a responder has under way, and what it has to say.
pub struct Responder<H: Heap> {
    expected: u16,
    /// Requests are dropped until `expected` comes.
    pub(super) drops: bool,
    /// The peer waits to be told that there is a receive request.
    owes_recv: bool,
    /// The last request that was carried out, and that the peer was not told of.
    pub(super) ack: Option<u16>,
    say: Option<(u16, Says)>,
    answer: Option<(u16, Message)>,
    pub(super) inbound: Option<H::Inbound>,
    /// Until all of it was posted.
    pub(super) reading: Option<Reading>,
    /// The DMA engine moves what a request reads.
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
            inbound: None,
            reading: None,
            moving: false,
        }
    }

    /// The number of the request that is carried out next.
    pub(super) const fn expected(&self) -> u16 {
        self.expected
    }

    /// Whether no request is being carried out, or waits to be answered.
    pub(super) fn is_quiet(&self) -> bool {
        !self.is_busy() && self.say.is_none()
    }

    /// Whether a request is under way behind which the peer sends nothing until it is done.
    fn is_busy(&self) -> bool {
        self.inbound.is_some() || self.answer.is_some() || self.reading.is_some() || self.moving
    }

    /// Of one that is quiet, as its session is over: the peer sends anew what found no receive request.
    pub(super) fn rewind(&mut self) {
        self.owes_recv = false;
        self.ack = None;
    }

    /// Ends what is under way: the receive request that was taken for a message that has not come.
    pub(super) fn give_up(&mut self) -> Option<(u64, u8)> {
        self.reading = None;
        let message = self.inbound.take()?;
        self.ack = None;
        message.goal.recv()
    }

    /// Has the peer told something of a request, which tells of all before it, too.
    pub(super) fn says(&mut self, psn: u16, says: Says) {
        self.ack = None;
        self.say = Some((psn, says));
    }

    /// Whether nothing is to be said, or to be asked again.
    fn is_idle(&self) -> bool {
        self.ack.is_none()
            && self.say.is_none()
            && self.answer.is_none()
            && self.inbound.is_none()
            && self.reading.is_none()
            && !self.owes_recv
    }
}

/// Why a request is not carried out: what the peer is told, and how its receive request ends.
pub(super) struct Reject {
    says: Status,
    recv: Option<(u64, u8, Status)>,
}

impl From<Status> for Reject {
    fn from(says: Status) -> Self {
        Self { says, recv: None }
    }
}
