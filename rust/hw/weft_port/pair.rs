// SPDX-License-Identifier: GPL-2.0

//! One end of the mailbox between a physical function and a virtual one.
//!
//! The mailbox holds one note in either direction. This file must not know what the notes say, nor which
//! end it is.

use crate::{
    proto::pair::{Packed, PAIR_BYTES},
    sys::{ext, iomap::Regs},
};

const _: () = assert!(PAIR_BYTES == ext::WEFT_PAIR_BYTES as usize);

/// One end of a mailbox: its registers begin at `at`.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    at: usize,
}

impl Pair {
    /// The end of this VF, to its PF.
    pub(super) const PF: Self = Self {
        at: ext::WEFT_R_PF_MBOX as usize,
    };

    /// Returns the end of this PF, to its VF number `n`.
    pub(super) fn vf(n: usize) -> Self {
        Self {
            at: super::layout::vf_reg(n, ext::WEFT_VF_MBOX),
        }
    }

    /// Returns the status register; `None` if the function does not answer.
    fn status(self, regs: &Regs) -> Option<u32> {
        let status = regs.read32(self.at + ext::WEFT_PAIR_STATUS as usize);
        (status != u32::MAX).then_some(status)
    }

    /// Sends a note. Returns false if the previous one was not taken yet; `None` if the function does
    /// not answer.
    pub(super) fn send(self, regs: &Regs, note: &Packed) -> Option<bool> {
        if self.status(regs)? & ext::WEFT_PAIR_BUSY != 0 {
            return Some(false);
        }
        let bytes = note.as_slice();
        regs.write_bytes(self.at + ext::WEFT_PAIR_TX as usize, bytes);
        let ctrl = ext::WEFT_PAIR_SEND | bytes.len() as u32 & ext::WEFT_PAIR_LEN;
        regs.write32(self.at + ext::WEFT_PAIR_CTRL as usize, ctrl);
        Some(true)
    }

    /// Takes the note that has arrived, and returns its length; `None` if there is none. The bytes are
    /// copied before the next note may arrive.
    pub(super) fn take(self, regs: &Regs, buf: &mut [u8; PAIR_BYTES]) -> Option<usize> {
        let status = self.status(regs)?;
        if status & ext::WEFT_PAIR_VALID == 0 {
            return None;
        }
        regs.read_bytes(self.at + ext::WEFT_PAIR_RX as usize, buf);
        regs.write32(self.at + ext::WEFT_PAIR_CTRL as usize, ext::WEFT_PAIR_TAKE);
        Some((status & ext::WEFT_PAIR_LEN) as usize)
    }
}
