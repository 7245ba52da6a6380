// SPDX-License-Identifier: GPL-2.0

//! The queue of mailbox messages for the manager, in the order in which they came.

use crate::fabric::memory::Memory;
use crate::hw::MBOX_BYTES;
use kernel::prelude::*;

/// The most messages that are queued. Only a node that floods sends more at a time.
pub(super) const DEPTH: usize = 64;

#[derive(Clone, Copy)]
struct Message {
    link: u8,
    bytes: u16,
    data: [u8; MBOX_BYTES],
}

/// The queue.
pub(super) struct Inbox {
    ring: Memory<Message>,
    head: usize,
    count: usize,
}

impl Inbox {
    pub(super) fn new() -> Result<Self> {
        let none = Message {
            link: 0,
            bytes: 0,
            data: [0; MBOX_BYTES],
        };
        Ok(Self {
            ring: Memory::new(none, DEPTH)?,
            head: 0,
            count: 0,
        })
    }

    /// Queues a message; drops it if there is no room.
    pub(super) fn put(&mut self, link: usize, message: &[u8]) {
        let at = (self.head + self.count) % DEPTH;
        let place = self
            .ring
            .as_mut()
            .get_mut(at)
            .filter(|_| self.count < DEPTH);
        let Some(place) = place else {
            return;
        };
        let Some(data) = place.data.get_mut(..message.len()) else {
            return;
        };
        data.copy_from_slice(message);
        place.link = link as u8;
        place.bytes = message.len() as u16;
        self.count += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes the oldest message. Returns the link it came by, and its length.
    pub(super) fn take(&mut self, buf: &mut [u8; MBOX_BYTES]) -> Option<(usize, usize)> {
        self.count = self.count.checked_sub(1)?;
        let message = self.ring.as_ref().get(self.head)?;
        self.head = (self.head + 1) % DEPTH;
        *buf = message.data;
        Some((usize::from(message.link), usize::from(message.bytes)))
    }
}
