// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The ends of a copy between registered memory and the link queues, and why it is refused.

use crate::proto::{
    cqe::Status,
    wqe::{Sgl, Tail},
};

/// Reason why data were not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// An STag does not allow it.
    Denied,
    /// The memory failed.
    Failed,
}

impl Refused {
    /// Returns the status of a request of this end if its list was refused.
    pub(super) const fn locally(self) -> Status {
        match self {
            // There is no separate status for memory of this end that fails.
            Self::Denied | Self::Failed => Status::LocalProt,
        }
    }

    /// Returns the status for the peer if memory that it has named was refused.
    pub(super) const fn remotely(self) -> Status {
        match self {
            Self::Denied => Status::RemoteAccess,
            Self::Failed => Status::RemoteOp,
        }
    }
}

/// Source of data.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// The tail of a send request of this end.
    Tail(&'a Tail),
    /// Memory of this end that the peer reads.
    Tagged {
        /// Its STag.
        stag: u32,
        /// Tagged offset.
        to: u64,
    },
}

/// Destination of data.
#[derive(Clone, Copy, Debug)]
pub enum Sink<'a> {
    /// A scatter list of this end.
    List(&'a Sgl),
    /// Memory of this end that the peer writes.
    Tagged {
        /// Its STag.
        stag: u32,
        /// Tagged offset.
        to: u64,
    },
}
