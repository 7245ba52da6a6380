// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The peer's eager ring, as its writer hands it out.
//!
//! In pieces of whole units, each in one piece, in the order of time. Each is free again when the cell
//! that names it was taken; cells go two ways, pushed and pulled, and so each piece knows its own. A
//! piece that is free behind one that is not has to wait. This file must not know how memory is
//! reached.

use super::{
    request::Lane,
    trunk::{Layout, UNIT},
};

/// A piece that was handed out, and the cell that names it.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    end: u64,
    lane: Lane,
    number: u64,
}

impl Piece {
    /// For memory that was not used yet.
    pub const NONE: Self = Self {
        end: 0,
        lane: Lane::Receive,
        number: 0,
    };
}

/// The ring. Positions are counted for ever.
pub struct Eager<S> {
    bytes: u64,
    /// From here on it is in use.
    first: u64,
    /// Up to here.
    end: u64,
    pieces: S,
    /// Pieces handed out, and how many of them are free again.
    given: u64,
    freed: u64,
}

/// How many pieces there can be in the trunk of `peer`: one for each cell on its way.
pub const fn pieces(own: &Layout, peer: &Layout) -> usize {
    (peer.rx().count() + own.out_cells().count()) as usize
}

impl<S: AsRef<[Piece]> + AsMut<[Piece]>> Eager<S> {
    /// The ring in the trunk of `peer`. `memory` is for as many pieces as there may be at once: if it
    /// is short, the ring is used less well.
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

    /// Frees what cells have named that the peer has taken: so many of each lane.
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

    /// A place for `len` bytes, which the next cell of `lane`, number `number`, will name; its offset
    /// in the ring. `None` if there is no room now. `taken` says how many cells the peer has taken.
    ///
    /// If that cell is not written, the place is to be given back by [`Self::untake`] at once.
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
        // In the ring, which is smaller than a trunk: no bits are lost.
        Some((start % self.bytes) as u32)
    }

    /// Gives back the place that was taken last.
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
