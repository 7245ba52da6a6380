// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which port is joined to which.

use crate::rng::Rng;
use std::{fmt, str::FromStr};
use weft_proto::nm::port::{HOST_PORTS, PORTS};

/// One end of a link: a node and its port.
pub type End = (usize, u8);

/// Most nodes of a torus of hosts: in a larger one routes would have more than 32 links.
const FLAT: usize = 576;

/// A wiring.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// The neighbour at each port of each node.
    pub peers: Vec<[Option<End>; PORTS]>,
    /// Which nodes are switches: they have more ports, and are never master. Those behind the end are none.
    pub switches: Vec<bool>,
}

/// Kinds of wirings that are made by a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One after the other.
    Chain,
    /// A chain whose ends are joined.
    Ring,
    /// A rectangle whose opposite sides are joined.
    Torus,
    /// Each node has up to three below it.
    Tree,
    /// Every node has four ports in use, or three, joined by lot; connected.
    Random,
    /// A third are switches, joined by lot; each host is at one or two of them.
    Switched,
    /// Hosts below several levels of switches, each of which has as many links up as down.
    Fat,
}

impl Kind {
    /// Those that large fabrics are measured with.
    pub const LARGE: [Self; 5] = [Self::Ring, Self::Torus, Self::Tree, Self::Fat, Self::Random];
    /// Those of any number of nodes.
    pub const ALL: [Self; 6] =
        [Self::Chain, Self::Ring, Self::Torus, Self::Tree, Self::Random, Self::Switched];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Ring => "ring",
            Self::Torus => "torus",
            Self::Tree => "tree",
            Self::Random => "random",
            Self::Switched => "switched",
            Self::Fat => "fat",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = || Self::ALL.into_iter().chain([Self::Fat]);
        let kind = all().find(|kind| kind.name() == name);
        let all = all().map(Self::name).collect::<Vec<_>>().join(", ");
        kind.ok_or(format!("no such topology; there are {all}"))
    }
}

impl Topology {
    /// Nodes without links.
    pub fn new(nodes: usize) -> Self {
        Self { peers: vec![[None; PORTS]; nodes], switches: vec![] }
    }

    /// Whether a node is a switch.
    pub fn is_switch(&self, node: usize) -> bool {
        self.switches.get(node).copied().unwrap_or(false)
    }

    fn ports(&self, node: usize) -> usize {
        if self.is_switch(node) { PORTS } else { HOST_PORTS }
    }

    /// A wiring by a rule. `seed` is for those that are made by lot.
    pub fn of(kind: Kind, nodes: usize, seed: u64) -> Self {
        match kind {
            Kind::Chain => Self::chain(nodes),
            Kind::Ring => Self::ring(nodes),
            Kind::Torus if nodes > FLAT => Self::deep_torus(nodes),
            Kind::Torus => Self::torus(nodes),
            Kind::Tree => Self::tree(nodes),
            Kind::Random => Self::random(nodes, seed),
            Kind::Switched => Self::switched(nodes, seed),
            Kind::Fat => Self::fat(nodes),
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Joins two ports that are free. Whether they were.
    pub fn join(&mut self, a: End, b: End) -> bool {
        let free = |(node, port): End| {
            let ports = self.peers.get(node);
            let end = ports.and_then(|ports| ports.get(usize::from(port)));
            end == Some(&None) && usize::from(port) < self.ports(node)
        };
        if a == b || !free(a) || !free(b) {
            return false;
        }
        self.peers[a.0][usize::from(a.1)] = Some(b);
        self.peers[b.0][usize::from(b.1)] = Some(a);
        true
    }

    /// The neighbour at a port.
    pub fn peer(&self, (node, port): End) -> Option<End> {
        *self.peers.get(node)?.get(usize::from(port))?
    }

    /// Each link once.
    pub fn links(&self) -> Vec<(End, End)> {
        let mut links = Vec::new();
        for (node, ports) in self.peers.iter().enumerate() {
            for (peer, port) in ports.iter().zip(0u8..) {
                if let Some(peer) = peer.filter(|peer| (node, port) < *peer) {
                    links.push(((node, port), peer));
                }
            }
        }
        links
    }

    fn free_port(&self, node: usize) -> Option<u8> {
        let at = self.peers.get(node)?.iter().position(Option::is_none)?;
        (at < self.ports(node)).then_some(at as u8)
    }

    /// Joins any free ports of two nodes. Whether there were any.
    pub fn join_nodes(&mut self, a: usize, b: usize) -> bool {
        match (self.free_port(a), self.free_port(b)) {
            (Some(p), Some(q)) if a != b => self.join((a, p), (b, q)),
            _ => false,
        }
    }

    /// One after the other: port 0 is towards the end.
    pub fn chain(nodes: usize) -> Self {
        let mut topology = Self::new(nodes);
        for node in 1..nodes {
            topology.join((node - 1, 0), (node, 1));
        }
        topology
    }

    /// A chain whose ends are joined.
    pub fn ring(nodes: usize) -> Self {
        let mut topology = Self::chain(nodes);
        if nodes > 2 {
            topology.join((nodes - 1, 0), (0, 1));
        }
        topology
    }

    /// A rectangle, as near a square as `nodes` allows, whose opposite sides are joined.
    pub fn torus(nodes: usize) -> Self {
        let root = nodes.isqrt();
        let width = (1..=root).rev().find(|w| nodes % w == 0).unwrap_or(1);
        let height = nodes.checked_div(width).unwrap_or(0);
        let mut topology = Self::new(nodes);
        for node in 0..nodes {
            let (x, y) = (node % width, node / width);
            if width > 1 {
                topology.join((node, 0), (y * width + (x + 1) % width, 1));
            }
            if height > 1 {
                topology.join((node, 2), ((y + 1) % height * width + x, 3));
            }
        }
        topology
    }

    /// A torus of switches with as many dimensions as keep it narrow, and a host at each.
    fn deep_torus(nodes: usize) -> Self {
        let switches = nodes / 2;
        let mut topology = Self::new(2 * switches);
        topology.switches = vec![true; switches];
        let mut step = 1;
        while step < switches {
            let left = switches / step;
            let side = if left <= 16 { left } else { 8 };
            for node in 0..switches {
                let at = node / step % side;
                topology.join_nodes(node, node - at * step + (at + 1) % side * step);
            }
            step *= side;
        }
        for node in 0..switches {
            topology.join_nodes(node, switches + node);
        }
        topology
    }

    /// The largest fat tree of no more than so many nodes, hosts and switches.
    fn fat(nodes: usize) -> Self {
        // Links up and down of a switch, and levels.
        let sizes = (2..=8).flat_map(|ways| (2..=6u32).map(move |levels| (ways, levels)));
        let count = |(ways, levels): (usize, u32)| ways.pow(levels - 1) * (ways + levels as usize);
        let sizes = sizes.filter(|size| count(*size) <= nodes);
        let (ways, levels) = sizes.max_by_key(|size| count(*size)).unwrap_or((2, 2));
        let row = ways.pow(levels - 1);
        let switches = row * levels as usize;
        let mut topology = Self::new(switches + row * ways);
        topology.switches = vec![true; switches];
        for level in 0..levels - 1 {
            let step = ways.pow(level);
            for node in 0..row {
                for other in 0..ways {
                    let below = node - node / step % ways * step + other * step;
                    let (above, below) =
                        (level as usize * row + node, (level as usize + 1) * row + below);
                    topology.join_nodes(above, below);
                }
            }
        }
        for host in 0..row * ways {
            topology.join_nodes(switches - row + host / ways, switches + host);
        }
        topology
    }

    /// Each node has up to three below it.
    pub fn tree(nodes: usize) -> Self {
        let mut topology = Self::new(nodes);
        for node in 1..nodes {
            let parent = (node - 1) / 3;
            topology.join((parent, 1 + ((node - 1) % 3) as u8), (node, 0));
        }
        topology
    }

    /// A tree by lot, and then links by lot until nearly all ports are in use.
    pub fn random(nodes: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut topology = Self::new(nodes);
        // Nodes of the tree that have a free port.
        let mut open = vec![0];
        for node in 1..nodes {
            while !open.is_empty() {
                let at = rng.below(open.len() as u64) as usize;
                // One port is left for what comes by lot.
                let used = topology.peers[open[at]].iter().flatten().count();
                if used + 1 < HOST_PORTS && topology.join_nodes(open[at], node) {
                    break;
                }
                open.swap_remove(at);
            }
            open.push(node);
        }
        let mut ends: Vec<usize> = (0..nodes)
            .flat_map(|node| {
                let free = topology.peers[node].iter().take(HOST_PORTS);
                std::iter::repeat_n(node, free.filter(|peer| peer.is_none()).count())
            })
            .collect();
        rng.shuffle(&mut ends);
        for pair in ends.chunks_exact(2) {
            let joined = topology.peers[pair[0]].iter().flatten();
            if joined.clone().all(|(node, _)| *node != pair[1]) {
                topology.join_nodes(pair[0], pair[1]);
            }
        }
        topology
    }

    /// Switches joined by lot, and hosts at one or two of them each; connected.
    pub fn switched(nodes: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut topology = Self::new(nodes);
        let switches = nodes.div_ceil(3);
        topology.switches = vec![true; switches];
        for switch in 1..switches {
            // Of the last ones, so that none is full.
            let before = switch - 1 - rng.below(switch.min(3) as u64) as usize;
            topology.join_nodes(before, switch);
        }
        for _ in 0..switches / 2 {
            let [a, b] = [0; 2].map(|_| rng.below(switches as u64) as usize);
            topology.join_nodes(a, b);
        }
        for host in switches..nodes {
            topology.join_nodes(host % switches, host);
            if rng.below(2) == 0 {
                topology.join_nodes(rng.below(switches as u64) as usize, host);
            }
        }
        topology
    }
}
