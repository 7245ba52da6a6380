// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Atomic operations on integers of 8 to 64 bits: those of `FI_ATOMIC`, without floating point numbers.
//!
//! An operation makes a new word of the one in memory, an operand, and for some a word to compare with. What was
//! in memory is what an operation that fetches returns. This file is independent of how memory is accessed.

/// In the number of a type of integers: they have a sign.
pub const SIGNED: u8 = 1 << 7;

/// A type of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// Its width in bytes: 1, 2, 4 or 8.
    bytes: u8,
    signed: bool,
}

impl Integer {
    /// Returns the integers of this width in bytes; `None` unless it is 1, 2, 4 or 8.
    pub const fn new(bytes: u8, signed: bool) -> Option<Self> {
        match bytes {
            1 | 2 | 4 | 8 => Some(Self { bytes, signed }),
            _ => None,
        }
    }

    /// Returns the integers with this number: their width in bytes, and [`SIGNED`].
    pub const fn of(number: u8) -> Option<Self> {
        Self::new(number & !SIGNED, number & SIGNED != 0)
    }

    /// Returns the width in bytes.
    pub const fn bytes(self) -> u8 {
        self.bytes
    }

    const fn spare_bits(self) -> u32 {
        64 - 8 * self.bytes as u32
    }

    /// Returns the lower bits of a word.
    const fn cut(self, word: u64) -> u64 {
        word << self.spare_bits() >> self.spare_bits()
    }

    /// Returns a word that is ordered, as an unsigned one, as the integers are.
    const fn order(self, word: u64) -> u64 {
        let high = word << self.spare_bits();
        match self.signed {
            true => high ^ (1 << 63),
            false => high,
        }
    }
}

numbered! {
    /// An operation, by its number in the user interface and between hosts. `memory` is what is in memory.
    pub enum Operation: u8 {
        /// The smaller one.
        Min = 1,
        /// The larger one.
        Max = 2,
        /// The sum, modulo the width.
        Sum = 3,
        /// The product, modulo the width.
        Product = 4,
        /// `memory` less the operand, modulo the width.
        Difference = 5,
        /// 1 if one of them is not 0.
        LogicalOr = 6,
        /// 1 if neither is 0.
        LogicalAnd = 7,
        /// The bits of either.
        BitOr = 8,
        /// The bits of both.
        BitAnd = 9,
        /// 1 if one of them is 0.
        LogicalXor = 10,
        /// The bits in which they differ.
        BitXor = 11,
        /// `memory`.
        Read = 12,
        /// The operand.
        Write = 13,
        /// The operand, if the word to compare with is equal to `memory`.
        SwapEqual = 14,
        /// If it is not equal.
        SwapNotEqual = 15,
        /// If it is less than or equal to `memory`.
        SwapLessEqual = 16,
        /// If it is less.
        SwapLess = 17,
        /// If it is greater or equal.
        SwapGreaterEqual = 18,
        /// If it is greater.
        SwapGreater = 19,
        /// The bits of the operand that are set in the word to compare with; the others are those of `memory`.
        MaskedSwap = 20,
    }
}

impl Operation {
    /// Returns whether there is a word to compare with.
    pub const fn compares(self) -> bool {
        matches!(
            self,
            Self::SwapEqual
                | Self::SwapNotEqual
                | Self::SwapLessEqual
                | Self::SwapLess
                | Self::SwapGreaterEqual
                | Self::SwapGreater
                | Self::MaskedSwap
        )
    }

    /// Returns whether memory stays as it is, so that the operation can be repeated.
    pub const fn only_reads(self) -> bool {
        matches!(self, Self::Read)
    }

    /// Returns the word that memory has afterwards. Of each word the lower bits alone matter.
    pub fn apply(self, integer: Integer, memory: u64, operand: u64, compare: u64) -> u64 {
        let old = integer.cut(memory);
        let (with, compared) = (integer.cut(operand), integer.cut(compare));
        let is = |set: bool| u64::from(set);
        let swap = |set: bool| if set { with } else { old };
        // As the comparison of the word to compare with and `memory`.
        let order = || integer.order(compared).cmp(&integer.order(old));
        integer.cut(match self {
            Self::Min if integer.order(with) < integer.order(old) => with,
            Self::Max if integer.order(with) > integer.order(old) => with,
            Self::Min | Self::Max | Self::Read => old,
            Self::Sum => old.wrapping_add(with),
            Self::Product => old.wrapping_mul(with),
            Self::Difference => old.wrapping_sub(with),
            Self::LogicalOr => is(old != 0 || with != 0),
            Self::LogicalAnd => is(old != 0 && with != 0),
            Self::LogicalXor => is((old != 0) != (with != 0)),
            Self::BitOr => old | with,
            Self::BitAnd => old & with,
            Self::BitXor => old ^ with,
            Self::Write => with,
            Self::SwapEqual => swap(compared == old),
            Self::SwapNotEqual => swap(compared != old),
            Self::SwapLessEqual => swap(order().is_le()),
            Self::SwapLess => swap(order().is_lt()),
            Self::SwapGreaterEqual => swap(order().is_ge()),
            Self::SwapGreater => swap(order().is_gt()),
            Self::MaskedSwap => with & compared | old & !compared,
        })
    }
}

/// Bytes in memory that one request changes at most.
pub const MOST: u64 = 2048;

/// An operation, and the type of the integers that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The operation.
    pub operation: Operation,
    /// The type.
    pub integer: Integer,
}

impl Change {
    /// Returns the operation and the type with these numbers.
    pub fn of(operation: u8, integer: u8) -> Option<Self> {
        Some(Self {
            operation: Operation::of(operation)?,
            integer: Integer::of(integer)?,
        })
    }

    /// Returns how many bytes come with a request for `length` bytes in memory: the operands, and behind them what is
    /// compared with. `None`: these are no integers, or more than [`MOST`] has.
    pub fn operands(self, length: u64) -> Option<u64> {
        // A power of two.
        let whole = length & (u64::from(self.integer.bytes()) - 1) == 0;
        if !whole || !(1..=MOST).contains(&length) {
            return None;
        }
        Some(match self.operation {
            operation if operation.only_reads() => 0,
            operation if operation.compares() => 2 * length,
            _ => length,
        })
    }

    /// Returns the word that memory has afterwards, of the integer at byte `at` of a request for `length` bytes.
    /// `operands` is what has come with it.
    pub fn apply(self, memory: u64, operands: &[u8], length: usize, at: usize) -> u64 {
        let (operand, compare) = (self.word(operands, at), self.word(operands, length + at));
        self.operation.apply(self.integer, memory, operand, compare)
    }

    /// Returns the integer at a byte; 0 if there is none.
    fn word(self, bytes: &[u8], at: usize) -> u64 {
        let mut word = [0; 8];
        let width = usize::from(self.integer.bytes());
        let from = bytes.get(at..).and_then(|bytes| bytes.get(..width));
        if let (Some(from), Some(to)) = (from, word.get_mut(..width)) {
            to.copy_from_slice(from);
        }
        u64::from_le_bytes(word)
    }
}
