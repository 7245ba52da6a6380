// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Bytes that a master stores at a node in pieces: the assignments, and the node's own hierarchy.
//!
//! The memory has two halves, one for the bytes that are kept and one for those that are arriving, so
//! that a master that dies while it writes leaves the former intact. This file does not interpret the
//! bytes, and does not check the right to write them.

use super::{
    assignments::version_after,
    message::{Piece, Taken},
};

/// The bytes, and those that are arriving.
pub struct Kept<B> {
    memory: B,
    /// The second half is the one that is kept.
    second: bool,
    version: u32,
    len: usize,
    /// What is arriving: its version, its length, and how much of it has come.
    coming: (u32, usize, usize),
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Kept<B> {
    /// Keeps nothing yet. `memory` is twice as long as the longest contents.
    pub fn new(memory: B) -> Self {
        Self {
            memory,
            second: false,
            version: 0,
            len: 0,
            coming: (0, 0, 0),
        }
    }

    /// Returns the most bytes that can be kept.
    pub fn capacity(&self) -> usize {
        (self.memory.as_ref().len() / 2).min(usize::from(u16::MAX))
    }

    /// Returns the version of what is kept; 0 for nothing.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the bytes that are kept.
    pub fn bytes(&self) -> &[u8] {
        let half = self.memory.as_ref().len() / 2;
        let start = if self.second { half } else { 0 };
        let end = start + self.len;
        self.memory.as_ref().get(start..end).unwrap_or_default()
    }

    /// Returns the half for the bytes that are arriving.
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

    /// Swaps the halves: keeps `len` bytes of the other half from now on.
    fn turn(&mut self, version: u32, len: usize) {
        self.version = version;
        self.len = len;
        self.second = !self.second;
        self.coming = (0, 0, 0);
    }

    /// Clears what is kept.
    pub(super) fn clear(&mut self) {
        self.turn(0, 0);
    }

    /// Replaces what is kept. Returns whether there is room for it.
    pub fn set(&mut self, version: u32, bytes: &[u8]) -> bool {
        if bytes.len() > self.capacity() {
            return false;
        }
        let Some(to) = self.other().get_mut(..bytes.len()) else {
            return false;
        };
        to.copy_from_slice(bytes);
        self.turn(version, bytes.len());
        true
    }

    /// Replaces what is kept by what `f` makes of it, in a new version. `f` writes it into memory for the
    /// longest contents, and returns its length; with `None` nothing changes. Returns whether it was replaced.
    pub fn edit(
        &mut self,
        f: impl FnOnce(&[u8], &mut [u8]) -> Result<Option<usize>, Taken>,
    ) -> Result<bool, Taken> {
        let capacity = self.capacity();
        let half = self.memory.as_ref().len() / 2;
        let (a, b) = self.memory.as_mut().split_at_mut(half);
        let (now, other) = if self.second { (b, a) } else { (a, b) };
        let now = now.get(..self.len).unwrap_or_default();
        let other = other.get_mut(..capacity).unwrap_or_default();
        // What was arriving there is lost.
        self.coming = (0, 0, 0);
        let Some(len) = f(now, other)? else {
            return Ok(false);
        };
        let bytes = other.get(..len).ok_or(Taken::NoRoom)?;
        let version = version_after(self.version, bytes);
        self.turn(version, len);
        Ok(true)
    }

    /// Returns the piece that begins at `offset`.
    pub fn piece(&self, offset: u16) -> Piece<'_> {
        Piece::of(self.version, self.bytes(), offset)
    }

    /// Takes a piece. Returns the offset at which the next one has to begin, or `None` if that was the
    /// last. When all have come, they are kept if `accept` takes them as a whole.
    pub fn take(
        &mut self,
        piece: &Piece<'_>,
        accept: impl FnOnce(&[u8]) -> Result<(), Taken>,
    ) -> Result<Option<u16>, Taken> {
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
        if let Err(taken) = accept(self.other().get(..total).unwrap_or_default()) {
            self.coming = (0, 0, 0);
            return Err(taken);
        }
        self.turn(piece.version, total);
        Ok(None)
    }
}
