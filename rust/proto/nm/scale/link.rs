// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A link over which routes are told: one message at a time, repeated until it is acknowledged.
//!
//! While a message is on its way, what is due gathers; so a route that changes often is told less often.
//! This file is independent of what is told.

use super::{area::Key, update::ITEMS};

/// Time after which a message that is not acknowledged is sent again.
pub const AGAIN_MS: u64 = 400;

/// A link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// It is up.
    pub up: bool,
    /// What it costs, as this end sees it; 0: it carries no data.
    pub cost: u32,
    /// The same as the neighbour sees it; `None`: it has said nothing.
    pub theirs: Option<u32>,
    /// Local id of the neighbour, 0: it has none, or has not said.
    pub lid: u32,
    /// Items that are due.
    pub due: u32,
    /// A message is due, also without items.
    pub hello: bool,
    /// The neighbour is to tell all again.
    pub again: bool,
    /// Where the search for items goes on.
    pub place: usize,
    /// The neighbour waits for an acknowledgement.
    pub owes: bool,
    /// Number of the newest message of the neighbour.
    pub seen: u32,
    /// Number of the newest message to it.
    number: u32,
    /// That one is not acknowledged: when it was sent.
    sent: Option<u64>,
    /// It asks the neighbour to tell all again.
    asks: bool,
    /// What is in it: which items, and how many.
    flight: [(u8, Key); ITEMS],
    count: usize,
}

impl Link {
    /// A link that is down.
    pub const DOWN: Self = Self {
        up: false,
        cost: 0,
        theirs: None,
        lid: 0,
        due: 0,
        hello: false,
        again: false,
        place: 0,
        owes: false,
        seen: 0,
        number: 0,
        sent: None,
        asks: false,
        flight: [(0, Key::NONE); ITEMS],
        count: 0,
    };

    /// Returns what the link costs to both ends; `None`: it carries no data.
    pub fn both(&self) -> Option<u32> {
        let theirs = self.theirs.filter(|theirs| *theirs != 0 && self.cost != 0);
        theirs.map(|theirs| theirs.max(self.cost))
    }

    /// Returns whether a message may be sent, and there is a reason to.
    pub fn is_ready(&self) -> bool {
        self.up && self.sent.is_none() && (self.hello || (self.due != 0 && self.theirs.is_some()))
    }

    /// Returns when a message is to be sent again.
    pub fn deadline(&self) -> Option<u64> {
        self.sent.map(|sent| sent + AGAIN_MS)
    }

    /// A message with these items is sent now. Returns its number.
    pub fn send(&mut self, now: u64, items: &[(u8, Key)]) -> u32 {
        self.number = self.number.wrapping_add(1).max(1);
        self.sent = Some(now);
        self.hello = false;
        self.asks = core::mem::take(&mut self.again);
        self.count = 0;
        for (place, item) in self.flight.iter_mut().zip(items) {
            *place = *item;
            self.count += 1;
        }
        self.number
    }

    /// Takes an acknowledgement. Returns the items of the message, if it is the one on its way.
    pub fn acknowledged(&mut self, number: u32) -> Option<([(u8, Key); ITEMS], usize)> {
        if self.sent.is_none() || number != self.number {
            return None;
        }
        self.sent = None;
        Some((self.flight, self.count))
    }

    /// Gives up the message that is on its way, if it is time. Returns its items.
    pub fn lost(&mut self, now: u64) -> Option<([(u8, Key); ITEMS], usize)> {
        self.deadline().filter(|at| now >= *at)?;
        self.sent = None;
        self.hello = true;
        self.again |= self.asks;
        Some((self.flight, self.count))
    }
}
