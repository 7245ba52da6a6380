// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Entries of tables, and what has to be written so that those that are become those that are to be.

/// An entry of a table of the fabric. In the order in which they are put: what starts traffic comes
/// last, so that it never meets a way that is half there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Entry {
    /// VP table of a switch's port: this plane belongs to this hierarchy.
    Plane {
        /// Hardware id.
        switch: u64,
        /// Which port.
        port: u8,
        /// Which plane of its link.
        vp: u8,
        /// Which hierarchy.
        vh: u16,
    },
    /// Address translation and protection table of a root complex: this local id may come in by this
    /// plane of this link, to what is open to it.
    Open {
        /// Hardware id.
        root: u64,
        /// Local id.
        from: u32,
        /// By which link.
        link: u8,
        /// On which plane.
        vp: u8,
    },
    /// Route table of a root complex: its own traffic for this local id leaves by this link.
    Own {
        /// Hardware id.
        root: u64,
        /// Local id.
        lid: u32,
        /// Which link.
        link: u8,
        /// On which plane.
        vp: u8,
    },
    /// Base function of an endpoint: this virtual endpoint, with all of its functions, is on this
    /// plane of its link, and works for this root complex.
    Base {
        /// Hardware id.
        endpoint: u64,
        /// Which virtual endpoint.
        ve: u8,
        /// On which plane.
        vp: u8,
        /// Local id of the root complex.
        root: u32,
    },
}

impl Entry {
    /// For memory that was not used yet.
    pub const NONE: Self = Self::Plane {
        switch: 0,
        port: 0,
        vp: 0,
        vh: 0,
    };

    /// Hardware id of the component whose table it is in.
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
    /// An entry is taken away.
    Take(Entry),
    /// An entry is put.
    Put(Entry),
}

impl Change {
    /// The entry that comes or goes.
    pub fn entry(&self) -> &Entry {
        match self {
            Self::Take(entry) | Self::Put(entry) => entry,
        }
    }
}

/// The writes that make of the entries that are those that are to be, in this order; both are sorted.
/// First all that is not to be any more is taken away, beginning with what starts traffic. An entry
/// that is on both sides is not written.
pub fn changes<'a>(are: &'a [Entry], to_be: &'a [Entry]) -> impl Iterator<Item = Change> + 'a {
    let not_in = |all: &'a [Entry]| move |e: &&Entry| all.binary_search(e).is_err();
    let takes = are
        .iter()
        .rev()
        .filter(not_in(to_be))
        .map(|e| Change::Take(*e));
    takes.chain(to_be.iter().filter(not_in(are)).map(|e| Change::Put(*e)))
}
