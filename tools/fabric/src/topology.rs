// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the fabric consists of: hosts (ports), switches and the cables between
//! them, read from TOML and checked as a whole. Cables that lead through switches
//! are resolved to the hosts at their far ends. Knows nothing of what happens at
//! run time.

mod file;
mod resolve;
#[cfg(test)]
mod tests;

use crate::wire::{LINKS, abi};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

pub use file::parse;

/// Generations of PCI Express a link can have.
pub const SPEEDS: std::ops::RangeInclusive<u8> = 1..=6;
/// Lanes a link can have.
pub const WIDTHS: [u8; 5] = [1, 2, 4, 8, 16];
/// Longest name of a host or a switch.
pub const MAX_NAME: usize = 32;
/// Most virtual endpoints of a shared endpoint: the planes of its link but VP 0,
/// which is everybody's.
pub const MAX_VES: u8 = abi::WEFT_EP_MAX_VES as u8;
/// Most functions of a virtual endpoint.
pub const MAX_VE_FUNCTIONS: u8 = abi::WEFT_EP_MAX_FUNCTIONS as u8;
/// Most ports of a switch.
pub const MAX_SWITCH_PORTS: u8 = 64;

/// A host's port as the topology describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Unique among hosts and switches.
    pub name: String,
    /// Unique among hosts.
    pub hwid: u64,
    /// The file gives the hardware id: a port may not ask for another.
    pub hwid_given: bool,
    /// Blade the host sits in.
    pub blade: Option<String>,
    /// It is there at the start.
    pub plugged: bool,
    /// It is no host: an endpoint that hosts share. It connects and has a port like
    /// one, but only one, and the fabric plays it.
    pub endpoint: Option<Endpoint>,
}

/// What makes a shared endpoint of a [`Host`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// What it does.
    pub kind: Kind,
    /// Virtual endpoints, 1 to [`MAX_VES`].
    pub ves: u8,
    /// Functions of each, 1 to [`MAX_VE_FUNCTIONS`].
    pub functions: u8,
    /// Of its VPD.
    pub vendor: String,
    /// Part number.
    pub part: String,
    /// Serial number.
    pub serial: String,
}

/// What a shared endpoint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Copies memory and computes CRC-32C.
    Copy,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Unique among hosts and switches.
    pub name: String,
    /// Number of its ports.
    pub ports: u8,
    /// Unique among hosts and switches, derived from the name.
    pub hwid: u64,
    /// Blade the switch sits in.
    pub blade: Option<String>,
    /// Blade that what is at its ports sits in, where it does not say.
    pub resident: Option<String>,
    /// It is there at the start.
    pub plugged: bool,
    /// It passes on what its tables say. One that does not only joins two cables.
    pub routes: bool,
}

/// Something that cables are plugged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// Index in [`Topology::hosts`].
    Host(usize),
    /// Index in [`Topology::switches`].
    Switch(usize),
}

/// One end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    /// Where it is plugged in.
    pub node: Node,
    /// Into which port.
    pub port: u8,
}

/// A `[[link]]` of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The first end is the root complex side.
    pub ends: [End; 2],
    /// Highest generation.
    pub speed: u8,
    /// Most lanes.
    pub width: u8,
    /// Switched on at the start.
    pub up: bool,
    /// What is wanted of its speed at the start.
    pub power: Power,
}

/// What is wanted of the speed of a cable, in the words that a host has for its links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Power {
    /// The most that it can.
    #[default]
    Performance,
    /// What its traffic asks for. Only of one whose neighbours are no hosts.
    Auto,
}

/// A host's end of a [`Path`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostEnd {
    /// Index in [`Topology::hosts`].
    pub host: usize,
    /// Link of that host, below [`LINKS`].
    pub link: u8,
}

/// What joins two hosts: one cable, or several with switches in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The first end is the root complex side.
    pub ends: [HostEnd; 2],
    /// Indices in [`Topology::cables`], from the first end to the second.
    pub cables: Vec<usize>,
    /// Indices in [`Topology::switches`], in the same order.
    pub via: Vec<usize>,
}

/// What joins two neighbours for routes: as a [`Path`], but switches that route
/// are neighbours as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// The first end is the root complex side.
    pub ends: [End; 2],
    /// Indices in [`Topology::cables`], from the first end to the second.
    pub cables: Vec<usize>,
    /// Indices in [`Topology::switches`], those that only join.
    pub via: Vec<usize>,
    /// Index in [`Topology::paths`], if both ends are hosts.
    pub path: Option<usize>,
}

/// A checked topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// In the order of the file, as are the others; shared endpoints after hosts.
    pub hosts: Vec<Host>,
    /// Those that route, and those that only join cables.
    pub switches: Vec<Switch>,
    /// Everything that can be plugged and switched.
    pub cables: Vec<Cable>,
    /// Which hosts are neighbours.
    pub paths: Vec<Path>,
    /// The steps of which routes consist: every path, and what leads to a switch
    /// that routes.
    pub trunks: Vec<Trunk>,
    /// Which trunk ends at a port, and with which side.
    pub trunk_ends: HashMap<End, (usize, usize)>,
    /// The hosts that may program switches; none: all may.
    pub managers: Vec<usize>,
    /// What it says of hardware ids is true; else nodes have to believe each other.
    pub attests: bool,
}

/// A fault of the file, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// From 1; 0 where the whole file is meant.
    pub line: usize,
    /// Names the object, the limit and what to do.
    pub message: String,
}

impl Topology {
    /// Index of the host called `name`.
    pub fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|h| h.name == name)
    }

    /// The host, endpoint or switch called `name`.
    pub fn node(&self, name: &str) -> Option<Node> {
        let switch = || self.switches.iter().position(|s| s.name == name).map(Node::Switch);
        self.host(name).map(Node::Host).or_else(switch)
    }

    /// What a node is called.
    pub fn name(&self, node: Node) -> &str {
        match node {
            Node::Host(n) => &self.hosts[n].name,
            Node::Switch(n) => &self.switches[n].name,
        }
    }

    /// `host`, `endpoint` or `switch`.
    pub fn kind(&self, node: Node) -> &'static str {
        match node {
            Node::Host(n) if self.hosts[n].endpoint.is_some() => "endpoint",
            Node::Host(_) => "host",
            Node::Switch(_) => "switch",
        }
    }

    /// Number of ports of a node.
    pub fn ports(&self, node: Node) -> u8 {
        match node {
            Node::Host(n) if self.hosts[n].endpoint.is_some() => 1,
            Node::Host(_) => LINKS as u8,
            Node::Switch(n) => self.switches[n].ports,
        }
    }

    /// The cable plugged in at `end`.
    pub fn cable_at(&self, end: End) -> Option<usize> {
        self.cables.iter().position(|c| c.ends.contains(&end))
    }

    /// Switches do what this host tells them.
    pub fn may_manage(&self, host: usize) -> bool {
        let endpoint = self.hosts[host].endpoint.is_some();
        !endpoint && (self.managers.is_empty() || self.managers.contains(&host))
    }

    /// The trunk plugged in at `end`, and with which of its ends.
    pub fn trunk_at(&self, end: End) -> Option<(usize, usize)> {
        self.trunk_ends.get(&end).copied()
    }

    /// No host is at either end, so what runs in the nodes has to say how fast it should be.
    pub fn is_inner(&self, trunk: &Trunk) -> bool {
        let host = |end: &End| match end.node {
            Node::Host(n) => self.hosts[n].endpoint.is_none(),
            Node::Switch(_) => false,
        };
        !trunk.ends.iter().any(host)
    }

    /// Why a cable cannot follow its traffic by itself.
    pub fn why_not_auto(&self, cable: usize) -> Option<String> {
        let trunk = self.trunks.iter().find(|t| t.cables.contains(&cable));
        trunk.filter(|t| !self.is_inner(t)).map(|_| {
            let name = self.cable_name(cable);
            format!(
                "link {name}: power \"auto\" is for links without a host at either end; \
                     a host says it in linkN/power of its port"
            )
        })
    }

    /// `node:port`, as people write it.
    pub fn end_name(&self, end: End) -> String {
        format!("{}:{}", self.name(end.node), end.port)
    }

    /// Both ends of a cable.
    pub fn cable_name(&self, cable: usize) -> String {
        let [a, b] = self.cables[cable].ends;
        format!("{}--{}", self.end_name(a), self.end_name(b))
    }

    /// `host:link` of one end of a path.
    pub fn host_end_name(&self, end: HostEnd) -> String {
        format!("{}:{}", self.hosts[end.host].name, end.link)
    }

    /// Links a host's port has: up to the highest that has a cable.
    pub fn links_of(&self, host: usize) -> u8 {
        let ends = self.cables.iter().flat_map(|c| c.ends);
        ends.filter(|e| e.node == Node::Host(host)).map(|e| e.port + 1).max().unwrap_or(0)
    }
}

/// Splits `node:port`; which nodes and ports there are is not known here.
pub fn split_end(text: &str) -> Result<(&str, u8), String> {
    let parts = text.rsplit_once(':').map(|(node, port)| (node, port.parse::<u8>()));
    match parts {
        Some((node, Ok(port))) if !node.is_empty() => Ok((node, port)),
        _ => Err(format!("\"{text}\" does not name a port; write NODE:PORT, as in h1:0")),
    }
}
