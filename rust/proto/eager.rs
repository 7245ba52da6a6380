// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Allocator of the peer's eager ring, at the end that writes it.
//!
//! Pieces are contiguous, consist of whole units, and are allocated in ring order. A piece is free again
//! when the peer has taken the cell that names it; cells use different lanes, so each piece records its
//! cell. Pieces become free in order: a piece behind one that is in use waits. This file is independent
//! of how memory is accessed.

use super::{
    request::Lane,
    trunk::{Layout, UNIT},
};

/// A piece that was allocated, and the cell that names it.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    end: u64,
    lane: Lane,
    number: u64,
}

impl Piece {
    /// Initial value for memory.
    pub const NONE: Self = Self {
        end: 0,
        lane: Lane::Receive,
        number: 0,
    };
}

/// The ring. Positions rise without wrapping.
pub struct Eager<S> {
    bytes: u64,
    /// Start of the part that is in use.
    first: u64,
    /// End of the part that is in use.
    end: u64,
    pieces: S,
    /// Number of pieces allocated, and how many of them are free again.
    given: u64,
    freed: u64,
}

/// Returns how many pieces there can be in the link queues of `peer`: one for each cell on its way.
pub const fn pieces(own: &Layout, peer: &Layout) -> usize {
    (peer.rx().count() + own.out_cells().count()) as usize
}

impl<S: AsRef<[Piece]> + AsMut<[Piece]>> Eager<S> {
    /// Creates the allocator of the ring in the link queues of `peer`. `memory` is for as many pieces as
    /// there may be at once: with less, the ring may not be used fully.
    pub fn new(peer: &Layout, memory: S) -> Self {
        Self {
            bytes: peer.eager_bytes() as u64,
            first: 0,
            end: 0,
            pieces: memory,
            given: 0,
            freed: 0,
        }
    }

    fn slot(&self, number: u64) -> Option<usize> {
        number
            .checked_rem(self.pieces.as_ref().len() as u64)
            .map(|slot| slot as usize)
    }

    /// Frees the pieces of cells that the peer has taken. `taken` returns how many of a lane it has
    /// taken.
    fn release(&mut self, taken: impl Fn(Lane) -> u64) {
        while self.freed < self.given {
            let piece = self
                .slot(self.freed)
                .and_then(|slot| self.pieces.as_ref().get(slot));
            match piece {
                Some(piece) if taken(piece.lane) > piece.number => {
                    self.first = piece.end;
                    self.freed += 1;
                }
                _ => return,
            }
        }
        self.first = self.end;
    }

    /// Allocates `len` bytes, which the next cell of `lane`, number `number`, will name. Returns their
    /// offset in the ring; `None` if there is no room now. `taken` returns how many cells of a lane the
    /// peer has taken.
    ///
    /// If that cell is not written, the caller calls [`Self::untake`] at once.
    pub fn take(
        &mut self,
        len: u32,
        lane: Lane,
        number: u64,
        taken: impl Fn(Lane) -> u64,
    ) -> Option<u32> {
        self.release(taken);
        let room = u64::from(len).next_multiple_of(UNIT as u64);
        let offset = self.end % self.bytes;
        let start = if offset + room <= self.bytes {
            self.end
        } else {
            self.end + (self.bytes - offset)
        };
        if start + room - self.first > self.bytes
            || self.given - self.freed >= self.pieces.as_ref().len() as u64
        {
            return None;
        }
        let slot = self.slot(self.given)?;
        *self.pieces.as_mut().get_mut(slot)? = Piece {
            end: start + room,
            lane,
            number,
        };
        self.given += 1;
        self.end = start + room;
        // In the ring, which is smaller than the link queues: no bits are lost.
        Some((start % self.bytes) as u32)
    }

    /// Frees the piece that was allocated last.
    pub fn untake(&mut self) {
        if self.given == self.freed {
            return;
        }
        self.given -= 1;
        let before = match self.given.checked_sub(1) {
            Some(last) if self.given > self.freed => self
                .slot(last)
                .and_then(|slot| self.pieces.as_ref().get(slot))
                .map(|piece| piece.end),
            _ => None,
        };
        self.end = before.unwrap_or(self.first);
    }
}
