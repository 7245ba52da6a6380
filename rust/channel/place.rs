// SPDX-License-Identifier: GPL-2.0

//! The file offsets at which the memory of channels is mapped.
//!
//! All files of a port share one address space. Every channel has its own offsets, so that it can be
//! taken out of all mappings separately.
//!
//! ```text
//!   bits  59..28  id of the channel
//!         27..24  region
//!         23..0   byte in the region
//! ```

use kernel::page::PAGE_SHIFT;

const REGION_SHIFT: u32 = 24;
const CHANNEL_SHIFT: u32 = 28;

/// Parts of a channel that are mapped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Region {
    /// This end's area.
    Area = 1,
    /// The peer's area.
    Window = 2,
    /// `struct weft_chan_status`.
    Status = 3,
    /// `struct weft_chan_user`.
    User = 4,
    /// The page of the peer's doorbell.
    Kick = 5,
}

impl Region {
    /// Returns the file offset, in bytes, at which the region of channel `id` begins.
    pub(super) fn offset(self, id: u32) -> u64 {
        u64::from(id) << CHANNEL_SHIFT | (self as u64) << REGION_SHIFT
    }

    /// Returns [`Region::offset`] in pages.
    pub(super) fn first(self, id: u32) -> u64 {
        self.offset(id) >> PAGE_SHIFT
    }

    /// Returns the region of channel `id`, and the page in it, that is at page `page` of the file.
    pub(super) fn find(id: u32, page: u64) -> Option<(Self, usize)> {
        let pages = 1 << (REGION_SHIFT as usize - PAGE_SHIFT);
        [
            Self::Area,
            Self::Window,
            Self::Status,
            Self::User,
            Self::Kick,
        ]
        .into_iter()
        .find_map(|region| {
            let n = page.checked_sub(region.first(id))?;
            (n < pages).then_some((region, n as usize))
        })
    }
}
