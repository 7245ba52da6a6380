// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The seal of a packet: shows a receiver with the same key which node has sent it, that it was sent to this
//! very receiver, and when in the order of the sender's messages.
//!
//! A tag covers payload, direction, sender, and receiver: not the paths, which nodes on the way write.
//! Against repetition it also covers numbers:
//!
//! - the receiver's *nonce*, which that has drawn when it got its key and has told in its own seals. So what
//!   was sent to another node, or in another life of it, has no valid tag. Questions are for any node,
//!   and have none;
//! - the sender's *nonce*, to which the receiver binds its answer;
//! - a *number* above all that the sender has sent, or has read in a seal, so that of two messages the
//!   receiver knows which is later.
//!
//! This file is independent of when a seal is needed.

use super::super::{
    bytes::{members, Malformed, Member, Reader, Writer},
    mac::{is_same, Mac, Tag, TAG_BYTES},
};

/// Bytes of a seal.
pub const SEAL_BYTES: usize = 24 + TAG_BYTES;

/// First bytes of what is tagged.
const LABEL: [u8; 16] = *b"weft manager 2\0\0";
/// Bytes of the longest text that is tagged: that of any message of a mailbox fits.
const TEXT_BYTES: usize = 256;

/// The node that a packet is sealed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Receiver {
    /// Its hardware id.
    pub hwid: u64,
    /// Its nonce.
    pub nonce: u64,
}

impl Receiver {
    /// Any node.
    pub const ANY: Self = Self { hwid: 0, nonce: 0 };
}

/// Where, and when, a packet was sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// Hardware id of the sender.
    pub hwid: u64,
    /// The sender's nonce, not 0.
    pub nonce: u64,
    /// Above that of all packets that it has sealed before.
    pub number: u64,
}

impl Origin {
    /// Returns the sender, as the receiver of an answer.
    pub fn receiver(&self) -> Receiver {
        Receiver {
            hwid: self.hwid,
            nonce: self.nonce,
        }
    }
}

/// A seal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seal {
    /// Its origin, as it says.
    pub origin: Origin,
    tag: Tag,
}

members! {
    Origin { hwid, nonce, number };
    Seal { origin, tag };
}

impl Seal {
    /// Seals a packet of this direction with this payload; `None`: there is no key, or the payload is too long.
    pub fn new(
        mac: &impl Mac,
        origin: Origin,
        to: Receiver,
        direction: u8,
        payload: &[u8],
    ) -> Option<Self> {
        let tag = tag(mac, &origin, to, direction, payload)?;
        Some(Self { origin, tag })
    }

    /// Returns whether its tag is that of a packet to this receiver.
    pub fn is_valid(&self, mac: &impl Mac, to: Receiver, direction: u8, payload: &[u8]) -> bool {
        tag(mac, &self.origin, to, direction, payload).is_some_and(|tag| is_same(&tag, &self.tag))
    }
}

fn tag(
    mac: &impl Mac,
    origin: &Origin,
    to: Receiver,
    direction: u8,
    payload: &[u8],
) -> Option<Tag> {
    let mut text = [0; TEXT_BYTES];
    let mut w = Writer::new(&mut text);
    w.put(&LABEL);
    w.u8(direction);
    origin.put(&mut w);
    w.u64(to.hwid);
    w.u64(to.nonce);
    w.put(payload);
    let bytes = w.finish()?;
    mac.tag(text.get(..bytes)?)
}
