// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Sockets: the two halves of a connection, and the messages that make and end it.
//!
//! A *half* is memory of one end, in its arena: lines that the peer writes, and a ring of bytes behind
//! them. With push transactions the peer stores what it sends into the ring, as far as receive work
//! requests (WQEs) of the owner are posted there; with pull transactions the owner puts what it sends into
//! its own ring, posts a WQE for it, and the peer fetches both. Documentation/sockets.rst has the layout.
//! What moves the bytes is in `stream`. This file is independent of how memory is accessed.

use super::cell::PAGE_BYTES;

pub mod message;
pub mod stream;

/// Offset in a half of `sent`: pushed: the bytes that the peer has stored; pulled: the WQEs that it has posted.
/// The highest bit, [`END`], says that no more will come; it counts as one more.
pub const SENT_AT: usize = 0;
/// Offset of `recv_wqes`: pushed: the receive WQEs that the peer has posted so far; pulled: the WQEs of the owner that
/// it has completed.
pub const WQES_AT: usize = 64;
/// Offset of `buffer_full`: 0, or 1 more than the count at [`WQES_AT`] of the peer beyond which its owner has to
/// come, as the peer has more to send.
pub const FULL_AT: usize = 128;
/// Offset of `event`: the count of `sent` beyond which the peer wants to be woken.
pub const EVENT_AT: usize = 192;
/// Bytes of the lines.
const LINES: usize = 256;

/// Bytes that a receive WQE is for.
pub const SEGMENT: u64 = 256;
/// The most WQEs that wait to be pulled.
pub const MAX_WQES: usize = 32;
/// Bytes of a WQE that is pulled: its position in the stream, and its length.
const WQE_BYTES: usize = 16;

/// No more will come.
pub const END: u64 = 1 << 63;

/// Fewest bytes of a half.
pub const MIN_HALF: u32 = 4 << 10;
/// Most bytes of a half.
pub const MAX_HALF: u32 = 1 << 20;

/// The transactions of a socket: `WEFT_PULL_WQE` and `WEFT_PULL_DATA` together, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The sender stores into the memory of the receiver.
    Push,
    /// The receiver fetches from the memory of the sender.
    Pull,
}

/// The size of a half, and what is where in it. The same at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    mode: Mode,
    bytes: u32,
}

impl Shape {
    /// Returns the shape of halves of `bytes`; `None` unless they are whole pages, from [`MIN_HALF`] to
    /// [`MAX_HALF`].
    pub const fn new(mode: Mode, bytes: u32) -> Option<Self> {
        if bytes < MIN_HALF || bytes > MAX_HALF || bytes as usize % PAGE_BYTES != 0 {
            return None;
        }
        Some(Self { mode, bytes })
    }

    /// Returns the transactions.
    pub const fn mode(self) -> Mode {
        self.mode
    }

    /// Returns the bytes of a half.
    pub const fn bytes(self) -> u32 {
        self.bytes
    }

    /// Returns the offset of the ring.
    pub const fn start(self) -> usize {
        match self.mode {
            Mode::Push => LINES,
            Mode::Pull => LINES + MAX_WQES * WQE_BYTES,
        }
    }

    /// Returns the bytes of the ring, a multiple of [`SEGMENT`].
    const fn ring(self) -> u64 {
        self.bytes as u64 - self.start() as u64
    }

    /// Returns the offset of the byte of the ring that holds `position` of the stream.
    const fn place(self, position: u64) -> usize {
        self.start() + (position % self.ring()) as usize
    }

    /// Returns the offset of WQE number `number`, to be pulled.
    const fn wqe(number: u64) -> usize {
        LINES + (number % MAX_WQES as u64) as usize * WQE_BYTES
    }
}

/// A half, as a message describes it: base, limit and start offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Half {
    /// Offset in the arena of its owner, a multiple of the page size.
    pub base: u64,
    /// What is where in it.
    pub shape: Shape,
}

impl Half {
    /// Checks what has come in a message. `None`: it is no half.
    const fn of(mode: Mode, base: u64, limit: u32, start: u32) -> Option<Self> {
        match Shape::new(mode, limit) {
            Some(shape) if shape.start() == start as usize && base % PAGE_BYTES as u64 == 0 => {
                Some(Self { base, shape })
            }
            _ => None,
        }
    }
}
