// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The long messages that a queue pair is receiving, in the order in which they end.
//!
//! This file is independent of how their data come, and of what the peer is told.

use super::{env::Heap, inbound::Inbound, segment::MESSAGES};
use core::ops::{Deref, DerefMut};

/// The long messages that are being received, oldest first. They end in this order.
pub(super) struct Inbounds<H: Heap> {
    messages: [Option<H::Inbound>; MESSAGES],
    first: usize,
    count: usize,
}

impl<H: Heap> Inbounds<H> {
    pub(super) const fn new() -> Self {
        Self {
            messages: [const { None }; MESSAGES],
            first: 0,
            count: 0,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) const fn is_full(&self) -> bool {
        self.count == MESSAGES
    }

    /// Returns whether there are at least two.
    pub(super) const fn are_several(&self) -> bool {
        self.count > 1
    }

    /// Adds a message behind the others. The caller has checked that there is room.
    pub(super) fn push(&mut self, message: H::Inbound) {
        if self.is_full() {
            return;
        }
        let place = self.messages.get_mut((self.first + self.count) % MESSAGES);
        if let Some(place) = place {
            *place = Some(message);
            self.count += 1;
        }
    }

    fn get(&self, n: usize) -> Option<&Inbound> {
        if n >= self.count {
            return None;
        }
        let place = self.messages.get((self.first + n) % MESSAGES)?;
        place.as_ref().map(Deref::deref)
    }

    /// Returns message `n`, counted from the oldest.
    pub(super) fn get_mut(&mut self, n: usize) -> Option<&mut Inbound> {
        if n >= self.count {
            return None;
        }
        let place = self.messages.get_mut((self.first + n) % MESSAGES)?;
        place.as_mut().map(DerefMut::deref_mut)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Inbound> {
        (0..self.count).filter_map(|n| self.get(n))
    }

    /// Returns the message of request `psn`.
    pub(super) fn find(&mut self, psn: u16) -> Option<&mut Inbound> {
        let n = self.iter().position(|message| message.psn == psn)?;
        self.get_mut(n)
    }

    /// Removes and returns the oldest message.
    pub(super) fn pop(&mut self) -> Option<H::Inbound> {
        if self.count == 0 {
            return None;
        }
        let message = self.messages.get_mut(self.first)?.take();
        self.first = (self.first + 1) % MESSAGES;
        self.count -= 1;
        message
    }
}
