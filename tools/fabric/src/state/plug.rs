// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Hot plug: what is plugged in, and the controllers at switch ports that tell. Every
//! port of a switch that routes has a physical controller, which notices that a
//! component comes or goes (Presence Detect Change) and has the port that programs
//! the switch interrupted; and a virtual one for each VP, which connects and
//! disconnects one hierarchy there.

use super::{AdminState, Effect, Event, Fabric, Refusal};
use crate::topology::{End, Node, Trunk};
use crate::wire::abi::*;
use crate::wire::{ToPort, VPS};
use serde::{Deserialize, Serialize};

/// Address of the physical controller of a port, in place of a VP.
const PHYSICAL: u8 = WEFT_PLUG_PHYSICAL as u8;

/// A physical controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Something came or went, and was not acknowledged.
    changed: bool,
    /// The administrator has said that something will come, or go.
    announced: bool,
    powered: bool,
}

impl Default for Slot {
    fn default() -> Self {
        Slot { changed: false, announced: false, powered: true }
    }
}

/// A virtual controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtualSlot {
    /// The hierarchy is disconnected here.
    pub off: bool,
    changed: bool,
}

/// A port of a switch, as its physical controller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotStatus {
    /// Number of the port.
    pub port: u8,
    /// A component is plugged in.
    pub present: bool,
    /// One came or went, and the master has not taken notice.
    pub changed: bool,
    /// One will come or go, as the administrator has said.
    pub announced: bool,
    /// On or off.
    pub power: AdminState,
    /// VPs that are disconnected.
    pub disconnected: Vec<u8>,
}

impl Fabric {
    /// Plugs a component in. An endpoint still has to be started, and a host to connect.
    pub fn plug(&mut self, name: &str) -> Result<(), Refusal> {
        let node = self.component(name, false)?;
        self.set_plugged(node, true);
        Ok(())
    }

    /// Pulls a component out: a host's or endpoint's connection ends, a switch forgets
    /// its tables, and whatever can be reached by it alone is out of reach.
    pub fn unplug(&mut self, name: &str) -> Result<(), Refusal> {
        let node = self.component(name, true)?;
        self.set_plugged(node, false);
        Ok(())
    }

    /// Has the controllers where a component is, or will be, tell that it is about to
    /// go, or to come.
    pub fn announce(&mut self, name: &str, coming: bool) -> Result<(), Refusal> {
        let node = self.component(name, !coming)?;
        for (switch, port) in self.slots_of(node) {
            self.slot(switch, port).announced = true;
            self.presence(switch, port);
        }
        Ok(())
    }

    /// A component that is plugged in, or is not.
    fn component(&self, name: &str, plugged: bool) -> Result<Node, Refusal> {
        let node = self.node_named(name)?;
        match node {
            _ if self.is_plugged(node) != plugged => Err(Refusal(match plugged {
                true => format!("{name} is not plugged in; weft-fabric plug {name} puts it in"),
                false => {
                    format!("{name} is plugged in already; weft-fabric unplug {name} pulls it out")
                }
            })),
            Node::Switch(n) if !self.topology.switches[n].routes => Err(Refusal(format!(
                "switch {name} only joins two links; switch one of them off instead"
            ))),
            _ => Ok(node),
        }
    }

    /// It is there, powered or not.
    pub(super) fn is_plugged(&self, node: Node) -> bool {
        match node {
            Node::Host(host) => self.nodes[host].plugged,
            Node::Switch(switch) => self.switches[switch].plugged,
        }
    }

    fn set_plugged(&mut self, node: Node, plugged: bool) {
        match node {
            Node::Host(host) => {
                self.nodes[host].plugged = plugged;
                if let (false, Some(port)) = (plugged, self.session(host).map(|s| s.port)) {
                    let why = "it was unplugged".to_owned();
                    self.effects.push(Effect::Close { port, why: why.clone() });
                    self.gone(port, why);
                }
            }
            Node::Switch(n) => {
                self.switches[n] = self.new_switch(n);
                self.switches[n].plugged = plugged;
            }
        }
        let node_name = self.topology.name(node).to_owned();
        self.effects.push(Effect::Event(Event::Plug { node: node_name, plugged }));
        for (switch, port) in self.slots_of(node) {
            let slot = self.slot(switch, port);
            (slot.changed, slot.announced) = (true, false);
            for vp in 0..VPS {
                if self.switches[switch].vps.contains_key(&(port, vp)) {
                    self.switches[switch].virtual_slots.entry((port, vp)).or_default().changed =
                        true;
                }
            }
            self.presence(switch, port);
        }
        self.settle();
    }

    /// Why a trunk cannot be up: something on it is not there, or without power.
    pub(super) fn unplugged(&self, trunk: &Trunk) -> Option<String> {
        let on_it =
            trunk.ends.iter().map(|e| e.node).chain(trunk.via.iter().map(|s| Node::Switch(*s)));
        let gone = on_it.into_iter().find(|node| !self.is_plugged(*node));
        if let Some(node) = gone {
            return Some(format!("{} is not plugged in", self.topology.name(node)));
        }
        let dark = |end: &&End| match end.node {
            Node::Switch(n) => !self.switches[n].slot(end.port).powered,
            Node::Host(_) => false,
        };
        let end = trunk.ends.iter().find(dark)?;
        Some(format!("the slot at {} has no power", self.topology.end_name(*end)))
    }

    /// The controllers that notice a component: at plugged-in switches, across a trunk.
    fn slots_of(&self, node: Node) -> Vec<(usize, u8)> {
        let trunks = self.topology.trunks.iter();
        let far = trunks.filter_map(|t| {
            let side = t.ends.iter().position(|e| e.node == node)?;
            Some(t.ends[1 - side])
        });
        let slots = far.filter_map(|end| match end.node {
            Node::Switch(switch) if self.switches[switch].plugged => Some((switch, end.port)),
            _ => None,
        });
        slots.collect()
    }

    fn slot(&mut self, switch: usize, port: u8) -> &mut Slot {
        self.switches[switch].slots.entry(port).or_default()
    }

    /// Tells the port that programs the switch, as an interrupt does: that something is to be
    /// read, not what.
    fn presence(&mut self, switch: usize, port: u8) {
        let status = self.slot_register(switch, port);
        let end = self.topology.end_name(End { node: Node::Switch(switch), port });
        let has = |bits: u32| status & bits != 0;
        let (present, announced) = (has(WEFT_PLUG_PRESENT), has(WEFT_PLUG_ANNOUNCED));
        self.effects.push(Effect::Event(Event::Presence { slot: end, present, announced }));
        let master = self.switches[switch].master;
        let of_master = |h: &usize| self.session(*h).is_some_and(|s| s.hwid == master);
        if let Some(host) = (0..self.nodes.len()).find(of_master) {
            let switch = self.topology.switches[switch].hwid;
            self.tell(host, ToPort::Presence { switch, port, status });
        }
    }

    /// The physical controller's register.
    pub(super) fn slot_register(&self, switch: usize, port: u8) -> u32 {
        let slot = self.switches[switch].slot(port);
        let trunk = self.topology.trunk_at(End { node: Node::Switch(switch), port });
        let far = trunk.map(|(trunk, side)| self.topology.trunks[trunk].ends[1 - side].node);
        let flag = |set: bool, bits: u32| if set { bits } else { 0 };
        flag(far.is_some_and(|far| self.is_plugged(far)), WEFT_PLUG_PRESENT)
            | flag(slot.changed, WEFT_PLUG_CHANGED)
            | flag(slot.powered, WEFT_PLUG_POWER)
            | flag(slot.announced, WEFT_PLUG_ANNOUNCED)
            | flag(trunk.is_some_and(|(trunk, _)| self.trunk_up(trunk)), WEFT_PLUG_LINK)
    }

    /// A controller, by the address of a configuration request.
    pub(super) fn slot_read(&self, switch: usize, address: u32) -> Option<u32> {
        let (port, who) = self.slot_address(switch, address)?;
        let physical = self.slot_register(switch, port);
        if who == PHYSICAL {
            return Some(physical);
        }
        let tables = &self.switches[switch];
        let slot = tables.virtual_slots.get(&(port, who)).copied().unwrap_or_default();
        let there = physical & WEFT_PLUG_PRESENT != 0 && tables.vps.contains_key(&(port, who));
        let flag = |set: bool, bits: u32| if set { bits } else { 0 };
        Some(
            flag(there, WEFT_PLUG_PRESENT)
                | flag(slot.changed, WEFT_PLUG_CHANGED)
                | flag(!slot.off, WEFT_PLUG_POWER)
                | flag(there && !slot.off, physical & WEFT_PLUG_LINK),
        )
    }

    /// Writes a controller: takes notice of a change, switches power, and has a physical one
    /// announced what will come. In words, what was done.
    pub(super) fn slot_write(
        &mut self,
        switch: usize,
        address: u32,
        data: u32,
    ) -> Result<String, u32> {
        let (port, who) = self.slot_address(switch, address).ok_or(WEFT_CFG_BAD)?;
        let (power, seen) = (data & WEFT_PLUG_POWER != 0, data & WEFT_PLUG_CHANGED != 0);
        let on = if power { "on" } else { "off" };
        if who == PHYSICAL {
            let slot = self.slot(switch, port);
            slot.changed &= !seen;
            let switched = slot.powered != power;
            slot.powered = power;
            if switched {
                self.settle();
            }
            let said = match self.slot_announce(switch, port, data) {
                Some(true) => ", announced",
                Some(false) => ", not announced any more",
                None => "",
            };
            return Ok(format!("slot {port} {on}{said}"));
        }
        let slot = self.switches[switch].virtual_slots.entry((port, who)).or_default();
        slot.changed = (slot.changed && !seen) || slot.off == power;
        slot.off = !power;
        Ok(format!("slot {port} {on} for VP {who}"))
    }

    /// Has a physical controller announce, as a write asks for. What has changed by that.
    fn slot_announce(&mut self, switch: usize, port: u8, data: u32) -> Option<bool> {
        let is = self.slot_register(switch, port);
        let asks = |bit: u32| data & bit != 0;
        let announced = is & WEFT_PLUG_ANNOUNCED != 0;
        if asks(WEFT_PLUG_WITHDRAW) && announced {
            self.slot(switch, port).announced = false;
            return Some(false);
        }
        // What is there already cannot come any more.
        let may = asks(WEFT_PLUG_ANNOUNCE) && !asks(WEFT_PLUG_WITHDRAW);
        if !may || announced || is & WEFT_PLUG_PRESENT != 0 {
            return None;
        }
        self.slot(switch, port).announced = true;
        self.presence(switch, port);
        Some(true)
    }

    fn slot_address(&self, switch: usize, address: u32) -> Option<(u8, u8)> {
        let (port, who) = (u8::try_from(address >> 8).ok()?, address as u8);
        let there = port < self.topology.switches[switch].ports;
        (there && (who < VPS || who == PHYSICAL)).then_some((port, who))
    }

    /// Ports of a switch that have something plugged in, or to tell.
    pub(super) fn slot_statuses(&self, switch: usize) -> Vec<SlotStatus> {
        let ports = 0..self.topology.switches[switch].ports;
        let status = |port| {
            let register = self.slot_register(switch, port);
            let has = |bits: u32| register & bits != 0;
            let off = self.switches[switch].virtual_slots.iter();
            let off = off.filter(|((p, _), slot)| *p == port && slot.off);
            SlotStatus {
                port,
                present: has(WEFT_PLUG_PRESENT),
                changed: has(WEFT_PLUG_CHANGED),
                announced: has(WEFT_PLUG_ANNOUNCED),
                power: if has(WEFT_PLUG_POWER) { AdminState::Up } else { AdminState::Down },
                disconnected: off.map(|((_, vp), _)| *vp).collect(),
            }
        };
        let cabled = |port: &u8| {
            self.topology.trunk_at(End { node: Node::Switch(switch), port: *port }).is_some()
        };
        ports.filter(cabled).map(status).collect()
    }
}
