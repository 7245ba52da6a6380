// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A request that is under way, and what it waits for.
//!
//! This file is independent of the order of requests.

use super::segment::Exposed;
use crate::proto::{cqe::Status, wqe::SendWqe};

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// Its acknowledgement.
    Ack,
    /// Its acknowledgement, while the peer grants memory for its data.
    Long,
    /// Its acknowledgement, while the peer pulls its data.
    Exposed(Exposed),
    /// The old value of an atomic.
    Value,
    /// The size of the memory that it reads.
    Size,
    /// Data.
    Read {
        /// Bytes that have come.
        done: u64,
        /// Bytes of the whole read.
        all: u64,
        /// Bytes that are asked for now.
        coming: u32,
    },
    /// The completion of all requests before it: it concerns this end only.
    Turn,
    /// The completion of all requests before it: it has failed with this status.
    Failed(Status),
}

/// A request under way.
#[derive(Debug)]
pub struct Request {
    pub(super) wqe: SendWqe,
    /// The operation as the user wrote it, even if it is invalid.
    pub(super) opcode: u8,
    pub(super) psn: u32,
    pub(super) wait: Wait,
    /// The peer has carried it out, or the part of it that has this number.
    pub(super) acked: bool,
    pub(super) byte_len: u32,
}

impl Request {
    /// A request that is to be filled in.
    pub const BLANK: Self = Self {
        wqe: SendWqe::BLANK,
        opcode: 0,
        psn: 0,
        wait: Wait::Ack,
        acked: false,
        byte_len: 0,
    };

    /// Returns whether it has a number.
    pub(super) const fn has_psn(&self) -> bool {
        !matches!(self.wait, Wait::Turn | Wait::Failed(_))
    }

    /// Returns whether it is sent to the peer. A read of 0 bytes has a number, but is not sent.
    pub(super) fn is_sent(&self) -> bool {
        self.has_psn() && !matches!(self.wait, Wait::Read { done, all, .. } if done >= all)
    }

    /// Returns whether it can be completed.
    pub(super) const fn is_done(&self) -> bool {
        match self.wait {
            Wait::Ack | Wait::Long | Wait::Exposed(_) => self.acked,
            Wait::Read { done, all, coming } => coming == 0 && done >= all,
            Wait::Value | Wait::Size | Wait::Turn | Wait::Failed(_) => false,
        }
    }
}
