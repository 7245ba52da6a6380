// SPDX-License-Identifier: GPL-2.0

//! Doorbells that programs ring by a store to a page that they map. It must not know which programs.

/// Of a port.
pub(crate) trait UserDoorbells: Send + Sync {
    /// Physical address of a page by which a user may ring `doorbell` of the neighbour on `link`,
    /// and nothing else, with a 32-bit store of the number at its start. `None`: no such page left.
    fn page(&self, link: usize, doorbell: u32) -> Option<u64>;

    /// Physical address of a page by which a user of this host has [`super::Events::kicked`] called, and
    /// nothing else, and what to store there, 32 bits at its start. `None`: the hardware has none.
    fn kick_page(&self) -> Option<(u64, u32)>;

    /// Has [`super::Events::kicked`] called for a write to that page after this: it is called once, and
    /// then not before this is.
    fn hear_kicks(&self);
}
