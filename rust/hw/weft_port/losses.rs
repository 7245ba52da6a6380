// SPDX-License-Identifier: GPL-2.0

//! Reports of dropped data, by the status of slots and apertures.

use super::{layout::slot_reg, WeftPort};
use crate::{hw::Losses, sys::ext};

impl Losses for WeftPort {
    fn intact(&self, link: usize) -> Result<(), &'static str> {
        let slot = self.chip.regs.read32(slot_reg(link, ext::WEFT_SLOT_STATUS));
        let inbound = self.inbound_status(link);
        if link >= self.links.len() || slot == u32::MAX || inbound == u32::MAX {
            // Whether the port answers is checked elsewhere.
            Ok(())
        } else if slot & ext::WEFT_SLOT_LIVE == 0 {
            Err("the neighbour's memory is out of reach")
        } else if slot & ext::WEFT_SLOT_LOST != 0 {
            Err("data for the neighbour were refused")
        } else if inbound & ext::WEFT_INBOUND_LIVE == 0 {
            Err("this host's memory is out of the neighbour's reach")
        } else if inbound & ext::WEFT_INBOUND_POISONED != 0 {
            Err("data of the neighbour came poisoned")
        } else {
            Ok(())
        }
    }

    fn is_sound(&self, link: usize) -> bool {
        let inbound = self.inbound_status(link);
        // If the port does not answer, there are no writes through it, either.
        inbound == u32::MAX || inbound & ext::WEFT_INBOUND_POISONED == 0
    }

    fn failed_loads(&self) -> Option<u32> {
        let reg = ext::WEFT_R_COUNTERS as usize + 8 * ext::WEFT_CNT_OUT_ONES as usize;
        let count = self.chip.regs.read32(reg);
        // The count itself never becomes so large.
        (count != u32::MAX).then_some(count)
    }
}
