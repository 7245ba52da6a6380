// SPDX-License-Identifier: GPL-2.0

//! Memory for the bytes of eager messages, of two sizes: most messages are short, and many of those may wait.
//!
//! This file must not know what is in it.

use super::EAGER;
use kernel::prelude::*;

/// Bytes of memory for a short message.
const SHORT: usize = 256;

/// Memory that is free.
pub(super) struct Buffers {
    short: KVec<KVVec<u8>>,
    long: KVec<KVVec<u8>>,
}

fn allocate(count: usize, bytes: usize) -> Result<KVec<KVVec<u8>>> {
    let mut all = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
    for _ in 0..count {
        let buffer = KVVec::from_elem(0, bytes, GFP_KERNEL_ACCOUNT)?;
        all.push(buffer, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(all)
}

impl Buffers {
    /// Allocates so many of either size. `ENOMEM`.
    pub(super) fn new(short: usize, long: usize) -> Result<Self> {
        Ok(Self {
            short: allocate(short, SHORT)?,
            long: allocate(long, EAGER)?,
        })
    }

    /// Takes one with room for so many bytes, [`EAGER`] at most.
    pub(super) fn take(&mut self, bytes: usize) -> Option<KVVec<u8>> {
        let short = match bytes <= SHORT {
            true => self.short.pop(),
            false => None,
        };
        short.or_else(|| self.long.pop())
    }

    /// Gives one back. Within what there was at the beginning, so there is a place for it.
    pub(super) fn put(&mut self, buffer: KVVec<u8>) {
        let _ = match buffer.len() <= SHORT {
            true => self.short.push_within_capacity(buffer),
            false => self.long.push_within_capacity(buffer),
        };
    }

    /// Returns whether there is one with room for so many bytes.
    pub(super) fn has(&self, bytes: usize) -> bool {
        bytes <= SHORT && !self.short.is_empty() || !self.long.is_empty()
    }
}
