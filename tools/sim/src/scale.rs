// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tens of thousands of nodes, in rounds: what is sent in one arrives in the next.

use crate::{
    rng::Rng,
    topology::{End, Topology},
};
use serde::Serialize;
use std::{cmp::Reverse, collections::BinaryHeap};
use weft_proto::nm::{
    port::HOST_PORTS,
    scale::{Effects, Node},
};

/// A round is a millisecond for the nodes.
pub struct Scale {
    /// Which nodes are joined.
    pub topology: Topology,
    /// Hardware ids.
    pub hwids: Vec<u64>,
    /// The nodes; `None` for one that is off.
    pub nodes: Vec<Option<Node>>,
    /// Whether each port's link is up, the same at both ends.
    up: Vec<[bool; HOST_PORTS]>,
    /// Messages lost, doubled and late, in thousandths.
    pub faults: (u32, u32, u32),
    /// What was sent.
    pub traffic: Traffic,
    /// Messages and bytes that left by each port.
    links: Vec<[(u32, u64); HOST_PORTS]>,
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
}

impl Effects for Done {
    fn send(&mut self, port: u8, message: &[u8]) {
        self.sent.push((port, message.to_vec()));
    }

    fn routes(&mut self, _lid: u32) {
        self.routes = true;
    }
}

impl Scale {
    /// All nodes off, all links ready to come up.
    pub fn new(topology: Topology, hwids: Vec<u64>, seed: u64) -> Self {
        let count = topology.len();
        Self {
            hwids,
            nodes: (0..count).map(|_| None).collect(),
            up: vec![[true; HOST_PORTS]; count],
            faults: (0, 0, 0),
            traffic: Traffic::default(),
            links: vec![[(0, 0); HOST_PORTS]; count],
            coming: std::collections::VecDeque::new(),
            timers: BinaryHeap::new(),
            set: vec![u64::MAX; count],
            acted: vec![0; count],
            now: 0,
            changed: 0,
            rng: Rng::new(seed),
            topology,
        }
    }

    /// All nodes on.
    pub fn power_on_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.nodes[node] = Some(Node::new(self.hwids[node]));
        }
        for node in 0..self.nodes.len() {
            for port in 0..HOST_PORTS as u8 {
                self.tell((node, port));
            }
            self.work(node, |node, now, fx| node.tick(now, fx));
        }
    }

    /// A node starts with an empty memory, or dies.
    pub fn power(&mut self, node: usize, on: bool) {
        self.nodes[node] = on.then(|| Node::new(self.hwids[node]));
        for port in 0..HOST_PORTS as u8 {
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
            self.work(end.0, |node, now, fx| node.port(now, end.1, false, fx));
        }
        for end in [end, peer] {
            self.tell(end);
        }
    }

    fn tell(&mut self, end: End) {
        let up = self.passes(end).is_some();
        self.work(end.0, |node, now, fx| node.port(now, end.1, up, fx));
    }

    fn work(&mut self, number: usize, what: impl FnOnce(&mut Node, u64, &mut Done)) {
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
            if let Some(node) = &mut self.nodes[to.0] {
                node.receive(self.now, to.1, bytes);
            }
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
        let (mut hops, mut from) = (0, None);
        while self.nodes[node].as_ref()?.lid() != lid {
            let port = self.nodes[node].as_ref()?.lookup(lid, from)?;
            let (next, by) = self.passes((node, port))?;
            (node, from) = (next, Some(by));
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

    /// Forgets what was counted.
    pub fn count_anew(&mut self) {
        self.traffic = Traffic::default();
        self.links.fill([(0, 0); HOST_PORTS]);
    }

    /// How far every node is from `from`; `u32::MAX` for those that are out of reach.
    pub fn distances(&self, from: usize) -> Vec<u32> {
        let mut far = vec![u32::MAX; self.nodes.len()];
        far[from] = 0;
        let mut queue = vec![from];
        let mut at = 0;
        while let Some(node) = queue.get(at).copied() {
            at += 1;
            for port in 0..HOST_PORTS as u8 {
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
    /// that routes lead from nodes drawn by lot (or from all of a small fabric) to where they shall.
    /// Answers the mean of the ways' lengths over that of the shortest.
    pub fn check(&self, pairs: u64, seed: u64) -> Result<f64, String> {
        let mut rng = Rng::new(seed);
        let (mut hops, mut best) = (0u64, 0u64);
        let mut seen = vec![false; self.nodes.len()];
        for start in 0..self.nodes.len() {
            if seen[start] || self.nodes[start].is_none() {
                continue;
            }
            let reach = self.distances(start);
            let group: Vec<usize> = (0..reach.len()).filter(|n| reach[*n] != u32::MAX).collect();
            let master = group.iter().min_by_key(|n| self.hwids[**n]).copied().unwrap_or(start);
            let far = self.distances(master);
            let mut lids = Vec::new();
            for number in &group {
                seen[*number] = true;
                let Some(node) = &self.nodes[*number] else {
                    continue;
                };
                if !node.is_settled() || node.mastership().master != self.hwids[master] {
                    return Err(format!("{number} obeys {:?}", node.mastership()));
                }
                // Later links may be shorter: they are not used before the tree is made anew.
                if node.parent().0 < far[*number] {
                    return Err(format!(
                        "{number}: {:?} away, not {}",
                        node.parent(),
                        far[*number]
                    ));
                }
                lids.push(node.lid());
            }
            let lid = lids.clone();
            lids.sort_unstable();
            lids.dedup();
            if lids.len() != group.len() || lids.first() == Some(&0) {
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
                        }
                        other => return Err(format!("{from} to {}: {other:?}", group[to])),
                    }
                }
            }
        }
        Ok(if best == 0 { 1.0 } else { hops as f64 / best as f64 })
    }
}
