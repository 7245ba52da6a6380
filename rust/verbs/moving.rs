// SPDX-License-Identifier: GPL-2.0

//! Data that a DMA channel of the port moves to the peer, and the memory that stays in place
//! meanwhile.
//!
//! A run of the engine looks for completed transfers, in the order in which they were begun. Control
//! words that refer to data go through the same channel, behind the data: a store of the CPU could
//! overtake the data, even when they have left. This file must not know how queue pairs go on after a
//! transfer.

use super::data::Load;
use crate::{
    hw::{Moved, Mover, Piece},
    mem::{Access, Command, Memory},
    proto::{
        qp::{NotBegun, Transfer},
        request::Extents,
    },
    sys::clock,
};
use kernel::prelude::*;

/// A long message, or a read, of at least so many bytes is moved by DMA: see Documentation/queues.rst.
pub(super) const WORTHWHILE: u64 = 32 << 10;
/// Milliseconds that a transfer may take as the oldest one. After that the DMA channel counts as
/// stopped.
const PATIENCE_MS: u64 = 5000;
/// The most transfers that can be under way.
const MOST: usize = 64;

/// What a transfer moves.
#[derive(Clone, Copy)]
pub(super) enum What {
    /// Data of a queue pair.
    Transfer(Transfer),
    /// A control word: nothing is to be done when it has left.
    Word,
    /// A doorbell, or data that the DMA channel has begun to move and the CPU moves instead.
    Nothing,
    /// An interrupt to this host.
    Report,
}

impl What {
    fn is_of(&self, number: u32) -> bool {
        matches!(self, Self::Transfer(transfer) if transfer.owner().0 == number)
    }
}

struct UnderWay {
    first: u32,
    last: u32,
    what: What,
    since_ms: u64,
    /// Kept until the transfer is done, or given up.
    _accesses: KVec<Access>,
    _command: Option<Command>,
}

/// The transfers that are under way on a link.
pub(super) struct Moving {
    /// In the order in which they were begun. Has room for [`MOST`].
    under_way: KVec<UnderWay>,
    /// How many of them are control words,
    words: usize,
    /// and whether one has left since [`Self::had_words`] was called.
    had_words: bool,
    /// Data were given to the DMA channel, and no control word behind them.
    unfenced: bool,
    /// Counts the transfers that were begun, and those that ended.
    changes: u64,
    /// When the last transfer ended: since then the next one is the oldest.
    done_ms: u64,
}

impl Moving {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            under_way: KVec::with_capacity(MOST, GFP_KERNEL)?,
            words: 0,
            had_words: false,
            unfenced: false,
            changes: 0,
            done_ms: 0,
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns whether an interrupt follows the last transfer.
    pub(super) fn is_reported(&self) -> bool {
        matches!(self.under_way.last(), Some(last) if matches!(last.what, What::Report))
    }

    /// Returns a count that changes when a transfer begins or ends.
    pub(super) fn begun_and_done(&self) -> u64 {
        self.changes
    }

    /// Returns whether the DMA channel has control words to move.
    pub(super) fn has_words(&self) -> bool {
        self.words > 0
    }

    /// Returns whether a control word has left since the last call.
    pub(super) fn had_words(&mut self) -> bool {
        core::mem::replace(&mut self.had_words, false)
    }

    /// Returns whether a store of the CPU might overtake data, even of transfers that are done here.
    pub(super) fn is_unfenced(&self) -> bool {
        self.unfenced
    }

    /// Returns whether a transfer of queue pair `qpn` is under way.
    pub(super) fn has(&self, qpn: u32) -> bool {
        self.under_way
            .iter()
            .any(|transfer| transfer.what.is_of(qpn))
    }

    /// Returns whether the DMA channel still reads memory that requests of queue pair `qpn` have
    /// named.
    pub(super) fn reads_for(&self, qpn: u32, mover: &dyn Mover) -> bool {
        self.under_way
            .iter()
            .any(|transfer| transfer.what.is_of(qpn) && mover.state(transfer.last) == Moved::NotYet)
    }

    /// Returns whether the DMA channel makes progress.
    pub(super) fn is_well(&self, mover: &dyn Mover) -> bool {
        let late = |since| clock::now_ms().saturating_sub(self.done_ms.max(since)) > PATIENCE_MS;
        match self.under_way.first() {
            Some(oldest) => mover.works() && !late(oldest.since_ms),
            None => true,
        }
    }

    fn push(&mut self, transfer: UnderWay) -> bool {
        self.changes += 1;
        // The caller has checked that there is room.
        self.under_way.push_within_capacity(transfer).is_ok()
    }

    fn has_room(&self, mover: &dyn Mover, count: usize) -> bool {
        self.under_way.len() < MOST && mover.room() >= count
    }

    /// Begins to move `load` to `extents` of the window. `NotBegun::Now`: there is no room;
    /// `NotBegun::Ever`: the CPU is to move it.
    pub(super) fn begin(
        &mut self,
        mover: &dyn Mover,
        load: Load,
        extents: &Extents,
        what: What,
    ) -> core::result::Result<(), NotBegun> {
        let mut begin = 0;
        for &end in &load.ends {
            if end - begin > mover.max_pieces() {
                return Err(NotBegun::Ever);
            }
            begin = end;
        }
        // One more, so that there is room for a control word behind the data.
        if !self.has_room(mover, load.ends.len() + 1) {
            return Err(NotBegun::Now);
        }
        let mut numbers = None;
        let mut all = true;
        let mut begin = 0;
        for (extent, &end) in extents.as_slice().iter().zip(&load.ends) {
            let pieces = load.pieces.get(begin..end).unwrap_or_default();
            begin = end;
            if pieces.is_empty() {
                continue;
            }
            let Some(number) = mover.write(extent.at as usize, pieces, None) else {
                // Unexpected: there was room. What has begun keeps its memory.
                all = false;
                break;
            };
            numbers = Some((numbers.map_or(number, |(first, _)| first), number));
        }
        if let Some((first, last)) = numbers {
            self.unfenced = true;
            self.push(UnderWay {
                first,
                last,
                what: if all { what } else { What::Nothing },
                since_ms: clock::now_ms(),
                _accesses: load.accesses,
                _command: None,
            });
        }
        if all && numbers.is_some() {
            Ok(())
        } else {
            Err(NotBegun::Ever)
        }
    }

    /// Returns memory for a control word, if the DMA channel has room for it.
    pub(super) fn command(&self, mover: &dyn Mover, memory: &Memory) -> Option<Command> {
        if self.has_room(mover, 1) {
            memory.command()
        } else {
            None
        }
    }

    /// Sends a control word behind all that was begun, and rings then if `ring` is given. Returns
    /// false if that failed.
    pub(super) fn word(
        &mut self,
        mover: &dyn Mover,
        command: Command,
        (at, word): (usize, u64),
        ring: Option<u32>,
    ) -> bool {
        const BYTES: u32 = size_of::<u64>() as u32;
        let addr = command
            .write(0, &word.to_le_bytes())
            .and_then(|()| command.dma());
        let Ok(addr) = addr else {
            return false;
        };
        let piece = Piece { addr, bytes: BYTES };
        let Some(number) = mover.write(at, &[piece], ring) else {
            return false;
        };
        self.unfenced = false;
        self.words += 1;
        self.push(UnderWay {
            first: number,
            last: number,
            what: What::Word,
            since_ms: clock::now_ms(),
            _accesses: KVec::new(),
            _command: Some(command),
        })
    }

    fn sign(&mut self, number: Option<u32>, what: What) -> bool {
        let Some(number) = number else {
            return false;
        };
        self.push(UnderWay {
            first: number,
            last: number,
            what,
            since_ms: clock::now_ms(),
            _accesses: KVec::new(),
            _command: None,
        })
    }

    /// Rings when all that was begun has arrived. Returns false if there is no room.
    pub(super) fn ring(&mut self, mover: &dyn Mover, doorbell: u32) -> bool {
        self.has_room(mover, 1) && self.sign(mover.ring(doorbell), What::Nothing)
    }

    /// Requests an interrupt for when all that is under way is done. Returns false if there is no
    /// room.
    pub(super) fn report(&mut self, mover: &dyn Mover) -> bool {
        self.is_reported() || self.has_room(mover, 1) && self.sign(mover.report(), What::Report)
    }

    /// Takes the oldest transfer if it is done; returns what it moved and its result.
    pub(super) fn next(&mut self, mover: &dyn Mover) -> Option<(What, Moved)> {
        let oldest = self.under_way.first()?;
        let (first, last, what) = (oldest.first, oldest.last, oldest.what);
        if mover.state(last) == Moved::NotYet {
            return None;
        }
        let mut went = Moved::Done;
        let mut number = first;
        loop {
            if went == Moved::Done {
                went = mover.state(number);
            }
            if number == last {
                break;
            }
            number = number.wrapping_add(1);
        }
        mover.release(last);
        self.changes += 1;
        self.done_ms = clock::now_ms();
        let done = self.under_way.remove(0);
        drop(done);
        match what {
            What::Word => {
                self.words = self.words.saturating_sub(1);
                self.had_words = true;
            }
            What::Transfer(_) | What::Nothing | What::Report => {}
        }
        Some((what, went))
    }
}
