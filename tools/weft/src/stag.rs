// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Places in memory, by the STag of a region or window: one's own in lists, the peer's in requests.

/// An element of a scatter/gather list: `length` bytes at the tagged offset `to` of `stag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    /// Tagged offset.
    pub to: u64,
    /// Bytes.
    pub length: u32,
    /// STag.
    pub stag: u32,
}

/// A place in memory of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// STag.
    pub stag: u32,
    /// Tagged offset.
    pub to: u64,
}

impl Remote {
    /// The place `bytes` further on.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Self {
        Remote { to: self.to.wrapping_add(bytes), ..self }
    }
}
