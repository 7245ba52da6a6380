// SPDX-License-Identifier: GPL-2.0

//! Bytes that an interface gets from a host, in chunks: of a message, from its initiator; of a buffer, from its target.
//!
//! Each chunk has memory, which is taken out while it is copied. This file must not know rings or lists.

use super::{to::To, CHUNK, CHUNKS};
use crate::proto::slot::Event;
use kernel::prelude::*;

/// Memory of whole chunks that are not used now.
pub(super) type Kept = [Option<KVVec<u8>>; CHUNKS];

/// A part of what is pulled.
pub(super) enum Chunk {
    Free(KVVec<u8>),
    Asked(KVVec<u8>, u64, u32),
    Come(KVVec<u8>, u64, u32),
    /// The thread copies it.
    Copying,
}

/// What bytes are pulled for.
pub(super) enum Purpose {
    /// A message: the event that says that it is over, and whether it is posted.
    Message { event: Event, silent: bool },
    /// The operation with this number.
    Operation(usize),
}

/// Bytes that are being got.
pub(super) struct Pull {
    pub(super) tag: u32,
    pub(super) from: To,
    /// By which the other end knows it.
    pub(super) cookie: u64,
    /// The other end is known to have the bytes.
    pub(super) granted: bool,
    pub(super) purpose: Purpose,
    pub(super) address: u64,
    /// Bytes that are stored at the end.
    pub(super) length: u64,
    /// Those that were wanted.
    pub(super) whole: u64,
    /// Bytes that were asked for.
    pub(super) asked: u64,
    pub(super) stored: u64,
    pub(super) status: u32,
    pub(super) chunks: [Chunk; CHUNKS],
}

impl Pull {
    /// Makes one of so many bytes, of which nothing is granted, with the memory of so many chunks, from `kept` as far as
    /// there is some. `ENOMEM`.
    pub(super) fn new(
        from: To,
        purpose: Purpose,
        address: u64,
        length: u64,
        chunks: usize,
        kept: &mut Kept,
    ) -> Result<Self> {
        Ok(Self {
            tag: 0,
            from,
            cookie: 0,
            granted: false,
            purpose,
            address,
            length,
            whole: length,
            asked: 0,
            stored: 0,
            status: 0,
            chunks: Self::chunks(length, chunks, kept)?,
        })
    }

    /// Allocates the memory of so many chunks, for so many bytes; others have none. `ENOMEM`.
    fn chunks(length: u64, count: usize, kept: &mut Kept) -> Result<[Chunk; CHUNKS]> {
        let mut chunks = [const { Chunk::Copying }; CHUNKS];
        let mut left = length;
        for (n, (chunk, kept)) in chunks.iter_mut().zip(kept).enumerate() {
            let bytes = match n < count {
                true => left.min(CHUNK as u64),
                false => 0,
            };
            *chunk = Chunk::Free(match kept.take() {
                Some(buffer) => buffer,
                None => KVVec::from_elem(0, bytes as usize, GFP_KERNEL_ACCOUNT)?,
            });
            left -= bytes;
        }
        Ok(chunks)
    }

    /// Begins anew: nothing was granted, and the first bytes come with what says so.
    pub(super) fn restart(&mut self, from: To, tag: u32) {
        self.from = from;
        self.tag = tag;
        self.cookie = 0;
        self.granted = false;
        self.length = self.whole;
        self.asked = 0;
        self.stored = 0;
        self.status = 0;
        for chunk in &mut self.chunks {
            *chunk = match core::mem::replace(chunk, Chunk::Copying) {
                Chunk::Asked(buffer, ..) | Chunk::Come(buffer, ..) => Chunk::Free(buffer),
                other => other,
            };
        }
    }

    /// Returns whether nothing is to come or to be copied.
    pub(super) fn is_over(&self) -> bool {
        let idle = || {
            let mut chunks = self.chunks.iter();
            chunks.all(|chunk| matches!(chunk, Chunk::Free(_)))
        };
        self.from.is_lost()
            || self.granted && idle() && (self.status != 0 || self.asked == self.length)
    }
}
