// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The persistent list entry cache (PLEC) of Fig. 4b.
//!
//! A line is the list entry that every message of an endpoint matches. Engines ask for lines, and for their end:
//! an entry that is cached changes nothing when it matches, neither itself nor its list, and posts no event.
//! A line is found by the endpoint, which keeps its number. This file is independent of requests' order.

use super::{
    free::{Chained, Free},
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

impl Chained for Line {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// The cache.
pub(super) struct Cache<C> {
    lines: C,
    free: Free,
    /// The line that is evicted next.
    hand: u32,
}

impl<C: Storage<Line>> Cache<C> {
    pub const fn new(lines: C) -> Self {
        Self {
            lines,
            free: Free::ALL,
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
        let free = self.free.take(&mut self.lines).map(|(number, _)| number);
        let number = free.unwrap_or(self.hand);
        if free.is_none() {
            self.hand += 1;
            if self.hand >= self.lines.count() {
                self.hand = 0;
            }
        }
        let line = self.lines.at_mut(number)?;
        let evicted = line.entry.map(|_| line.endpoint);
        *line = Line {
            entry: Some(entry),
            endpoint,
            next: NONE,
        };
        Some((number, evicted))
    }

    /// Frees a line.
    pub fn deallocate(&mut self, number: u32) {
        if let Some(line) = self.free.put(&mut self.lines, number) {
            line.entry = None;
        }
    }
}
