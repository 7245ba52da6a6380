// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Atomic operations on integers of 8 to 64 bits: those of `FI_ATOMIC`, without floating point numbers.
//!
//! An operation makes a new word of the one in memory, an operand, and for some a word to compare with. What was
//! in memory is what an operation that fetches returns. This file is independent of how memory is accessed.

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

/// An operation. `memory` is what is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// The sum, modulo the width.
    Sum,
    /// The product, modulo the width.
    Product,
    /// `memory` less the operand, modulo the width.
    Difference,
    /// 1 if one of them is not 0.
    LogicalOr,
    /// 1 if neither is 0.
    LogicalAnd,
    /// The bits of either.
    BitOr,
    /// The bits of both.
    BitAnd,
    /// 1 if one of them is 0.
    LogicalXor,
    /// The bits in which they differ.
    BitXor,
    /// `memory`.
    Read,
    /// The operand.
    Write,
    /// The operand, if the word to compare with is equal to `memory`.
    SwapEqual,
    /// If it is not equal.
    SwapNotEqual,
    /// If it is less than or equal to `memory`.
    SwapLessEqual,
    /// If it is less.
    SwapLess,
    /// If it is greater or equal.
    SwapGreaterEqual,
    /// If it is greater.
    SwapGreater,
    /// The bits of the operand that are set in the word to compare with; the others are those of `memory`.
    MaskedSwap,
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
