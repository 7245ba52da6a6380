// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The messages that make a socket and end it, as cells of the link queues carry them.
//!
//! A socket has an id at each end, by which the other end names it. This file is independent of cells.

use super::{Half, Mode};

numbered! {
    /// Why a request is rejected.
    pub enum Reject: u32 {
        /// Nothing listens on the service, or its backlog is full.
        Refused = 1,
        /// The arena has no room for the other half.
        NoRoom = 2,
        /// The host does not support sockets.
        Unsupported = 3,
    }
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// The request: the sender's half, for a service of the receiver.
    Init {
        /// The service.
        service: u32,
        /// The half of the sender.
        half: Half,
        /// What the listener is told of the request, before it accepts: its meaning is that of the service.
        data: u64,
    },
    /// The answer to a request: the other half.
    Accept(Half),
    /// The other answer: there is no connection.
    Reject(Reject),
    /// The sender has closed its end, and stores nothing any more. Without a socket of the receiver: it withdraws its
    /// request.
    Close {
        /// The receiver has broken the protocol: what it still gets may not be what was sent.
        aborts: bool,
    },
    /// The answer to each [`Says::Close`]: nothing is stored for the receiver any more.
    Closed,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The socket of the receiver, 0 for none.
    pub to: u32,
    /// The socket of the sender, 0 for none.
    pub from: u32,
    /// What it says.
    pub says: Says,
}

/// Words of a message.
pub const WORDS: usize = 5;

/// Operations, from the first one on: those of cells follow each other in the same way.
const INIT: u8 = 0;
const ACCEPT: u8 = 1;
const REJECT: u8 = 2;
const CLOSE: u8 = 3;
const CLOSED: u8 = 4;
/// The number of operations.
pub const OPS: u8 = 5;

const PULL: u32 = 1;

impl Message {
    /// Returns whether it may be pulled: a request of a socket that pulls.
    pub const fn is_pulled(&self) -> bool {
        match self.says {
            Says::Init { half, .. } => matches!(half.shape.mode(), Mode::Pull),
            _ => false,
        }
    }

    /// Returns its operation and its words.
    pub fn encode(&self) -> (u8, [u64; WORDS]) {
        let (op, value, half, data) = match self.says {
            Says::Init {
                service,
                half,
                data,
            } => (INIT, service, Some(half), data),
            Says::Accept(half) => (ACCEPT, 0, Some(half), 0),
            Says::Reject(code) => (REJECT, code as u32, None, 0),
            Says::Close { aborts } => (CLOSE, aborts.into(), None, 0),
            Says::Closed => (CLOSED, 0, None, 0),
        };
        let mut words = [pair(self.to, self.from), u64::from(value), 0, 0, data];
        if let Some(half) = half {
            let mode = match half.shape.mode() {
                Mode::Push => 0,
                Mode::Pull => PULL,
            };
            words[1] = pair(value, mode);
            words[2] = half.base;
            words[3] = pair(half.shape.bytes(), half.shape.start() as u32);
        }
        (op, words)
    }

    /// Decodes it; each word is loaded once. `None`: a member has an invalid value.
    pub fn decode(op: u8, load: impl Fn(usize) -> u64) -> Option<Self> {
        let [ids, value, base, size, data] = [0, 1, 2, 3, 4].map(load);
        let (to, from) = parts(ids);
        let (value, mode) = parts(value);
        let half = || {
            let mode = match mode {
                0 => Mode::Push,
                PULL => Mode::Pull,
                _ => return None,
            };
            let (limit, start) = parts(size);
            Half::of(mode, base, limit, start)
        };
        let bare = base == 0 && size == 0 && mode == 0;
        if op != INIT && data != 0 {
            return None;
        }
        let says = match op {
            INIT if value != 0 && to == 0 && from != 0 => Says::Init {
                service: value,
                half: half()?,
                data,
            },
            ACCEPT if value == 0 && to != 0 && from != 0 => Says::Accept(half()?),
            REJECT if bare && to != 0 && from == 0 => Says::Reject(Reject::of(value)?),
            CLOSE if bare && value <= 1 && from != 0 => Says::Close { aborts: value != 0 },
            CLOSED if bare && value == 0 && to != 0 => Says::Closed,
            _ => return None,
        };
        Some(Self { to, from, says })
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | (u64::from(high) << 32)
}

fn parts(word: u64) -> (u32, u32) {
    // The lower and the upper half: no bits are lost.
    (word as u32, (word >> 32) as u32)
}
