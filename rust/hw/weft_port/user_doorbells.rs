// SPDX-License-Identifier: GPL-2.0

//! Doorbell pages for programs: one for each link, and one for programs of this host to ring for the
//! driver.

use super::{layout, WeftPort};
use crate::{hw::UserDoorbells, sys::ext};

impl UserDoorbells for WeftPort {
    fn page(&self, link: usize, doorbell: u32) -> Option<u64> {
        if link >= self.links.len() || doorbell >= ext::WEFT_DOORBELLS {
            return None;
        }
        let _tables = self.locks.tables.lock();
        let page = layout::user_page(self.chip.caps.links, link);
        self.set_page(page, link, 1 << doorbell);
        Some(self.control.start() + Self::page_offset(page) as u64)
    }

    fn kick_page(&self) -> Option<(u64, u32)> {
        let links = self.chip.caps.links;
        let at = Self::page_offset(layout::kick_page(links)) as u64;
        self.chip
            .caps
            .has_kick
            .then(|| (self.control.start() + at, layout::kick(links)))
    }

    fn hear_kicks(&self) {
        let chip = &self.chip;
        if chip.caps.has_kick {
            let kick = layout::kick(chip.caps.links);
            chip.write(ext::WEFT_R_DB_PENDING, 1 << kick);
            chip.limits.unmask(&chip.regs, kick);
        }
    }
}
