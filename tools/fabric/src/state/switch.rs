// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A switch that routes: its tables, and the port that programmed them last. The route
//! table says by which port a local id (LID) is reached. The VP table of a port
//! says to which virtual hierarchy (VH) traffic on a virtual plane (VP) belongs;
//! VP numbers mean something on one link only, so traffic that changes links
//! leaves on the VP that its hierarchy has at the port it leaves by.

use super::plug::{Slot, VirtualSlot};
use crate::firmware::Firmware;
use crate::topology::Switch;
use crate::wire::VPS;
use crate::wire::abi::{WEFT_CFG_BAD, WEFT_CFG_FULL, WEFT_CFG_STALE};
use std::collections::{BTreeMap, BTreeSet};
use weft_proto::nm::order::is_later;

/// Entries of a switch's route table.
pub const SWITCH_ROUTES: usize = 65536;
/// Reasons of `WEFT_STOP_*`, with room.
pub const REASONS: usize = 8;

/// State of a switch.
pub struct SwitchState {
    ports: u8,
    /// It is there.
    pub plugged: bool,
    /// Hot-plug controllers that are not as they were at the start, by port,
    pub slots: BTreeMap<u8, Slot>,
    /// and by port and VP.
    pub virtual_slots: BTreeMap<(u8, u8), VirtualSlot>,
    /// LID to port.
    pub routes: BTreeMap<u32, u8>,
    /// First LID to last LID and port, for LIDs that are not in `routes`.
    areas: BTreeMap<u32, (u32, u8)>,
    /// Port and VP to VH.
    pub vps: BTreeMap<(u8, u8), u16>,
    /// Hardware id of the port that has written last, 0: none yet.
    pub master: u64,
    /// Its term.
    pub term: u32,
    /// Traffic whose route ended here, by `WEFT_STOP_*`.
    pub stopped: [u64; REASONS],
    /// Ports and VPs that were put into a VH, or taken out of one.
    touched: BTreeSet<(u8, u8)>,
    /// Of one that routes.
    pub firmware: Option<Firmware>,
}

impl SwitchState {
    /// A switch that was not programmed.
    pub fn new(switch: &Switch, firmware: Option<Firmware>) -> Self {
        SwitchState {
            ports: switch.ports,
            plugged: switch.plugged,
            slots: BTreeMap::new(),
            virtual_slots: BTreeMap::new(),
            routes: BTreeMap::new(),
            areas: BTreeMap::new(),
            vps: BTreeMap::new(),
            master: 0,
            term: 0,
            stopped: [0; REASONS],
            touched: BTreeSet::new(),
            firmware,
        }
    }

    /// Takes the word of `master`, in its `term`, or answers `WEFT_CFG_STALE`.
    pub fn accept(&mut self, master: u64, term: u32) -> Result<(), u32> {
        accept((&mut self.master, &mut self.term), master, term)
    }

    /// Makes `lid` be reached by `port`, or not at all. `Err` is a `WEFT_CFG_*`.
    pub fn set_route(&mut self, lid: u32, port: Option<u8>) -> Result<(), u32> {
        let Some(port) = port else {
            self.routes.remove(&lid);
            return Ok(());
        };
        if lid == 0 || port >= self.ports {
            return Err(WEFT_CFG_BAD);
        }
        if self.is_full() && !self.routes.contains_key(&lid) {
            return Err(WEFT_CFG_FULL);
        }
        self.routes.insert(lid, port);
        Ok(())
    }

    /// Makes the local ids from `first` to `last` be reached by `port`, or not at all, as far as they
    /// have no routes of their own. No two such ranges overlap. `Err` is a `WEFT_CFG_*`.
    pub fn set_area(&mut self, (first, last): (u32, u32), port: Option<u8>) -> Result<(), u32> {
        let Some(port) = port else {
            self.areas.remove(&first);
            return Ok(());
        };
        if first == 0 || first > last || port >= self.ports {
            return Err(WEFT_CFG_BAD);
        }
        if self.is_full() && !self.areas.contains_key(&first) {
            return Err(WEFT_CFG_FULL);
        }
        self.areas.insert(first, (last, port));
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.routes.len() + self.areas.len() >= SWITCH_ROUTES
    }

    /// The port by which `lid` is reached.
    pub fn route(&self, lid: u32) -> Option<u8> {
        let area = || {
            let (_, (last, port)) = self.areas.range(..=lid).next_back()?;
            (lid <= *last).then_some(*port)
        };
        self.routes.get(&lid).copied().or_else(area)
    }

    /// First LID, last LID and port of all entries, in the order in which they are looked at.
    pub fn all_routes(&self) -> impl Iterator<Item = (u32, u32, u8)> {
        let single = self.routes.iter().map(|(lid, port)| (*lid, *lid, *port));
        single.chain(self.areas.iter().map(|(first, (last, port))| (*first, *last, *port)))
    }

    /// Puts a VP of a port into a VH, which may have one VP there, or into none.
    pub fn set_vp(&mut self, port: u8, vp: u8, vh: Option<u16>) -> Result<(), u32> {
        if port >= self.ports || vp >= VPS || vh == Some(0) {
            return Err(WEFT_CFG_BAD);
        }
        match vh {
            None => drop(self.vps.remove(&(port, vp))),
            Some(vh) if self.vp_of(port, vh).is_some_and(|other| other != vp) => {
                return Err(WEFT_CFG_BAD);
            }
            Some(vh) => drop(self.vps.insert((port, vp), vh)),
        }
        self.touched.insert((port, vp));
        Ok(())
    }

    /// It was not said to which VH a VP of a port belongs.
    pub fn is_untouched(&self, port: u8, vp: u8) -> bool {
        !self.touched.contains(&(port, vp))
    }

    /// The physical hot-plug controller of a port.
    pub fn slot(&self, port: u8) -> Slot {
        self.slots.get(&port).copied().unwrap_or_default()
    }

    /// The hierarchy is connected by its virtual hot-plug controller.
    fn is_connected(&self, port: u8, vp: u8) -> bool {
        !self.virtual_slots.get(&(port, vp)).is_some_and(|slot| slot.off)
    }

    /// The VH that traffic on a VP of a port belongs to, as far as it is connected.
    pub fn entered(&self, port: u8, vp: u8) -> Option<u16> {
        self.vps.get(&(port, vp)).copied().filter(|_| self.is_connected(port, vp))
    }

    /// The VP that traffic of a VH leaves a port on, as far as that is connected.
    pub fn left(&self, port: u8, vh: u16) -> Option<u8> {
        self.vp_of(port, vh).filter(|vp| self.is_connected(port, *vp))
    }

    /// The VP that a VH has at a port.
    pub fn vp_of(&self, port: u8, vh: u16) -> Option<u8> {
        let mut at_port = self.vps.range((port, 0)..=(port, u8::MAX));
        at_port.find_map(|((_, vp), other)| (*other == vh).then_some(*vp))
    }
}

/// Makes `master` and its `term` those in force, or answers `WEFT_CFG_STALE`: a term
/// is one master's, and no earlier one is taken.
pub fn accept(last: (&mut u64, &mut u32), master: u64, term: u32) -> Result<(), u32> {
    let (by, in_force) = last;
    let earlier = *in_force != 0 && term != *in_force && (term == 0 || !is_later(term, *in_force));
    if earlier || (term == *in_force && *by != 0 && *by != master) {
        return Err(WEFT_CFG_STALE);
    }
    (*by, *in_force) = (master, term);
    Ok(())
}
