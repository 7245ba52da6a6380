// SPDX-License-Identifier: GPL-2.0

//! The queue of mailbox messages for the manager, in the order in which they came.

use crate::{
    hw::{MAX_LINKS, MBOX_BYTES},
    sys::queue::Queue,
};
use kernel::prelude::*;

/// The most messages that are queued. Only a node that floods sends more at a time.
pub(super) const DEPTH: usize = 64;
/// The most that come by one link: a neighbour that floods leaves room for others.
const DEPTH_OF_LINK: usize = DEPTH / 2;

#[derive(Clone, Copy)]
struct Message {
    link: usize,
    bytes: usize,
    data: [u8; MBOX_BYTES],
}

/// The queue.
pub(super) struct Inbox {
    queue: Queue<Message>,
    /// How many of the messages have come by each link.
    of_link: [usize; MAX_LINKS],
}

impl Inbox {
    pub(super) fn new() -> Result<Self> {
        let none = Message {
            link: 0,
            bytes: 0,
            data: [0; MBOX_BYTES],
        };
        Ok(Self {
            queue: Queue::new(none, DEPTH)?,
            of_link: [0; MAX_LINKS],
        })
    }

    /// Queues a message. Returns false if there is no room for it.
    pub(super) fn put(&mut self, link: usize, message: &[u8]) -> bool {
        let Some(count) = self.of_link.get_mut(link).filter(|n| **n < DEPTH_OF_LINK) else {
            return false;
        };
        let mut data = [0; MBOX_BYTES];
        let Some(place) = data.get_mut(..message.len()) else {
            return false;
        };
        place.copy_from_slice(message);
        let put = self.queue.put(Message {
            link,
            bytes: message.len(),
            data,
        });
        *count += usize::from(put);
        put
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes the oldest message. Returns the link it came by, and its length.
    pub(super) fn take(&mut self, buf: &mut [u8; MBOX_BYTES]) -> Option<(usize, usize)> {
        let message = self.queue.take()?;
        if let Some(count) = self.of_link.get_mut(message.link) {
            *count = count.saturating_sub(1);
        }
        *buf = message.data;
        Some((message.link, message.bytes))
    }
}
