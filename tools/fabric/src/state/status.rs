// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The fabric's state as `status` shows it. These are the names scripts read:
//! add to them, do not change them.

use super::Fabric;
use super::base::EndpointStatus;
use super::effect::AdminState;
use super::plug::SlotStatus;
use super::tables::reason;
use crate::topology::Power;
use crate::wire::Traffic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole fabric at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// In the topology's order.
    pub nodes: Vec<NodeStatus>,
    /// Left out of the picture where a link has none.
    pub switches: Vec<SwitchStatus>,
    /// Between two hosts.
    pub links: Vec<LinkStatus>,
    /// What the administrator plugs and switches.
    pub cables: Vec<CableStatus>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// As in the topology.
    pub name: String,
    /// It is there.
    pub plugged: bool,
    /// A port is there.
    pub connected: bool,
    /// Of the port that is there or was there last; 0: none yet.
    pub generation: u32,
    /// In effect, or of the topology.
    pub hwid: u64,
    /// Its guest has enabled the port.
    pub enabled: bool,
    /// Every TLP is counted.
    pub traced: bool,
    /// The seed, in adversarial mode.
    pub adversarial: Option<u64>,
    /// Where it sits.
    pub blade: Option<String>,
    /// Bytes of RAM it offers.
    pub ram: u64,
    /// Open inbound entries.
    pub apertures: usize,
    /// Neighbours that have not confirmed a change of its apertures.
    pub waiting_for: Vec<String>,
    /// It is no host, but an endpoint that hosts share.
    pub endpoint: Option<EndpointStatus>,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// As in the topology.
    pub name: String,
    /// Number of ports.
    pub ports: u8,
    /// It has tables; otherwise it joins two cables.
    pub routes: bool,
    /// Hardware id.
    pub hwid: u64,
    /// Hardware id of the port that has programmed it last, 0: none.
    pub master: u64,
    /// Its term.
    pub term: u32,
    /// It is there.
    pub plugged: bool,
    /// Hot-plug controllers of the ports that have a cable.
    pub slots: Vec<SlotStatus>,
    /// Traffic whose route ended here, by reason.
    pub stopped: BTreeMap<String, u64>,
}

/// A link between two hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// `host:link`; the first is the root complex side.
    pub ends: [String; 2],
    /// Switches on the way.
    pub via: Vec<String>,
    /// Data can pass.
    pub up: bool,
    /// Why not.
    pub why_down: Option<String>,
    /// Generation it runs at, or would.
    pub speed: u8,
    /// Lanes.
    pub width: u8,
    /// Highest generation of its cables.
    pub max_speed: u8,
    /// Most lanes of its cables.
    pub max_width: u8,
}

/// A cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CableStatus {
    /// `node:port`.
    pub ends: [String; 2],
    /// Switched on or off.
    pub state: AdminState,
    /// Generation it is limited to.
    pub speed: u8,
    /// Lanes it is limited to.
    pub width: u8,
    /// Highest generation.
    pub max_speed: u8,
    /// Most lanes.
    pub max_width: u8,
    /// Whether it follows its traffic, within the limit.
    pub power: Power,
    /// What has passed from the first end to the second, and back.
    pub traffic: [TrafficStatus; 2],
}

/// What has passed a cable in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficStatus {
    /// Memory TLPs, of ports that are traced.
    pub tlps: u64,
    /// Their payload, and the bytes that reads asked for.
    pub bytes: u64,
    /// Doorbells.
    pub doorbells: u64,
}

impl From<&Traffic> for TrafficStatus {
    fn from(t: &Traffic) -> Self {
        TrafficStatus { tlps: t.tlps, bytes: t.bytes, doorbells: t.doorbells }
    }
}

impl Fabric {
    /// Everything there is to see.
    pub fn status(&self) -> Status {
        Status {
            nodes: (0..self.nodes.len()).map(|n| self.node_status(n)).collect(),
            switches: (0..self.switches.len()).map(|n| self.switch_status(n)).collect(),
            links: self.all_links(),
            cables: (0..self.cables.len()).map(|n| self.cable_status(n)).collect(),
        }
    }

    fn all_links(&self) -> Vec<LinkStatus> {
        let trunks = self.topology.trunks.iter().enumerate();
        let trunks = trunks.filter(|(_, t)| t.path.is_none()).map(|(n, _)| self.trunk_status(n));
        (0..self.paths.len()).map(|n| self.link_status(n)).chain(trunks).collect()
    }

    fn node_status(&self, n: usize) -> NodeStatus {
        let (host, node) = (&self.topology.hosts[n], &self.nodes[n]);
        let session = node.session.as_ref();
        let waiting_for = session.map_or(vec![], |s| {
            let channels = s.inbound.waiting_for().into_iter();
            let hosts = channels.filter_map(|channel| self.host_at(n, channel));
            hosts.map(|host| self.topology.hosts[host].name.clone()).collect()
        });
        NodeStatus {
            name: host.name.clone(),
            plugged: node.plugged,
            connected: session.is_some(),
            generation: node.generation,
            hwid: session.map_or(host.hwid, |s| s.hwid),
            enabled: session.is_some_and(|s| s.enabled),
            traced: node.traced,
            adversarial: node.adversarial,
            blade: host.blade.clone(),
            ram: session.map_or(0, |s| s.ram),
            apertures: session.map_or(0, |s| s.inbound.open()),
            waiting_for,
            endpoint: host.endpoint.as_ref().map(|e| self.endpoint_status(n, e)),
        }
    }

    /// The host at a channel of another.
    fn host_at(&self, host: usize, channel: u8) -> Option<usize> {
        let remote = || self.caller(host, channel).map(|who| who.host);
        let place = self.place(host, channel);
        place.map(|p| self.topology.paths[p.path].ends[1 - p.side].host).or_else(remote)
    }

    /// A link of which one end is a switch that routes, or both are.
    fn trunk_status(&self, n: usize) -> LinkStatus {
        let trunk = &self.topology.trunks[n];
        let [(speed, width), (max_speed, max_width)] = self.trunk_rates(n);
        let why_down = self.trunk_down(n);
        LinkStatus {
            ends: trunk.ends.map(|e| self.topology.end_name(e)),
            via: trunk.via.iter().map(|&s| self.topology.switches[s].name.clone()).collect(),
            up: why_down.is_none(),
            why_down,
            speed,
            width,
            max_speed,
            max_width,
        }
    }

    fn link_status(&self, n: usize) -> LinkStatus {
        let (speed, width) = self.path_rate(n);
        let (max_speed, max_width) = self.path_max(n);
        let via = &self.topology.paths[n].via;
        LinkStatus {
            ends: self.path_names(n),
            via: via.iter().map(|&s| self.topology.switches[s].name.clone()).collect(),
            up: self.paths[n].up,
            why_down: if self.paths[n].up { None } else { self.why_down(n) },
            speed,
            width,
            max_speed,
            max_width,
        }
    }

    fn cable_status(&self, n: usize) -> CableStatus {
        let (cable, state) = (&self.topology.cables[n], self.cables[n]);
        CableStatus {
            ends: cable.ends.map(|e| self.topology.end_name(e)),
            state: if state.up { AdminState::Up } else { AdminState::Down },
            speed: state.speed,
            width: state.width,
            max_speed: cable.speed,
            max_width: cable.width,
            power: state.power,
            traffic: self.traffic[n].each_ref().map(TrafficStatus::from),
        }
    }

    fn switch_status(&self, n: usize) -> SwitchStatus {
        let (switch, tables) = (&self.topology.switches[n], &self.switches[n]);
        let stopped = tables.stopped.iter().enumerate().filter(|(_, count)| **count > 0);
        SwitchStatus {
            name: switch.name.clone(),
            ports: switch.ports,
            routes: switch.routes,
            hwid: switch.hwid,
            master: tables.master,
            term: tables.term,
            plugged: tables.plugged,
            slots: self.slot_statuses(n),
            stopped: stopped.map(|(why, count)| (reason(why as u32).into(), *count)).collect(),
        }
    }
}
