// SPDX-License-Identifier: GPL-2.0

//! What an interface has begun: a message that it sends, a get, or an atomic operation. This file must not know rings.

use super::{to::To, OPERATIONS};
use crate::proto::{
    envelope::{Body, Change, Message},
    matching::{flow, retry::Id},
    slot::Op,
};
use kernel::{bindings, prelude::*};

/// The bytes that go with an operation.
pub(super) enum Bytes {
    /// None: its target pulls them from the memory of the process, or there are none.
    Pulled,
    InRing([u8; 64]),
    Copied(KVVec<u8>),
}

impl Bytes {
    /// Lends them to what sends them without the lock of the operation, until [`Self::give_back`].
    #[inline(always)]
    pub(super) fn lend(&mut self) -> Self {
        match self {
            Self::InRing(raw) => Self::InRing(*raw),
            other => core::mem::replace(other, Self::Pulled),
        }
    }

    #[inline(always)]
    pub(super) fn give_back(&mut self, lent: Self) {
        // Those in the ring have stayed here as well.
        if let Self::Copied(_) = lent {
            *self = lent;
        }
    }

    /// Returns the first of them.
    pub(super) fn first(&self, count: usize) -> &[u8] {
        let all = match self {
            Self::Pulled => &[],
            Self::InRing(raw) => raw.as_slice(),
            Self::Copied(copy) => copy.as_slice(),
        };
        all.get(..count).unwrap_or(&[])
    }
}

/// How far an operation is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is to be sent.
    Waiting,
    Sent,
    /// The target has it; bytes are pulled, by the target or from it.
    Taken,
    /// Its session is lost, and it is begun again at this time, in milliseconds.
    Later(u64),
    /// The program is to be told: an errno, and bytes that were stored.
    Over(u32, u64),
}

/// An operation.
pub(super) struct Operation {
    /// By which its target knows it.
    pub(super) id: Option<Id>,
    pub(super) phase: Phase,
    /// Where to; `None`: it was over at once.
    pub(super) to: Option<To>,
    pub(super) sequence: u32,
    pub(super) op: Op,
    pub(super) change: Change,
    pub(super) context: u64,
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) bits: u64,
    pub(super) offset: Option<u64>,
    pub(super) data: u64,
    pub(super) bytes: Bytes,
    /// How many of them.
    pub(super) payload: usize,
    /// The pull that takes what it gets.
    pub(super) pull: Option<usize>,
    /// It has got less than it wanted.
    pub(super) truncated: bool,
    /// How often it was begun again.
    pub(super) retries: u8,
}

impl Operation {
    pub(super) fn is_to(&self, to: &To) -> bool {
        self.to.as_ref().is_some_and(|own| own.is(to))
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(..))
    }

    /// Takes its bytes out, if they have memory of their own.
    pub(super) fn take_copy(&mut self) -> Option<KVVec<u8>> {
        match &mut self.bytes {
            Bytes::Copied(copy) => Some(core::mem::replace(copy, KVVec::new())),
            _ => None,
        }
    }

    /// Ends it, as its session is lost.
    pub(super) fn fail(&mut self) {
        self.id = None;
        self.phase = match self.phase {
            Phase::Sent | Phase::Taken => Phase::Over(bindings::ECONNRESET, 0),
            Phase::Waiting | Phase::Later(_) => Phase::Over(bindings::EHOSTUNREACH, 0),
            over => over,
        };
    }

    /// Returns whether its target may read its memory: that of a message whose bytes have not gone with it. Of one in
    /// the ring the program has named none.
    pub(super) fn is_read(&self) -> bool {
        let is_sent = matches!(self.phase, Phase::Sent | Phase::Taken);
        self.op == Op::Put && is_sent && !self.is_eager()
    }

    /// Returns whether it is a message whose bytes go with it, all of them.
    pub(super) fn is_eager(&self) -> bool {
        self.op == Op::Put && self.payload as u64 == self.length
    }

    /// Returns the body of the request for the target. With `first` all requests of this flow before it are
    /// acknowledged.
    pub(super) fn body(&self, first: bool) -> Body {
        let message = Message {
            bits: self.bits,
            length: self.length,
            offset: self.offset,
            data: self.data,
            sequence: self.sequence,
            first,
        };
        match self.op {
            Op::Get => Body::Get(message),
            Op::Atomic | Op::Fetch => Body::Atomic(message, self.change),
            _ if self.offset.is_none() && self.is_eager() => Body::Eager(message),
            _ => Body::Put(message),
        }
    }
}

/// The operations on one interface.
pub(super) struct Flow {
    pub(super) to: To,
    pub(super) source: flow::Source,
    /// The operation that is being sent.
    pub(super) sending: Option<u32>,
    /// How many operations it has, also of those that are over.
    pub(super) count: u32,
    /// In what places the last operations are, by their numbers.
    at: [u8; OPERATIONS],
}

impl Flow {
    pub(super) fn new(to: To) -> Self {
        Self {
            to,
            source: flow::Source::new(),
            sending: None,
            count: 0,
            at: [0; OPERATIONS],
        }
    }

    /// Notes where one more operation is.
    pub(super) fn put(&mut self, sequence: u32, n: usize) {
        self.count += 1;
        if let Some(at) = self.at.get_mut(sequence as usize % OPERATIONS) {
            *at = n as u8;
        }
    }

    /// Returns where an operation was put: there may be another one now, or none.
    pub(super) fn place_of(&self, sequence: u32) -> usize {
        let at = self.at.get(sequence as usize % OPERATIONS);
        at.map_or(0, |at| usize::from(*at))
    }
}

const _: () = assert!(OPERATIONS.is_power_of_two() && OPERATIONS <= u8::MAX as usize);
