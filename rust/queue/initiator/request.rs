// SPDX-License-Identifier: GPL-2.0

//! A request of an initiator's, while it is under way, and what it waits for.
//!
//! It must not know its place among the others.

use crate::{
    proto::{cqe::Status, wqe::SendWqe},
    queue::parts::Offering,
};
use kernel::prelude::*;

/// What a request waits for.
#[derive(Clone, Copy)]
pub(in crate::queue) enum Wait {
    /// Its acknowledgement.
    Ack,
    /// The same, while the peer lends memory for its data.
    Long,
    /// The same, while the peer pulls its data.
    Offered(Offering),
    /// The old value.
    Value,
    /// The size of what it reads.
    Size,
    /// Data: so many bytes have come, of so many; so many are on their way.
    Read { done: u64, all: u64, coming: u32 },
    /// All before it to be done: it concerns this end only.
    Turn,
    /// The same: it has failed, and says so then.
    Failed(Status),
}

/// A request under way.
pub(in crate::queue) struct Request {
    pub(in crate::queue) wqe: SendWqe,
    /// As the user wrote it, also if it is none.
    pub(in crate::queue) opcode: u8,
    pub(in crate::queue) psn: u32,
    pub(in crate::queue) wait: Wait,
    /// The peer has carried it out, or so much of it as has this number.
    pub(super) acked: bool,
    pub(in crate::queue) byte_len: u32,
}

impl Request {
    /// One that is to be filled in.
    pub(in crate::queue) fn blank() -> impl Init<Self> {
        init!(Self {
            wqe: SendWqe::BLANK,
            opcode: 0,
            psn: 0,
            wait: Wait::Ack,
            acked: false,
            byte_len: 0,
        })
    }

    /// Whether the peer hears of it.
    pub(super) fn has_psn(&self) -> bool {
        !matches!(self.wait, Wait::Turn | Wait::Failed(_))
    }

    /// Whether it is sent. A read of nothing has a number, and is not.
    pub(super) fn is_heard_of(&self) -> bool {
        self.has_psn() && !matches!(self.wait, Wait::Read { done, all, .. } if done >= all)
    }

    /// Whether it can be completed.
    pub(super) fn is_done(&self) -> bool {
        match self.wait {
            Wait::Ack | Wait::Long | Wait::Offered(_) => self.acked,
            Wait::Read { done, all, coming } => coming == 0 && done >= all,
            Wait::Value | Wait::Size | Wait::Turn | Wait::Failed(_) => false,
        }
    }
}
