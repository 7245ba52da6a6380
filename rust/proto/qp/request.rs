// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A request, while it is under way, and what it waits for.
//!
//! It must not know its place among the others.

use super::segment::Exposed;
use crate::proto::{cqe::Status, wqe::SendWqe};

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// Its acknowledgement.
    Ack,
    /// The same, while the peer grants memory for its data.
    Long,
    /// The same, while the peer pulls its data.
    Exposed(Exposed),
    /// The old value.
    Value,
    /// The size of what it reads.
    Size,
    /// Data.
    Read {
        /// Bytes that have come,
        done: u64,
        /// of so many;
        all: u64,
        /// so many are asked for.
        coming: u32,
    },
    /// All requests before it to be done: it concerns this end only.
    Turn,
    /// The same: it has failed, and says so then.
    Failed(Status),
}

/// A request under way.
#[derive(Debug)]
pub struct Request {
    pub(super) wqe: SendWqe,
    /// As the user wrote it, also if it is none.
    pub(super) opcode: u8,
    pub(super) psn: u32,
    pub(super) wait: Wait,
    /// The peer has carried it out, or so much of it as has this number.
    pub(super) acked: bool,
    pub(super) byte_len: u32,
}

impl Request {
    /// One that is to be filled in.
    pub const BLANK: Self = Self {
        wqe: SendWqe::BLANK,
        opcode: 0,
        psn: 0,
        wait: Wait::Ack,
        acked: false,
        byte_len: 0,
    };

    /// Whether it has a number.
    pub(super) const fn has_psn(&self) -> bool {
        !matches!(self.wait, Wait::Turn | Wait::Failed(_))
    }

    /// Whether it is sent. A read of nothing has a number, and is not.
    pub(super) fn is_sent(&self) -> bool {
        self.has_psn() && !matches!(self.wait, Wait::Read { done, all, .. } if done >= all)
    }

    /// Whether it can be completed.
    pub(super) const fn is_done(&self) -> bool {
        match self.wait {
            Wait::Ack | Wait::Long | Wait::Exposed(_) => self.acked,
            Wait::Read { done, all, coming } => coming == 0 && done >= all,
            Wait::Value | Wait::Size | Wait::Turn | Wait::Failed(_) => false,
        }
    }
}
