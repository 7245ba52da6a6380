// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Configuration requests: a port reads and writes the registers and tables of a
//! node that it names by a path of ports, before any node has an address. Ports of hosts
//! pass on what reads registers, without their host, and nothing else; what they show of
//! themselves is read only. So any port can find out which node is at the end of a path,
//! and no host can say otherwise. A switch, and an endpoint (`base.rs`), does what it is
//! told by the port that has the highest term; whose hardware id that is, is not taken
//! from the message.

use super::switch::SWITCH_ROUTES;
use super::withdrawal::Waiter;
use super::{Effect, Event, Fabric};
use crate::topology::{End, Node};
use crate::wire::abi::*;
use crate::wire::{Complaint, ConfigRequest, LINKS, ToPort, VPS, field};

/// Where a path leads, and the port it comes in by there.
struct Target {
    node: Node,
    port: u8,
    hops: u8,
}

impl Fabric {
    /// Works on a request; the answer to a write comes when it is in force.
    pub(super) fn config(
        &mut self,
        host: usize,
        request: u64,
        config: &ConfigRequest,
    ) -> Result<(), Complaint> {
        if self.config_is_due(host) {
            return Err("a configuration request before the last one was answered".into());
        }
        // What changes a node, or is not for all to see, passes switches alone.
        let reads = config.write.is_none() && config.space == WEFT_SPACE_CONFIG;
        let target = self.target(Node::Host(host), &config.path, |_| reads);
        let (result, hops, data, node) = match target {
            Err(hops) => (Err(WEFT_CFG_NO_PATH), hops, 0, None),
            Ok(target) => match config.write {
                None => match self.config_read(&target, config) {
                    Some(data) => (Ok(()), target.hops, data, None),
                    None => (Err(WEFT_CFG_BAD), target.hops, 0, None),
                },
                Some(data) => {
                    if let (WEFT_SPACE_BASE, Node::Host(at)) = (config.space, target.node) {
                        self.base_write(host, at, target.hops, (request, config, data));
                        return Ok(());
                    }
                    let result = self.config_write(host, &target, config, data);
                    // One that is stale learns the term that is not.
                    let data = self.term_of(target.node);
                    (result, target.hops, data, result.is_ok().then_some(target.node))
                }
            },
        };
        let result = result.err().unwrap_or(WEFT_CFG_OK);
        let reply = ToPort::ConfigReply { request, result, hops, data };
        match node {
            Some(node) => self.tables_changed(node, Waiter::Config { host, reply }),
            None => self.tell(host, reply),
        }
        Ok(())
    }

    /// Follows a path, over hosts that `pass` it on; `Err` tells how many links it got over.
    fn target(&self, from: Node, path: &[u8], pass: impl Fn(usize) -> bool) -> Result<Target, u8> {
        let mut here = End { node: from, port: LINKS as u8 };
        for (n, &port) in path.iter().enumerate() {
            let hops = n as u8;
            let stops = |host: usize| self.topology.hosts[host].endpoint.is_some() || !pass(host);
            if n > 0 && matches!(here.node, Node::Host(host) if stops(host)) {
                return Err(hops);
            }
            let out = End { node: here.node, port };
            let (trunk, side) = self.topology.trunk_at(out).ok_or(hops)?;
            if !self.trunk_up(trunk) {
                return Err(hops);
            }
            here = self.topology.trunks[trunk].ends[1 - side];
        }
        Ok(Target { node: here.node, port: here.port, hops: path.len() as u8 })
    }

    /// Which node is at the end of a path from another, over switches, and hosts that may manage
    /// them: what others relay, they may have made up.
    pub(super) fn there(&self, from: Node, path: &[u8]) -> Option<u64> {
        let target = self.target(from, path, |host| self.topology.may_manage(host));
        target.ok().map(|target| self.hwid_of(target.node))
    }

    fn config_read(&self, target: &Target, config: &ConfigRequest) -> Option<u32> {
        let address = config.address;
        match (config.space, target.node) {
            (WEFT_SPACE_CONFIG, _) => Some(self.register(target, address)),
            (WEFT_SPACE_ROUTE, Node::Switch(n)) => {
                let port = self.switches[n].routes.get(&address);
                Some(port.map_or(0, |port| WEFT_TABLE_VALID | u32::from(*port)))
            }
            (WEFT_SPACE_VP, Node::Switch(n)) => {
                let vh = self.switches[n].vps.get(&vp_address(address)?);
                Some(vh.map_or(0, |vh| WEFT_TABLE_VALID | u32::from(*vh)))
            }
            (WEFT_SPACE_BASE, Node::Host(host)) => self.base_read(host, address),
            (WEFT_SPACE_PLUG, Node::Switch(n)) => self.slot_read(n, address),
            _ => None,
        }
    }

    fn config_write(
        &mut self,
        host: usize,
        target: &Target,
        config: &ConfigRequest,
        data: u32,
    ) -> Result<(), u32> {
        let Node::Switch(n) = target.node else { return Err(WEFT_CFG_READ_ONLY) };
        if config.space == WEFT_SPACE_CONFIG || !self.topology.may_manage(host) {
            return Err(WEFT_CFG_READ_ONLY);
        }
        let hwid = self.session(host).map_or(0, |s| s.hwid);
        self.switches[n].accept(hwid, config.term)?;
        self.firmware_accepts(target.node, hwid, config.term);
        let valid = data & WEFT_TABLE_VALID != 0;
        let change = match config.space {
            WEFT_SPACE_ROUTE => {
                let port = valid.then_some(field(data, WEFT_TABLE_PORT) as u8);
                self.set_route(n, config.address, port)?
            }
            WEFT_SPACE_VP => {
                let (port, vp) = vp_address(config.address).ok_or(WEFT_CFG_BAD)?;
                let vh = valid.then_some(field(data, WEFT_TABLE_VH) as u16);
                self.set_vp(n, port, vp, vh)?
            }
            WEFT_SPACE_PLUG => self.slot_write(n, config.address, data)?,
            _ => return Err(WEFT_CFG_BAD),
        };
        let node = self.topology.switches[n].name.clone();
        let term = config.term;
        self.effects.push(Effect::Event(Event::Table { node, change, master: hwid, term }));
        Ok(())
    }

    fn term_of(&self, node: Node) -> u32 {
        match node {
            Node::Switch(n) => self.switches[n].term,
            Node::Host(_) => 0,
        }
    }

    /// A configuration register; what is reserved reads 0.
    fn register(&self, target: &Target, address: u32) -> u32 {
        let (low, high) = (address & !4, address & 4 != 0);
        let half = |value: u64| if high { (value >> 32) as u32 } else { value as u32 };
        let ports = self.topology.ports(target.node);
        let stopped = WEFT_CS_STOPPED..WEFT_CS_STOPPED + 8 * super::switch::REASONS as u32;
        let groups = WEFT_CS_PORT..WEFT_CS_PORT + WEFT_CS_PORT_STRIDE * u32::from(ports);
        let vpd = WEFT_CS_VPD..WEFT_CS_VPD + WEFT_CS_VPD_BYTES;
        match (address, target.node) {
            (_, _) if address % 4 != 0 => 0,
            (WEFT_CS_ID, Node::Host(host)) => {
                let endpoint = self.topology.hosts[host].endpoint.is_some();
                let id = if endpoint { WEFT_DEVICE_ID_ENDPOINT } else { WEFT_DEVICE_ID_PF };
                (id << 16) | WEFT_VENDOR_ID
            }
            (WEFT_CS_ID, Node::Switch(_)) => (WEFT_DEVICE_ID_SWITCH << 16) | WEFT_VENDOR_ID,
            (WEFT_CS_PORTS, _) => u32::from(ports) | (u32::from(target.port) << 8),
            _ if low == WEFT_CS_HWID => half(self.hwid_of(target.node)),
            _ if groups.contains(&address) => {
                let at = address - WEFT_CS_PORT;
                let port = (at / WEFT_CS_PORT_STRIDE) as u8;
                let end = End { node: target.node, port };
                self.port_register(end, (at % WEFT_CS_PORT_STRIDE) & !4, half)
            }
            (_, node) if vpd.contains(&address) => {
                let bytes = self.vpd(node);
                let at = (address - WEFT_CS_VPD) as usize;
                let byte = |n: usize| bytes.get(at + n).copied().unwrap_or(0);
                u32::from_le_bytes(std::array::from_fn(byte))
            }
            (_, Node::Host(host)) => self.base_register(host, address),
            (WEFT_CS_TERM, Node::Switch(n)) => self.switches[n].term,
            (WEFT_CS_CAP, Node::Switch(_)) => SWITCH_ROUTES as u32 | (u32::from(VPS) << 24),
            (_, Node::Switch(n)) if low == WEFT_CS_MASTER => half(self.switches[n].master),
            (_, Node::Switch(n)) if stopped.contains(&address) => {
                let why = (address - WEFT_CS_STOPPED) as usize / 8;
                half(self.switches[n].stopped.get(why).copied().unwrap_or(0))
            }
            _ => 0,
        }
    }

    /// The hardware id of a node that can be reached, so of a host that is there.
    pub(super) fn hwid_of(&self, node: Node) -> u64 {
        match node {
            Node::Host(host) => self.session(host).map_or(0, |s| s.hwid),
            Node::Switch(n) => self.topology.switches[n].hwid,
        }
    }

    fn port_register(&self, end: End, register: u32, half: impl Fn(u64) -> u32) -> u32 {
        if register == WEFT_CS_PORT_STATUS {
            let slot = match end.node {
                Node::Switch(n) => self.slot_register(n, end.port),
                Node::Host(_) => 0,
            };
            return half(u64::from(self.port_status(end)) | (u64::from(slot) << 32));
        }
        let Some(cable) = self.topology.cable_at(end) else { return 0 };
        let out = usize::from(self.topology.cables[cable].ends[0] != end);
        let [sent, taken] = [out, 1 - out].map(|side| self.traffic[cable][side]);
        half(match register {
            WEFT_CS_PORT_OUT_TLPS => sent.tlps,
            WEFT_CS_PORT_OUT_BYTES => sent.bytes,
            WEFT_CS_PORT_OUT_DBS => sent.doorbells,
            WEFT_CS_PORT_IN_TLPS => taken.tlps,
            WEFT_CS_PORT_IN_BYTES => taken.bytes,
            WEFT_CS_PORT_IN_DBS => taken.doorbells,
            _ => 0,
        })
    }

    /// As `LINK_STATUS` of a port.
    fn port_status(&self, end: End) -> u32 {
        let Some((trunk, side)) = self.topology.trunk_at(end) else { return 0 };
        let far = self.topology.trunks[trunk].ends[1 - side];
        let (present, switch) = match far.node {
            Node::Host(host) => (self.session(host).is_some(), false),
            Node::Switch(_) => (self.is_plugged(far.node), true),
        };
        let [(speed, width), _] = self.trunk_rates(trunk);
        let rate = (u32::from(speed) << WEFT_LINK_SPEED.trailing_zeros())
            | (u32::from(width) << WEFT_LINK_WIDTH.trailing_zeros());
        let flag = |set: bool, bits: u32| if set { bits } else { 0 };
        flag(self.trunk_up(trunk), WEFT_LINK_UP | rate)
            | flag(present, WEFT_LINK_PRESENT)
            | flag(side == 1, WEFT_LINK_ROLE_EP)
            | flag(switch, WEFT_LINK_SWITCH)
    }
}

/// Port and VP of an address of the VP tables.
fn vp_address(address: u32) -> Option<(u8, u8)> {
    let (port, vp) = (u8::try_from(address >> 8).ok()?, address as u8);
    (vp < VPS).then_some((port, vp))
}
