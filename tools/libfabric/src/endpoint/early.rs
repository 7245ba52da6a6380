// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages that were claimed before their receive was known, and searches that wait until it is known what was claimed.
//! Why there are any is in `claims.rs`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use weft::matching::{Command, Criteria, Event};

/// How long the driver is not asked again when it had less than it was asked for.
const AGAIN: Duration = Duration::from_millis(1);
/// How many claims are under way at most.
const MOST: usize = 64;

/// A search that waits until it is known what was claimed.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    pub number: u64,
    pub criteria: Criteria,
    pub claims: bool,
    pub drops: bool,
}

impl Search {
    pub fn command(&self) -> Command {
        match (self.claims, self.drops) {
            (_, true) => Command::discard(&self.criteria, self.number),
            (true, _) => Command::claim(&self.criteria, self.number),
            _ => Command::search(&self.criteria, self.number),
        }
    }
}

/// What was claimed.
#[derive(Debug, Default)]
pub struct Early {
    /// Messages without a receive, the oldest first: what the driver has told of them, with the number of the claim.
    messages: VecDeque<Event>,
    /// Claims that the driver has not answered,
    asked: usize,
    /// of so many,
    batch: usize,
    /// and how many have found a message.
    found: usize,
    /// When it is asked again.
    pub next: Option<Instant>,
    searches: Vec<Search>,
}

impl Early {
    /// Whether the driver has, or may have, taken a message out of its list.
    pub fn is_asking(&self) -> bool {
        self.asked > 0
    }

    /// Whether a search is not to go to the driver at once.
    pub fn has_any(&self) -> bool {
        self.asked > 0 || !self.messages.is_empty()
    }

    pub fn has_searches(&self) -> bool {
        !self.searches.is_empty()
    }

    pub fn search(&mut self, search: Search) {
        self.searches.push(search);
    }

    pub fn take_searches(&mut self) -> Vec<Search> {
        std::mem::take(&mut self.searches)
    }

    /// Returns how many messages are to be asked for now, and takes this for begun.
    pub fn ask(&mut self) -> usize {
        if self.asked > 0 || self.next.is_some_and(|next| next > Instant::now()) {
            return 0;
        }
        self.batch = self.batch.max(1);
        (self.asked, self.found) = (self.batch, 0);
        self.batch
    }

    /// Keeps a message, which is the youngest.
    pub fn keep(&mut self, message: &Event) {
        self.messages.push_back(*message);
    }

    /// The oldest message that is meant.
    pub fn look(&self, criteria: &Criteria) -> Option<Event> {
        self.find(criteria).and_then(|at| self.messages.get(at)).copied()
    }

    fn find(&self, criteria: &Criteria) -> Option<usize> {
        self.messages.iter().position(|message| of(message).overlaps(criteria))
    }

    /// The same, which is taken out.
    pub fn take(&mut self, criteria: &Criteria) -> Option<Event> {
        self.find(criteria).and_then(|at| self.messages.remove(at))
    }

    /// Counts an answer; behind the last, says when to ask again.
    pub fn answered(&mut self, found: bool) {
        self.asked = self.asked.saturating_sub(1);
        self.found += usize::from(found);
        if self.asked > 0 {
            return;
        }
        let all = self.found >= self.batch;
        (self.batch, self.next) = match all {
            true => (MOST.min(self.batch * 2), None),
            false => (1, Some(Instant::now() + AGAIN)),
        };
    }
}

/// What says that a message is meant, and no other one.
pub fn of(message: &Event) -> Criteria {
    Criteria { bits: message.bits, ignore: 0, source: Some(message.source) }
}
