// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tens of thousands of nodes, in rounds: what is sent in one arrives in the next.

use crate::{
    rng::Rng,
    topology::{End, Topology},
};
use serde::Serialize;
use std::{
    cell::Cell,
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    rc::Rc,
};
use weft_proto::nm::{
    assignments::MAX_ASSIGNMENTS,
    kind::NO_HOST,
    port::{PORTS, Port},
    scale::{
        Effects, Memory, Node, Parts, directory::Holder, entry::Entry, letter::Name, link::Link,
        routes, store::Store, tree::Peer,
    },
};

/// Memory that grows.
pub struct Grown<T> {
    all: Vec<T>,
    /// So many allocations succeed.
    left: Rc<Cell<u32>>,
}

impl<T> Grown<T> {
    fn new(left: &Rc<Cell<u32>>) -> Self {
        Self { all: Vec::new(), left: left.clone() }
    }
}

impl<T> Store<T> for Grown<T> {
    fn all(&self) -> &[T] {
        &self.all
    }

    fn all_mut(&mut self) -> &mut [T] {
        &mut self.all
    }

    fn insert(&mut self, at: usize, what: T) -> bool {
        let left = self.left.get();
        if left == 0 {
            return false;
        }
        self.left.set(left - 1);
        self.all.insert(at, what);
        true
    }

    fn remove(&mut self, at: usize) {
        self.all.remove(at);
    }

    fn clear(&mut self) {
        self.all.clear();
    }
}

/// Memory of a manager.
pub struct Heap;

impl Memory for Heap {
    type Routes = Grown<Entry>;
    type Names = Grown<Name>;
    type Holders = Grown<Holder>;
    type Bytes = Vec<u8>;
    type Peers = [Peer; PORTS];
    type Links = [Link; PORTS];
}

impl Heap {
    /// Memory of which so many allocations succeed, with so many bytes for assignments.
    fn parts(left: &Rc<Cell<u32>>, bytes: usize) -> Parts<Self> {
        Parts {
            routes: Grown::new(left),
            names: Grown::new(left),
            holders: Grown::new(left),
            bytes: vec![0; 2 * bytes],
            peers: [Peer::NONE; PORTS],
            links: [Link::DOWN; PORTS],
        }
    }

    /// Memory that does not end.
    pub fn endless() -> Parts<Self> {
        Self::parts(&Rc::new(Cell::new(u32::MAX)), MAX_ASSIGNMENTS)
    }
}

/// A manager in memory of its own.
pub type Manager = Node<Heap>;

/// What was measured of a fabric that is right.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Measured {
    /// The mean of the routes' lengths over that of the shortest.
    pub stretch: f64,
    /// Links of the longest route.
    pub longest: u32,
    /// Destinations of a node: the mean, and the most.
    pub routes: (f64, usize),
}

/// A round is a millisecond for the nodes.
pub struct Scale {
    /// Which nodes are joined.
    pub topology: Topology,
    /// Hardware ids.
    pub hwids: Vec<u64>,
    /// The nodes; `None` for one that is off.
    pub nodes: Vec<Option<Manager>>,
    /// Whether each port's link is up, the same at both ends.
    up: Vec<[bool; PORTS]>,
    /// Generation and lanes of each port's link, the same at both ends; 0: no data.
    speed: Vec<[(u8, u8); PORTS]>,
    lives: u32,
    /// So many allocations of a node that starts succeed; `None`: all do.
    pub left: Option<u32>,
    /// How many allocations of each node that was short of memory still succeed.
    memory: HashMap<usize, Rc<Cell<u32>>>,
    /// Room for assignments, in bytes.
    pub room: usize,
    /// Messages lost, doubled and late, in thousandths.
    pub faults: (u32, u32, u32),
    /// What was sent.
    pub traffic: Traffic,
    /// Messages and bytes that left by each port.
    links: Vec<[(u32, u64); PORTS]>,
    /// Messages by the round in which they arrive; the first is the next one.
    coming: std::collections::VecDeque<Vec<(End, Vec<u8>)>>,
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    /// For when each node's timer is set.
    set: Vec<u64>,
    /// In which round each node did something last because of messages.
    acted: Vec<u64>,
    /// The round.
    pub now: u64,
    /// The last in which routes of a node changed.
    pub changed: u64,
    /// The last answer of a master's directory.
    pub found: Option<Name>,
    rng: Rng,
}

/// What was sent in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Default)]
struct Done {
    sent: Vec<(u8, Vec<u8>)>,
    routes: bool,
    found: Option<Name>,
}

impl routes::Effects for Done {
    fn send(&mut self, port: u8, message: &[u8]) {
        self.sent.push((port, message.to_vec()));
    }

    fn route(&mut self, _first: u32, _last: u32, _port: Option<u8>) {
        self.routes = true;
    }
}

impl Effects for Done {
    fn lid(&mut self, _lid: u32) {
        self.routes = true;
    }

    fn found(&mut self, name: &Name) {
        self.found = Some(*name);
    }
}

impl Scale {
    /// All nodes off, all links ready to come up.
    pub fn new(topology: Topology, mut hwids: Vec<u64>, seed: u64) -> Self {
        let count = topology.len();
        for (node, hwid) in hwids.iter_mut().enumerate() {
            if topology.is_switch(node) {
                *hwid |= NO_HOST;
            }
        }
        Self {
            speed: vec![[(3, 8); PORTS]; count],
            lives: 0,
            left: None,
            memory: HashMap::new(),
            room: if count > 4096 { 0 } else { MAX_ASSIGNMENTS },
            hwids,
            nodes: (0..count).map(|_| None).collect(),
            up: vec![[true; PORTS]; count],
            faults: (0, 0, 0),
            traffic: Traffic::default(),
            links: vec![[(0, 0); PORTS]; count],
            coming: std::collections::VecDeque::new(),
            timers: BinaryHeap::new(),
            set: vec![u64::MAX; count],
            acted: vec![0; count],
            now: 0,
            changed: 0,
            found: None,
            rng: Rng::new(seed),
            topology,
        }
    }

    /// All nodes on.
    pub fn power_on_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.nodes[node] = Some(self.boot(node));
        }
        for node in 0..self.nodes.len() {
            for port in 0..PORTS as u8 {
                self.tell((node, port));
            }
            self.work(node, |node, now, fx| node.tick(now, fx));
        }
    }

    fn boot(&mut self, node: usize) -> Manager {
        self.lives += 1;
        let left = Rc::new(Cell::new(self.left.unwrap_or(u32::MAX)));
        if self.left.is_some() {
            self.memory.insert(node, left.clone());
        }
        let mut manager = Node::new(Heap::parts(&left, self.room));
        manager.begin(self.hwids[node], self.lives, (0, 0));
        manager
    }

    /// A node that was short of memory has enough.
    pub fn grow(&mut self, node: usize) {
        if let Some(left) = self.memory.remove(&node) {
            left.set(u32::MAX);
        }
    }

    /// A node asks for the local id of the node with a hardware id.
    pub fn find(&mut self, node: usize, hwid: u64) {
        self.work(node, |node, now, fx| node.find(now, hwid, fx));
    }

    /// The administrator gives a node other assignments.
    pub fn set_assignments(&mut self, node: usize, bytes: &[u8]) -> bool {
        let mut taken = false;
        self.work(node, |node, now, fx| taken = node.set_assignments(now, bytes, fx));
        taken
    }

    /// A link is as fast as this; 0 lanes: it carries no data.
    pub fn set_speed(&mut self, end: End, speed: (u8, u8)) {
        let Some(peer) = self.topology.peer(end) else {
            return;
        };
        for end in [end, peer] {
            self.speed[end.0][usize::from(end.1)] = speed;
        }
        for end in [end, peer] {
            self.tell(end);
        }
    }

    /// A node starts with an empty memory, or dies.
    pub fn power(&mut self, node: usize, on: bool) {
        self.nodes[node] = if on { Some(self.boot(node)) } else { None };
        for port in 0..PORTS as u8 {
            self.cut((node, port));
        }
        self.work(node, |node, now, fx| node.tick(now, fx));
    }

    /// A link goes down or comes up.
    pub fn link(&mut self, end: End, up: bool) {
        if let Some(peer) = self.topology.peer(end) {
            for (node, port) in [end, peer] {
                self.up[node][usize::from(port)] = up;
            }
            self.cut(end);
        }
    }

    /// Whether the link at a port is there, and the node at its other end.
    pub fn passes(&self, end: End) -> Option<End> {
        let peer = self.topology.peer(end)?;
        let on = self.nodes[end.0].is_some() && self.nodes[peer.0].is_some();
        (on && self.up[end.0][usize::from(end.1)]).then_some(peer)
    }

    /// Both ends learn how their link is; what was on it is gone.
    fn cut(&mut self, end: End) {
        let Some(peer) = self.topology.peer(end) else {
            return;
        };
        for round in &mut self.coming {
            round.retain(|(to, _)| *to != end && *to != peer);
        }
        for end in [end, peer] {
            self.work(end.0, |node, now, fx| node.port(now, end.1, Port::NONE, fx));
        }
        for end in [end, peer] {
            self.tell(end);
        }
    }

    fn tell(&mut self, end: End) {
        let port = self.passes(end).map_or(Port::NONE, |(peer, _)| {
            let (speed, width) = self.speed[end.0][usize::from(end.1)];
            Port { peer: self.hwids[peer], speed, width, excluded: width == 0 }
        });
        self.work(end.0, |node, now, fx| node.port(now, end.1, port, fx));
    }

    fn work(&mut self, number: usize, what: impl FnOnce(&mut Manager, u64, &mut Done)) {
        let Some(node) = &mut self.nodes[number] else {
            return;
        };
        let mut done = Done::default();
        what(node, self.now, &mut done);
        let deadline = node.deadline().unwrap_or(u64::MAX);
        if deadline < self.set[number] {
            self.set[number] = deadline;
            self.timers.push(Reverse((deadline, number)));
        }
        if done.routes {
            self.changed = self.now;
        }
        self.found = done.found.or(self.found);
        for (port, bytes) in done.sent {
            self.send((number, port), bytes);
        }
    }

    fn send(&mut self, from: End, bytes: Vec<u8>) {
        self.traffic.messages += 1;
        self.traffic.bytes += bytes.len() as u64;
        let link = &mut self.links[from.0][usize::from(from.1)];
        link.0 += 1;
        link.1 += bytes.len() as u64;
        let Some(to) = self.passes(from) else {
            return;
        };
        let (lost, doubled, late) = self.faults;
        if lost != 0 && self.rng.chance(lost) {
            return;
        }
        let twice = doubled != 0 && self.rng.chance(doubled);
        for _ in 0..=u32::from(twice) {
            let delay = if late != 0 && self.rng.chance(late) { self.rng.below(40) } else { 0 };
            let delay = delay as usize;
            while self.coming.len() <= delay {
                self.coming.push_back(Vec::new());
            }
            self.coming[delay].push((to, bytes.clone()));
        }
    }

    /// The next round in which something happens, if any.
    pub fn step(&mut self) -> bool {
        let due = self.timers.peek().map(|Reverse((at, _))| *at);
        let Some(next) = (match (self.coming.is_empty(), due) {
            (false, _) => Some(self.now + 1),
            (true, due) => due.map(|at| at.max(self.now + 1)),
        }) else {
            return false;
        };
        self.now = next;
        // All that has come is read before any node acts on it, as from a mailbox.
        let come = self.coming.pop_front().unwrap_or_default();
        for (to, bytes) in &come {
            self.work(to.0, |node, now, fx| node.receive(now, to.1, bytes, fx));
        }
        for (to, _) in come {
            if std::mem::replace(&mut self.acted[to.0], self.now) != self.now {
                self.work(to.0, |node, now, fx| node.tick(now, fx));
            }
        }
        while let Some(Reverse((at, node))) = self.timers.peek().copied() {
            if at > self.now {
                break;
            }
            self.timers.pop();
            if self.set[node] == at {
                self.set[node] = u64::MAX;
                self.work(node, |node, now, fx| node.tick(now, fx));
            }
        }
        true
    }

    /// Lets rounds pass until nothing happens any more, or until `limit` of them; `progress` is told the
    /// round. Whether it became quiet.
    pub fn run(&mut self, limit: u64, mut progress: impl FnMut(&Self)) -> bool {
        let end = self.now + limit;
        while self.now < end {
            if !self.step() {
                return true;
            }
            progress(self);
        }
        false
    }

    /// Where a packet for `lid` ends that `node` sends, and over how many links: `None` for a node
    /// without a route, `Some(None)` for never.
    pub fn follow(&self, mut node: usize, lid: u32) -> Option<Option<(usize, u32)>> {
        let mut hops = 0;
        while self.nodes[node].as_ref()?.lid() != lid {
            let port = self.nodes[node].as_ref()?.routes().lookup(lid)?;
            node = self.passes((node, port))?.0;
            hops += 1;
            if hops as usize > self.nodes.len() {
                return Some(None);
            }
        }
        Some(Some((node, hops)))
    }

    /// The busiest port: messages and bytes.
    pub fn worst(&self) -> (u32, u64) {
        let links = || self.links.iter().flatten();
        let messages = links().map(|link| link.0).max().unwrap_or(0);
        (messages, links().map(|link| link.1).max().unwrap_or(0))
    }

    /// What keeps nodes from being quiet.
    pub fn busy(&self) -> String {
        let on = self.nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.as_ref()?)));
        let busy = on.filter(|(_, node)| node.deadline().is_some()).map(|(at, node)| {
            let entries = node.routes().entries().iter();
            let open: Vec<_> = entries.filter(|e| e.wanting || e.wants != 0 || e.due != [0; 3]).collect();
            let (tree, lid) = (node.tree(), node.lid());
            let (master, life) = tree.mastership();
            format!(
                "node {at}, lid {lid:#x} of {master:x?} {life}, parent {:?}, short of memory {}, settled {}, due {:?}, {open:x?}",
                tree.parent(),
                node.routes().is_short(),
                tree.is_settled(),
                node.deadline().map(|at| at.saturating_sub(self.now)),
            )
        });
        busy.collect::<Vec<_>>().join("\n")
    }

    /// Forgets what was counted.
    pub fn count_anew(&mut self) {
        self.traffic = Traffic::default();
        self.links.fill([(0, 0); PORTS]);
    }

    /// How far every node is from `from`; `u32::MAX` for those that are out of reach.
    pub fn distances(&self, from: usize) -> Vec<u32> {
        let mut far = vec![u32::MAX; self.nodes.len()];
        far[from] = 0;
        let mut queue = vec![from];
        let mut at = 0;
        while let Some(node) = queue.get(at).copied() {
            at += 1;
            for port in 0..PORTS as u8 {
                if let Some((peer, _)) = self.passes((node, port)) {
                    if far[peer] == u32::MAX {
                        far[peer] = far[node] + 1;
                        queue.push(peer);
                    }
                }
            }
        }
        far
    }

    /// Checks that in each component all obey the lowest id by a shortest way, that ids are unique, and
    /// that routes lead from nodes drawn by lot (or from all of a small fabric) to where they shall. Of switches
    /// without a host nothing is asked.
    pub fn check(&self, pairs: u64, seed: u64) -> Result<Measured, String> {
        let mut rng = Rng::new(seed);
        let mut measured = Measured::default();
        let (mut hops, mut best) = (0u64, 0u64);
        let mut seen = vec![false; self.nodes.len()];
        for start in 0..self.nodes.len() {
            if seen[start] || self.nodes[start].is_none() {
                continue;
            }
            let reach = self.distances(start);
            let group: Vec<usize> = (0..reach.len()).filter(|n| reach[*n] != u32::MAX).collect();
            let master = group.iter().min_by_key(|n| self.hwids[**n]).copied().unwrap_or(start);
            for number in &group {
                seen[*number] = true;
            }
            if self.hwids[master] & NO_HOST != 0 {
                continue;
            }
            let far = self.distances(master);
            let mut lids = Vec::new();
            for number in &group {
                let Some(node) = &self.nodes[*number] else {
                    continue;
                };
                if node.mastership().master != self.hwids[master] {
                    return Err(format!("{number} obeys {:?}", node.mastership()));
                }
                // Later links may be shorter: they are not used before the tree is made anew.
                let parent = node.tree().parent();
                if parent.0 < far[*number] {
                    return Err(format!("{number}: {parent:?} away, not {}", far[*number]));
                }
                lids.push(node.lid());
                let version = self.nodes[master].as_ref().map(|node| node.assignments().version());
                if Some(node.assignments().version()) != version {
                    return Err(format!("{number} has other assignments than the master"));
                }
            }
            let lid = lids.clone();
            let directory = self.nodes[master].as_ref().map(Node::directory);
            for (number, lid) in group.iter().zip(&lid) {
                let noted = directory.map_or(0, |directory| directory.find(self.hwids[*number]));
                if noted != *lid {
                    return Err(format!("the master has noted {noted} for {number}, not {lid}"));
                }
            }
            lids.sort_unstable();
            lids.dedup();
            let has_none = lids.first() == Some(&0) && group.len() > 1;
            if lids.len() != group.len() || has_none {
                return Err("ids are not unique".into());
            }
            let count = group.len() as u64;
            let all = count * count <= pairs;
            let sources = if all { count } else { (pairs / 64).clamp(1, count) };
            for n in 0..sources {
                let from = group[if all { n } else { rng.below(count) } as usize];
                let far = self.distances(from);
                for m in 0..count.min(if all { count } else { 64 }) {
                    let to = if all { m } else { rng.below(count) } as usize;
                    match self.follow(from, lid[to]) {
                        Some(Some((end, links))) if end == group[to] => {
                            hops += u64::from(links);
                            best += u64::from(far[end]);
                            measured.longest = measured.longest.max(links);
                        }
                        other => return Err(format!("{from} to {}: {other:?}", group[to])),
                    }
                }
            }
        }
        let counts: Vec<usize> = self.nodes.iter().flatten().map(|n| n.routes().count()).collect();
        let mean = counts.iter().sum::<usize>() as f64 / counts.len().max(1) as f64;
        measured.routes = (mean, counts.into_iter().max().unwrap_or(0));
        measured.stretch = if best == 0 { 1.0 } else { hops as f64 / best as f64 };
        Ok(measured)
    }
}
