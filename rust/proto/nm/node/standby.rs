// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A node that obeys a master: it checks the mastership of writes, carries them out, and polls its
//! master.
//!
//! This file is independent of how a master decides what to write.

use super::{
    super::{
        ask::{Ask, State},
        kind::is_host,
        member::Member,
        message::{Differ, Message, Taken, Write},
        order::is_later,
        path::Path,
        table::Slot,
    },
    auth::{Return, Sender},
    hand::keep,
    Effects, Node, Phase, Role, SURVEY_MS,
};

impl<M, T, B, A> Node<M, T, B, A>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
{
    /// Checks whether the writer is to be obeyed; [`Taken::Stale`] if not. If so, becomes its standby.
    pub(super) fn obey(
        &mut self,
        now: u64,
        write: &Write,
        back: Path,
        sender: &Sender,
        fx: &mut impl Effects,
    ) -> Result<(), Taken> {
        let mastership = write.mastership;
        let eligible = is_host(mastership.master) && self.allowed.has(mastership.master);
        if !eligible || mastership.master >= self.me.hwid {
            return Err(Taken::Stale);
        }
        if mastership == self.me.mastership {
            if write.version != self.version && !is_later(write.version, self.version) {
                return Err(Taken::Stale);
            }
        } else if !mastership.beats(&self.me.mastership) {
            return Err(Taken::Stale);
        }
        if !self.auth.believes(now, sender, mastership.master, fx) {
            return Err(Taken::Stale);
        }
        if self.auth.is_late(sender) {
            // Another master has written since: one that explores learns the numbers.
            return Err(Taken::Stale);
        }
        let attested = self
            .attest
            .admits(now, mastership.master, &back, &self.allowed, fx);
        if !attested || !fx.admits(&mastership) {
            return Err(Taken::Stale);
        }
        self.auth.obeyed(sender);
        let other = mastership != self.me.mastership;
        if other || write.version != self.version {
            self.table.begin();
        }
        self.me.mastership = mastership;
        self.version = write.version;
        self.obeyed = Some(mastership.master);
        // Every host explores, even if a master writes to it before it has done so.
        if !matches!(self.phase, Phase::Start | Phase::Explore) {
            self.stand_by(now, mastership.master, back);
        }
        if other {
            fx.role(Role::Standby, &mastership);
        }
        Ok(())
    }

    pub(super) fn stand_by(&mut self, now: u64, lowest: u64, path: Path) {
        if self.phase != Phase::Standby || self.lowest != lowest {
            self.poll = Ask::DUE;
            self.poll_at = now;
            self.heard = false;
        }
        if self.phase != Phase::Standby {
            self.survey = None;
            self.surveys = false;
        }
        self.phase = Phase::Standby;
        self.dirty = false;
        self.again = None;
        self.done = None;
        self.lowest = lowest;
        self.to_master = path;
    }

    /// Carries out a write of the master.
    pub(super) fn written(
        &mut self,
        now: u64,
        xid: u32,
        message: &Message<'_>,
        fx: &mut impl Effects,
    ) -> Result<Differ, Taken> {
        // The node's own hierarchy says nothing about other nodes.
        let of_others = !matches!(message, Message::Hierarchy { .. });
        if of_others && self.phase == Phase::Standby && is_host(self.me.hwid) {
            self.survey = Some(now + SURVEY_MS);
            self.surveyed = 0;
        }
        match message {
            Message::Assign { lid, next_lid, .. } => {
                self.me.next_lid = self.me.next_lid.max(*next_lid);
                if self.me.lid != *lid {
                    self.me.lid = *lid;
                    fx.lid(*lid);
                }
            }
            Message::Stage {
                piece, of, runs, ..
            } => {
                if self.table.stage(*piece, *of, runs)? {
                    return Ok(self.table.differ(&self.ports));
                }
            }
            Message::Commit { hops, .. } => self.table.commit(*hops, fx)?,
            Message::Rest { on, .. } => {
                fx.rest(*on);
                self.resting = None;
            }
            Message::Assignments { piece, .. } => {
                let next = self.assignments.take(piece, |_| Ok(()))?;
                if next.is_none() && self.me.assignments != self.assignments.version() {
                    self.me.assignments = self.assignments.version();
                    fx.assignments(self.me.assignments);
                }
            }
            Message::Hierarchy { write, piece } => {
                // Versions of a hierarchy have no order; the numbers of one mastership have.
                let (mastership, newest) = self.hierarchy_by;
                if mastership == write.mastership && newest.wrapping_sub(xid) as i32 > 0 {
                    return Err(Taken::Stale);
                }
                self.hierarchy_by = (write.mastership, xid);
                keep(&mut self.hierarchy, piece, fx)?;
            }
            _ => {}
        }
        Ok(Differ::default())
    }

    /// Polls the master, or tells it that ports have changed. Explores if it is silent.
    pub(super) fn watch(&mut self, now: u64, fx: &mut impl Effects) {
        if self.poll.state == State::Done && now >= self.poll_at {
            self.poll = Ask::DUE;
        }
        if self.poll.send(now, &mut self.xids) {
            let poll = Message::Poll {
                info: self.me,
                changed: self.changed,
            };
            self.tell(&Return::to(self.to_master), self.poll.xid, &poll, fx);
        }
        if self.poll.state == State::Silent {
            self.explore(now);
        }
    }
}
