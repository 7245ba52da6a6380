// SPDX-License-Identifier: GPL-2.0

//! How up to four nodes share the memory of an ivshmem device.
//!
//! The memory is cut into 4 x 4 equal blocks, one for each owner and source; those with owner and
//! source the same are not used. The source writes the owner's block, and the owner reads it:
//!
//! ```text
//!      0  head, written by the owner: magic and version, generation, messages taken
//!    256  ring of 12 messages, written by the source
//!   4096  arena
//! ```
//!
//! Nothing of what is read here is trusted: the memory belongs to everybody.

use crate::{
    hw::MBOX_BYTES,
    sys::{
        area::Area,
        errno::{ENOLINK, EPROTO},
    },
};
use kernel::prelude::*;

/// Nodes that can share the memory.
pub(super) const NODES: usize = 4;

/// The least memory that is of use: blocks of 64 KiB.
pub(super) const MIN_BYTES: u64 = 1 << 20;

/// Where a block's arena begins.
pub(super) const ARENA_AT: usize = 4096;

/// "WEFTIVSH", and the version of this layout in the next word.
const MAGIC: u64 = u64::from_le_bytes(*b"WEFTIVSH");
const VERSION: u32 = 1;

const HEAD_MAGIC: usize = 0;
const HEAD_VERSION: usize = 8;
const HEAD_GENERATION: usize = 12;
const HEAD_TAKEN: usize = 64;

const RING_AT: usize = 256;
const SLOTS: u64 = 12;
const SLOT_BYTES: usize = 320;
/// Number of the message, from 1; written last. 0 while the slot is being written.
const SLOT_NUMBER: usize = 0;
const SLOT_LEN: usize = 8;
const SLOT_DATA: usize = 64;

const _: () = assert!(SLOT_DATA + MBOX_BYTES == SLOT_BYTES);
const _: () = assert!(RING_AT + SLOTS as usize * SLOT_BYTES == ARENA_AT);

/// Where the block of `owner` for `source` begins, in memory of `bytes` bytes.
pub(super) fn block(bytes: u64, owner: usize, source: usize) -> (usize, usize) {
    let block = (bytes as usize / (NODES * NODES)) & !4095;
    ((owner * NODES + source) * block, block)
}

/// The fences of a mailbox, named as those of the protocol are (`rust/proto/fence.rs`).
mod fence {
    use crate::sys::area::{mb, rmb, wmb};

    /// Stores of what is told, then the store of the word that tells.
    pub(super) fn publish() {
        wmb();
    }

    /// The store that says that it holds no longer, then stores of something else.
    pub(super) fn retract() {
        wmb();
    }

    /// The load of the word that tells, then loads of what it tells of.
    pub(super) fn head() {
        rmb();
    }

    /// Loads of a message, then the load that says whether it was there all the time.
    pub(super) fn reread() {
        rmb();
    }

    /// Owner: loads of a message, then the store that lets the source overwrite it. Source: the load
    /// of that, then the stores that do.
    pub(super) fn credit() {
        mb();
    }
}

/// What a block's head says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// All zero: there was no node yet.
    Empty,
    /// A node of this generation.
    Weft(u32),
    /// Something else. It is not ours to write over.
    Foreign,
}

/// The first page of a block.
pub(super) struct Mailbox(pub(super) Area);

fn slot(number: u64) -> usize {
    RING_AT + (number % SLOTS) as usize * SLOT_BYTES
}

impl Mailbox {
    pub(super) fn head(&self) -> Result<Head> {
        let magic = self.0.read64(HEAD_MAGIC)?;
        let version = self.0.read32(HEAD_VERSION)?;
        Ok(match (magic, version) {
            (0, 0) => Head::Empty,
            (MAGIC, VERSION) => {
                fence::head();
                Head::Weft(self.0.read32(HEAD_GENERATION)?)
            }
            _ => Head::Foreign,
        })
    }

    /// The owner makes the block its own.
    pub(super) fn claim(&self, generation: u32) -> Result {
        // Without magic sources keep off.
        self.release()?;
        self.0.zero(HEAD_TAKEN, ARENA_AT - HEAD_TAKEN)?;
        self.0.write32(HEAD_GENERATION, generation)?;
        fence::publish();
        self.0.write32(HEAD_VERSION, VERSION)?;
        self.0.write64(HEAD_MAGIC, MAGIC)
    }

    /// The owner goes.
    pub(super) fn release(&self) -> Result {
        self.0.write64(HEAD_MAGIC, 0)?;
        self.0.write32(HEAD_VERSION, 0)?;
        fence::retract();
        Ok(())
    }
}

/// The owner's side of a mailbox.
pub(super) struct Receiver {
    /// Messages taken.
    taken: u64,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self { taken: 0 }
    }

    /// Takes the next message, unless there is none; `EPROTO` if what is there is not one, which is
    /// taken all the same.
    pub(super) fn recv(
        &mut self,
        mbox: &Mailbox,
        buf: &mut [u8; MBOX_BYTES],
    ) -> Result<Option<usize>> {
        let at = slot(self.taken);
        let number = self.taken + 1;
        if mbox.0.read64(at + SLOT_NUMBER)? != number {
            return Ok(None);
        }
        fence::head();
        let len = mbox.0.read32(at + SLOT_LEN)? as usize;
        mbox.0.copy_in(at + SLOT_DATA, buf)?;
        fence::reread();
        let whole = mbox.0.read64(at + SLOT_NUMBER)? == number;
        self.taken = number;
        fence::credit();
        mbox.0.write64(HEAD_TAKEN, number)?;
        if !whole || len == 0 || len > MBOX_BYTES {
            return Err(EPROTO.into());
        }
        Ok(Some(len))
    }
}

/// The source's side.
pub(super) struct Sender {
    /// Generation of the owner that `sent` counts for.
    generation: u32,
    /// Messages sent.
    sent: u64,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            generation: 0,
            sent: 0,
        }
    }

    /// Puts a message into the ring. `ENOLINK`: the owner is not there; `EAGAIN`: the ring is full.
    pub(super) fn send(&mut self, mbox: &Mailbox, msg: &[u8]) -> Result {
        if msg.is_empty() || msg.len() > MBOX_BYTES {
            return Err(EINVAL);
        }
        let Head::Weft(generation) = mbox.head()? else {
            return Err(ENOLINK.into());
        };
        // Behind the same fence as the generation: what this owner has counted.
        let taken = mbox.0.read64(HEAD_TAKEN)?;
        let waiting = self.sent.wrapping_sub(taken);
        if generation != self.generation || waiting > SLOTS {
            // Another owner, or one who counts otherwise: begin where it stands.
            self.generation = generation;
            self.sent = taken;
        } else if waiting == SLOTS {
            return Err(EAGAIN);
        }
        let at = slot(self.sent);
        fence::credit();
        mbox.0.write64(at + SLOT_NUMBER, 0)?;
        fence::retract();
        mbox.0.write32(at + SLOT_LEN, msg.len() as u32)?;
        mbox.0.copy_out(at + SLOT_DATA, msg)?;
        fence::publish();
        self.sent = self.sent.wrapping_add(1);
        mbox.0.write64(at + SLOT_NUMBER, self.sent)
    }
}
