// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The memory of the link queues ("trunk" in the code): their layout in an arena.
//!
//! `Documentation/queues.rst` explains the parts. Both ends compute the layout in either arena from the
//! arena's size alone. This file is independent of how memory is accessed, and of what is in a cell.

use super::cell::PAGE_BYTES;

/// Bytes of a cell.
pub const CELL_BYTES: usize = 128;
/// Bytes of a completion word.
pub const WORD_BYTES: usize = 8;
/// Unit of offsets in the eager ring and staging memory, in bytes.
pub const UNIT: usize = 64;

/// Smallest size of the link queues, in bytes.
pub const MIN_BYTES: u64 = 64 << 10;
/// Largest size of the link queues, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;
/// Smallest arena that has link queues, in bytes.
pub const MIN_ARENA: u64 = 128 << 10;

/// Offset in the link queues of `rx_credit`.
pub const RX_CREDIT_AT: usize = 0;
/// Offset in the link queues of `tx_credit`.
pub const TX_CREDIT_AT: usize = 64;
/// Offset in the link queues of `cq_credit`.
pub const CQ_CREDIT_AT: usize = 128;
/// Offset in the link queues of `event`.
pub const EVENT_AT: usize = 192;
/// Offset in the link queues of `pull_tail`.
pub const PULL_TAIL_AT: usize = 256;
/// Offset in the link queues of `pull_credit`.
pub const PULL_CREDIT_AT: usize = 320;
/// Offset in the link queues of `pull_cq_credit`.
pub const PULL_CQ_CREDIT_AT: usize = 384;
/// Offset in the link queues of `pull_cq_tail`.
pub const PULL_CQ_TAIL_AT: usize = 448;

/// A violation of the protocol of the link queues by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A count went back, or beyond what was written.
    Count,
    /// The operation or code is unknown, or belongs into another FIFO, or a reserved bit is set.
    Kind,
    /// The length is invalid for the operation.
    Length,
    /// An address is not in the eager ring, or not in the staging pages.
    Place,
    /// A member has an invalid value.
    Value,
    /// A cell names more slots of another FIFO before it than have come.
    Order,
    /// The memory of the peer is out of reach of the DMA engine.
    Reach,
}

impl Fault {
    /// Returns the fault as text that completes "the peer …".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Count => "took a count back, or counted what was never written",
            Self::Kind => "sent an operation that is unknown, or in the wrong queue",
            Self::Length => "sent an operation with an impossible length",
            Self::Place => "named memory that is not for data",
            Self::Value => "sent an impossible value",
            Self::Order => "sent a message that stands behind one that never came",
            Self::Reach => "is out of the DMA engine's reach",
        }
    }
}

/// An array of slots of the same size: a FIFO, or slots that are posted to be pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    at: usize,
    count: u32,
    bytes: usize,
}

impl Slots {
    /// Returns the number of slots, a power of two.
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Returns the bytes of all slots.
    pub const fn bytes(self) -> usize {
        self.count as usize * self.bytes
    }

    /// Returns the offset in the link queues of slot number `number`; numbers rise from 0 without
    /// wrapping.
    pub const fn place(self, number: u64) -> usize {
        // At most `count - 1`: no bits are lost.
        self.at + (number & (self.count as u64 - 1)) as usize * self.bytes
    }

    /// Returns the phase of slot number `number`, at bit 63: set in the first lap.
    pub const fn phase(self, number: u64) -> u64 {
        if (number >> self.count.trailing_zeros()) & 1 == 0 {
            1 << 63
        } else {
            0
        }
    }
}

/// Layout of the link queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    bytes: u32,
}

/// Numbers of slots: the exponent of the bytes of the link queues per slot (a power of two), and the
/// least number of slots.
const RX_CELLS: (u32, u32) = (11, 32);
const TX_CELLS: (u32, u32) = (12, 32);
const WORDS: (u32, u32) = (7, 512);
/// The eager ring has this fraction (1 / `EAGER`) of the link queues.
const EAGER: u32 = 8;

impl Layout {
    /// Returns the layout of the link queues at the beginning of an arena of `bytes`; `None` if the
    /// arena is too small to have any.
    pub const fn of_arena(bytes: u64) -> Option<Self> {
        if bytes < MIN_ARENA {
            return None;
        }
        let quarter = 1u64 << (bytes / 4).ilog2();
        let bytes = if quarter < MIN_BYTES {
            MIN_BYTES
        } else if quarter > MAX_BYTES {
            MAX_BYTES
        } else {
            quarter
        };
        Some(Self {
            bytes: bytes as u32,
        })
    }

    /// Returns the bytes of the link queues.
    pub const fn bytes(self) -> usize {
        self.bytes as usize
    }

    const fn share(self, (shift, least): (u32, u32)) -> u32 {
        let count = self.bytes >> shift;
        if count < least {
            least
        } else {
            count
        }
    }

    const fn slots(self, at: usize, share: (u32, u32), bytes: usize) -> Slots {
        Slots {
            at,
            count: self.share(share),
            bytes,
        }
    }

    const fn behind(slots: Slots) -> usize {
        (slots.at + slots.bytes()).next_multiple_of(PAGE_BYTES)
    }

    /// Returns the slots of the receive FIFO.
    pub const fn rx(self) -> Slots {
        self.slots(PAGE_BYTES, RX_CELLS, CELL_BYTES)
    }

    /// Returns the slots of the transmit FIFO.
    pub const fn tx(self) -> Slots {
        self.slots(Self::behind(self.rx()), TX_CELLS, CELL_BYTES)
    }

    /// Returns the slots of the completion FIFO.
    pub const fn cq(self) -> Slots {
        self.slots(Self::behind(self.tx()), WORDS, WORD_BYTES)
    }

    /// Returns the slots of outgoing requests.
    pub const fn out_cells(self) -> Slots {
        self.slots(Self::behind(self.cq()), RX_CELLS, CELL_BYTES)
    }

    /// Returns the slots of outgoing completions.
    pub const fn out_words(self) -> Slots {
        self.slots(Self::behind(self.out_cells()), WORDS, WORD_BYTES)
    }

    /// Returns the offset of the eager ring.
    pub const fn eager_at(self) -> usize {
        Self::behind(self.out_words())
    }

    /// Returns the bytes of the eager ring.
    pub const fn eager_bytes(self) -> usize {
        (self.bytes / EAGER) as usize
    }

    /// Returns the length of the longest message that uses the eager ring, in bytes.
    pub const fn eager_most(self) -> usize {
        self.eager_bytes() / 8
    }

    /// Returns the offset of the staging pages. They end with the link queues.
    pub const fn staging_at(self) -> usize {
        self.eager_at() + self.eager_bytes()
    }

    /// Returns the number of staging pages.
    pub const fn staging_pages(self) -> usize {
        (self.bytes() - self.staging_at()) / PAGE_BYTES
    }

    /// Checks that `len` bytes at `at` are in the eager ring, and returns their offset in the link
    /// queues.
    pub const fn eager_place(self, at: u32, len: u64) -> Result<usize, Fault> {
        let (at, ring) = (at as usize, self.eager_bytes());
        if at % UNIT != 0 || at > ring || len > (ring - at) as u64 {
            return Err(Fault::Place);
        }
        Ok(self.eager_at() + at)
    }

    /// Returns whether `bytes` bytes at `at` of the link queues are in the staging pages.
    pub const fn is_staging(self, at: u64, bytes: u32) -> bool {
        let end = self.bytes as u64;
        at >= self.staging_at() as u64 && at <= end && bytes as u64 <= end - at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_arenas_have_no_trunk() {
        assert_eq!(Layout::of_arena(0), None);
        assert_eq!(Layout::of_arena(MIN_ARENA - 1), None);
        for (arena, trunk) in [
            (128 << 10, 64 << 10),
            (256 << 10, 64 << 10),
            (1 << 20, 256 << 10),
            (3 << 20, 512 << 10),
            (4 << 20, 1 << 20),
            (1 << 40, 1 << 20),
            (u64::MAX, 1 << 20),
        ] {
            let layout = Layout::of_arena(arena).expect("large enough");
            assert_eq!(layout.bytes(), trunk, "{arena}");
        }
    }

    #[test]
    fn parts_follow_each_other_and_end_with_the_trunk() {
        for shift in 16..=20 {
            let layout = Layout::of_arena(4 << shift).expect("large enough");
            let mut at = PAGE_BYTES;
            for part in [
                layout.rx(),
                layout.tx(),
                layout.cq(),
                layout.out_cells(),
                layout.out_words(),
            ] {
                assert_eq!(part.place(0), at);
                assert_eq!(part.place(0) % PAGE_BYTES, 0);
                assert!(part.count().is_power_of_two());
                at += part.bytes().next_multiple_of(PAGE_BYTES);
            }
            assert_eq!(layout.eager_at(), at);
            assert_eq!(layout.eager_bytes() % PAGE_BYTES, 0);
            let end = layout.staging_at() + layout.staging_pages() * PAGE_BYTES;
            assert_eq!(end, layout.bytes());
            assert!(layout.staging_pages() >= 8);
        }
        let small = Layout::of_arena(MIN_ARENA).expect("large enough");
        assert_eq!(
            (small.rx().count(), small.tx().count(), small.cq().count()),
            (32, 32, 512)
        );
        let large = Layout::of_arena(4 << 20).expect("large enough");
        assert_eq!(
            (large.rx().count(), large.tx().count(), large.cq().count()),
            (512, 256, 8192)
        );
    }

    #[test]
    fn slots_come_round_with_another_phase() {
        let rx = Layout::of_arena(MIN_ARENA).expect("large enough").rx();
        assert_eq!(rx.place(0), 4096);
        assert_eq!(rx.place(31), 4096 + 31 * 128);
        assert_eq!(rx.place(32), 4096);
        assert_eq!(rx.place(u64::MAX), rx.place(31));
        assert_eq!(
            [0, 31, 32, 63, 64].map(|n| rx.phase(n) >> 63),
            [1, 1, 0, 0, 1]
        );
    }

    #[test]
    fn memory_for_data_is_told_from_the_rest() {
        let layout = Layout::of_arena(MIN_ARENA).expect("large enough");
        let ring = layout.eager_bytes() as u32;
        assert_eq!(layout.eager_place(0, ring.into()), Ok(layout.eager_at()));
        for (at, len) in [
            (8, 8),
            (ring, 1),
            (64, ring.into()),
            (0, u64::MAX),
            (u32::MAX - 63, 64),
        ] {
            assert_eq!(layout.eager_place(at, len), Err(Fault::Place), "{at}+{len}");
        }
        let (first, end) = (layout.staging_at() as u64, layout.bytes() as u64);
        assert!(layout.is_staging(first, (end - first) as u32));
        assert!(layout.is_staging(end - 64, 64));
        for (at, len) in [
            (first - 64, 64),
            (end - 64, 65),
            (end, 1),
            (0, 64),
            (u64::MAX, 64),
            (1 << 32, 1),
        ] {
            assert!(!layout.is_staging(at, len), "{at}+{len}");
        }
    }
}
