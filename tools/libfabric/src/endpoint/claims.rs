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
use super::early::{Search, of};
use super::engine::{Engine, Rings};
use super::operations::{Operation, Receive, What};
use super::told::Report;
use crate::fi::*;
use std::ptr::null_mut;
use weft::matching::{Command, Criteria, Event, Memory};

/// All messages with tags.
const ALL: Criteria = Criteria { bits: TAGGED, ignore: !TAGGED, source: None };

impl<R: Rings> Engine<R> {
    /// Asks for messages that have come early, if it is time.
    pub(super) fn claim_more(&mut self) {
        if self.unposted[WITH_TAG].is_empty() {
            return;
        }
        for _ in 0..self.early.ask() {
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
            self.early.keep(event);
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
        for search in self.early.take_searches() {
            let found = match search.claims || search.drops {
                true => self.early.take(&search.criteria),
                false => self.early.look(&search.criteria),
            };
            match found {
                Some(message) => self.found_early(&search, &message, report),
                // What the driver has may be for a buffer that was posted before.
                None if self.has_unposted(&search.criteria) => {
                    self.fail(search.number, FI_ENOMSG, libc::ENOENT, report);
                }
                None => self.waiting.push_back((search.number, search.command())),
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
