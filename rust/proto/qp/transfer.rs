// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Data that the DMA engine moves, and the word that is sent behind them.

use crate::proto::word::Word;

/// Data of a queue pair that the DMA engine moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Segment `part` of the long message `psn`, to memory that the peer has granted.
    Segment {
        /// Queue pair of this end.
        qpn: u32,
        /// Its epoch.
        epoch: u32,
        /// Low bits of the number of the request.
        psn: u16,
        /// Number of the segment, as words carry it.
        part: u16,
    },
    /// Data that the peer's request `psn` reads.
    Answer {
        /// Queue pair of this end.
        qpn: u32,
        /// Its epoch.
        epoch: u32,
        /// Low bits of the number of the request.
        psn: u16,
    },
}

impl Transfer {
    /// Returns the queue pair of this end, and its epoch.
    pub const fn owner(&self) -> (u32, u32) {
        match *self {
            Self::Segment { qpn, epoch, .. } | Self::Answer { qpn, epoch, .. } => (qpn, epoch),
        }
    }
}

/// A word that is to be sent behind data that were moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferred {
    /// Queue pair of this end.
    pub qpn: u32,
    /// Its epoch.
    pub epoch: u32,
    /// The word.
    pub word: Word,
    /// It answers a request: until it is sent, the peer may not send another request.
    pub answers: bool,
}
