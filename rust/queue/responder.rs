// SPDX-License-Identifier: GPL-2.0

//! The responder's end of a queue pair: requests of the peer, carried out in order.
//!
//! A request is carried out, begun or refused when it is taken out of the FIFO: none waits there. What
//! has to be said then, and finds no room, waits here, in a place of its own.
//!
//! Here is what is under way; what is done with it is in the modules of this one. How data get to the
//! peer, or from there, is in `pushes` and `pulls`.

use super::{
    data::Sink,
    parts::{Offering, Parts},
};
use crate::proto::{
    cqe::Status,
    request::Message,
    word::Says,
    wqe::{Sgl, OP_RECV, OP_RECV_WRITE_IMM},
};
use kernel::prelude::*;

mod carry_out;
mod message;
mod reply;

/// Where a message goes.
#[derive(Clone, Copy)]
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack or in the QP; a box would be an allocation a message"
)]
pub(super) enum Goal {
    /// To a receive request.
    Recv { wr_id: u64, list: Sgl },
    /// To memory that the peer has named; the receive request is for immediate data.
    Tagged {
        stag: u32,
        to: u64,
        recv: Option<u64>,
    },
}

impl Goal {
    pub(super) fn sink(&self) -> Sink<'_> {
        match self {
            Self::Recv { list, .. } => Sink::List(list),
            Self::Tagged { stag, to, .. } => Sink::Tagged {
                stag: *stag,
                to: *to,
            },
        }
    }

    fn recv(&self) -> Option<(u64, u8)> {
        match *self {
            Self::Recv { wr_id, .. } => Some((wr_id, OP_RECV)),
            Self::Tagged { recv, .. } => recv.map(|wr_id| (wr_id, OP_RECV_WRITE_IMM)),
        }
    }
}

/// A long message that is coming.
pub(super) struct Long {
    pub(super) psn: u16,
    pub(super) goal: Goal,
    imm: Option<u32>,
    pub(super) length: u64,
    /// Memory was lent up to here, or named by the peer if data are pulled,
    pub(super) lent: u64,
    /// so many bytes are in their place,
    placed: u64,
    /// so many parts are lent now,
    pub(super) out: usize,
    /// and so many were, or were named.
    pub(super) parts: u64,
    /// What the peer has named and was not read yet.
    pub(super) named: Parts,
}

/// A read, while the peer pulls its data.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub(super) psn: u16,
    pub(super) stag: u32,
    pub(super) to: u64,
    pub(super) length: u64,
    pub(super) offering: Offering,
}

/// What a responder knows.
pub(super) struct Responder {
    expected: u16,
    /// Requests are dropped until `expected` comes.
    pub(super) drops: bool,
    /// The peer waits to be told that there is a receive request.
    owes_recv: bool,
    /// The last request that was carried out, and that the peer was not told of.
    pub(super) ack: Option<u16>,
    say: Option<(u16, Says)>,
    answer: Option<(u16, Message)>,
    pub(super) long: Option<KBox<Long>>,
    /// Until all of it was put down.
    pub(super) reading: Option<Reading>,
    /// What a request reads is on its way.
    pub(super) moving: bool,
}

impl Responder {
    pub(super) const fn new() -> Self {
        Self {
            expected: 0,
            drops: false,
            owes_recv: false,
            ack: None,
            say: None,
            answer: None,
            long: None,
            reading: None,
            moving: false,
        }
    }

    /// The number of the request that is carried out next.
    pub(super) fn expected(&self) -> u16 {
        self.expected
    }

    /// Whether no request is being carried out, or waits to be answered.
    pub(super) fn is_quiet(&self) -> bool {
        let busy = self.long.is_some() || self.reading.is_some() || self.moving;
        !busy && self.say.is_none() && self.answer.is_none()
    }

    /// Of one that is quiet, as its session is over: the peer sends anew what it was refused.
    pub(super) fn rest(&mut self) {
        self.owes_recv = false;
        self.ack = None;
    }

    /// Nothing more is done: the receive request that was taken for a message that has not come.
    pub(super) fn give_up(&mut self) -> Option<(u64, u8)> {
        self.reading = None;
        let long = self.long.take()?;
        self.ack = None;
        long.goal.recv()
    }

    /// Has the peer told something of a request that tells of all before it, too.
    pub(super) fn says(&mut self, psn: u16, says: Says) {
        self.ack = None;
        self.say = Some((psn, says));
    }

    /// Whether something is to be said, or to be asked again.
    fn is_idle(&self) -> bool {
        self.ack.is_none()
            && self.say.is_none()
            && self.answer.is_none()
            && self.long.is_none()
            && self.reading.is_none()
            && !self.owes_recv
    }
}

/// What a request that cannot be carried out is refused with, and why its receive request ends.
pub(super) struct No {
    says: Status,
    recv: Option<(u64, u8, Status)>,
}

impl From<Status> for No {
    fn from(says: Status) -> Self {
        Self { says, recv: None }
    }
}
