// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What an endpoint tells of operations that are over: its own, and what others have done in its regions.

use crate::completion::Done;
use crate::fi::*;

/// What an operation was to its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Send,
    Receive,
    /// It has read a region of another, or changed one and was told what there was,
    Read,
    /// or has written to one.
    Write,
    /// Another has done that here.
    RemoteRead,
    RemoteWrite,
}

impl Side {
    /// What counters for it are bound with.
    pub fn flag(self) -> u64 {
        match self {
            Side::Send => FI_SEND,
            Side::Receive => FI_RECV,
            Side::Read => FI_READ,
            Side::Write => FI_WRITE,
            Side::RemoteRead => FI_REMOTE_READ,
            Side::RemoteWrite => FI_REMOTE_WRITE,
        }
    }

    /// Whether it was begun by another.
    pub fn is_remote(self) -> bool {
        matches!(self, Side::RemoteRead | Side::RemoteWrite)
    }
}

/// How the end of an operation is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telling {
    /// Success posts a completion.
    pub reported: bool,
    /// It is of the domain's deferred work, with this number, which counters of the endpoint do not count.
    pub work: Option<u64>,
}

impl From<bool> for Telling {
    fn from(reported: bool) -> Self {
        Telling { reported, work: None }
    }
}

/// What is told of an operation that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub done: Done,
    pub side: Side,
    /// A success is reported to the completion queue. Errors are in any case, but for those of others.
    pub reported: bool,
    /// It counts: it has moved bytes, or was to.
    pub counts: bool,
    /// The number of the deferred work that it was.
    pub work: Option<u64>,
}

impl Outcome {
    /// That of an operation of the program. Deferred work counts elsewhere.
    pub fn of(done: Done, side: Side, telling: Telling) -> Self {
        let Telling { reported, work } = telling;
        Outcome { done, side, reported, counts: work.is_none(), work }
    }
}

/// Who hears of it.
pub trait Report {
    fn report(&mut self, outcome: Outcome);
    /// The index of a source, or [`FI_ADDR_UNSPEC`].
    fn source(&self, source: (u64, u16)) -> FiAddr;
}
