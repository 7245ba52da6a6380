// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The persistent list entry cache (PLEC) of Fig. 4b.
//!
//! A line is the list entry that every message of an endpoint matches. Engines ask for lines, and for their end:
//! an entry that is cached changes nothing when it matches, neither itself nor its list, and posts no event.
//! A line is found by the endpoint, which keeps its number. This file is independent of requests' order.

use super::{
    outcome::Cached,
    storage::{Storage, NONE},
};

/// A line of the cache.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    entry: Option<Cached>,
    endpoint: u16,
    /// The next free line.
    next: u32,
}

impl Line {
    /// Initial value for memory.
    pub const EMPTY: Self = Self {
        entry: None,
        endpoint: 0,
        next: NONE,
    };
}

/// The cache.
pub(super) struct Cache<C> {
    lines: C,
    /// The first of the lines that are free again.
    free: u32,
    /// The lines from here on were never used.
    fresh: u32,
    /// The line that is evicted next.
    hand: u32,
}

impl<C: Storage<Line>> Cache<C> {
    pub const fn new(lines: C) -> Self {
        Self {
            lines,
            free: NONE,
            fresh: 0,
            hand: 0,
        }
    }

    /// Returns what a line has.
    pub fn line(&self, line: u32) -> Option<Cached> {
        self.lines.at(line)?.entry
    }

    /// Allocates a line for the entry of an endpoint that has none. Returns its number, and the endpoint whose
    /// line it was. If none is free they are taken in turn.
    pub fn allocate(&mut self, endpoint: u16, entry: Cached) -> Option<(u32, Option<u16>)> {
        let number = if self.free != NONE {
            self.free
        } else if self.fresh < self.lines.count() {
            self.fresh
        } else {
            self.hand
        };
        let line = self.lines.at_mut(number)?;
        let evicted = line.entry.map(|_| line.endpoint);
        if number == self.free {
            self.free = line.next;
        } else if number == self.fresh {
            self.fresh += 1;
        } else {
            self.hand += 1;
            if self.hand >= self.lines.count() {
                self.hand = 0;
            }
        }
        if let Some(line) = self.lines.at_mut(number) {
            *line = Line {
                entry: Some(entry),
                endpoint,
                next: NONE,
            };
        }
        Some((number, evicted))
    }

    /// Frees a line.
    pub fn deallocate(&mut self, number: u32) {
        if let Some(line) = self.lines.at_mut(number) {
            *line = Line {
                next: self.free,
                ..Line::EMPTY
            };
            self.free = number;
        }
    }
}
