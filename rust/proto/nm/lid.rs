// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Who gets which local id.
//!
//! A node that has one keeps it. If two that come from different fabrics have the same, that of the
//! master's own fabric keeps it, then that with the lower hardware id. New ones are numbered in the
//! order in which they were found, with ids that nobody ever had.

use super::member::{Member, Members};

/// The highest local id: the device has 23 bits for one, and all ones stands for any.
pub const MAX_LID: u32 = (1 << 23) - 2;

impl<M: AsRef<[Member]> + AsMut<[Member]>> Members<M> {
    /// Gives a local id to everybody who has answered. `master` is the hardware id of the master.
    /// Returns the lowest id that was never given away.
    pub fn assign_lids(&mut self, master: u64) -> u32 {
        let rank = |m: &Member| (m.info.reign.master != master, m.info.hwid);
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
                // Those that lose are looked up no more: a third one may have the same.
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
            let free = if next <= MAX_LID {
                next
            } else {
                self.lowest_free()
            };
            if let Some(member) = self.all_mut().get_mut(at) {
                if member.known && member.info.lid == 0 {
                    member.info.lid = free;
                    next = (free + 1).max(next);
                }
            }
        }
        next
    }

    /// The lowest id that nobody has now. There are far more of them than members.
    fn lowest_free(&self) -> u32 {
        let mut free = 1;
        while self.all().iter().any(|m| m.info.lid == free) {
            free += 1;
        }
        free
    }
}
