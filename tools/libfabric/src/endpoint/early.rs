// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages with tags that have come early, while receives wait for list entries: the driver does not know these
//! receives, so the provider asks it for such messages, and finds their receives itself.
//!
//! What the driver has no posted buffer for it puts into its unexpected list. A claim takes the oldest one out, and leaves
//! its bytes where they are until the receive is known. So messages are in their order: those that were claimed are older than
//! those that the driver has. And no receive that waits fits a message that was claimed, as each is compared with
//! all of the other kind when it comes. No buffer is given to the driver while claims are under way, as one may have taken
//! what that buffer is for.
//!
//! The driver tells of no message that has come early: while receives wait it is asked again each millisecond.

use super::bits::{TAGGED, WITH_TAG};
use super::engine::{Engine, Rings};
use super::operations::{Operation, Receive, What};
use super::told::Report;
use crate::fi::*;
use std::collections::VecDeque;
use std::ptr::null_mut;
use std::time::{Duration, Instant};
use weft::matching::{Command, Criteria, Event, Memory};

/// How long the driver is not asked again when it had less than it was asked for.
const AGAIN: Duration = Duration::from_millis(1);
/// How many claims are under way at most.
const MOST: usize = 64;

/// All messages with tags.
const ALL: Criteria = Criteria { bits: TAGGED, ignore: !TAGGED, source: None };

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
    pub(super) next: Option<Instant>,
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

    fn find(&self, criteria: &Criteria) -> Option<usize> {
        self.messages.iter().position(|message| of(message).overlaps(criteria))
    }

    /// The oldest message that is meant, which is taken out.
    pub fn take(&mut self, criteria: &Criteria) -> Option<Event> {
        self.find(criteria).and_then(|at| self.messages.remove(at))
    }

    /// Counts an answer; behind the last, says when to ask again.
    fn answered(&mut self, found: bool) {
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
fn of(message: &Event) -> Criteria {
    Criteria { bits: message.bits, ignore: 0, source: Some(message.source) }
}

impl<R: Rings> Engine<R> {
    /// Asks for messages that have come early, if it is time.
    pub(super) fn claim_more(&mut self) {
        let early = &mut self.early;
        let due = early.next.is_none_or(|next| next <= Instant::now());
        if self.unposted[WITH_TAG].is_empty() || early.asked > 0 || !due {
            return;
        }
        early.batch = early.batch.max(1);
        (early.asked, early.found) = (early.batch, 0);
        for _ in 0..early.batch {
            let number = self.operations.insert(Operation {
                context: null_mut(),
                kind: FI_TAGGED,
                telling: false.into(),
                to: None,
                what: What::Early,
            });
            self.waiting.push_back((number, Command::claim(&ALL, number)));
        }
    }

    /// The driver has answered a claim.
    pub(super) fn claimed(&mut self, event: &Event) {
        let found = event.status == 0;
        self.early.answered(found);
        if !found {
            self.operations.remove(event.context);
            return;
        }
        let waiting = &mut self.unposted[WITH_TAG];
        let fits = waiting.iter().position(|(_, append)| append.criteria().overlaps(&of(event)));
        let Some((number, append)) = fits.and_then(|at| waiting.remove(at)) else {
            self.early.messages.push_back(*event);
            return;
        };
        // It is a buffer for one message, and needs no entry any more.
        let Some(mut operation) = self.operations.remove(number) else { return };
        if let What::Receive(Receive { append, .. }) = &mut operation.what {
            *append = None;
        }
        self.buffers = self.buffers.saturating_sub(1);
        self.receive_early(event, operation, append.memory());
    }

    /// Has an early message received. The driver tells of it by the number of the claim.
    pub(super) fn receive_early(&mut self, message: &Event, by: Operation, to: &Memory) {
        let number = message.context;
        if let Some(operation) = self.operations.get(number) {
            *operation = by;
        }
        self.waiting.push_back((number, Command::receive(to, number)));
    }

    /// Answers searches, or gives them to the driver, when it is known what was claimed.
    pub(super) fn answer_searches(&mut self, report: &mut impl Report) {
        if self.early.is_asking() {
            return;
        }
        for search in std::mem::take(&mut self.early.searches) {
            let Some(at) = self.early.find(&search.criteria) else {
                match self.has_unposted(&search.criteria) {
                    // What the driver has may be for a buffer that was posted before.
                    true => self.fail(search.number, FI_ENOMSG, libc::ENOENT, report),
                    false => self.waiting.push_back((search.number, search.command())),
                }
                continue;
            };
            let keeps = !search.claims && !search.drops;
            let message = match keeps {
                true => self.early.messages.get(at).copied(),
                false => self.early.messages.remove(at),
            };
            if let Some(message) = message {
                self.found_early(&search, &message, report);
            }
        }
    }

    /// A search has found a message that was claimed.
    fn found_early(&mut self, search: &Search, message: &Event, report: &mut impl Report) {
        if search.claims {
            // The driver knows it by the number of its own claim.
            let Some(operation) = self.operations.remove(search.number) else { return };
            if let Some(claim) = self.operations.get(message.context) {
                *claim = operation;
            }
            return self.commanded(message, report);
        }
        self.commanded(&Event { context: search.number, ..*message }, report);
        if let Some(claim) = self.operations.get(message.context).filter(|_| search.drops) {
            claim.what = What::Over;
            let drop = Command::receive(&Memory::NONE, message.context);
            self.waiting.push_back((message.context, drop));
        }
    }
}
