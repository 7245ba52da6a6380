// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The survey of a standby: which nodes are there, with which local ids.
//!
//! The master has just explored, so the standby asks it for its list, and then only those nodes that have
//! changed since the standby knows them. If the master has no list now, the standby asks later; if the
//! master does not answer, the standby asks every node. This file is independent of when a survey is due.

use super::{
    super::{
        ask::{Ask, State},
        member::Member,
        message::{Listed, Listing, Message},
        table::Slot,
    },
    auth::{Return, Sender},
    Effects, Node, Phase, RETRY_MS, SURVEYS, SURVEY_MS,
};

/// How far the list of the master has come.
pub(super) struct List {
    ask: Ask,
    /// Place of the first node that has not come.
    next: u16,
    /// Number of the list.
    found: u32,
}

impl List {
    pub(super) const NONE: Self = Self {
        ask: Ask::DONE,
        next: 0,
        found: 0,
    };
}

impl<M, T, B, A> Node<M, T, B, A>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
{
    /// Runs the survey of a standby, so that its list of members is up to date.
    pub(super) fn survey(&mut self, now: u64, fx: &mut impl Effects) {
        if self.survey.is_some_and(|at| now >= at) {
            self.survey = None;
            self.surveys = true;
            self.members.recall(self.me, self.ports);
            self.list = List {
                ask: Ask::DUE,
                ..List::NONE
            };
        }
        if !self.surveys {
            return;
        }
        if self.list.ask.send(now, &mut self.xids) {
            let request = Message::ListRequest {
                first: self.list.next,
            };
            let to = Return::to(self.to_master);
            self.tell(&to, self.list.ask.xid, &request, fx);
        }
        if !self.list.ask.is_over() {
            return;
        }
        let asked_all = self.members.expand(&self.allowed, &self.doubts);
        self.write_all(now, fx);
        if asked_all {
            self.surveys = false;
            self.found = self.found.wrapping_add(1);
            self.survey_later(now);
            self.surveyed = (self.surveyed + 1).min(SURVEYS);
        }
    }

    /// Schedules a survey if a node was silent; one that stays silent costs less and less. One that is
    /// scheduled for what the master has written meanwhile is sooner.
    pub(super) fn survey_later(&mut self, now: u64) {
        if self.members.all().iter().any(|m| !m.known) {
            let retry = now + (RETRY_MS << self.surveyed);
            self.survey = Some(self.survey.map_or(retry, |at| at.min(retry)));
        }
    }

    /// Returns a part of the list of a master that has nothing left to write.
    pub(super) fn listing(&self, first: u16) -> Listing {
        let mut listing = Listing::new(self.me.mastership, self.found, first);
        if self.phase != Phase::Settled || self.done.is_none() {
            return listing;
        }
        let known = self.members.all().iter().filter(|m| m.known);
        let of = known.clone().count();
        for member in known.skip(usize::from(first)) {
            let info = &member.info;
            let node = Listed {
                hwid: info.hwid,
                life: info.life,
                lid: info.lid,
                change: info.change,
            };
            if !listing.push(node) {
                break;
            }
        }
        if !listing.nodes().is_empty() {
            listing.of = of as u16;
        }
        listing
    }

    /// Takes a part of the master's list.
    pub(super) fn list(
        &mut self,
        now: u64,
        xid: u32,
        listing: &Listing,
        sender: &Sender,
        fx: &mut impl Effects,
    ) {
        let mastership = listing.mastership;
        if !self.surveys || mastership.master != self.lowest || self.list.ask.state != State::Sent {
            return;
        }
        if !self.auth.believes(now, sender, mastership.master, fx) || !self.list.ask.answer(xid) {
            return;
        }
        let first = self.list.next == 0;
        let follows = listing.first == self.list.next
            && (first || listing.found == self.list.found)
            && mastership == self.me.mastership;
        if listing.of == 0 || !follows {
            // The master explores, or writes.
            self.surveys = false;
            self.survey = Some(now + SURVEY_MS);
            return;
        }
        for node in listing.nodes() {
            self.members.listed(mastership, node);
        }
        self.list.found = listing.found;
        self.list.next += listing.nodes().len() as u16;
        if self.list.next < listing.of {
            self.list.ask = Ask::DUE;
        }
    }
}
