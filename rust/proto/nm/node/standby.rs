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
        let reign = write.reign;
        let eligible = is_host(reign.master) && self.allowed.has(reign.master);
        if !eligible || reign.master >= self.me.hwid {
            return Err(Taken::Stale);
        }
        if reign == self.me.reign {
            if write.version < self.version {
                return Err(Taken::Stale);
            }
        } else if !reign.beats(&self.me.reign) {
            return Err(Taken::Stale);
        }
        if !fx.admits(&reign) {
            return Err(Taken::Stale);
        }
        let other = reign != self.me.reign;
        if other || write.version != self.version {
            self.table.begin();
        }
        self.me.reign = reign;
        self.version = write.version;
        self.obeyed = Some(reign.master);
        // Every node explores, also one that is told everything before it could.
        if !matches!(self.phase, Phase::Start | Phase::Explore) {
            self.stand_by(now, reign.master, back);
        }
        if other {
            fx.role(Role::Standby, &reign);
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
            Message::Wishes { piece, .. } => {
                let next = self.wishes.take(piece, |_| Ok(()))?;
                if next.is_none() && self.me.wishes != self.wishes.version() {
                    self.me.wishes = self.wishes.version();
                    fx.wishes(self.me.wishes);
                }
            }
            Message::Hierarchy { write, piece } => {
                // Its versions have no order; the master's numbers have, while it reigns.
                let (reign, newest) = self.hierarchy_by;
                if reign == write.reign && newest.wrapping_sub(xid) as i32 > 0 {
                    return Err(Taken::Stale);
                }
                self.hierarchy_by = (write.reign, xid);
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
