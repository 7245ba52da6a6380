// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Exploration, and election of the master.
//!
//! This file is independent of what a master does.

use super::{
    super::{
        ask::Ask, kind::is_host, mastership::Mastership, member::Member, order, path::Path,
        table::Slot,
    },
    Effects, Node, Phase, Role, There, RETRY_MS, SURVEY_MS,
};

impl<M, T, B, A> Node<M, T, B, A>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
{
    /// Begins an exploration, if the node has a host. A node without one polls the master that it had
    /// from time to time: the master may be there again, without knowing that it was away.
    pub(super) fn explore(&mut self, now: u64) {
        self.phase = if is_host(self.me.hwid) {
            self.members.begin(self.me, self.ports);
            Phase::Explore
        } else {
            Phase::Idle
        };
        self.survey = None;
        self.surveys = false;
        self.dirty = false;
        self.again = None;
        self.obeyed = None;
        self.poll = Ask::DONE;
        self.poll_at = now + RETRY_MS;
    }

    /// Elects the master when all nodes have been asked: the host with the lowest id.
    pub(super) fn elect(&mut self, now: u64, fx: &mut impl Effects) {
        if self.dirty || self.doubts.look(self.members.all()) {
            self.explore(now);
            return;
        }
        let me = self.me.hwid;
        let (lowest, path) = match self.lowest_attested(now, fx) {
            Some(found) => found,
            None => return self.explore_later(now),
        };
        self.members.join();
        self.found = self.found.wrapping_add(1);
        let master = self.obeyed.filter(|master| *master < lowest);
        if master.is_some() {
            // A master with a lower id writes here, though it has not answered: its writes name the
            // path.
            self.explore_later(now);
            return;
        }
        if lowest != me {
            let written = self.obeyed.is_some();
            self.stand_by(now, lowest, path);
            // What was found may be older than what the master has written, and a node that had no time to
            // answer is not missing for good.
            self.surveyed = 0;
            match written {
                true => self.survey = Some(now + SURVEY_MS),
                false => self.survey_later(now),
            }
            self.poll = Ask::DUE;
            fx.role(Role::Standby, &self.me.mastership);
            return;
        }
        self.lead(now, fx);
    }

    /// Returns the host with the lowest id, and the path to it. A host that the fabric does not attest
    /// has not answered: another node spoke for it. `None`: the fabric does not say.
    fn lowest_attested(&mut self, now: u64, fx: &mut impl Effects) -> Option<(u64, Path)> {
        loop {
            let hosts = self.members.all().iter().enumerate();
            let hosts = hosts.filter(|(_, m)| m.known && is_host(m.info.hwid));
            let lowest = hosts.min_by_key(|(_, m)| m.info.hwid);
            let (at, hwid, path) = lowest.map_or((0, self.me.hwid, Path::EMPTY), |(at, m)| {
                (at, m.info.hwid, m.path)
            });
            if hwid == self.me.hwid {
                return Some((hwid, path));
            }
            match self.attest.look(now, hwid, &path, &self.allowed, fx) {
                Ok(()) => return Some((hwid, path)),
                Err(There::Unknown) => return None,
                Err(_) => {
                    if let Some(member) = self.members.all_mut().get_mut(at) {
                        member.known = false;
                    }
                }
            }
        }
    }

    /// Waits without a master, and explores again after [`RETRY_MS`].
    pub(super) fn explore_later(&mut self, now: u64) {
        self.members.begin(self.me, self.ports);
        self.obeyed = None;
        self.again = Some(now + RETRY_MS);
    }

    /// Becomes, or stays, master.
    pub(super) fn lead(&mut self, now: u64, fx: &mut impl Effects) {
        let known = self.members.all().iter().filter(|m| m.known);
        let mut known = known.map(|m| m.info.mastership);
        let mine = Mastership {
            master: self.me.hwid,
            ..self.me.mastership
        };
        let unchallenged = known
            .clone()
            .all(|theirs| theirs == mine || (theirs.term != mine.term && mine.beats(&theirs)));
        if self.me.mastership != mine || !unchallenged || mine.term == 0 || self.outrun {
            let terms = known.clone().map(|theirs| theirs.term);
            self.me.mastership.term = order::after(mine.term, terms);
            self.me.mastership.master = self.me.hwid;
            self.version = 0;
            self.done = None;
            self.outrun = false;
        }
        let obeyed = known.all(|theirs| theirs == self.me.mastership);
        fx.role(Role::Master, &self.me.mastership);

        // A node alone is in no fabric, and needs no local id.
        if self.members.all().len() > 1 || self.me.lid != 0 {
            self.me.next_lid = self.members.assign_lids(self.me.hwid, &mut self.promises);
        }
        let lid = self.members.all().first().map_or(0, |m| m.info.lid);
        if lid != self.me.lid {
            self.me.lid = lid;
            fx.lid(lid);
        }
        // A port that has changed and is as before needs no other tables, but a standby may have seen it in
        // between: it surveys again when it is written to.
        if obeyed && self.done == Some(self.signature()) {
            self.settle(now);
            return;
        }
        self.version = self.version.wrapping_add(1);
        self.done = None;
        self.start(Phase::Assign);
        let newest = self.members.all().iter().enumerate();
        let newest = newest
            .filter(|(_, m)| m.known)
            .max_by_key(|(_, m)| m.info.assignments);
        if let Some((at, member)) = newest {
            if member.info.assignments > self.me.assignments {
                self.start(Phase::Fetch(at));
            }
        }
    }

    /// Returns one number for everything that the tables depend on, and one that differs when any port of the
    /// same members has changed, even if it is as before.
    pub(super) fn signature(&self) -> (u64, u32) {
        let mut hash = Hash(0xcbf2_9ce4_8422_2325);
        let mut changes = 0u32;
        for m in self.members.all().iter().filter(|m| m.known) {
            hash.add(m.info.hwid);
            hash.add(u64::from(m.info.life));
            hash.add(u64::from(m.info.lid));
            hash.add(u64::from(m.info.assignments));
            changes = changes.wrapping_add(m.info.change);
            for (port, next) in m.ports.iter().zip(m.next) {
                hash.add(u64::from(port.cost().unwrap_or(0)));
                hash.add(u64::from(next));
            }
        }
        (hash.0, changes)
    }
}

/// FNV-1a, by words.
struct Hash(u64);

impl Hash {
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }
}
