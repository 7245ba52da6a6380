// SPDX-License-Identifier: GPL-2.0

//! Doorbells that programs ring by a store to a page that they map. This file must not know which
//! programs.

/// The user doorbells of a port.
pub(crate) trait UserDoorbells: Send + Sync {
    /// Returns the physical address of a page through which a user can ring `doorbell` of the neighbour
    /// on `link`, and do nothing else, by a 32-bit store of the number at the start. `None` if there is
    /// no such page, link or doorbell.
    fn page(&self, link: usize, doorbell: u32) -> Option<u64>;

    /// Returns the physical address of a page through which a user of this host can cause a call of
    /// [`super::Events::kicked`], and do nothing else, and the 32-bit value to store at its start.
    /// `None` if the hardware has no such page.
    fn kick_page(&self) -> Option<(u64, u32)>;

    /// Enables one call of [`super::Events::kicked`], for the first write to that page after this call.
    fn hear_kicks(&self);
}
