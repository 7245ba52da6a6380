// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the administrator wishes of the fabric, kept by every node: bytes that nobody here looks into.
//!
//! The memory has two halves, what is kept and what is on its way, so that a master that dies while it
//! writes leaves the former whole.

use super::{
    super::crc::crc32c,
    message::{Piece, Taken, MAX_PIECE},
};

/// Bytes of the longest wishes. All nodes of a fabric have room for as many.
pub const MAX_WISHES: usize = 4096;

/// Bits of a version that come from the contents: wishes that were changed on both sides of a broken
/// fabric differ in their version too.
const CONTENT_BITS: u32 = 12;

/// The wishes.
pub struct Wishes<B> {
    memory: B,
    /// Which half is kept.
    second: bool,
    version: u32,
    len: usize,
    /// What is on its way: its version, its length, and how much of it is there.
    coming: (u32, usize, usize),
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Wishes<B> {
    /// None. `memory` is twice as long as the longest.
    pub fn new(memory: B) -> Self {
        Self {
            memory,
            second: false,
            version: 0,
            len: 0,
            coming: (0, 0, 0),
        }
    }

    /// The most bytes.
    pub fn capacity(&self) -> usize {
        (self.memory.as_ref().len() / 2).min(usize::from(u16::MAX))
    }

    /// Their version: rises with each change; 0 for none.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The wishes.
    pub fn bytes(&self) -> &[u8] {
        let half = self.memory.as_ref().len() / 2;
        let start = if self.second { half } else { 0 };
        let end = start + self.len;
        self.memory.as_ref().get(start..end).unwrap_or_default()
    }

    /// Where what is on its way is kept.
    fn other(&mut self) -> &mut [u8] {
        let second = self.second;
        let half = self.memory.as_ref().len() / 2;
        let (a, b) = self.memory.as_mut().split_at_mut(half);
        if second {
            a
        } else {
            b
        }
    }

    /// Other wishes. Whether there is room for them.
    pub fn set(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > self.capacity() {
            return false;
        }
        let Some(to) = self.other().get_mut(..bytes.len()) else {
            return false;
        };
        to.copy_from_slice(bytes);
        let count = (self.version >> CONTENT_BITS).wrapping_add(1);
        let content = crc32c(bytes.iter().copied()) & ((1 << CONTENT_BITS) - 1);
        self.version = (count << CONTENT_BITS) | content;
        self.len = bytes.len();
        self.second = !self.second;
        self.coming = (0, 0, 0);
        true
    }

    /// The piece that begins at `offset`.
    pub fn piece(&self, offset: u16) -> Piece<'_> {
        let rest = self.bytes().get(usize::from(offset)..).unwrap_or_default();
        Piece {
            version: self.version,
            total: self.len as u16,
            offset: if rest.is_empty() { 0 } else { offset },
            bytes: if rest.is_empty() {
                &[]
            } else {
                rest.get(..MAX_PIECE).unwrap_or(rest)
            },
        }
    }

    /// Takes a piece. Answers where the next one has to begin, or `None` if that was the last.
    pub fn take(&mut self, piece: &Piece<'_>) -> Result<Option<u16>, Taken> {
        let (total, offset) = (usize::from(piece.total), usize::from(piece.offset));
        if piece.version == self.version {
            return Ok(None);
        }
        if total > self.capacity() {
            return Err(Taken::NoRoom);
        }
        if (piece.version, total) != (self.coming.0, self.coming.1) {
            self.coming = (piece.version, total, 0);
        }
        let have = self.coming.2;
        if offset > have {
            return Err(Taken::Order);
        }
        if offset == have {
            let end = have + piece.bytes.len();
            let to = self.other().get_mut(have..end).ok_or(Taken::NoRoom)?;
            to.copy_from_slice(piece.bytes);
            self.coming.2 = end;
        }
        if self.coming.2 < total {
            return Ok(Some(self.coming.2 as u16));
        }
        self.version = piece.version;
        self.len = total;
        self.second = !self.second;
        self.coming = (0, 0, 0);
        Ok(None)
    }
}
