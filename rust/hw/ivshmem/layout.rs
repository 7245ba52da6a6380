// SPDX-License-Identifier: GPL-2.0

//! How up to four nodes share the memory of an ivshmem device.
//!
//! The memory is divided into 4 x 4 equal blocks, one for each pair of owner and source; those with
//! owner and source the same are not used. The source writes the owner's block, and the owner reads it:
//!
//! ```text
//!      0  head, written by the owner: magic and version, generation, messages taken
//!    256  ring of 12 messages, written by the source
//!   4096  arena
//! ```
//!
//! Nothing that is read here is trusted: every node can write all of the memory.

use crate::{
    hw::MBOX_BYTES,
    sys::{
        area::Area,
        errno::{ENOLINK, EPROTO},
    },
};
use kernel::prelude::*;

/// The maximum number of nodes that share the memory.
pub(super) const NODES: usize = 4;

/// The minimum size of the memory in bytes: blocks of 64 KiB.
pub(super) const MIN_BYTES: u64 = 1 << 20;

/// The offset of the arena in a block.
pub(super) const ARENA_AT: usize = 4096;

/// "WEFTIVSH", and the version of this layout in the next word.
const MAGIC: u64 = u64::from_le_bytes(*b"WEFTIVSH");
const VERSION: u32 = 1;

const HEAD_MAGIC: usize = 0;
const HEAD_VERSION: usize = 8;
const HEAD_GENERATION: usize = 12;
const HEAD_TAKEN: usize = 64;

const RING_AT: usize = 256;
/// The number of messages that a mailbox holds.
pub(super) const SLOTS: u64 = 12;
const SLOT_BYTES: usize = 320;
/// Number of the message, from 1; written last. 0 while the slot is being written.
const SLOT_NUMBER: usize = 0;
const SLOT_LEN: usize = 8;
const SLOT_DATA: usize = 64;

const _: () = assert!(SLOT_DATA + MBOX_BYTES == SLOT_BYTES);
const _: () = assert!(RING_AT + SLOTS as usize * SLOT_BYTES == ARENA_AT);

/// Returns the offset and the size of the block of `owner` for `source`, in memory of `bytes` bytes.
pub(super) fn block(bytes: u64, owner: usize, source: usize) -> (usize, usize) {
    let block = (bytes as usize / (NODES * NODES)) & !4095;
    ((owner * NODES + source) * block, block)
}

/// The fences of a mailbox, named as those of the protocol are (`rust/proto/fence.rs`).
mod fence {
    use crate::sys::area::{mb, rmb, wmb};

    /// Orders stores of data before the store of the word that publishes them.
    pub(super) fn publish() {
        wmb();
    }

    /// Orders the store that invalidates data before stores of other data there.
    pub(super) fn retract() {
        wmb();
    }

    /// Orders the load of the word that publishes data before loads of the data.
    pub(super) fn head() {
        rmb();
    }

    /// Orders loads of a message before the load that tells whether it was valid all the time.
    pub(super) fn reread() {
        rmb();
    }

    /// Owner: orders loads of a message before the store that lets the source overwrite it. Source:
    /// orders the load of that word before the stores that overwrite the message.
    pub(super) fn credit() {
        mb();
    }
}

/// The contents of a block's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// Magic and version are 0: the block was never claimed, or was released.
    Empty,
    /// The block is claimed by a node of this generation.
    Weft(u32),
    /// Other contents, which must not be overwritten.
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

    /// Initialises the block for its owner, of `generation`.
    pub(super) fn claim(&self, generation: u32) -> Result {
        // Without the magic, sources do not write.
        self.release()?;
        self.0.zero(HEAD_TAKEN, ARENA_AT - HEAD_TAKEN)?;
        self.0.write32(HEAD_GENERATION, generation)?;
        fence::publish();
        self.0.write32(HEAD_VERSION, VERSION)?;
        self.0.write64(HEAD_MAGIC, MAGIC)
    }

    /// Releases the block of its owner: sources do not write any more.
    pub(super) fn release(&self) -> Result {
        self.0.write64(HEAD_MAGIC, 0)?;
        self.0.write32(HEAD_VERSION, 0)?;
        fence::retract();
        Ok(())
    }
}

/// The owner's side of a mailbox.
pub(super) struct Receiver {
    /// The number of messages taken.
    taken: u64,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self { taken: 0 }
    }

    /// Takes the next message and returns its length, `None` without one. `EPROTO` if the message is
    /// malformed, or lost; it is taken nevertheless.
    pub(super) fn recv(
        &mut self,
        mbox: &Mailbox,
        buf: &mut [u8; MBOX_BYTES],
    ) -> Result<Option<usize>> {
        let at = slot(self.taken);
        let number = self.taken + 1;
        if mbox.0.read64(at + SLOT_NUMBER)? != number {
            let Some(later) = self.later(mbox)? else {
                // A source that was told another count would wait for ever for this one.
                if mbox.0.read64(HEAD_TAKEN)? != self.taken {
                    mbox.0.write64(HEAD_TAKEN, self.taken)?;
                }
                return Ok(None);
            };
            // The source stores in order: what it has stored before the later one is there now, or
            // another node has overwritten it.
            fence::head();
            if mbox.0.read64(at + SLOT_NUMBER)? != number {
                self.taken = later;
                fence::credit();
                mbox.0.write64(HEAD_TAKEN, later)?;
                return Err(EPROTO.into());
            }
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

    /// Returns the number of messages before the first that is there behind the next one.
    fn later(&self, mbox: &Mailbox) -> Result<Option<u64>> {
        for before in (self.taken..).take(SLOTS as usize).skip(1) {
            if mbox.0.read64(slot(before) + SLOT_NUMBER)? == before + 1 {
                return Ok(Some(before));
            }
        }
        Ok(None)
    }
}

/// The source's side of a mailbox.
pub(super) struct Sender {
    /// The generation of the owner that `sent` counts for.
    generation: u32,
    /// The number of messages sent.
    sent: u64,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            generation: 0,
            sent: 0,
        }
    }

    /// Puts a message into the ring.
    ///
    /// `ENOLINK` if the owner has not claimed the block; `EAGAIN` if the ring is full; `EINVAL` if the
    /// message is empty or too long.
    pub(super) fn send(&mut self, mbox: &Mailbox, msg: &[u8]) -> Result {
        if msg.is_empty() || msg.len() > MBOX_BYTES {
            return Err(EINVAL);
        }
        let Head::Weft(generation) = mbox.head()? else {
            return Err(ENOLINK.into());
        };
        // After the same fence as the generation: the count of this owner.
        let taken = mbox.0.read64(HEAD_TAKEN)?;
        let waiting = self.sent.wrapping_sub(taken);
        if generation != self.generation || waiting > SLOTS {
            // Another owner, or one with another count: continue from its count.
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
