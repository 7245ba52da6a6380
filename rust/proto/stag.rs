// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Steering tags: 32 bits that name memory.
//!
//! The driver chooses the index, which selects an entry of the translation and protection table. The
//! user chooses the key, which shows that the entry is still the one that was meant.

/// Bits of the key.
pub const KEY_BITS: u32 = 8;
/// Number of indices.
pub const MAX_INDEX: u32 = 1 << (u32::BITS - KEY_BITS);

/// An STag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stag(pub u32);

impl Stag {
    /// Creates an STag; `None` if there can be no such index.
    pub const fn new(index: u32, key: u8) -> Option<Self> {
        if index >= MAX_INDEX {
            return None;
        }
        Some(Self((index << KEY_BITS) | key as u32))
    }

    /// Returns the index of the entry.
    pub const fn index(self) -> u32 {
        self.0 >> KEY_BITS
    }

    /// Returns the key.
    pub const fn key(self) -> u8 {
        (self.0 & ((1 << KEY_BITS) - 1)) as u8
    }
}
