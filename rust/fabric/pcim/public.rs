// SPDX-License-Identifier: GPL-2.0

//! What other modules see of the multi-root management while this host is the master: what was found,
//! the outcomes of the assignments, the hierarchies of all hosts, and the slots of switches.

use super::{found::Found, outcome::Outcome, slots::Slot};
use crate::proto::{
    crc::crc32c,
    mr::{assignment::Assignment, inventory::Component},
    nm::node::MAX_NODES,
};
use kernel::prelude::*;

/// A component that is present, or was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) component: Component,
    pub(crate) ports: u8,
    pub(crate) there: bool,
    pub(crate) replaced: bool,
    pub(crate) is_broken: bool,
}

/// The hierarchy of a host, as that host receives it.
pub(super) struct Told {
    pub(super) root: u64,
    pub(super) bytes: KVVec<u8>,
}

/// All that is shown.
pub(super) struct Public {
    pub(super) components: KVVec<Shown>,
    pub(super) components_serial: u32,
    pub(super) assignments: KVVec<(Assignment, Outcome)>,
    pub(super) assignments_serial: u32,
    pub(super) hierarchies: KVVec<Told>,
    pub(super) slots: KVVec<Slot>,
    pub(super) slots_serial: u32,
    /// Incremented whenever one of them is written by a caller.
    pub(super) slots_written: u32,
}

impl Public {
    pub(super) const fn new() -> Self {
        Self {
            components: KVVec::new(),
            components_serial: 0,
            assignments: KVVec::new(),
            assignments_serial: 0,
            hierarchies: KVVec::new(),
            slots: KVVec::new(),
            slots_serial: 0,
            slots_written: 0,
        }
    }

    /// Shows what was found now. Components that are gone are still shown, as long as there is room.
    pub(super) fn show_components(&mut self, found: &Found) -> Result {
        let mut all = KVVec::with_capacity(MAX_NODES, GFP_KERNEL)?;
        for (component, contact) in found.all() {
            all.push(
                Shown {
                    component: *component,
                    ports: contact.ports,
                    there: true,
                    replaced: contact.replaced,
                    is_broken: contact.is_broken,
                },
                GFP_KERNEL,
            )?;
        }
        for old in &self.components {
            if all.len() < MAX_NODES && found.get(old.component.hwid).is_none() {
                let mut gone = *old;
                gone.there = false;
                gone.component.lid = 0;
                all.push(gone, GFP_KERNEL)?;
            }
        }
        if *self.components != *all {
            self.components_serial = self.components_serial.wrapping_add(1);
            self.components = all;
        }
        Ok(())
    }

    /// Shows these assignments. Assignments that were shown before keep their outcome, unless `outcome`
    /// returns another one. Returns true if something has changed.
    pub(super) fn show_assignments(
        &mut self,
        assignments: &[Assignment],
        outcome: impl Fn(usize) -> Option<Outcome>,
    ) -> Result<bool> {
        let mut all = KVVec::with_capacity(assignments.len(), GFP_KERNEL)?;
        for (n, assignment) in assignments.iter().enumerate() {
            let before = self.assignments.iter().find(|(w, _)| w == assignment);
            let before = before.map_or(Outcome::Waits, |(_, outcome)| *outcome);
            all.push((*assignment, outcome(n).unwrap_or(before)), GFP_KERNEL)?;
        }
        let differs = *self.assignments != *all;
        if differs {
            self.assignments_serial = self.assignments_serial.wrapping_add(1);
            self.assignments = all;
        }
        Ok(differs)
    }

    /// Shows the slots that a run has found, unless one was written since `written` was read: what the run
    /// knows of that one may be older.
    pub(super) fn show_slots(&mut self, slots: KVVec<Slot>, written: u32) {
        if self.slots_written == written && *self.slots != *slots {
            self.slots_serial = self.slots_serial.wrapping_add(1);
            self.slots = slots;
        }
    }

    /// Returns a slot.
    pub(super) fn slot(&self, switch: u64, port: u8) -> Option<Slot> {
        let is = |slot: &&Slot| (slot.switch, slot.port) == (switch, port);
        self.slots.iter().find(is).copied()
    }

    /// Shows a slot that was written as it is now, unless a run has found meanwhile that it is gone.
    pub(super) fn show_slot(&mut self, slot: Slot) {
        self.slots_written = self.slots_written.wrapping_add(1);
        let is = |shown: &&mut Slot| (shown.switch, shown.port) == (slot.switch, slot.port);
        let Some(shown) = self.slots.iter_mut().find(is) else {
            return;
        };
        if *shown != slot {
            *shown = slot;
            self.slots_serial = self.slots_serial.wrapping_add(1);
        }
    }

    /// Returns a number that differs for different hierarchies, and the hierarchy of a host.
    pub(super) fn hierarchy(&self, root: u64) -> Option<(u32, &[u8])> {
        let told = self.hierarchies.iter().find(|told| told.root == root)?;
        Some((crc32c(told.bytes.iter().copied()), &told.bytes))
    }
}
