// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Nodes that all explore, links between them, and what goes wrong there.

use crate::{
    rng::Rng,
    topology::{End, Topology},
};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    hash::{DefaultHasher, Hash, Hasher},
};
use weft_proto::mac::{Mac, Tag};
use weft_proto::nm::{
    assignments::MAX_ASSIGNMENTS,
    kind::NO_HOST,
    mastership::Mastership,
    member::Member,
    message::Taken,
    node::{Effects, Failure, LEASE_MS, Node, Role, TICK_MS, There},
    path::Path,
    port::{PORTS, Port},
    table::{self, Slot},
};

/// A manager in memory of its own.
pub type Manager = Node<Vec<Member>, Vec<Slot>, Vec<u8>, Vec<u64>>;

/// Microseconds that a message is on a link.
const LATENCY_US: u64 = 200;

/// What happens to messages, in thousandths of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Lost.
    pub lost: u32,
    /// Come twice.
    pub doubled: u32,
    /// Come later than those behind them.
    pub late: u32,
    /// Spoilt.
    pub spoilt: u32,
}

/// A node.
pub struct Host {
    /// Its manager.
    pub manager: Manager,
    /// How often its local id has changed from one that was not 0.
    pub lid_changes: u32,
    /// How often it was told of another hierarchy of its own.
    pub told: u32,
    /// The one that it was told of last, and took.
    pub hierarchy: Vec<u8>,
    /// It holds on to what its hierarchy has no more.
    pub holds: bool,
    /// It never comes to rest.
    pub busy: bool,
    /// Until when it rests.
    rests: u64,
    ticks: u64,
    hangs: bool,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick(usize, u64),
    /// A message, to an end of a link, in this life of the link.
    Message(End, u32, Vec<u8>),
}

/// Bytes of the longest hierarchy here.
pub const MAX_HIERARCHY: usize = 1024;
/// The first byte of a hierarchy that makes no sense.
pub const NONSENSE: u8 = 0xee;

/// What a manager has done, until the world does it.
struct Done<'a> {
    world: &'a World,
    node: usize,
    holds: bool,
    busy: bool,
    key: u64,
    told: u32,
    hierarchy: Option<Vec<u8>>,
    rests: Option<bool>,
    sent: Vec<(u8, Vec<u8>)>,
    lid: Option<u32>,
    wrote: bool,
}

impl table::Effects for Done<'_> {
    fn route(&mut self, _lid: u32, _port: Option<u8>) {
        self.wrote = true;
    }
}

/// Returns the tag of a message: no cryptography, but as hard to guess for what is simulated.
pub fn tag(key: u64, message: &[u8]) -> Option<Tag> {
    let half = |n: u8| {
        let mut hasher = DefaultHasher::new();
        (key, n, message).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (key != 0).then(|| ((half(1) << 64) | half(2)).to_le_bytes())
}

impl Mac for Done<'_> {
    fn tag(&self, message: &[u8]) -> Option<Tag> {
        tag(self.key, message)
    }
}

impl Effects for Done<'_> {
    fn send(&mut self, port: u8, message: &[u8]) {
        self.sent.push((port, message.to_vec()));
    }

    fn role(&mut self, _role: Role, _mastership: &Mastership) {}

    fn lid(&mut self, lid: u32) {
        self.lid = Some(lid);
    }

    fn assignments(&mut self, _version: u32) {}

    fn hierarchy(&mut self, bytes: &[u8]) -> Result<(), Taken> {
        if bytes.first() == Some(&NONSENSE) {
            return Err(Taken::Bad);
        }
        self.told += 1;
        self.hierarchy = Some(bytes.to_vec());
        Ok(())
    }

    fn there(&mut self, path: &Path) -> There {
        self.world.there(self.node, path).map_or(There::Nothing, There::Node)
    }

    fn attests(&self) -> bool {
        !self.world.blind
    }

    fn let_go(&mut self) -> bool {
        !self.holds
    }

    fn rest(&mut self, on: bool) {
        self.rests = Some(on);
    }

    fn is_at_rest(&mut self) -> bool {
        !self.busy
    }
}

/// What one link is like.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Messages pass.
    pub up: bool,
    /// Generation.
    pub speed: u8,
    /// Lanes.
    pub width: u8,
    /// The administrator wants no data on it.
    pub excluded: bool,
    life: u32,
}

/// A fabric.
pub struct World {
    /// Which nodes are joined.
    pub topology: Topology,
    /// Hardware ids; those of switches say that they have no host.
    pub hwids: Vec<u64>,
    /// The nodes; `None` for one that is off.
    pub hosts: Vec<Option<Host>>,
    /// The link at each port, the same at both ends.
    wires: Vec<[Wire; PORTS]>,
    /// What happens to messages.
    pub faults: Faults,
    /// Which hardware ids may take part; none for all.
    pub allowed: Vec<u64>,
    /// The fabric attests no hardware ids.
    pub blind: bool,
    /// The key of each node's messages, from when it is on; 0: none.
    pub keys: Vec<u64>,
    /// What was sent since this was set, and by which ends.
    pub record: Option<Vec<(End, Vec<u8>)>>,
    /// Messages that were sent over a link, and their bytes.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// A node has used another route since this was last looked at.
    pub wrote: bool,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    numbers: u64,
    lives: u32,
    now_us: u64,
    rng: Rng,
}

impl World {
    /// All nodes on and all links up.
    pub fn new(topology: Topology, hwids: Vec<u64>, seed: u64) -> Self {
        let mut world = Self::off(topology, hwids, seed);
        for node in 0..world.topology.len() {
            world.power_on(node);
        }
        world
    }

    /// All nodes off, all links ready to come up.
    pub fn off(topology: Topology, mut hwids: Vec<u64>, seed: u64) -> Self {
        for (node, hwid) in hwids.iter_mut().enumerate() {
            if topology.is_switch(node) {
                *hwid |= NO_HOST;
            }
        }
        let wire = Wire { up: true, speed: 3, width: 8, excluded: false, life: 0 };
        Self {
            hosts: (0..topology.len()).map(|_| None).collect(),
            wires: vec![[wire; PORTS]; topology.len()],
            keys: vec![0; topology.len()],
            topology,
            hwids,
            faults: Faults::default(),
            allowed: Vec::new(),
            blind: false,
            record: None,
            messages: 0,
            bytes: 0,
            wrote: false,
            queue: BinaryHeap::new(),
            numbers: 0,
            lives: 0,
            now_us: 0,
            rng: Rng::new(seed),
        }
    }

    /// Milliseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.now_us / 1000
    }

    /// A node that is on.
    pub fn manager(&self, node: usize) -> Option<&Manager> {
        Some(&self.hosts.get(node)?.as_ref()?.manager)
    }

    /// Whether a node has come to rest, as ways will lead elsewhere.
    pub fn rests(&self, node: usize) -> bool {
        let host = self.hosts.get(node).and_then(Option::as_ref);
        host.is_some_and(|host| self.now() < host.rests)
    }

    /// The link at a port.
    pub fn wire(&self, (node, port): End) -> Option<Wire> {
        let wire = *self.wires.get(node)?.get(usize::from(port))?;
        self.topology.peer((node, port)).map(|_| wire)
    }

    /// Whether messages pass the link at a port: it is up, and both nodes are on.
    pub fn passes(&self, end: End) -> Option<End> {
        let peer = self.topology.peer(end)?;
        let on = self.manager(end.0).is_some() && self.manager(peer.0).is_some();
        self.wire(end).filter(|wire| wire.up && on).map(|_| peer)
    }

    fn at(&mut self, us: u64, event: Event) {
        self.numbers += 1;
        self.queue.push(Reverse((us, self.numbers, event)));
    }

    /// A node starts, with a memory that is empty.
    pub fn power_on(&mut self, node: usize) {
        let size = self.topology.len().min(usize::from(u16::MAX) - 1);
        self.lives += 1;
        let manager = Node::new(
            self.hwids[node],
            self.lives,
            vec![Member::NONE; size],
            vec![Slot::NONE; 2 * size],
            self.bytes(node),
            self.allowed.clone(),
        );
        let ticks = u64::from(self.lives);
        self.hosts[node] = Some(Host {
            manager,
            lid_changes: 0,
            told: 0,
            hierarchy: Vec::new(),
            holds: false,
            busy: false,
            rests: 0,
            ticks,
            hangs: false,
        });
        if self.keys[node] != 0 {
            self.set_key(node, self.keys[node]);
        }
        let first = self.now_us + self.rng.below(1000 * TICK_MS);
        self.at(first, Event::Tick(node, ticks));
        self.tell_around(node);
    }

    /// Memory for what a node keeps.
    fn bytes(&self, node: usize) -> [Vec<u8>; 3] {
        let hierarchy = if self.topology.is_switch(node) { 0 } else { MAX_HIERARCHY };
        [2 * MAX_ASSIGNMENTS, 2 * hierarchy, hierarchy].map(|bytes| vec![0; bytes])
    }

    /// A node dies, without a word.
    pub fn power_off(&mut self, node: usize) {
        self.hosts[node] = None;
        self.tell_around(node);
    }

    /// A node does nothing any more, but its links stay up.
    pub fn hang(&mut self, node: usize) {
        if let Some(host) = &mut self.hosts[node] {
            host.hangs = true;
        }
    }

    /// It goes on, and does not know.
    pub fn go_on(&mut self, node: usize) {
        if let Some(host) = &mut self.hosts[node] {
            host.hangs = false;
        }
    }

    /// All hosts are to have this key from when they are on, and the fabric attests nothing.
    pub fn give_keys(&mut self, key: u64) {
        self.blind = true;
        for (node, place) in self.keys.iter_mut().enumerate() {
            *place = if self.topology.is_switch(node) { 0 } else { key };
        }
    }

    /// The administrator gives a node another key; 0: none.
    pub fn set_key(&mut self, node: usize, key: u64) {
        self.lives += 1;
        let nonce = if key == 0 { 0 } else { u64::from(self.lives) };
        self.keys[node] = key;
        self.work(node, |manager, now, _| manager.rekey(now, nonce));
    }

    /// Changes the link at a port.
    pub fn set_wire(&mut self, end: End, change: impl FnOnce(&mut Wire)) {
        let (Some(mut wire), Some(peer)) = (self.wire(end), self.topology.peer(end)) else {
            return;
        };
        let was_up = wire.up;
        change(&mut wire);
        if wire.up != was_up {
            wire.life += 1;
        }
        for (node, port) in [end, peer] {
            self.wires[node][usize::from(port)] = wire;
        }
        self.tell_port(end);
        self.tell_port(peer);
    }

    /// A link goes down or comes up.
    pub fn link(&mut self, end: End, up: bool) {
        self.set_wire(end, |wire| wire.up = up);
    }

    /// The ends of all links of a node learn how they are.
    fn tell_around(&mut self, node: usize) {
        for port in 0..PORTS as u8 {
            if let Some(peer) = self.topology.peer((node, port)) {
                self.wires[node][usize::from(port)].life += 1;
                self.wires[peer.0][usize::from(peer.1)].life += 1;
                self.tell_port((node, port));
                self.tell_port(peer);
            }
        }
    }

    fn tell_port(&mut self, end: End) {
        let port = match (self.passes(end), self.wire(end)) {
            (Some(peer), Some(wire)) => Port {
                peer: self.hwids[peer.0],
                speed: wire.speed,
                width: wire.width,
                excluded: wire.excluded,
            },
            _ => Port::NONE,
        };
        self.work(end.0, |manager, now, fx| manager.port(now, end.1, port, fx));
    }

    /// The administrator gives a node other assignments.
    pub fn set_assignments(&mut self, node: usize, bytes: &[u8]) -> bool {
        let mut taken = false;
        self.work(node, |manager, now, fx| {
            taken = manager.set_assignments(now, bytes, fx);
        });
        taken
    }

    /// The port by which traffic for a local id leaves a node.
    pub fn route(&self, node: usize, lid: u32) -> Option<u8> {
        let mut routes = self.manager(node)?.table().routes();
        routes.find(|(to, ..)| *to == lid).map(|(.., port)| port)
    }

    /// A node hands the hierarchy of the node with this hardware id to it.
    pub fn hand(&mut self, node: usize, to: u64, bytes: &[u8]) -> Result<(), Failure> {
        let mut done = Err(Failure::Silent);
        self.work(node, |manager, now, fx| {
            done = manager.hand(now, to, bytes, fx);
        });
        done
    }

    /// The hardware id at the end of a path from a node, as the fabric knows it: nodes that hang are
    /// there, and so is the node itself while it works.
    fn there(&self, from: usize, path: &Path) -> Option<u64> {
        let on = |node: usize| node == from || self.hosts[node].is_some();
        let mut here = from;
        for port in path.ports() {
            let end = (here, *port);
            let peer = self.topology.peer(end)?;
            self.wire(end).filter(|wire| wire.up && on(peer.0))?;
            here = peer.0;
        }
        self.hwids.get(here).copied()
    }

    /// Has a manager do something, and does what it wants done.
    fn work(&mut self, node: usize, what: impl FnOnce(&mut Manager, u64, &mut Done<'_>)) {
        let now = self.now();
        let Some(mut host) = self.hosts[node].take_if(|host| !host.hangs) else {
            return;
        };
        let mut done = Done {
            world: self,
            node,
            holds: host.holds,
            busy: host.busy,
            key: self.keys[node],
            told: 0,
            hierarchy: None,
            rests: None,
            sent: Vec::new(),
            lid: None,
            wrote: false,
        };
        let before = host.manager.info().lid;
        what(&mut host.manager, now, &mut done);
        if done.lid.is_some_and(|lid| before != 0 && lid != before) {
            host.lid_changes += 1;
        }
        host.told += done.told;
        if let Some(hierarchy) = done.hierarchy {
            host.hierarchy = hierarchy;
        }
        if let Some(on) = done.rests {
            host.rests = if on { now + LEASE_MS } else { 0 };
        }
        let (wrote, sent) = (done.wrote, done.sent);
        self.hosts[node] = Some(host);
        self.wrote |= wrote;
        for (port, bytes) in sent {
            self.send((node, port), bytes);
        }
    }

    /// Puts a message on a link, as a node does.
    pub fn send(&mut self, from: End, mut bytes: Vec<u8>) {
        self.messages += 1;
        self.bytes += bytes.len() as u64;
        if let Some(record) = &mut self.record {
            record.push((from, bytes.clone()));
        }
        let (Some(to), Some(wire)) = (self.passes(from), self.wire(from)) else {
            return;
        };
        if self.rng.chance(self.faults.lost) {
            return;
        }
        if self.rng.chance(self.faults.spoilt) {
            let at = self.rng.below(bytes.len() as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << self.rng.below(8);
            }
        }
        let times = 1 + u32::from(self.rng.chance(self.faults.doubled));
        for _ in 0..times {
            let mut us = self.now_us + LATENCY_US + self.rng.below(20);
            if self.rng.chance(self.faults.late) {
                us += self.rng.below(30_000);
            }
            self.at(us, Event::Message(to, wire.life, bytes.clone()));
        }
    }

    /// Does the next thing that happens.
    pub fn step(&mut self) {
        let Some(Reverse((us, _, event))) = self.queue.pop() else {
            return;
        };
        self.now_us = us;
        match event {
            Event::Tick(node, ticks) => {
                let same = self.hosts[node].as_ref().is_some_and(|h| h.ticks == ticks);
                if same {
                    // As the driver does: not before the machine says that it has something to do.
                    self.work(node, |manager, now, fx| {
                        if manager.due(now).is_some_and(|due| due <= now + TICK_MS) {
                            manager.tick(now, fx);
                        }
                    });
                    self.at(us + 1000 * TICK_MS, Event::Tick(node, ticks));
                }
            }
            Event::Message(to, life, bytes) => {
                if self.passes(to).is_some() && self.wire(to).is_some_and(|w| w.life == life) {
                    self.work(to.0, |manager, now, fx| {
                        manager.receive(now, to.1, &bytes, fx);
                    });
                }
            }
        }
    }

    /// Lets time pass.
    pub fn run(&mut self, ms: u64) {
        let end = self.now_us + 1000 * ms;
        while let Some(Reverse((us, ..))) = self.queue.peek() {
            if *us > end {
                break;
            }
            self.step();
        }
        self.now_us = end;
    }
}
