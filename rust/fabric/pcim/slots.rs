// SPDX-License-Identifier: GPL-2.0

//! The hot-plug controllers of switches: passes on what they have noticed to users, acknowledges it, and has
//! them announce what will come.
//!
//! The next traversal finds what has come or gone; this must not know what follows from it.

use super::{
    bus::Bus,
    controller::{decode, encode},
    found::{Contact, Found},
    tables::Tables,
    virtual_slots,
};
use crate::{
    proto::{
        mr::{
            inventory::{Component, Kind},
            list::{Full, List},
            slot::{Announced, Controller, Refused, Write},
        },
        nm::{node::MAX_NODES, path::Path, port::PORTS},
        pace::Pace,
    },
    sys::{clock, errno::EHOSTUNREACH, ext, memory::Memory, uevent},
};
use kernel::prelude::*;

/// The most uevents in a second. What is not told yet stays with the switch, which has one bit a slot for it.
const EVENTS: usize = 16;

/// A slot: a port of a switch, what its physical controller says, and how that is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) switch: u64,
    pub(crate) port: u8,
    pub(crate) controller: Controller,
    /// The virtual planes on which a hierarchy is connected, a bit each.
    pub(crate) planes: u16,
    path: Path,
}

impl Slot {
    /// Has its controller announce a component or, if not `coming`, nothing any more, and reads the controller
    /// again.
    ///
    /// `EEXIST`: a component is there; `EIO`: the controller does not take announcements; `EHOSTUNREACH`:
    /// the switch does not answer, or another component is in its place; others as of [`Bus`].
    pub(super) fn announce(&mut self, bus: &Bus<'_>, coming: bool) -> Result {
        let refused = |why| match why {
            Refused::Occupied => EEXIST,
            Refused::Ignored => EIO,
        };
        // The path is as old as the last run.
        if bus.read64(&self.path, ext::WEFT_SPACE_CONFIG, ext::WEFT_CS_HWID)? != self.switch {
            return Err(EHOSTUNREACH.into());
        }
        self.read(bus)?;
        self.write(bus, self.controller.announce(coming).map_err(refused)?)?;
        self.read(bus)?;
        self.controller.announces(coming).map_err(refused)
    }

    fn read(&mut self, bus: &Bus<'_>) -> Result {
        let port = ext::WEFT_CS_PORT + ext::WEFT_CS_PORT_STRIDE * u32::from(self.port);
        self.controller = decode(bus.reg(&self.path, port + ext::WEFT_CS_PORT_PLUG)?);
        Ok(())
    }

    fn write(&self, bus: &Bus<'_>, write: Write) -> Result {
        let at = u32::from(self.port) << 8 | ext::WEFT_PLUG_PHYSICAL;
        bus.write(&self.path, ext::WEFT_SPACE_PLUG, at, encode(write))
    }
}

/// What users were told of a switch's slots.
#[derive(Clone, Copy)]
struct Told {
    switch: u64,
    life: u32,
    announced: Announced,
}

/// The slots of all switches of the fabric.
pub(super) struct Slots {
    told: List<Told, Memory<Told>>,
    /// All that were found in the last look.
    seen: KVVec<Slot>,
    pace: Pace<EVENTS>,
    /// In the last look something was not told yet.
    late: bool,
}

impl Slots {
    pub(super) fn new() -> Result<Self> {
        let none = Told {
            switch: 0,
            life: 0,
            announced: Announced::default(),
        };
        Ok(Self {
            told: List::new(Memory::new(none, MAX_NODES)?),
            seen: KVVec::new(),
            pace: Pace::new(),
            late: false,
        })
    }

    /// Returns whether there is more to tell than may be told at a time: [`Self::look`] is to be called again.
    pub(super) fn is_late(&self) -> bool {
        self.late
    }

    /// Returns the slots as the last look has found them, with the planes that are in `tables` now.
    pub(super) fn seen(&self, tables: &Tables) -> Result<KVVec<Slot>> {
        let mut all = KVVec::with_capacity(self.seen.len(), GFP_KERNEL)?;
        for slot in &self.seen {
            let planes = tables.planes_of(slot.switch, slot.port);
            let planes = planes.fold(0, |mask, vp| {
                mask | 1u16.checked_shl(vp.into()).unwrap_or(0)
            });
            all.push(Slot { planes, ..*slot }, GFP_KERNEL)?;
        }
        Ok(all)
    }

    /// Looks at all slots. A switch that does not answer is looked at when it does.
    pub(super) fn look(&mut self, bus: &Bus<'_>, found: &Found, tables: &Tables) -> Result {
        self.late = false;
        self.seen.clear();
        self.told.retain(|told| {
            found
                .get(told.switch)
                .is_some_and(|(_, c)| c.life == told.life)
        });
        for (component, contact) in found.all() {
            match self.look_at(bus, component, contact, tables) {
                Err(e) if e == EHOSTUNREACH => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Looks at the slots of one component, which has some if it is a switch.
    fn look_at(
        &mut self,
        bus: &Bus<'_>,
        component: &Component,
        contact: &Contact,
        tables: &Tables,
    ) -> Result {
        let Kind::Switch { ports } = component.kind else {
            return Ok(());
        };
        let switch = component.hwid;
        if !self.told.all().iter().any(|told| told.switch == switch) {
            let life = contact.life;
            let announced = Announced::default();
            self.told
                .push(Told {
                    switch,
                    life,
                    announced,
                })
                .map_err(|Full| ENOSPC)?;
        }
        let all = self.told.all_mut().iter_mut();
        let Some(told) = all.into_iter().find(|told| told.switch == switch) else {
            return Ok(());
        };
        for port in 0..ports.min(PORTS as u8) {
            let mut slot = Slot {
                switch,
                port,
                controller: Controller::default(),
                planes: 0,
                path: contact.path,
            };
            slot.read(bus)?;
            self.late |= !told.look(bus, &mut slot, tables, &mut self.pace)?;
            self.seen.push(slot, GFP_KERNEL)?;
        }
        Ok(())
    }
}

impl Told {
    /// Tells what there is to tell of one slot, which was just read, and acknowledges it. Returns false if not
    /// all that there is may be told now.
    fn look(
        &mut self,
        bus: &Bus<'_>,
        slot: &mut Slot,
        tables: &Tables,
        pace: &mut Pace<EVENTS>,
    ) -> Result<bool> {
        if self.announced.is_news(slot.port, slot.controller) {
            if pace.wait(clock::now_ms()).is_some() {
                return Ok(false);
            }
            self.announced.told(slot.port);
            self.tell(bus, slot.port, c"announced");
        }
        if slot.controller.changed {
            if pace.wait(clock::now_ms()).is_some() {
                return Ok(false);
            }
            // Acknowledges first, so that a change after that is not missed.
            slot.write(bus, slot.controller.acknowledge())?;
            for vp in tables.planes_of(slot.switch, slot.port) {
                virtual_slots::connect(bus, &slot.path, slot.port, vp)?;
            }
            slot.read(bus)?;
            let what = match slot.controller.occupied {
                true => c"came",
                false => c"went",
            };
            self.tell(bus, slot.port, what);
        }
        Ok(true)
    }

    fn tell(&self, bus: &Bus<'_>, port: u8, what: &CStr) {
        uevent::change(
            &bus.network.dev(),
            &[
                fmt!("WEFT_PLUG={}", what),
                fmt!("WEFT_SWITCH={:#018x}", self.switch),
                fmt!("WEFT_SWITCH_PORT={}", port),
            ],
        );
    }
}
