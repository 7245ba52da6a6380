// SPDX-License-Identifier: GPL-2.0

//! Byte counts and speed limits of links. They exist once for each link, so only the first function of
//! the port's endpoint has them; each function tells what is stored by its own slots. This file must not know
//! why a link is limited.

use super::{layout::link_reg, WeftPort};
use crate::{
    hw::Rates,
    sys::{errno::EOPNOTSUPP, ext},
};
use kernel::prelude::*;

/// The most that is told at once.
const MOST_KIB: u64 = (ext::WEFT_STORED_KIB >> ext::WEFT_STORED_KIB.trailing_zeros()) as u64;

/// Returns `value`, shifted into the field `mask` of a register.
fn place(value: u32, mask: u32) -> u32 {
    value << mask.trailing_zeros() & mask
}

impl WeftPort {
    fn counts_links(&self) -> bool {
        let cap = self.chip.read(ext::WEFT_R_CAP1);
        // All ones: the port does not answer.
        cap != u32::MAX && cap & ext::WEFT_CAP1_LINK_BYTES != 0
    }
}

impl Rates for WeftPort {
    fn traffic(&self, link: usize) -> Option<[u64; 2]> {
        if link >= self.chip.caps.links || !self.counts_links() {
            return None;
        }
        let both = [ext::WEFT_LINK_OUT, ext::WEFT_LINK_IN];
        Some(both.map(|reg| self.counter64(link_reg(link, reg))))
    }

    fn is_told(&self) -> bool {
        self.chip.caps.is_told
    }

    fn tell_stored(&self, link: usize, bytes: u64) {
        // Of what is more, which takes a gen6 x32 link 60 ms, the rest is not counted: it is full anyway.
        let kib = bytes.div_ceil(1 << 10).min(MOST_KIB) as u32;
        let what = place(link as u32, ext::WEFT_STORED_SLOT) | place(kib, ext::WEFT_STORED_KIB);
        self.chip.regs.write32(ext::WEFT_R_STORED as usize, what);
    }

    fn set_target(&self, link: usize, speed: u32, width: u32) -> Result {
        if link >= self.chip.caps.links || !self.counts_links() {
            return Err(EOPNOTSUPP.into());
        }
        let ctrl =
            place(speed, ext::WEFT_LINK_TARGET_SPEED) | place(width, ext::WEFT_LINK_TARGET_WIDTH);
        let reg = link_reg(link, ext::WEFT_LINK_CTRL);
        self.chip.regs.write32(reg, ctrl);
        Ok(())
    }
}
