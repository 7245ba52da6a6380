// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The ends of a copy between registered memory and the link queues, and why it is refused.

use crate::proto::{
    cqe::Status,
    wqe::{Sgl, Tail},
};

/// Why data were not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// An STag does not allow it.
    Denied,
    /// The memory failed.
    Failed,
}

impl Refused {
    /// What it makes of a request of this end, whose list was refused.
    pub(super) const fn locally(self) -> Status {
        match self {
            // Memory of this end that fails: there is no other word for it.
            Self::Denied | Self::Failed => Status::LocalProt,
        }
    }

    /// What the peer is told of memory that it has named.
    pub(super) const fn remotely(self) -> Status {
        match self {
            Self::Denied => Status::RemoteAccess,
            Self::Failed => Status::RemoteOp,
        }
    }
}

/// Where data come from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// What stands behind a send request of this end.
    Tail(&'a Tail),
    /// Memory of this end that the peer reads.
    Tagged {
        /// Its STag.
        stag: u32,
        /// Tagged offset.
        to: u64,
    },
}

/// Where data go.
#[derive(Clone, Copy, Debug)]
pub enum Sink<'a> {
    /// A list of this end's.
    List(&'a Sgl),
    /// Memory of this end that the peer writes.
    Tagged {
        /// Its STag.
        stag: u32,
        /// Tagged offset.
        to: u64,
    },
}
