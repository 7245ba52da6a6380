// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The nodes that a master has found, as many at a time as a message carries.
//!
//! A standby that knows the ports of a node needs only its local id, and whether the ports have changed.
//! This file is independent of how a standby asks, and of what it makes of the answer.

use super::super::{
    super::bytes::{check, members, Malformed, Member, Reader, Writer},
    mastership::Mastership,
    packet::MAX_PAYLOAD,
};

/// Bytes before the nodes: type, number, and the head of [`Listing`].
const HEAD: usize = 5 + 12 + 4 + 2 + 2;
/// Bytes of [`Listed`].
const LISTED_BYTES: usize = 20;
/// Number of nodes that fit into one message.
pub const LISTED: usize = (MAX_PAYLOAD - HEAD) / LISTED_BYTES;

/// A node, as the master has found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Listed {
    /// Its hardware id.
    pub hwid: u64,
    /// Its incarnation.
    pub life: u32,
    /// Its local id.
    pub lid: u32,
    /// Number of the last change of its ports.
    pub change: u32,
}

/// A part of the master's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// The mastership of the master.
    pub mastership: Mastership,
    /// Another list has another number.
    pub found: u32,
    /// Number of nodes in the list; 0: there is none now.
    pub of: u16,
    /// Place of the first one here.
    pub first: u16,
    nodes: [Listed; LISTED],
    len: u8,
}

impl Listing {
    /// Creates a part without nodes, from place `first` on, of the list with this number.
    pub fn new(mastership: Mastership, found: u32, first: u16) -> Self {
        Self {
            mastership,
            found,
            first,
            ..Self::default()
        }
    }

    /// Appends a node. Returns whether there was room.
    pub fn push(&mut self, node: Listed) -> bool {
        let place = self.nodes.get_mut(usize::from(self.len));
        let room = place.map(|place| *place = node).is_some();
        self.len += u8::from(room);
        room
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[Listed] {
        self.nodes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

members! {
    Listed { hwid, life, lid, change } if |node| node.hwid != 0;
}

impl Member<'_> for Listing {
    fn put(&self, w: &mut Writer<'_>) {
        self.mastership.put(w);
        w.u32(self.found);
        w.u16(self.of);
        w.u16(self.first);
        for node in self.nodes() {
            node.put(w);
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut listing = Self {
            mastership: Mastership::get(r)?,
            found: r.u32()?,
            of: r.u16()?,
            first: r.u16()?,
            ..Self::default()
        };
        while !r.rest().is_empty() {
            check(listing.push(Listed::get(r)?))?;
        }
        let end = usize::from(listing.first) + listing.nodes().len();
        // A part without nodes would be asked for for ever.
        let has = !listing.nodes().is_empty() && end <= usize::from(listing.of);
        check(has || listing.of == 0)?;
        Ok(listing)
    }
}
