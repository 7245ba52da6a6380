// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The fabric's state as `status` shows it. These are the names scripts read:
//! add to them, do not change them.

use super::Fabric;
use super::effect::AdminState;
use serde::{Deserialize, Serialize};

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
    /// Where it sits.
    pub blade: Option<String>,
    /// Bytes of RAM it offers.
    pub ram: u64,
    /// Open inbound entries.
    pub apertures: usize,
    /// Neighbours that have not confirmed a change of its apertures.
    pub waiting_for: Vec<String>,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// As in the topology.
    pub name: String,
    /// Number of ports.
    pub ports: u8,
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
}

impl Fabric {
    /// Everything there is to see.
    pub fn status(&self) -> Status {
        let topology = &self.topology;
        let switch =
            |s: &crate::topology::Switch| SwitchStatus { name: s.name.clone(), ports: s.ports };
        Status {
            nodes: (0..self.nodes.len()).map(|n| self.node_status(n)).collect(),
            switches: topology.switches.iter().map(switch).collect(),
            links: (0..self.paths.len()).map(|n| self.link_status(n)).collect(),
            cables: (0..self.cables.len()).map(|n| self.cable_status(n)).collect(),
        }
    }

    fn node_status(&self, n: usize) -> NodeStatus {
        let (host, node) = (&self.topology.hosts[n], &self.nodes[n]);
        let session = node.session.as_ref();
        let waiting_for = session.map_or(vec![], |s| {
            let places = s.inbound.waiting_for().filter_map(|link| self.place(n, link));
            places
                .map(|p| self.topology.paths[p.path].ends[1 - p.side])
                .map(|far| self.topology.hosts[far.host].name.clone())
                .collect()
        });
        NodeStatus {
            name: host.name.clone(),
            connected: session.is_some(),
            generation: node.generation,
            hwid: session.map_or(host.hwid, |s| s.hwid),
            enabled: session.is_some_and(|s| s.enabled),
            traced: node.traced,
            blade: host.blade.clone(),
            ram: session.map_or(0, |s| s.ram),
            apertures: session.map_or(0, |s| s.inbound.open()),
            waiting_for,
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
        }
    }
}
