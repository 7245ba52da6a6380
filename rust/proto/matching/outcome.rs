// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the caller is to do when a match request has been executed.
//!
//! The engine moves no bytes, sends nothing and posts no event: it says what is to be done. This file is
//! independent of the lists.

use super::{
    endpoint::State,
    request::{Buffer, Header, Message, Op, Options},
};

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The endpoint is disabled.
    Disabled,
    /// There is no buffer for it.
    NoBuffer,
    /// The buffer does not allow it.
    Denied,
    /// The command makes no sense.
    Invalid,
    /// There is no list entry left, or the endpoint has as many as it may.
    NoEntry,
    /// The lists are being handed over, or the program matches by itself.
    Software,
    /// The endpoint is in another state than the command is for.
    State,
}

/// A message, and the bytes in memory that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The message. If it was unexpected, its eager bytes lie at `header.address`.
    pub header: Header,
    /// Its eager bytes lie in overflow memory, and are to be copied from there.
    pub stored: bool,
    /// By which the program knows the buffer.
    pub context: u64,
    /// Where the bytes go, or come from.
    pub address: u64,
    /// How many, in bytes: less than the message has if the buffer is too short.
    pub length: u64,
    /// The buffer is not in its list any more: the event says so.
    pub unlinked: bool,
    /// A full event is to be posted.
    pub full: bool,
    /// An event is to be counted, as failure if [`Receipt::is_truncated`].
    pub counting: bool,
}

impl Receipt {
    /// Initial value for memory.
    pub const NONE: Self = Self {
        header: Header {
            source: 0,
            bits: 0,
            length: 0,
            eager: 0,
            data: 0,
            cookie: 0,
            address: 0,
            context: 0,
        },
        stored: false,
        context: 0,
        address: 0,
        length: 0,
        unlinked: false,
        full: false,
        counting: false,
    };
}

impl Receipt {
    /// Returns the bytes of the message that are to be got from its initiator now. None of a message whose
    /// initiator waits ends it as well: the caller says so to the initiator.
    pub fn rest(&self) -> u64 {
        self.length.saturating_sub(u64::from(self.header.eager))
    }

    /// Returns the eager bytes that are copied.
    pub fn eager(&self) -> u64 {
        self.length.min(u64::from(self.header.eager))
    }

    /// Returns whether the initiator keeps bytes until it hears that the message is over.
    pub fn is_rendezvous(&self) -> bool {
        u64::from(self.header.eager) < self.header.length
    }

    /// Returns whether the buffer was too short.
    pub fn is_truncated(&self) -> bool {
        self.length < self.header.length
    }
}

/// What has come of a match request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A message and a buffer have met: the bytes are moved, a get is begun for the rest, the event is posted.
    /// A get or an atomic operation is carried out there, and answered.
    Receive(Receipt),
    /// No posted buffer is for the message: its eager bytes go to overflow memory, its header is in the
    /// unexpected list.
    Unexpected(Receipt),
    /// The program matches by itself: header and eager bytes go to memory of the software request list.
    Software(Receipt),
    /// The buffer, or the header, is in its list.
    Appended,
    /// The buffer with this context is in no list any more.
    Unlinked(u64),
    /// There is such an unexpected message.
    Found(Header),
    /// There was, and it waits for its receive.
    Claimed(Header),
    /// There was, and it is dropped; an initiator that waits is told.
    Discarded(Header),
    /// There is none.
    NotFound,
    /// The endpoint is in this state now.
    State(State),
    /// The number of entries is noted.
    Noted,
    /// The lists are handed over: the caller calls `give` until all is given. A command that was to append
    /// something has not done so.
    HandOver,
    /// The message is held until the lists have changed hands.
    Held,
    /// The lists can return: the program appends all of its lists, and then enables the endpoint.
    Return,
    /// The message is dropped, and its initiator told why.
    Drop(Reason),
    /// The source is told NO_SPACE; it goes back to this message when it is told RESUME.
    NoSpace,
    /// The command has failed: the event says why.
    Rejected(Reason),
}

/// What the persistent list entry cache has of a list entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    context: u64,
    address: u64,
    length: u64,
    options: Options,
}

impl Cached {
    /// Makes the copy of a persistent buffer whose matches post no event.
    pub(super) const fn of(buffer: &Buffer) -> Self {
        Self {
            context: buffer.context,
            address: buffer.address,
            length: buffer.length,
            options: buffer.options,
        }
    }

    /// Gives a message the entry, as its engine would.
    pub(super) fn receive(&self, message: &Message) -> Outcome {
        if !allows(self.options, message.op) {
            return Outcome::Drop(Reason::Denied);
        }
        let offset = message.offset.unwrap_or(0);
        let part = span(self.address, self.length, offset, message.length);
        Outcome::Receive(Receipt {
            header: header_of(message),
            stored: false,
            context: self.context,
            address: part.address,
            length: part.length,
            unlinked: false,
            full: false,
            counting: false,
        })
    }
}

/// What the persistent list entry cache is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheHint {
    /// Nothing.
    Keep,
    /// Have this entry.
    Allocate(Cached),
    /// Have none of the endpoint.
    Deallocate,
}

/// What the dispatcher is to do for an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// For its line of the cache.
    pub cache: CacheHint,
    /// Messages are held, or no longer.
    pub hold: Option<bool>,
    /// The request was not executed: it comes first again.
    pub again: bool,
}

impl Order {
    /// Nothing but to go on.
    pub const DONE: Self = Self {
        cache: CacheHint::Keep,
        hold: None,
        again: false,
    };
}

/// Which sources can be told RESUME, of those that were told NO_SPACE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// None.
    None,
    /// Those of this endpoint.
    Endpoint,
    /// Those of all endpoints: of the engine, or of the dispatcher, whichever says so.
    All,
}

/// What has come of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// For the caller.
    pub outcome: Outcome,
    /// The command goes on: when the outcome is carried out, the caller calls `go_on`.
    pub more: bool,
    /// No header names the overflow memory with this context any more, or that of a header that was given back with it (of
    /// one that was claimed then: with that of the claim): its program is told.
    pub freed: Option<u64>,
    /// For the dispatcher.
    pub order: Order,
    /// For the sources.
    pub resume: Resume,
}

impl Reply {
    /// Just this outcome.
    pub(super) const fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            more: false,
            freed: None,
            order: Order::DONE,
            resume: Resume::None,
        }
    }
}

/// The part of a buffer that a message is for.
pub(super) struct Span {
    pub address: u64,
    pub length: u64,
}

/// Finds the part of a buffer that `wanted` bytes at `offset` are for.
pub(super) fn span(address: u64, length: u64, offset: u64, wanted: u64) -> Span {
    let offset = offset.min(length);
    Span {
        // Within the buffer, whose end was found to be an address.
        address: address.saturating_add(offset),
        length: wanted.min(length - offset),
    }
}

/// Returns whether a buffer with these options allows an operation.
pub(super) fn allows(options: Options, op: Op) -> bool {
    match op {
        Op::Put | Op::Atomic => options.put,
        Op::Get => options.get,
        Op::Fetch => options.put && options.get,
    }
}

/// Returns the header of a message that has just come.
pub(super) fn header_of(message: &Message) -> Header {
    Header {
        source: message.source,
        bits: message.bits,
        length: message.length,
        // More than all cannot have come.
        eager: match u32::try_from(message.length) {
            Ok(all) => message.eager.min(all),
            Err(_) => message.eager,
        },
        data: message.data,
        cookie: message.cookie,
        address: 0,
        context: 0,
    }
}
