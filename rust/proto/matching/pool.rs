// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The list entries of a processing engine, and the order of those in a list.
//!
//! Storage that has grown is in use at once: entries are taken from its end only when none of those that were
//! in use before is free. This file is independent of what entries are compared with.

use super::{
    entry::{Entry, Link},
    free::{Chained, Free},
    request::List,
    storage::{Storage, NONE},
};

/// A list in the order of its entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub first: u32,
    pub last: u32,
    pub count: u32,
}

impl Ends {
    pub const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        count: 0,
    };
}

pub(super) struct Pool<E> {
    pub entries: E,
    free: Free,
}

impl Chained for Entry {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl<E: Storage<Entry>> Pool<E> {
    pub const fn new(entries: E) -> Self {
        Self {
            entries,
            free: Free::ALL,
        }
    }

    /// Returns the number of entries that are free.
    pub fn free(&self) -> u32 {
        self.free.count(&self.entries)
    }

    /// Fills a free entry, and returns its index.
    pub fn take(&mut self, entry: Entry) -> Option<u32> {
        let (at, place) = self.free.take(&mut self.entries)?;
        *place = entry;
        Some(at)
    }

    /// Frees an entry, which is in no list any more.
    pub fn put(&mut self, at: u32) {
        if let Some(entry) = self.free.put(&mut self.entries, at) {
            entry.set_list(List::Free);
        }
    }

    pub fn at(&self, at: u32) -> Option<&Entry> {
        self.entries.at(at)
    }

    pub fn at_mut(&mut self, at: u32) -> Option<&mut Entry> {
        self.entries.at_mut(at)
    }

    pub fn link(&self, at: u32, link: u8) -> Option<Link> {
        self.at(at)?.links.get(usize::from(link)).copied()
    }

    pub fn link_mut(&mut self, at: u32, link: u8) -> Option<&mut Link> {
        self.at_mut(at)?.links.get_mut(usize::from(link))
    }

    /// Puts an entry at the end of a list.
    pub fn append(&mut self, ends: &mut Ends, at: u32) {
        let Some(entry) = self.at_mut(at) else {
            return;
        };
        entry.next = NONE;
        entry.prev = ends.last;
        match self.at_mut(ends.last) {
            Some(last) => last.next = at,
            None => ends.first = at,
        }
        ends.last = at;
        ends.count += 1;
    }

    /// Takes an entry out of a list.
    pub fn cut(&mut self, ends: &mut Ends, at: u32) {
        let Some((next, prev)) = self.at(at).map(|entry| (entry.next, entry.prev)) else {
            return;
        };
        match self.at_mut(prev) {
            Some(entry) => entry.next = next,
            None => ends.first = next,
        }
        match self.at_mut(next) {
            Some(entry) => entry.prev = prev,
            None => ends.last = prev,
        }
        ends.count = ends.count.saturating_sub(1);
    }

    /// Puts an entry at the end of a ring, whose first entry is `first`.
    pub fn join(&mut self, first: u32, at: u32, link: u8) {
        let Some(last) = self.link(first, link).map(|ring| ring.prev) else {
            return;
        };
        if let Some(ring) = self.link_mut(at, link) {
            ring.next = first;
            ring.prev = last;
        }
        if let Some(ring) = self.link_mut(last, link) {
            ring.next = at;
        }
        if let Some(ring) = self.link_mut(first, link) {
            ring.prev = at;
        }
    }

    /// Takes an entry out of its ring.
    pub fn leave(&mut self, at: u32, link: u8) {
        let Some(was) = self.link(at, link) else {
            return;
        };
        if let Some(ring) = self.link_mut(was.prev, link) {
            ring.next = was.next;
        }
        if let Some(ring) = self.link_mut(was.next, link) {
            ring.prev = was.prev;
        }
        if let Some(ring) = self.link_mut(at, link) {
            *ring = Link::NONE;
        }
    }

    /// Makes an entry the only one of a ring.
    pub fn alone(&mut self, at: u32, link: u8, chain: u32) {
        if let Some(ring) = self.link_mut(at, link) {
            *ring = Link {
                next: at,
                prev: at,
                chain,
            };
        }
    }
}
