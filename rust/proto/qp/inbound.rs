// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Requests of the peer that take more than one cell: long messages that are being received, and a read
//! while the peer pulls its data.
//!
//! This file is independent of what else the responder has under way.

use super::{
    data::{Refused, Sink},
    segment::{Exposed, Segments},
};
use crate::proto::wqe::{Sgl, OP_RECV, OP_RECV_WRITE_IMM};

/// Destination of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal {
    /// The list of a receive request, which is kept elsewhere: it is large.
    Recv { wr_id: u64 },
    /// Memory that the peer has named; the receive request is for immediate data.
    Tagged {
        stag: u32,
        to: u64,
        recv: Option<u64>,
    },
}

impl Goal {
    /// Returns where the data go; `list` is that of the receive request.
    pub(super) const fn sink<'a>(&self, list: &'a Sgl) -> Sink<'a> {
        match *self {
            Self::Recv { .. } => Sink::List(list),
            Self::Tagged { stag, to, .. } => Sink::Tagged { stag, to },
        }
    }

    /// Returns the `wr_id` of the receive request, and the operation of its completion.
    pub(super) fn recv(&self) -> Option<(u64, u8)> {
        match *self {
            Self::Recv { wr_id, .. } => Some((wr_id, OP_RECV)),
            Self::Tagged { recv, .. } => recv.map(|wr_id| (wr_id, OP_RECV_WRITE_IMM)),
        }
    }
}

/// A long message that is being received.
#[derive(Debug)]
pub struct Inbound {
    pub(super) psn: u16,
    pub(super) goal: Goal,
    /// The list of the receive request, if that is the goal.
    pub(super) list: Sgl,
    pub(super) imm: Option<u32>,
    /// Bytes of the whole message.
    pub(super) length: u64,
    /// Bytes for which memory was granted, or exposed by the peer if data are pulled.
    pub(super) granted: u64,
    /// Bytes that are in their place.
    pub(super) placed: u64,
    /// Number of segments that have memory now.
    pub(super) under_way: usize,
    /// Number of segments that have, or had, memory.
    pub(super) segments: u64,
    /// Segments that the peer has exposed and that were not pulled yet.
    pub(super) named: Segments,
    /// A segment could not be copied to its place. The peer is told when the messages before this one
    /// are complete.
    pub(super) refused: Option<Refused>,
}

impl Inbound {
    /// Returns where the data go.
    pub(super) const fn sink(&self) -> Sink<'_> {
        self.goal.sink(&self.list)
    }

    /// Returns whether it ends when the messages before it have.
    pub(super) fn is_over(&self) -> bool {
        self.refused.is_some() || self.placed == self.length
    }
}

/// A read while the peer pulls its data.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub(super) psn: u16,
    pub(super) stag: u32,
    pub(super) to: u64,
    pub(super) length: u64,
    pub(super) exposed: Exposed,
}
