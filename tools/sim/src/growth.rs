// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A fabric that grows from one in which every node explores to a large one, in rounds of a millisecond.

use crate::{
    rng::Rng,
    scale::Heap,
    topology::{End, Topology},
};
use std::collections::VecDeque;
use weft_proto::{
    mac::{Mac, Tag},
    nm::{
        assignments::MAX_ASSIGNMENTS,
        kind::NO_HOST,
        mastership::Mastership,
        member::Member,
        modes::{self, Modes},
        node::{self, Node, Role, TICK_MS, There},
        path::Path,
        port::{PORTS, Port},
        table::{self, Slot},
    },
};

/// A manager in memory of its own.
pub type Manager = Modes<Vec<Member>, Vec<Slot>, Vec<u8>, Vec<u64>, Heap>;

/// The fabric.
pub struct Growth {
    topology: Topology,
    hwids: Vec<u64>,
    /// The nodes; `None` for one that is off.
    pub nodes: Vec<Option<Manager>>,
    coming: VecDeque<Vec<(End, Vec<u8>)>>,
    /// Messages lost and late, in thousandths.
    pub faults: (u32, u32),
    lives: u32,
    carries: usize,
    /// The round.
    pub now: u64,
    /// A route has changed in this round.
    pub changed: bool,
    /// Whether each node's routes are quiesced.
    pub rests: Vec<bool>,
    /// Until when something is under way over each node's routes.
    pub busy: Vec<u64>,
    rng: Rng,
}

/// What a manager does: the hardware ids at the ends of paths are those of nodes that are on.
struct Acts<'a> {
    topology: &'a Topology,
    hwids: &'a [u64],
    node: usize,
    sent: Vec<(u8, Vec<u8>)>,
    changed: bool,
    rests: bool,
    is_busy: bool,
}

impl table::Effects for Acts<'_> {
    fn route(&mut self, _lid: u32, _port: Option<u8>) {
        self.changed = true;
    }
}

impl Mac for Acts<'_> {
    fn tag(&self, _message: &[u8]) -> Option<Tag> {
        None
    }
}

impl node::Effects for Acts<'_> {
    fn send(&mut self, port: u8, message: &[u8]) {
        self.sent.push((port, message.to_vec()));
    }

    fn role(&mut self, _role: Role, _mastership: &Mastership) {}

    fn lid(&mut self, _lid: u32) {
        self.changed = true;
    }

    fn assignments(&mut self, _version: u32) {}

    fn rest(&mut self, on: bool) {
        self.rests = on;
    }

    fn is_at_rest(&mut self) -> bool {
        self.rests && !self.is_busy
    }

    fn there(&mut self, path: &Path) -> There {
        let step = |at: usize, port: &u8| self.topology.peer((at, *port)).map(|(peer, _)| peer);
        let end = path.ports().iter().try_fold(self.node, step);
        end.map_or(There::Nothing, |end| There::Node(self.hwids[end]))
    }
}

impl modes::Effects for Acts<'_> {
    fn routes(&mut self, _first: u32, _last: u32, _port: Option<u8>) {
        self.changed = true;
    }
}

impl Growth {
    /// All nodes off. A node has memory to explore so many.
    pub fn new(topology: Topology, mut hwids: Vec<u64>, carries: usize, seed: u64) -> Self {
        for (node, hwid) in hwids.iter_mut().enumerate() {
            if topology.is_switch(node) {
                *hwid |= NO_HOST;
            }
        }
        let count = topology.len();
        Self {
            carries,
            nodes: (0..topology.len()).map(|_| None).collect(),
            topology,
            hwids,
            coming: VecDeque::new(),
            faults: (0, 0),
            lives: 0,
            now: 0,
            changed: false,
            rests: vec![false; count],
            busy: vec![0; count],
            rng: Rng::new(seed),
        }
    }

    /// A node starts with an empty memory, or dies.
    pub fn power(&mut self, node: usize, on: bool) {
        self.lives += 1;
        let bytes = [2 * MAX_ASSIGNMENTS, 0, 0].map(|bytes| vec![0; bytes]);
        let small = Node::new(
            self.hwids[node],
            self.lives,
            vec![Member::NONE; self.carries],
            vec![Slot::NONE; 2 * self.carries],
            bytes,
            Vec::new(),
        );
        self.rests[node] = false;
        self.nodes[node] = on.then(|| Modes::new(small, Heap::endless()));
        for port in 0..PORTS as u8 {
            let Some(peer) = self.topology.peer((node, port)) else {
                continue;
            };
            for round in &mut self.coming {
                round.retain(|(to, _)| *to != peer && *to != (node, port));
            }
            for end in [(node, port), peer] {
                self.work(end.0, |node, now, fx| node.port(now, end.1, Port::NONE, fx));
            }
            for end in [(node, port), peer] {
                let up = self.passes(end).map_or(Port::NONE, |(peer, _)| Port {
                    peer: self.hwids[peer],
                    speed: 3,
                    width: 8,
                    excluded: false,
                });
                self.work(end.0, |node, now, fx| node.port(now, end.1, up, fx));
            }
        }
    }

    fn passes(&self, end: End) -> Option<End> {
        let peer = self.topology.peer(end)?;
        (self.nodes[end.0].is_some() && self.nodes[peer.0].is_some()).then_some(peer)
    }

    fn work(&mut self, number: usize, what: impl FnOnce(&mut Manager, u64, &mut Acts<'_>)) {
        let Some(node) = &mut self.nodes[number] else {
            return;
        };
        let mut acts = Acts {
            topology: &self.topology,
            hwids: &self.hwids,
            node: number,
            sent: Vec::new(),
            changed: false,
            rests: self.rests[number],
            is_busy: self.now < self.busy[number],
        };
        what(node, self.now, &mut acts);
        let Acts { sent, changed, rests, .. } = acts;
        self.changed |= changed;
        self.rests[number] = rests;
        for (port, bytes) in sent {
            if self.passes((number, port)).is_none() || self.rng.chance(self.faults.0) {
                continue;
            }
            let late = self.rng.chance(self.faults.1);
            let delay = if late { self.rng.below(40) as usize } else { 0 };
            while self.coming.len() <= delay {
                self.coming.push_back(Vec::new());
            }
            if let Some(to) = self.topology.peer((number, port)) {
                self.coming[delay].push((to, bytes));
            }
        }
    }

    /// Lets a round pass.
    pub fn step(&mut self) {
        self.now += 1;
        self.changed = false;
        let mut acted = vec![false; self.nodes.len()];
        for (to, bytes) in self.coming.pop_front().unwrap_or_default() {
            self.work(to.0, |node, now, fx| node.receive(now, to.1, &bytes, fx));
            acted[to.0] = true;
        }
        for (number, acted) in acted.into_iter().enumerate() {
            let now = self.now;
            let Some(node) = &self.nodes[number] else {
                continue;
            };
            // A node of the small mode ticks as the driver has it.
            let due = match node.large() {
                Some(_) => acted || node.due(now).is_some_and(|due| due <= now),
                None => {
                    let mine = (now + number as u64) % TICK_MS == 0;
                    mine && node.due(now).is_some_and(|due| due <= now + TICK_MS)
                }
            };
            if due {
                self.work(number, |node, now, fx| node.tick(now, fx));
            }
        }
    }

    /// The node at which a packet for `lid` ends that `from` sends; `None` for a node without a route,
    /// `Some(None)` for never.
    pub fn follow(&self, from: usize, lid: u32) -> Option<Option<usize>> {
        let mut node = from;
        for _ in 0..self.nodes.len() {
            let here = self.nodes[node].as_ref()?;
            if here.lid() == lid {
                return Some(Some(node));
            }
            node = self.passes((node, here.lookup(lid)?))?.0;
        }
        Some(None)
    }

    /// Whether all nodes that are on have a local id, and a route to each of these.
    pub fn is_whole(&self) -> bool {
        let lids: Vec<u32> = self.nodes.iter().flatten().map(Modes::lid).collect();
        let on = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_some());
        let ends = on.zip(&lids).all(|(to, lid)| {
            let sources = (0..self.nodes.len()).filter(|from| self.nodes[*from].is_some());
            let mut ends = sources.map(|from| self.follow(from, *lid));
            *lid != 0 && ends.all(|end| end == Some(Some(to)))
        });
        ends && !lids.is_empty()
    }
}
