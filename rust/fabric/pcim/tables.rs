// SPDX-License-Identifier: GPL-2.0

//! The contents of the tables of switches and endpoints, as far as hierarchies need them: read once in
//! the life of a component after this host became the master, and afterwards known from what was
//! written. A plane in the table of a port goes with its virtual hot-plug controller being on.
//!
//! This must not know what they should contain.

use super::{
    bus::Bus,
    found::{Contact, Found},
    virtual_slots,
};
use crate::{
    proto::{
        mr::{
            inventory::{Component, Kind},
            list::{Full, List},
            plan::Entry,
            plane::{COMMON_VP, PLANES},
        },
        nm::{node::MAX_NODES, path::Path},
    },
    sys::{errno::EHOSTUNREACH, ext, memory::Memory},
};
use kernel::prelude::*;

/// The most entries of all hierarchies together.
pub(super) const MAX_ENTRIES: usize = 4096;

/// A component whose tables are known.
#[derive(Clone, Copy)]
struct Known {
    hwid: u64,
    life: u32,
}

/// The contents of the tables.
pub(super) struct Tables {
    entries: List<Entry, Memory<Entry>>,
    known: List<Known, Memory<Known>>,
}

impl Tables {
    pub(super) fn new() -> Result<Self> {
        let none = Known { hwid: 0, life: 0 };
        Ok(Self {
            entries: List::new(Memory::new(Entry::NONE, MAX_ENTRIES)?),
            known: List::new(Memory::new(none, MAX_NODES)?),
        })
    }

    /// Returns the entries, sorted.
    pub(super) fn entries(&self) -> &[Entry] {
        self.entries.all()
    }

    /// Returns the virtual planes of a port of a switch that are of a hierarchy, all connected.
    pub(super) fn planes_of(&self, switch: u64, port: u8) -> impl Iterator<Item = u8> + '_ {
        self.entries().iter().filter_map(move |entry| match *entry {
            Entry::Plane {
                switch: at,
                port: by,
                vp,
                ..
            } if (at, by) == (switch, port) => Some(vp),
            _ => None,
        })
    }

    /// Forgets the tables of all components.
    pub(super) fn forget_all(&mut self) {
        self.known.clear();
        self.entries.clear();
    }

    /// Has the tables of this component read again.
    pub(super) fn forget(&mut self, hwid: u64) {
        self.known.retain(|known| known.hwid != hwid);
    }

    /// Notes that an entry was written.
    pub(super) fn put(&mut self, entry: Entry) -> Result {
        self.entries.insert(entry).map_err(no_room)
    }

    /// Notes that an entry was removed.
    pub(super) fn take(&mut self, entry: &Entry) {
        self.entries.retain(|e| e != entry);
    }

    /// Reads the tables that are not known. A component in another life has lost what was written in the
    /// one before. Returns false if a component could not be asked.
    pub(super) fn learn(&mut self, bus: &Bus<'_>, found: &Found) -> Result<bool> {
        // Forgets components that are gone: nothing is known of them when they are back.
        let there = |hwid| found.get(hwid).is_some();
        self.known.retain(|known| there(known.hwid));
        self.entries.retain(|entry| there(entry.component()));
        let mut whole = true;
        for (component, contact) in found.all().filter(|(c, _)| !c.is_root()) {
            let (hwid, life) = (component.hwid, contact.life);
            let same = |known: &Known| life != 0 && known.hwid == hwid && known.life == life;
            if self.known.all().iter().any(same) {
                continue;
            }
            self.forget(hwid);
            self.entries.retain(|e| e.component() != hwid);
            match self.read(bus, component, contact) {
                Ok(()) => self.known.push(Known { hwid, life }).map_err(no_room)?,
                Err(e) if e == EHOSTUNREACH => whole = false,
                Err(e) => return Err(e),
            }
        }
        Ok(whole)
    }

    fn read(&mut self, bus: &Bus<'_>, component: &Component, contact: &Contact) -> Result {
        match component.kind {
            Kind::Switch { ports } => self.read_planes(bus, component.hwid, ports, &contact.path),
            Kind::Endpoint { ves, .. } => self.read_base(bus, component.hwid, ves, &contact.path),
            Kind::Root => Ok(()),
        }
    }

    fn read_planes(&mut self, bus: &Bus<'_>, switch: u64, ports: u8, path: &Path) -> Result {
        for port in 0..ports {
            for vp in COMMON_VP + 1..PLANES {
                let at = virtual_slots::plane_at(port, vp);
                let said = bus.read(path, ext::WEFT_SPACE_VP, at)?;
                if said & ext::WEFT_TABLE_VALID != 0 {
                    let vh = (said & ext::WEFT_TABLE_VH) as u16;
                    // The master before this one may have lost its mastership between two writes.
                    virtual_slots::connect(bus, path, port, vp)?;
                    self.put(Entry::Plane {
                        switch,
                        port,
                        vp,
                        vh,
                    })?;
                }
            }
        }
        Ok(())
    }

    fn read_base(&mut self, bus: &Bus<'_>, endpoint: u64, ves: u8, path: &Path) -> Result {
        for ve in 0..ves {
            let said = bus.read(path, ext::WEFT_SPACE_BASE, ve_at(ve, ext::WEFT_BASE_VE))?;
            if said & ext::WEFT_TABLE_VALID == 0 {
                continue;
            }
            let vp = (said & ext::WEFT_BASE_VP) as u8;
            let root = bus.read(path, ext::WEFT_SPACE_BASE, ve_at(ve, ext::WEFT_BASE_ROOT))?;
            self.put(Entry::Base {
                endpoint,
                ve,
                vp,
                root,
            })?;
        }
        Ok(())
    }
}

fn no_room(_: Full) -> Error {
    ENOSPC
}

fn ve_at(ve: u8, register: u32) -> u32 {
    u32::from(ve) << 8 | register
}

/// Writes an entry, or removes it. Entries of hosts are not written here.
pub(super) fn write(bus: &Bus<'_>, path: &Path, entry: &Entry, put: bool) -> Result {
    let valid = |data: u32| match put {
        true => ext::WEFT_TABLE_VALID | data,
        false => 0,
    };
    match *entry {
        Entry::Plane { port, vp, vh, .. } => {
            if !put {
                virtual_slots::disconnect(bus, path, port, vp)?;
            }
            let at = virtual_slots::plane_at(port, vp);
            bus.write(path, ext::WEFT_SPACE_VP, at, valid(vh.into()))?;
            match put {
                true => virtual_slots::connect(bus, path, port, vp),
                false => Ok(()),
            }
        }
        Entry::Base { ve, vp, root, .. } => {
            let at = |register| ve_at(ve, register);
            if put {
                bus.write(path, ext::WEFT_SPACE_BASE, at(ext::WEFT_BASE_ROOT), root)?;
            }
            let data = valid(vp.into());
            bus.write(path, ext::WEFT_SPACE_BASE, at(ext::WEFT_BASE_VE), data)
        }
        Entry::Open { .. } | Entry::Own { .. } => Ok(()),
    }
}

/// Tells an endpoint which host is on the same hardware unit, if it was told something else.
pub(super) fn tell_resident(bus: &Bus<'_>, component: &Component, contact: &Contact) -> Result {
    let at = ext::WEFT_BASE_ENDPOINT | ext::WEFT_BASE_RESIDENT;
    let told = bus.read64(&contact.path, ext::WEFT_SPACE_BASE, at)?;
    let resident = component.resident;
    for (n, shift) in [(0, 0), (4, 32)] {
        let half = |word: u64| (word >> shift) as u32;
        if half(told) != half(resident) {
            bus.write(&contact.path, ext::WEFT_SPACE_BASE, at + n, half(resident))?;
        }
    }
    Ok(())
}
