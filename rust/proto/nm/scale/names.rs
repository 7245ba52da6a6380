// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Hardware ids that were looked for in the directory: which local ids the master has answered, and what it is to be
//! asked next.
//!
//! There is room for some: the one that was not looked for the longest makes room for another. A node asks for one at
//! a time. What is known is asked for anew while it is still looked for, since a node that starts again gets another
//! local id. Not more than [`QUESTIONS`] are asked in a second, since any host that calls has its id looked for. This
//! file is independent of how the master is asked.

use super::super::super::pace::Pace;

/// Time after which a local id that is looked for is asked for anew.
pub const FRESH_MS: u64 = 5000;
/// The same, for a node that was not there.
pub const ABSENT_MS: u64 = 500;
/// Time after which a question is given up: the master may be about to change.
pub const GIVEN_UP_MS: u64 = 2500;
/// The most questions in a second.
pub const QUESTIONS: usize = 16;
/// Time after which to look whether more may be asked.
const PACE_MS: u64 = 50;

/// What is known of a hardware id.
#[derive(Clone, Copy, Debug)]
struct Name {
    /// 0: the place is free.
    hwid: u64,
    /// 0: there is no such node.
    lid: u32,
    /// When that was answered.
    answered: Option<u64>,
    /// It is to be asked for.
    wanted: bool,
    /// When it was looked for last.
    used: u64,
}

const FREE: Name = Name {
    hwid: 0,
    lid: 0,
    answered: None,
    wanted: false,
    used: 0,
};

/// Hardware ids, `N` at the most.
pub struct Names<const N: usize> {
    all: [Name; N],
    /// The one that is asked for, and until when.
    asked: Option<(u64, u64)>,
    pace: Pace<QUESTIONS>,
}

impl<const N: usize> Names<N> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self {
            all: [FREE; N],
            asked: None,
            pace: Pace::new(),
        }
    }

    /// Returns the local id of a node, 0: there is no such node; `None`: that is not known yet. It will be asked for.
    pub fn look(&mut self, now: u64, hwid: u64) -> Option<u32> {
        if hwid == 0 {
            return Some(0);
        }
        let name = self.place(hwid)?;
        name.used = now;
        let fresh = if name.lid == 0 { ABSENT_MS } else { FRESH_MS };
        let stale = |at: u64| now >= at.saturating_add(fresh);
        name.wanted |= name.answered.is_none_or(stale);
        name.answered.map(|_| name.lid)
    }

    /// Returns the place of a hardware id, which may have been that of another one.
    fn place(&mut self, hwid: u64) -> Option<&mut Name> {
        let known = self.all.iter().position(|name| name.hwid == hwid);
        let at = known.or_else(|| {
            let all = self.all.iter().enumerate();
            let oldest = all.min_by_key(|(_, name)| (name.hwid != 0, name.used));
            oldest.map(|(at, _)| at)
        })?;
        let name = self.all.get_mut(at)?;
        if known.is_none() {
            *name = Name { hwid, ..FREE };
        }
        Some(name)
    }

    /// Returns the hardware id that the master is to be asked for now, if there is any.
    pub fn next(&mut self, now: u64) -> Option<u64> {
        match self.asked {
            Some((_, until)) if now < until => return None,
            Some((hwid, _)) => self.unanswered(now, hwid),
            None => {}
        }
        let wanted = self.all.iter().filter(|name| name.wanted);
        let hwid = wanted.min_by_key(|name| name.used)?.hwid;
        if self.pace.wait(now).is_some() {
            return None;
        }
        self.asked = Some((hwid, now + GIVEN_UP_MS));
        Some(hwid)
    }

    /// The master does not answer: what was known of the node before counts, if anything was.
    fn unanswered(&mut self, now: u64, hwid: u64) {
        let name = self.all.iter().find(|name| name.hwid == hwid);
        let lid = name.map_or(0, |name| name.lid);
        self.answer(now, hwid, lid);
    }

    /// Takes the answer of the master; 0: there is no such node.
    pub fn answer(&mut self, now: u64, hwid: u64, lid: u32) {
        if self.asked.is_some_and(|(asked, _)| asked == hwid) {
            self.asked = None;
        }
        if let Some(name) = self.all.iter_mut().find(|name| name.hwid == hwid) {
            name.lid = lid;
            name.answered = Some(now);
            name.wanted = false;
        }
    }

    /// Returns when [`Self::next`] is to be called again after it has been, if nothing is answered before.
    pub fn due(&self, now: u64) -> Option<u64> {
        let wanted = self.all.iter().any(|name| name.wanted);
        match self.asked {
            Some((_, until)) => Some(until),
            None => wanted.then_some(now + PACE_MS),
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.all = [FREE; N];
        self.asked = None;
    }
}

impl<const N: usize> Default for Names<N> {
    fn default() -> Self {
        Self::new()
    }
}
