// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A node that obeys: whose writes it takes, what it does of them, and whether its master is there.
//!
//! This file must not know how a master comes by what it writes.

use super::{
    super::{
        ask::{Ask, State},
        kind::is_host,
        member::Member,
        message::{Differ, Message, Taken, Write},
        path::Path,
        table::Slot,
    },
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
    /// Whether the writer of a write is to be obeyed.
    pub(super) fn obey(
        &mut self,
        now: u64,
        write: &Write,
        back: Path,
        fx: &mut impl Effects,
    ) -> Result<(), Taken> {
        let mastership = write.mastership;
        let eligible = is_host(mastership.master) && self.allowed.has(mastership.master);
        if !eligible || mastership.master >= self.me.hwid {
            return Err(Taken::Stale);
        }
        if mastership == self.me.mastership {
            if write.version < self.version {
                return Err(Taken::Stale);
            }
        } else if !mastership.beats(&self.me.mastership) {
            return Err(Taken::Stale);
        }
        if !fx.admits(&mastership) {
            return Err(Taken::Stale);
        }
        let other = mastership != self.me.mastership;
        if other || write.version != self.version {
            self.table.begin();
        }
        self.me.mastership = mastership;
        self.version = write.version;
        self.obeyed = Some(mastership.master);
        // Every node explores, also one that is told everything before it could.
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

    /// Does what a write of the master says.
    pub(super) fn written(
        &mut self,
        now: u64,
        xid: u32,
        message: &Message<'_>,
        fx: &mut impl Effects,
    ) -> Result<Differ, Taken> {
        // What it is itself says nothing of the others.
        let of_others = !matches!(message, Message::Hierarchy { .. });
        if of_others && self.phase == Phase::Standby && is_host(self.me.hwid) {
            self.survey = Some(now + SURVEY_MS);
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
                    return Ok(self.table.differ());
                }
            }
            Message::Commit { hops, .. } => self.table.commit(*hops, fx)?,
            Message::Rest { on, .. } => fx.rest(*on),
            Message::Assignments { piece, .. } => {
                let next = self.assignments.take(piece, |_| Ok(()))?;
                if next.is_none() && self.me.assignments != self.assignments.version() {
                    self.me.assignments = self.assignments.version();
                    fx.assignments(self.me.assignments);
                }
            }
            Message::Hierarchy { write, piece } => {
                // Its versions have no order; the master's numbers have, while it is the master.
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

    /// Asks the master whether it is there, or tells it that ports have changed.
    pub(super) fn watch(&mut self, now: u64, fx: &mut impl Effects) {
        if self.poll.state == State::Done && now >= self.poll_at {
            self.poll = Ask::DUE;
        }
        if self.poll.send(now, &mut self.xids) {
            let poll = Message::Poll {
                info: self.me,
                changed: self.changed,
            };
            self.tell(self.to_master, self.poll.xid, &poll, fx);
        }
        if self.poll.state == State::Silent {
            self.explore(now);
        }
    }
}
