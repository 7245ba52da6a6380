// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Cuts a message into packets of at most the maximum transmission unit (MTU). This file is independent of what
//! a packet looks like.

/// A packet of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where in the message it begins.
    pub offset: u64,
    /// Its bytes.
    pub length: u32,
    /// It is the first: the one that is matched.
    pub first: bool,
    /// It is the last.
    pub last: bool,
}

/// The packets of a message, in order.
#[derive(Clone, Debug)]
pub struct Packets {
    length: u64,
    mtu: u32,
    next: Option<u64>,
}

impl Packets {
    /// Cuts a message of `length` bytes. A message without bytes is one packet; with an MTU of 0 there is none.
    pub const fn new(length: u64, mtu: u32) -> Self {
        Self {
            length,
            mtu,
            next: if mtu == 0 { None } else { Some(0) },
        }
    }
}

impl Iterator for Packets {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        let offset = self.next?;
        let left = self.length.saturating_sub(offset);
        let length = u32::try_from(left).unwrap_or(u32::MAX).min(self.mtu);
        let last = u64::from(length) == left;
        self.next = (!last).then(|| offset + u64::from(length));
        Some(Packet {
            offset,
            length,
            first: offset == 0,
            last,
        })
    }
}
