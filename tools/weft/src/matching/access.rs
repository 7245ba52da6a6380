// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What is done to a region of another interface: bytes are put there, or got, and integers are changed, at an offset.
//! `struct weft_match_command`, and `struct weft_match_more` behind it.

use super::command::{Command, words};
use super::memory::Memory;
use super::rings::WORDS;
use super::{ATOMIC, Address, IN_RING};
use crate::abi;

/// What integers become; `memory` is what they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// The smaller one of `memory` and operand.
    Min = abi::WEFT_MATCH_MIN as u8,
    /// The larger one.
    Max = abi::WEFT_MATCH_MAX as u8,
    /// The sum, modulo the width.
    Sum = abi::WEFT_MATCH_SUM as u8,
    /// The product, modulo the width.
    Product = abi::WEFT_MATCH_PRODUCT as u8,
    /// `memory` less the operand, modulo the width.
    Difference = abi::WEFT_MATCH_DIFFERENCE as u8,
    /// 1 if one of them is not 0.
    LogicalOr = abi::WEFT_MATCH_LOGICAL_OR as u8,
    /// 1 if neither is 0.
    LogicalAnd = abi::WEFT_MATCH_LOGICAL_AND as u8,
    /// The bits of either.
    BitOr = abi::WEFT_MATCH_BIT_OR as u8,
    /// The bits of both.
    BitAnd = abi::WEFT_MATCH_BIT_AND as u8,
    /// 1 if one of them is 0.
    LogicalXor = abi::WEFT_MATCH_LOGICAL_XOR as u8,
    /// The bits in which they differ.
    BitXor = abi::WEFT_MATCH_BIT_XOR as u8,
    /// `memory`: there is no operand, and what is read is got.
    Read = abi::WEFT_MATCH_READ as u8,
    /// The operand.
    Write = abi::WEFT_MATCH_WRITE as u8,
    /// The operand, if what is compared is equal to `memory`.
    SwapEqual = abi::WEFT_MATCH_SWAP_EQUAL as u8,
    /// If it is not equal.
    SwapNotEqual = abi::WEFT_MATCH_SWAP_NOT_EQUAL as u8,
    /// If it is less than or equal to `memory`.
    SwapLessEqual = abi::WEFT_MATCH_SWAP_LESS_EQUAL as u8,
    /// If it is less.
    SwapLess = abi::WEFT_MATCH_SWAP_LESS as u8,
    /// If it is greater or equal.
    SwapGreaterEqual = abi::WEFT_MATCH_SWAP_GREATER_EQUAL as u8,
    /// If it is greater.
    SwapGreater = abi::WEFT_MATCH_SWAP_GREATER as u8,
    /// The bits of the operand that are set in what is compared; the others are those of `memory`.
    SwapMasked = abi::WEFT_MATCH_SWAP_MASKED as u8,
}

/// An operation, and the type of the integers that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    operation: Operation,
    width: u8,
    signed: bool,
}

impl Change {
    /// An operation on integers of `width` bytes; `None`: there are none of this width.
    pub fn new(operation: Operation, width: u8, signed: bool) -> Option<Self> {
        matches!(width, 1 | 2 | 4 | 8).then_some(Change { operation, width, signed })
    }

    /// The operation.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Bytes of an integer.
    pub fn width(&self) -> usize {
        self.width.into()
    }

    /// How many integers can be changed at once.
    pub fn most(&self) -> usize {
        ATOMIC / self.width()
    }

    fn integer(&self) -> u8 {
        self.width | if self.signed { abi::WEFT_MATCH_SIGNED as u8 } else { 0 }
    }
}

/// Where the operands of an atomic operation are, and the values that memory is compared with.
#[derive(Clone, Copy, Debug)]
pub enum Operands<'a> {
    /// In memory, which is read when the operation begins.
    Memory {
        /// Operands.
        values: Memory,
        /// What is compared.
        compared: Memory,
    },
    /// They are copied at once: first the operands, and behind them what is compared.
    InRing(&'a [u8]),
}

/// What is done to a region.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    op: u32,
    flags: u32,
    to: Address,
    bits: u64,
    data: u64,
    context: u64,
    /// Bytes of the region that are meant.
    length: u64,
    offset: u64,
    operands: Operands<'a>,
    result: Memory,
    change: Option<Change>,
}

impl<'a> Access<'a> {
    fn new(op: u32, to: Address, offset: u64, context: u64, length: u64) -> Self {
        Access {
            op,
            flags: 0,
            to,
            bits: 0,
            data: 0,
            context,
            length,
            offset,
            operands: Operands::Memory { values: Memory::NONE, compared: Memory::NONE },
            result: Memory::NONE,
            change: None,
        }
    }

    fn at(mut self, memory: Memory) -> Self {
        self.operands = Operands::Memory { values: memory, compared: Memory::NONE };
        self
    }

    /// Puts bytes there, which are read while that is under way.
    pub fn put(to: Address, memory: Memory, offset: u64, context: u64) -> Self {
        let new = Access::new(abi::WEFT_MATCH_PUT, to, offset, context, memory.len());
        Access { flags: abi::WEFT_MATCH_AT_OFFSET, ..new.at(memory) }
    }

    /// Puts bytes there that are copied at once; `None`: they are more than [`IN_RING`].
    pub fn put_in_ring(to: Address, bytes: &'a [u8], offset: u64, context: u64) -> Option<Self> {
        let new = Access::new(abi::WEFT_MATCH_PUT, to, offset, context, bytes.len() as u64);
        let flags = abi::WEFT_MATCH_AT_OFFSET | abi::WEFT_MATCH_IN_RING;
        let put = Access { flags, operands: Operands::InRing(bytes), ..new };
        (bytes.len() <= IN_RING).then_some(put)
    }

    /// Gets bytes from there. It is begun again if the connection is lost: nothing is changed by it.
    pub fn get(to: Address, memory: Memory, offset: u64, context: u64) -> Self {
        let new = Access::new(abi::WEFT_MATCH_GET, to, offset, context, memory.len());
        Access { flags: abi::WEFT_MATCH_RETRY, ..new.at(memory) }
    }

    /// Changes integers of `length` bytes there; `None`: the operands are more than [`IN_RING`] bytes, and in the ring.
    pub fn change(
        to: Address,
        (change, operands): (Change, Operands<'a>),
        length: u64,
        offset: u64,
        context: u64,
    ) -> Option<Self> {
        let new = Access::new(abi::WEFT_MATCH_ATOMIC, to, offset, context, length);
        let (flags, fits) = match operands {
            Operands::InRing(bytes) => (abi::WEFT_MATCH_IN_RING, bytes.len() <= IN_RING),
            Operands::Memory { .. } => (0, true),
        };
        fits.then_some(Access { flags, operands, change: Some(change), ..new })
    }

    /// Gets what the integers were.
    pub fn fetch(mut self, result: Memory) -> Self {
        (self.op, self.result) = (abi::WEFT_MATCH_FETCH, result);
        self
    }

    /// The match bits of the region.
    pub fn bits(mut self, bits: u64) -> Self {
        self.bits = bits;
        self
    }

    /// What its program is told, if it hears of the access.
    pub fn data(mut self, data: u64) -> Self {
        self.data = data;
        self
    }

    pub(super) fn bytes(&self) -> Option<&'a [u8]> {
        match self.operands {
            Operands::InRing(bytes) => Some(bytes),
            Operands::Memory { .. } => None,
        }
    }

    pub(super) fn slots(&self) -> [[u64; WORDS]; 2] {
        let mut it = Command::new(self.op, self.context).0;
        it.flags = self.flags as u16;
        let mut more = [0; WORDS];
        if let Operands::Memory { values, compared } = &self.operands {
            it.address = values.address();
            more[2] = compared.address();
        }
        it.length = self.length;
        (it.bits, it.ignore) = (self.bits, self.data);
        let to = self.to;
        (it.hwid, it.endpoint, it.generation) = (to.hwid, to.endpoint, to.generation);
        (more[0], more[1]) = (self.offset, self.result.address());
        if let Some(change) = self.change {
            let mut bytes = [0; 8];
            (bytes[0], bytes[1]) = (change.operation as u8, change.integer());
            more[3] = u64::from_ne_bytes(bytes);
        }
        [words(&it), more]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use weft_proto::matching::atomic;
    use weft_proto::slot::{self, More, Op, Slot};

    const TO: Address = Address { hwid: 1, endpoint: 0x203, generation: 0x0405_0607 };

    fn memory(at: usize, bytes: usize) -> Memory {
        // SAFETY: No interface is told of it.
        #[allow(unsafe_code)]
        unsafe {
            Memory::new(std::ptr::without_provenance_mut(at), bytes)
        }
    }

    fn decoded(access: &Access<'_>) -> (Slot, More) {
        let [slot, more] = access.slots();
        let slot = Slot::decode(&slot).expect("the driver takes it");
        assert!(slot.is_of_initiator() && slot.has_more());
        assert_eq!(slot.has(slot::INLINE), access.bytes().is_some());
        (slot, More::decode(&more).expect("and what is behind it"))
    }

    #[test]
    fn bytes_are_put_and_got_as_the_driver_reads() {
        let put = Access::put(TO, memory(0x1000, 0x200), 7, 8).bits(9).data(10);
        let (slot, more) = decoded(&put);
        assert_eq!((slot.op, slot.flags), (Op::Put, slot::AT_OFFSET));
        assert_eq!((slot.hwid, slot.endpoint, slot.generation), (1, 0x203, 0x0405_0607));
        assert_eq!((slot.address, slot.length, slot.context), (0x1000, 0x200, 8));
        assert_eq!((slot.bits, slot.ignore, more.offset), (9, 10, 7));
        assert_eq!((more.result, more.compare, more.operation, more.integer), (0, 0, 0, 0));
        let bytes = [1; IN_RING + 1];
        assert!(Access::put_in_ring(TO, &bytes, 7, 8).is_none());
        let put = Access::put_in_ring(TO, &bytes[1..], 7, 8).expect("it fits");
        let (slot, more) = decoded(&put);
        assert_eq!((slot.flags, slot.length), (slot::AT_OFFSET | slot::INLINE, 64));
        assert_eq!((put.bytes(), more.offset), (Some(&bytes[1..]), 7));
        let (slot, more) = decoded(&Access::get(TO, memory(0x1000, 0x200), 7, 8));
        assert_eq!((slot.op, slot.flags), (Op::Get, slot::RETRY));
        assert_eq!((slot.address, slot.length, more.offset), (0x1000, 0x200, 7));
    }

    #[test]
    fn integers_are_changed_as_the_driver_reads() {
        let change = Change::new(Operation::SwapLess, 4, true).expect("there are such integers");
        assert_eq!((change.width(), change.most()), (4, 512));
        let operands = Operands::Memory { values: memory(0x1000, 8), compared: memory(0x2000, 8) };
        let access = Access::change(TO, (change, operands), 8, 7, 9).expect("it fits").bits(5);
        let (slot, more) = decoded(&access);
        assert_eq!((slot.op, slot.flags, slot.length), (Op::Atomic, 0, 8));
        assert_eq!((slot.address, more.compare, more.result, more.offset), (0x1000, 0x2000, 0, 7));
        let known = atomic::Change::of(more.operation, more.integer).expect("the driver knows it");
        assert_eq!(known.operation, atomic::Operation::SwapLess);
        assert_eq!(Some(known.integer), atomic::Integer::new(4, true));
        let (slot, more) = decoded(&access.fetch(memory(0x3000, 8)));
        assert_eq!((slot.op, more.result), (Op::Fetch, 0x3000));
        let bytes = [1; IN_RING + 8];
        let in_ring = |bytes| Access::change(TO, (change, Operands::InRing(bytes)), 8, 7, 9);
        assert!(in_ring(&bytes).is_none());
        let access = in_ring(&bytes[..16]).expect("it fits");
        let (slot, _) = decoded(&access);
        assert_eq!(
            (slot.flags, slot.length, access.bytes()),
            (slot::INLINE, 8, Some(&bytes[..16]))
        );
        assert!(Change::new(Operation::Sum, 3, false).is_none());
        assert!(Change::new(Operation::Sum, 16, false).is_none());
    }

    #[test]
    fn more_is_as_the_header_has_it() {
        let words = [
            offset_of!(abi::weft_match_more, offset),
            offset_of!(abi::weft_match_more, result),
            offset_of!(abi::weft_match_more, compare),
            offset_of!(abi::weft_match_more, operation),
            offset_of!(abi::weft_match_more, integer),
        ];
        assert_eq!(words, [0, 8, 16, 24, 25]);
        assert_eq!(size_of::<abi::weft_match_more>(), WORDS * 8);
        assert_eq!(ATOMIC as u64, atomic::MOST);
    }
}
