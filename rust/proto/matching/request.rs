// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What is asked of a matching endpoint: commands of its program, and messages of the network.
//!
//! The values are not trusted: the engine checks them. This file is independent of how they are encoded in a
//! command ring or in a packet.

numbered! {
    /// Where a list entry is. A program appends to the first two and to [`List::Request`].
    pub enum List: u8 {
        /// Buffers that a program has posted.
        Priority = 0,
        /// Memory for messages that no posted buffer is for.
        Overflow = 1,
        /// Headers of messages that no posted buffer was for.
        Unexpected = 2,
        /// Memory for messages while the program matches by itself.
        Request = 3,
        /// A header that a search has taken out for a receive to come.
        Claimed = 4,
        /// Overflow memory that is in no list any more, while headers name it.
        Unlinked = 5,
        /// A buffer that is being compared with the unexpected list, before it is appended.
        Appending = 6,
        /// None: the entry is free.
        Free = 7,
    }
}

/// Which messages a buffer is for, or a search looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// The source; `None`: any.
    pub source: Option<u32>,
    /// The match bits.
    pub bits: u64,
    /// The match bits that do not matter.
    pub ignore: u64,
}

impl Criteria {
    /// Any message: what list entries of an endpoint that does not match have.
    pub const ANY: Self = Self {
        source: None,
        bits: 0,
        ignore: u64::MAX,
    };

    /// Returns whether a message of `source` with these match bits is one of them.
    pub fn accept(&self, source: u32, bits: u64) -> bool {
        self.source.is_none_or(|only| only == source) && (self.bits ^ bits) & !self.ignore == 0
    }
}

/// How a buffer is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// It stays in its list when a message has matched.
    pub persistent: bool,
    /// Messages lie behind each other, at an offset that the engine keeps; else the message has the offset.
    pub manage_local: bool,
    /// Messages and atomic operations may change it.
    pub put: bool,
    /// It may be read.
    pub get: bool,
    /// A match posts a full event.
    pub full: bool,
    /// A match counts.
    pub counting: bool,
}

/// A buffer of a program: a match entry, or a list entry if the endpoint does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The messages that it is for.
    pub criteria: Criteria,
    /// Its address.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Bytes in use at its beginning, if the offset is the engine's.
    pub offset: u64,
    /// A persistent one whose offset is the engine's is unlinked when it has less room than this, in bytes. At
    /// least the most eager bytes of a message if it is in the overflow or the software request list.
    pub min_free: u32,
    /// By which its program knows it.
    pub context: u64,
    /// How it is used.
    pub options: Options,
}

/// What a message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Writes.
    Put,
    /// Reads.
    Get,
    /// Changes words.
    Atomic,
    /// Changes words, and returns what they were.
    Fetch,
}

/// The first packet of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it does.
    pub op: Op,
    /// Its source, as the receiver numbers sources.
    pub source: u32,
    /// Its match bits.
    pub bits: u64,
    /// The length of the whole message, in bytes.
    pub length: u64,
    /// The bytes of it that came along: less than all if it is a rendezvous.
    pub eager: u32,
    /// Where in the buffer, unless the offset is the engine's; `None`: at its beginning. A put with an offset is never
    /// unexpected.
    pub offset: Option<u64>,
    /// What the sender tells the receiver besides.
    pub data: u64,
    /// By which the initiator knows the operation, to get the rest or to answer.
    pub cookie: u64,
    /// Its number among those of its source for this endpoint: see `flow`.
    pub sequence: u32,
    /// By which the caller knows the bytes that came along. Not kept in any list.
    pub payload: u64,
}

/// A message that no posted buffer was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The source of the message.
    pub source: u32,
    /// Its match bits.
    pub bits: u64,
    /// The length of the whole message, in bytes.
    pub length: u64,
    /// The bytes of it that have come, and lie at `address`.
    pub eager: u32,
    /// What the sender tells the receiver besides.
    pub data: u64,
    /// By which the initiator knows the operation.
    pub cookie: u64,
    /// Where its eager bytes are.
    pub address: u64,
    /// The context of the overflow memory that they are in; of a header that the program has given back, what
    /// the program has said; of one that is claimed without overflow memory, that of the claim.
    pub context: u64,
}

/// What a program asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Appends a buffer to a list. To the priority list only what no unexpected message is for: looking and
    /// appending are one operation.
    Append(List, Buffer),
    /// Searches the unexpected list.
    Search(Criteria),
    /// Searches the unexpected list, and takes out what is found.
    SearchAndDelete {
        /// What is searched.
        criteria: Criteria,
        /// By which [`Command::Receive`] names it.
        context: u64,
        /// The message is dropped; there will be no receive.
        discard: bool,
    },
    /// Receives a message that was taken out by [`Command::SearchAndDelete`]. Without length it is dropped.
    Receive {
        /// By which it is named, and by which the program knows the receive.
        context: u64,
        /// Where to.
        address: u64,
        /// The length of the memory there, in bytes.
        length: u64,
    },
    /// Takes the oldest buffer with this context out of its list.
    Unlink {
        /// By which the program knows it.
        context: u64,
    },
    /// Begins to match, for the first time or again after a return.
    Enable,
    /// Ends to match. The lists stay.
    Disable,
    /// Hands the lists over to the program.
    HandOver,
    /// Says how many entries the program's own lists have.
    Report {
        /// Their number.
        entries: u32,
    },
    /// Gives back a header, in the order of the unexpected list, while the lists return to the engine.
    AppendHeader(Header),
}

/// What is asked of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// By its program.
    Command(Command),
    /// By the network.
    Message(Message),
}

/// A match request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The endpoint.
    pub endpoint: u16,
    /// The traffic class, below `TRAFFIC_CLASSES`.
    pub class: u8,
    /// What is asked.
    pub work: Work,
}
