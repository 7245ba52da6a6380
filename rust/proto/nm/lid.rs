// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Assignment of local ids.
//!
//! A node that has an id keeps it. If two nodes from different fabrics have the same, the one of the
//! master's own fabric keeps it, then the one with the lower hardware id. New ids are given in the order
//! in which the nodes were found, and are ids that were never given before, while there are any.

use super::member::{Member, Members};

/// The highest local id: the device has 23 bits for one, and all ones stands for any.
pub const MAX_LID: u32 = (1 << 23) - 2;

/// Ids that were given and that their nodes have not confirmed yet. A node to which the master cannot
/// write now is found without an id again, and is given the same one: otherwise each attempt would use
/// up another id.
pub struct Promises {
    /// Hardware id and local id; 0: none.
    made: [(u64, u32); 16],
    /// Index of the oldest, which is replaced next.
    next: usize,
}

impl Promises {
    /// No promises.
    pub const NONE: Self = Self {
        made: [(0, 0); 16],
        next: 0,
    };

    fn get(&self, hwid: u64) -> Option<u32> {
        let found = self.made.iter().find(|(known, _)| *known == hwid);
        found.map(|(_, lid)| *lid)
    }

    fn make(&mut self, hwid: u64, lid: u32) {
        self.keep(hwid);
        if let Some(place) = self.made.get_mut(self.next) {
            *place = (hwid, lid);
        }
        self.next = (self.next + 1) % self.made.len();
    }

    /// Removes the promise to `hwid`, which has the id now.
    pub fn keep(&mut self, hwid: u64) {
        for place in self.made.iter_mut().filter(|(known, _)| *known == hwid) {
            *place = (0, 0);
        }
    }
}

impl<M: AsRef<[Member]> + AsMut<[Member]>> Members<M> {
    /// Gives a local id to every node that has answered. `master` is the hardware id of the master.
    /// Returns the lowest id that was never given away.
    pub fn assign_lids(&mut self, master: u64, promises: &mut Promises) -> u32 {
        let rank = |m: &Member| (m.info.mastership.master != master, m.info.hwid);
        let mut next = 1;
        for at in 0..self.all().len() {
            let Some(member) = self.all().get(at).copied() else {
                break;
            };
            let lid = member.info.lid;
            let mut others = self.all().iter().filter(|m| m.known);
            let lost = lid > MAX_LID
                || others.any(|m| m.info.lid == lid && lid != 0 && rank(m) < rank(&member));
            next = next.max(member.info.next_lid.min(MAX_LID + 1));
            if lid <= MAX_LID {
                next = next.max(lid + 1);
            }
            if let Some(member) = self.all_mut().get_mut(at) {
                // Losers are only marked here: they still count against a third node with the same id.
                member.piece = u16::from(lost);
            }
        }
        for member in self.all_mut() {
            if member.piece != 0 || !member.known {
                member.info.lid = 0;
            }
            member.piece = 0;
        }
        for at in 0..self.all().len() {
            let Some(member) = self.all().get(at) else {
                break;
            };
            if !member.known || member.info.lid != 0 {
                continue;
            }
            let hwid = member.info.hwid;
            let promised = promises.get(hwid).filter(|lid| self.is_free(*lid));
            let lid = promised.unwrap_or_else(|| match next <= MAX_LID {
                true => next,
                false => self.lowest_free(),
            });
            if promised.is_none() {
                promises.make(hwid, lid);
            }
            next = next.max(lid + 1);
            if let Some(member) = self.all_mut().get_mut(at) {
                member.info.lid = lid;
            }
        }
        next
    }

    /// Returns the lowest id that no member has now. There are far more ids than members.
    fn lowest_free(&self) -> u32 {
        let mut free = 1;
        while !self.is_free(free) {
            free += 1;
        }
        free
    }

    fn is_free(&self, lid: u32) -> bool {
        self.all().iter().all(|m| m.info.lid != lid)
    }
}
