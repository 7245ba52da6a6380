// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Areas: sets of neighbouring nodes whose local ids begin with the same bits.
//!
//! A node has a route to each node of its own area, and one to each other area. This file is independent
//! of how areas are formed, and of how routes are found.

/// Bits of a local id that are not those of its area.
pub const AREA_BITS: u32 = 8;
/// Local ids of an area.
pub const AREA_LIDS: u32 = 1 << AREA_BITS;
/// The highest area.
pub const MAX_AREA: u32 = (super::super::lid::MAX_LID >> AREA_BITS) - 1;

/// Set in the key of an area.
const AREA: u32 = 1 << 31;

/// Returns the area of a local id.
pub const fn area(lid: u32) -> u32 {
    lid >> AREA_BITS
}

/// Returns the lowest local id of an area; 0 is none.
pub fn first(area: u32) -> u32 {
    (area << AREA_BITS).max(1)
}

/// Returns the highest local id of an area.
pub fn last(area: u32) -> u32 {
    (area << AREA_BITS) | (AREA_LIDS - 1)
}

/// A destination: a node or an area. Nodes come first, in the order of their local ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Key(u32);

impl Key {
    /// No destination.
    pub const NONE: Self = Self(0);

    /// The node with a local id.
    pub fn node(lid: u32) -> Self {
        Self(lid)
    }

    /// All nodes of an area.
    pub const fn area(area: u32) -> Self {
        Self(AREA | area)
    }

    /// Returns the key with this number in a message, if there is one.
    pub fn of(number: u32) -> Option<Self> {
        let key = Self(number);
        let valid = match key.is_area() {
            true => number ^ AREA <= MAX_AREA,
            false => number != 0 && area(number) <= MAX_AREA,
        };
        valid.then_some(key)
    }

    /// Returns the number in a message.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Returns whether it is an area.
    pub fn is_area(self) -> bool {
        self.0 & AREA != 0
    }

    /// Returns the area that it is, or is in.
    pub fn its_area(self) -> u32 {
        match self.is_area() {
            true => self.0 ^ AREA,
            false => area(self.0),
        }
    }

    /// Returns the lowest and the highest local id that it stands for.
    pub fn lids(self) -> (u32, u32) {
        match self.is_area() {
            true => (first(self.its_area()), last(self.its_area())),
            false => (self.0, self.0),
        }
    }
}
