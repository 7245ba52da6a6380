// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Entries of tables, and the writes that turn the present entries into the new ones.

/// An entry of a table of the fabric, in the order in which entries are added: those that start traffic
/// come last, so that traffic never meets an incomplete route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Entry {
    /// VP table of a switch's port: this plane belongs to this hierarchy.
    Plane {
        /// Hardware id of the switch.
        switch: u64,
        /// Number of the port.
        port: u8,
        /// Number of the plane of its link.
        vp: u8,
        /// Number of the hierarchy.
        vh: u16,
    },
    /// Address translation and protection table of a root complex: this local id may come in by this
    /// plane of this link, to what is open to it.
    Open {
        /// Hardware id of the root complex.
        root: u64,
        /// Local id that may come in.
        from: u32,
        /// Number of the link.
        link: u8,
        /// Number of the plane.
        vp: u8,
    },
    /// Route table of a root complex: its own traffic for this local id leaves by this link.
    Own {
        /// Hardware id of the root complex.
        root: u64,
        /// Local id of the destination.
        lid: u32,
        /// Number of the link.
        link: u8,
        /// Number of the plane.
        vp: u8,
    },
    /// Base function of an endpoint: this virtual endpoint, with all of its functions, is on this
    /// plane of its link, and works for this root complex.
    Base {
        /// Hardware id of the endpoint.
        endpoint: u64,
        /// Number of the virtual endpoint.
        ve: u8,
        /// Number of the plane.
        vp: u8,
        /// Local id of the root complex.
        root: u32,
    },
}

impl Entry {
    /// Initial value for memory.
    pub const NONE: Self = Self::Plane {
        switch: 0,
        port: 0,
        vp: 0,
        vh: 0,
    };

    /// Returns the hardware id of the component that has the table.
    pub fn component(&self) -> u64 {
        match *self {
            Self::Plane { switch, .. } => switch,
            Self::Open { root, .. } | Self::Own { root, .. } => root,
            Self::Base { endpoint, .. } => endpoint,
        }
    }
}

/// A write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Removes an entry.
    Take(Entry),
    /// Adds an entry.
    Put(Entry),
}

impl Change {
    /// Returns the entry that is added or removed.
    pub fn entry(&self) -> &Entry {
        match self {
            Self::Take(entry) | Self::Put(entry) => entry,
        }
    }
}

/// Returns the writes that turn the entries `are` into the entries `to_be`, in order; both are sorted.
/// First the entries that are not needed any more are removed, beginning with those that start traffic.
/// An entry that is on both sides is not written.
pub fn changes<'a>(are: &'a [Entry], to_be: &'a [Entry]) -> impl Iterator<Item = Change> + 'a {
    let not_in = |all: &'a [Entry]| move |e: &&Entry| all.binary_search(e).is_err();
    let takes = are
        .iter()
        .rev()
        .filter(not_in(to_be))
        .map(|e| Change::Take(*e));
    takes.chain(to_be.iter().filter(not_in(are)).map(|e| Change::Put(*e)))
}
