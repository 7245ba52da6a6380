// SPDX-License-Identifier: GPL-2.0

//! The work of a host while it is the master: what it has found, read and written, and a run that does
//! all that follows from that.
//!
//! It begins with the assignments alone. It reads what the tables contain already, and takes numbers
//! from there: so a host keeps its endpoint when another host becomes the master.

use super::{
    bus::Bus,
    carry::{self, Carrier, Means},
    explore::explore,
    found::Found,
    hierarchies::Hierarchies,
    kept::Kept,
    plan::Plan,
    slots::Slots,
    tables::{tell_resident, Tables},
    ways::Ways,
    Network, Pcim,
};
use crate::{
    proto::{
        mr::{list::Full, tree::Reach},
        nm::{assignments, node::MAX_NODES},
    },
    sys::{errno::EHOSTUNREACH, memory::Memory},
};
use kernel::prelude::*;

/// The data of a master. Allocated when this host becomes the master for the first time.
pub(super) struct Configurator {
    term: u32,
    found: Found,
    /// What was found in the run before.
    before: Found,
    tables: Tables,
    ways: Ways,
    slots: Slots,
    kept: Kept,
    plan: Plan,
    hierarchies: Hierarchies,
    carrier: Carrier,
    /// In the last run not all components could be asked.
    partial: bool,
    text: Memory<u8>,
    reach: Memory<Reach>,
}

impl Configurator {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            term: 0,
            found: Found::new()?,
            before: Found::new()?,
            tables: Tables::new()?,
            ways: Ways::new()?,
            slots: Slots::new()?,
            kept: Kept::new()?,
            plan: Plan::new()?,
            hierarchies: Hierarchies::new()?,
            carrier: Carrier::new()?,
            partial: false,
            text: Memory::new(0, assignments::MAX_ASSIGNMENTS)?,
            reach: Memory::new(Reach::NONE, MAX_NODES)?,
        })
    }

    /// Does all that is due. Returns false if something failed and is to be tried again. Other errors
    /// end the run; `ESTALE`: this host is the master no more.
    pub(super) fn run(&mut self, network: &dyn Network, pcim: &Pcim, term: u32) -> Result<bool> {
        let bus = Bus::new(network, term);
        bus.is_master()?;
        let (version, bytes) = network.copy_assignments(self.text.as_mut());
        if self.term != term {
            self.begin(term, bytes);
        }
        let text = self.text.as_ref().get(..bytes).unwrap_or_default();
        if let Err(e) = self.plan.assignments.read(text) {
            // No host loses anything because of a text that this driver does not understand. Another
            // text causes another run.
            network.complain(fmt!("the assignments make no sense: {:?}", e));
            return Ok(true);
        }
        pcim.show_assignments(&network.dev(), self.plan.assignments.all(), |_| None)?;
        let written = pcim.slots_written();
        let mut whole = self.look(&bus)?;
        let (assignments, reach) = (self.plan.assignments.all(), self.reach.as_mut());
        whole &= self.ways.learn(&bus, &self.found, assignments, reach)?;
        let again = core::mem::replace(&mut self.partial, !whole);
        if !whole && !again {
            // A component has just gone, or a link flaps: nothing is taken away because of that yet.
            return Ok(false);
        }
        pcim.show_components(&self.found)?;
        whole &= self.tables.learn(&bus, &self.found)?;
        let full = |Full| ENOSPC;
        let (things, are) = (&self.found.things, self.tables.entries());
        self.plan.numbers.adopt(things, are).map_err(full)?;
        let reach = self.reach.as_mut();
        self.plan
            .make(&self.found, &self.ways, &mut self.hierarchies, reach)?;
        whole &= self.tell_residents(&bus)?;
        let mut with = Means {
            bus: &bus,
            found: &self.found,
            hierarchies: &mut self.hierarchies,
            reach: self.reach.as_mut(),
        };
        let (plan, tables) = (&mut self.plan, &mut self.tables);
        whole &= self.carrier.carry_out(&mut with, plan, tables)?;
        let told = carry::told(&mut with, plan, tables)?;
        pcim.show_hierarchies(told);
        pcim.show_slots(self.slots.seen(tables)?, written);
        let assignments = plan.assignments.all();
        pcim.show_assignments(&network.dev(), assignments, |n| Some(plan.outcome(n)))?;
        let text = self.text.as_ref().get(..bytes).unwrap_or_default();
        if let Some(noted) = self.kept.note(text, &self.found) {
            // If the assignments were changed meanwhile, that change has priority.
            whole &= network.note_assignments(version, noted).is_ok();
        }
        Ok(whole && !self.slots.is_late())
    }

    /// Begins another mastership: forgets what was known of other nodes, as it may not be true any more.
    fn begin(&mut self, term: u32, bytes: usize) {
        self.term = term;
        self.partial = false;
        self.tables.forget_all();
        self.carrier.forget_all();
        self.plan.numbers.clear();
        let text = self.text.as_ref().get(..bytes).unwrap_or_default();
        self.kept.recall(text);
    }

    /// Looks for all components. Returns false if some could not be asked.
    fn look(&mut self, bus: &Bus<'_>) -> Result<bool> {
        core::mem::swap(&mut self.found, &mut self.before);
        let whole = match explore(bus, &mut self.found, &self.before) {
            Ok(whole) => whole,
            Err(e) => {
                // What was found before stays.
                core::mem::swap(&mut self.found, &mut self.before);
                return Err(e);
            }
        };
        self.kept.compare(&mut self.found, |hwid| {
            bus.network.complain(fmt!(
                "{:#018x} says that it is another one than before",
                hwid
            ));
        });
        self.slots.look(bus, &self.found, &self.tables)?;
        Ok(whole)
    }

    /// Tells endpoints which host is on the same hardware unit. Returns false if some could not be told.
    fn tell_residents(&self, bus: &Bus<'_>) -> Result<bool> {
        let mut whole = true;
        for (component, contact) in self.found.all().filter(|(c, _)| c.is_endpoint()) {
            match tell_resident(bus, component, contact) {
                Ok(()) => {}
                Err(e) if carry::is_over(e) => return Err(e),
                Err(e) => {
                    if e != EHOSTUNREACH {
                        bus.network.complain(fmt!(
                            "endpoint {:#018x} cannot be told where it sits: {:?}",
                            component.hwid,
                            e
                        ));
                    }
                    whole = false;
                }
            }
        }
        Ok(whole)
    }
}
