// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The memory of a channel: the layout of an area, and the encoding of a cell.
//!
//! The values are those of `include/uapi/linux/weft.h`, where they are explained. Everything that is
//! decoded here was written by a peer that is not trusted: the caller copies a word once, passes the
//! copy, and uses only the result. This file is independent of how memory is accessed.

/// Bytes of a cell.
pub const CELL_BYTES: usize = 64;
/// Most bytes of a payload in a cell.
pub const INLINE_BYTES: usize = 48;
/// Offset of the cells in an area.
pub const CELLS_AT: usize = 4096;
/// Allocation unit of the bulk ring in bytes.
pub const BULK_UNIT: usize = 64;
/// Alignment of the parts of an area.
pub const PAGE_BYTES: usize = 4096;

/// Fewest cells of a ring.
pub const MIN_CELLS: u32 = 16;
/// Most cells of a ring.
pub const MAX_CELLS: u32 = 16384;
/// Smallest bulk ring, in bytes.
pub const MIN_BULK: u32 = 4096;
/// Largest bulk ring, in bytes.
pub const MAX_BULK: u32 = 1 << 20;

/// Offset in an area of the count of consumed cells, `weft_chan_ctl.credit`.
pub const CREDIT_AT: usize = 0;
/// Offset in an area of `weft_chan_ctl.recv_event`.
pub const RECV_EVENT_AT: usize = 64;
/// Offset in an area of `weft_chan_ctl.send_event`.
pub const SEND_EVENT_AT: usize = 128;

/// Offset in a cell of the user's tag.
pub const TAG_AT: usize = 8;
/// Offset in a cell of the payload, or of the offset of a bulk payload.
pub const DATA_AT: usize = 16;

/// Most bytes of a split payload that are in the cell: the first ones.
pub const SPLIT_BYTES: usize = 40;
/// Offset in a cell of those, behind the offset of the others.
pub const SPLIT_AT: usize = DATA_AT + 8;

const KIND_SHIFT: u32 = 32;
const SEQ_SHIFT: u32 = 40;
const PHASE: u64 = 1 << 63;
const RESERVED: u64 = 0x7f << 56;

/// The sizes of a channel, checked: the same for both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    cells: u32,
    bulk: u32,
}

impl Shape {
    /// Returns the shape of a channel of `cells` cells and `bulk` bytes of bulk ring in each direction;
    /// `None` if the user interface does not allow these.
    pub const fn new(cells: u32, bulk: u32) -> Option<Self> {
        let cells_fit = cells >= MIN_CELLS && cells <= MAX_CELLS && cells.is_power_of_two();
        let bulk_fits = bulk >= MIN_BULK && bulk <= MAX_BULK && bulk as usize % PAGE_BYTES == 0;
        if cells_fit && bulk_fits {
            Some(Self { cells, bulk })
        } else {
            None
        }
    }

    /// Returns the number of cells of a ring.
    pub const fn cells(self) -> u32 {
        self.cells
    }

    /// Returns the bytes of a bulk ring, and so of the longest message.
    pub const fn bulk(self) -> u32 {
        self.bulk
    }

    /// Returns the offset of cell `number` in an area.
    pub const fn cell_at(self, number: u64) -> usize {
        CELLS_AT + self.slot(number) * CELL_BYTES
    }

    /// Returns the offset of the bulk ring in an area.
    pub const fn bulk_at(self) -> usize {
        let end = CELLS_AT + self.cells as usize * CELL_BYTES;
        end.div_ceil(PAGE_BYTES) * PAGE_BYTES
    }

    /// Returns the bytes of an area.
    pub const fn area_bytes(self) -> usize {
        self.bulk_at() + self.bulk as usize
    }

    /// Returns the index in the ring of cell `number`.
    pub const fn slot(self, number: u64) -> usize {
        // At most MAX_CELLS - 1: no bits are lost.
        (number & (self.cells as u64 - 1)) as usize
    }

    /// Returns the phase bit of cell `number`: set in the first lap.
    const fn phase(self, number: u64) -> u64 {
        if (number >> self.cells.trailing_zeros()) & 1 == 0 {
            PHASE
        } else {
            0
        }
    }
}

/// Kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The payload is in the cell.
    Inline = 1,
    /// The payload is in the bulk ring.
    Bulk = 2,
    /// The sender will send no more.
    Fin = 3,
    /// The first [`SPLIT_BYTES`] of the payload are in the cell, the others in the bulk ring. Of kernels alone.
    Split = 4,
}

/// The head of a cell, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Kind of the cell.
    pub kind: Kind,
    /// Bytes of payload, within what `kind` allows.
    pub len: u32,
}

/// A violation of the protocol by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The kind of a cell is unknown, or a reserved bit of its head is set.
    Kind,
    /// A payload is longer than its kind allows.
    Length,
    /// A cell carries another cell's number.
    Sequence,
    /// A bulk payload does not lie in the bulk ring, or not at a multiple of [`BULK_UNIT`].
    Offset,
    /// The count of consumed cells went back, or beyond what was sent.
    Credit,
}

/// Result of decoding the head of an expected cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The cell has not come yet.
    Empty,
    /// The cell has come.
    Ready(Head),
    /// The peer broke the protocol.
    Corrupt(Fault),
}

impl Head {
    /// Encodes the word that makes cell `number` valid.
    pub const fn encode(self, number: u64, shape: Shape) -> u64 {
        self.len as u64
            | ((self.kind as u64) << KIND_SHIFT)
            | ((number & 0xffff) << SEQ_SHIFT)
            | shape.phase(number)
    }

    /// Decodes `word`, a copy of the head of cell `number`.
    ///
    /// A word with the phase of the lap before is not checked further: that cell was checked when it was
    /// current, and a peer that corrupts it has only failed to send.
    pub const fn decode(word: u64, number: u64, shape: Shape) -> Seen {
        if word & PHASE != shape.phase(number) {
            return Seen::Empty;
        }
        if word & RESERVED != 0 {
            return Seen::Corrupt(Fault::Kind);
        }
        if (word >> SEQ_SHIFT) & 0xffff != number & 0xffff {
            return Seen::Corrupt(Fault::Sequence);
        }
        let (kind, least, most) = match (word >> KIND_SHIFT) & 0xff {
            1 => (Kind::Inline, 0, INLINE_BYTES as u32),
            2 => (Kind::Bulk, 0, shape.bulk),
            3 => (Kind::Fin, 0, 0),
            4 => (
                Kind::Split,
                SPLIT_BYTES as u32,
                shape.bulk + SPLIT_BYTES as u32,
            ),
            _ => return Seen::Corrupt(Fault::Kind),
        };
        let len = word as u32;
        if len < least || len > most {
            return Seen::Corrupt(Fault::Length);
        }
        Seen::Ready(Self { kind, len })
    }
}

/// Checks `offset`, a copy of the offset in a bulk cell of `len` bytes, and returns the offset of the
/// payload in the area.
pub const fn bulk_place(offset: u64, len: u32, shape: Shape) -> Result<usize, Fault> {
    let aligned = offset % BULK_UNIT as u64 == 0;
    let inside = offset <= shape.bulk as u64 && len as u64 <= shape.bulk as u64 - offset;
    if aligned && inside {
        Ok(shape.bulk_at() + offset as usize)
    } else {
        Err(Fault::Offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape::new(16, 8192).expect("allowed")
    }

    #[test]
    fn shapes_are_those_of_the_user_interface() {
        for (cells, bulk) in [
            (8, 4096),
            (24, 4096),
            (32768, 4096),
            (16, 0),
            (16, 2048),
            (16, 4097),
            (16, (1 << 20) + 4096),
        ] {
            assert_eq!(Shape::new(cells, bulk), None, "{cells} cells, {bulk} bytes");
        }
        let small = shape();
        assert_eq!(small.bulk_at(), 8192);
        assert_eq!(small.area_bytes(), 16384);
        let large = Shape::new(MAX_CELLS, MAX_BULK).expect("allowed");
        assert_eq!(large.bulk_at(), 4096 + (1 << 20));
        assert_eq!(large.cell_at(u64::from(MAX_CELLS) * 5 + 3), 4096 + 3 * 64);
    }

    #[test]
    fn fresh_memory_is_empty_for_a_lap() {
        for number in 0..16 {
            assert_eq!(Head::decode(0, number, shape()), Seen::Empty);
        }
    }

    #[test]
    fn a_cell_is_valid_for_its_own_number_only() {
        for number in [0u64, 15, 16, 31, 32, 65535, 65536, u64::MAX] {
            let head = Head {
                kind: Kind::Inline,
                len: 48,
            };
            let word = head.encode(number, shape());
            assert_eq!(Head::decode(word, number, shape()), Seen::Ready(head));
            // The slot still has this word until the sender writes the next lap's cell.
            assert_eq!(
                Head::decode(word, number.wrapping_add(16), shape()),
                Seen::Empty
            );
            // Two laps later the phase is the same again, but the number differs.
            let other = Head::decode(word, number.wrapping_add(32), shape());
            assert_eq!(other, Seen::Corrupt(Fault::Sequence));
        }
    }

    #[test]
    fn lengths_and_kinds_are_checked() {
        let check =
            |kind: u64, len: u64| Head::decode(PHASE | (kind << KIND_SHIFT) | len, 0, shape());
        assert!(matches!(check(1, 48), Seen::Ready(_)));
        assert_eq!(check(1, 49), Seen::Corrupt(Fault::Length));
        assert!(matches!(check(2, 8192), Seen::Ready(_)));
        assert_eq!(check(2, 8193), Seen::Corrupt(Fault::Length));
        assert_eq!(check(2, 0xffff_ffff), Seen::Corrupt(Fault::Length));
        assert!(matches!(check(3, 0), Seen::Ready(_)));
        assert_eq!(check(3, 1), Seen::Corrupt(Fault::Length));
        for len in [40, 41, 104, 8192 + 40] {
            assert!(matches!(check(4, len), Seen::Ready(_)));
        }
        for len in [0, 39, 8192 + 41, 0xffff_ffff] {
            assert_eq!(check(4, len), Seen::Corrupt(Fault::Length));
        }
        for kind in [0, 5, 255] {
            assert_eq!(check(kind, 0), Seen::Corrupt(Fault::Kind));
        }
        for bit in 56..63 {
            assert_eq!(
                check(1 | (1 << (bit - KIND_SHIFT)), 0),
                Seen::Corrupt(Fault::Kind)
            );
        }
    }

    #[test]
    fn bulk_payloads_lie_in_the_bulk_ring() {
        let at = shape().bulk_at();
        assert_eq!(bulk_place(0, 8192, shape()), Ok(at));
        assert_eq!(bulk_place(8128, 64, shape()), Ok(at + 8128));
        for (offset, len) in [
            (64, 8192),
            (8192, 1),
            (8, 8),
            (u64::MAX - 63, 64),
            (u64::MAX, 0),
            (1 << 63, 64),
        ] {
            assert_eq!(
                bulk_place(offset, len, shape()),
                Err(Fault::Offset),
                "{offset}+{len}"
            );
        }
    }
}
