// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The registers, by name: Documentation/hardware.rst.

// A program needs but some of them.
#![allow(missing_docs, dead_code)]

include!(concat!(env!("OUT_DIR"), "/regs.rs"));

/// A field of a register, shifted down.
pub fn field(value: u32, mask: u32) -> u32 {
    (value & mask) >> mask.trailing_zeros()
}
