// SPDX-License-Identifier: GPL-2.0

//! The hot-plug controllers of switches: passes on what they have noticed to users, and acknowledges it.
//!
//! The next traversal finds what has come or gone; this must not know what follows from it.

use super::{super::memory::Memory, bus::Bus, found::Found};
use crate::{
    proto::{
        mr::{
            inventory::Kind,
            list::{Full, List},
        },
        nm::{node::MAX_NODES, path::Path, port::PORTS},
        pace::Pace,
    },
    sys::{clock, errno::EHOSTUNREACH, ext, uevent},
};
use kernel::prelude::*;

/// The most uevents in a second. What is not told yet stays with the switch, which has one bit a slot for it.
const EVENTS: usize = 16;

/// What users were told of a switch's slots.
#[derive(Clone, Copy)]
struct Told {
    switch: u64,
    life: u32,
    /// Slots for which a change was announced, a bit each.
    announced: u32,
}

/// The slots of all switches of the fabric.
pub(super) struct Slots {
    told: List<Told, Memory<Told>>,
    pace: Pace<EVENTS>,
    /// In the last look something was not told yet.
    late: bool,
}

impl Slots {
    pub(super) fn new() -> Result<Self> {
        let none = Told {
            switch: 0,
            life: 0,
            announced: 0,
        };
        Ok(Self {
            told: List::new(Memory::new(none, MAX_NODES)?),
            pace: Pace::new(),
            late: false,
        })
    }

    /// Returns whether there is more to tell than may be told at a time: [`Self::look`] is to be called again.
    pub(super) fn is_late(&self) -> bool {
        self.late
    }

    /// Looks at all slots. A switch that does not answer is looked at when it does.
    pub(super) fn look(&mut self, bus: &Bus<'_>, found: &Found) -> Result {
        self.late = false;
        self.told.retain(|told| {
            found
                .get(told.switch)
                .is_some_and(|(_, c)| c.life == told.life)
        });
        for (component, contact) in found.all() {
            let Kind::Switch { ports } = component.kind else {
                continue;
            };
            let switch = component.hwid;
            if !self.told.all().iter().any(|told| told.switch == switch) {
                let life = contact.life;
                let announced = 0;
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
                continue;
            };
            for port in 0..ports.min(PORTS as u8) {
                match told.look(bus, &contact.path, port, &mut self.pace) {
                    Err(e) if e == EHOSTUNREACH => break,
                    done => self.late |= !done?,
                }
            }
        }
        Ok(())
    }
}

impl Told {
    /// Looks at one slot. Returns false if not all that there is to tell may be told now.
    fn look(
        &mut self,
        bus: &Bus<'_>,
        path: &Path,
        port: u8,
        pace: &mut Pace<EVENTS>,
    ) -> Result<bool> {
        let reg =
            ext::WEFT_CS_PORT + ext::WEFT_CS_PORT_STRIDE * u32::from(port) + ext::WEFT_CS_PORT_PLUG;
        let is = bus.reg(path, reg)?;
        let bit = 1 << port;
        let announced = is & ext::WEFT_PLUG_ANNOUNCED != 0;
        if announced && self.announced & bit == 0 {
            if pace.wait(clock::now_ms()).is_some() {
                return Ok(false);
            }
            self.tell(bus, port, c"announced");
        }
        self.announced = if announced {
            self.announced | bit
        } else {
            self.announced & !bit
        };
        if is & ext::WEFT_PLUG_CHANGED != 0 {
            if pace.wait(clock::now_ms()).is_some() {
                return Ok(false);
            }
            // Acknowledges first, so that a change after that is not missed. The power of the slot stays
            // as it is.
            let seen = is & ext::WEFT_PLUG_POWER | ext::WEFT_PLUG_CHANGED;
            let at = u32::from(port) << 8 | ext::WEFT_PLUG_PHYSICAL;
            bus.write(path, ext::WEFT_SPACE_PLUG, at, seen)?;
            let there = bus.reg(path, reg)? & ext::WEFT_PLUG_PRESENT != 0;
            self.tell(bus, port, if there { c"came" } else { c"went" });
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
