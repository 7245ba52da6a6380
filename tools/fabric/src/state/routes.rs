// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Routes over random fabrics. Every host wants every other one; the tables are
//! programmed along random trees. Then entries are taken out, one at a time: what
//! stops must be what an independent computation says, which looks at the entries
//! as the edges of a graph and searches it, and no other may be told anything.
//! Ports confirm late, and the writer of a table is answered only then.

use super::{Effect, Fabric, PortId};
use crate::topology::{Node, Topology, parse};
use crate::wire::abi::WEFT_FROM_ANY;
use crate::wire::{FromPort, InboundPart, LINKS, PAGE, Peer, RouteEntry, Segment, ToPort, VPS};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// An entry of any table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    /// A host's: own traffic, or that of a gate.
    Host {
        host: usize,
        lid: u32,
        from: Option<u8>,
        link: u8,
        vp: u8,
    },
    Route {
        switch: usize,
        lid: u32,
        port: u8,
    },
    Vp {
        switch: usize,
        port: u8,
        vp: u8,
        vh: u16,
    },
    /// An inbound entry's gate.
    Gate {
        host: usize,
        gate: u8,
    },
}

/// What a route is made of: by which port of which node, on which VP.
type At = (Node, Option<u8>, u8);

fn lid_of(host: usize) -> u32 {
    100 + host as u32
}

/// Hosts reached by the own traffic of `source` to the LID of `target`, by search.
fn reaches(topology: &Topology, entries: &BTreeSet<Entry>, source: usize, target: usize) -> bool {
    let far = |node: Node, port: u8| {
        let (trunk, side) = topology.trunk_at(crate::topology::End { node, port })?;
        Some(topology.trunks[trunk].ends[1 - side])
    };
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut todo: Vec<At> = vec![(Node::Host(source), None, 0)];
    while let Some((node, came, vp)) = todo.pop() {
        if !seen.insert(format!("{node:?} {came:?} {vp}")) {
            continue;
        }
        if let (Node::Host(host), Some(link)) = (node, came) {
            if host == target {
                return entries.contains(&Entry::Gate { host, gate: link * VPS + vp });
            }
        }
        for entry in entries {
            let out = match (*entry, node, came) {
                (Entry::Host { host, lid, from, link, vp: out }, Node::Host(at), _)
                    if host == at
                        && lid == lid_of(target)
                        && from == came.map(|link| link * VPS + vp) =>
                {
                    vec![(link, out)]
                }
                (Entry::Route { switch, lid, port }, Node::Switch(at), Some(came))
                    if switch == at && lid == lid_of(target) =>
                {
                    // In by one VP of a hierarchy, out by another.
                    let vps = || {
                        entries.iter().filter_map(|e| match *e {
                            Entry::Vp { switch, port, vp, vh } if switch == at => {
                                Some((port, vp, vh))
                            }
                            _ => None,
                        })
                    };
                    let ins = vps().filter(|v| (v.0, v.1) == (came, vp));
                    ins.flat_map(|i| vps().filter(move |o| (o.0, o.2) == (port, i.2)))
                        .map(|o| (o.0, o.1))
                        .collect()
                }
                _ => vec![],
            };
            for (port, vp) in out {
                if let Some(end) = far(node, port) {
                    todo.push((end.node, Some(end.port), vp));
                }
            }
        }
    }
    false
}

/// A fabric with a port at every host.
struct Net {
    fabric: Fabric,
    hosts: usize,
    entries: BTreeSet<Entry>,
    /// Numbers of the hosts' entries in their tables.
    numbers: BTreeMap<Entry, u16>,
    sequence: u32,
    /// Remotes that are up, and what they see: (host, remote).
    up: BTreeMap<(usize, u8), BTreeSet<u16>>,
    /// Tickets not confirmed, of remotes and of inbound entries.
    closing: Vec<(usize, u8, u32)>,
    acks: Vec<(usize, u8, u16, u32)>,
    /// The ports that were told to let go since this was emptied.
    told: BTreeSet<(usize, u8)>,
    /// Changes that are over.
    over: u32,
    /// Of a remote.
    last_life: u32,
    /// Messages that have come: to which host, from which, by which gate.
    mail: BTreeSet<(usize, usize, u8)>,
    /// What ports were told that ended there.
    denied: u64,
}

impl Net {
    fn new(text: &str) -> Self {
        let topology = parse(text).expect("the topology is in order");
        let hosts = topology.hosts.len();
        let mut net = Net {
            fabric: Fabric::new(topology, 1),
            hosts,
            entries: BTreeSet::new(),
            numbers: BTreeMap::new(),
            sequence: 0,
            up: BTreeMap::new(),
            closing: vec![],
            acks: vec![],
            told: BTreeSet::new(),
            over: 0,
            last_life: 0,
            mail: BTreeSet::new(),
            denied: 0,
        };
        for host in 0..hosts {
            let name = net.fabric.topology().hosts[host].name.clone();
            net.say(
                host,
                FromPort::Hello { version: net.version(), hwid: 0, ram: 16 * PAGE, name },
            );
            net.say(host, FromPort::Enable(true));
            net.say(host, FromPort::Lid(lid_of(host)));
        }
        for host in 0..hosts {
            for far in (0..hosts).filter(|far| *far != host) {
                net.say(host, FromPort::Want { remote: far as u8, lid: lid_of(far) });
            }
        }
        net
    }

    fn version(&self) -> u64 {
        crate::wire::abi::WEFT_FAB_VERSION.into()
    }

    fn say(&mut self, host: usize, message: FromPort) {
        self.fabric.message(PortId(host as u64), message);
        self.take();
    }

    fn take(&mut self) {
        for effect in self.fabric.take_effects() {
            match effect {
                Effect::Send { to, message, .. } => self.receive(to.0 as usize, message),
                Effect::Withdrawn { .. } => self.over += 1,
                Effect::Event(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn receive(&mut self, host: usize, message: ToPort) {
        match message {
            ToPort::RemoteUp { remote, peer: Peer { life, .. }, .. } => {
                assert!(life > self.last_life, "a life that no port has had");
                self.last_life = life;
                assert!(self.up.insert((host, remote), BTreeSet::new()).is_none(), "up twice");
            }
            ToPort::RemoteDown { remote, ticket, .. } if ticket != 0 => {
                self.closing.push((host, remote, ticket));
                self.told.insert((host, remote));
            }
            ToPort::RemoteDown { remote, .. } => {
                assert!(!self.up.contains_key(&(host, remote)), "down without being asked");
            }
            ToPort::Inbound { link, part } => {
                let remote = link - LINKS as u8;
                let seen = self.up.get_mut(&(host, remote)).expect("only who is up is told");
                if part.bytes == 0 {
                    assert!(seen.remove(&part.entry), "withdrawn from one who never had it");
                    self.told.insert((host, remote));
                } else {
                    seen.insert(part.entry);
                }
                self.acks.push((host, link, part.entry, part.sequence));
            }
            ToPort::RouteAck { .. } | ToPort::InboundAck { .. } => self.over += 1,
            ToPort::RoutedMbox { gate, lid, to, from, data } => {
                assert_eq!((to, from, data.as_slice()), (1, 0, &[host as u8][..]));
                let source = (0..self.hosts).find(|source| lid_of(*source) == lid);
                let source = source.expect("one that there is");
                assert!(self.mail.insert((host, source, gate)), "once");
            }
            ToPort::RouteDenied { count, .. } => self.denied += count,
            _ => {}
        }
    }

    /// Every port does as it was told, and says so.
    fn confirm(&mut self) {
        while !self.closing.is_empty() || !self.acks.is_empty() {
            for (host, link, entry, sequence) in std::mem::take(&mut self.acks) {
                self.say(host, FromPort::InboundAck { link, entry, sequence });
            }
            for (host, remote, ticket) in std::mem::take(&mut self.closing) {
                self.up.remove(&(host, remote));
                self.say(host, FromPort::RemoteAck { remote, ticket });
            }
        }
    }

    fn apply(&mut self, entry: &Entry, there: bool) {
        match there {
            true => self.entries.insert(*entry),
            false => self.entries.remove(entry),
        };
        self.sequence += 1;
        let sequence = self.sequence;
        match *entry {
            Entry::Host { host, lid, from, link, vp } => {
                let next = self.numbers.len() as u16;
                let number = *self.numbers.entry(*entry).or_insert(next);
                let route = there.then(|| RouteEntry {
                    lids: lid..=lid,
                    link,
                    vp,
                    own: from.is_none(),
                    from_links: from.map_or(0, |gate| 1 << (gate / VPS)),
                    from_vps: from.map_or(0, |gate| 1 << (gate % VPS)),
                });
                self.say(host, FromPort::Route { entry: number, sequence, route });
            }
            Entry::Route { switch, lid, port } => {
                let name = self.fabric.topology().switches[switch].name.clone();
                let port = there.then_some(port);
                self.fabric.change_route(&name, lid, port, 0).expect("a good entry");
                self.take();
            }
            Entry::Vp { switch, port, vp, vh } => {
                let end = format!("{}:{port}", self.fabric.topology().switches[switch].name);
                self.fabric.change_vp(&end, vp, there.then_some(vh), 0).expect("a good entry");
                self.take();
            }
            Entry::Gate { host, .. } => self.open(host),
        }
    }

    /// Latches the inbound entry of a host with the gates it has.
    fn open(&mut self, host: usize) {
        self.sequence += 1;
        let gates = self.entries.iter().fold(0, |mask, e| match *e {
            Entry::Gate { host: h, gate } if h == host => mask | (1u64 << gate),
            _ => mask,
        });
        self.say(host, FromPort::InboundFrom { entry: 0, from: WEFT_FROM_ANY, gates });
        let part = InboundPart {
            entry: 0,
            offset: 0,
            bytes: PAGE,
            rights: 3,
            allow: 0,
            sequence: self.sequence,
            first: 0,
            more: false,
            segments: vec![Segment { offset: 0, len: PAGE }],
        };
        self.say(host, FromPort::Inbound(part));
    }

    /// Which port sees memory of which, as the ports have been told.
    fn seen(&self) -> BTreeSet<(usize, u8)> {
        self.up.iter().filter(|(_, seen)| seen.contains(&0)).map(|(who, _)| *who).collect()
    }

    /// Everybody writes to everybody: what was reached, and how many messages were
    /// counted where they ended.
    fn post(&mut self) -> (BTreeSet<(usize, u8)>, u64) {
        self.mail.clear();
        self.denied = 0;
        let stopped = |fabric: &Fabric| {
            let switches = fabric.status().switches;
            switches.iter().flat_map(|s| s.stopped.values()).sum::<u64>()
        };
        let before = stopped(&self.fabric);
        for from in 0..self.hosts {
            for to in (0..self.hosts).filter(|to| *to != from) {
                let data = vec![to as u8];
                self.say(from, FromPort::RoutedMbox { lid: lid_of(to), to: 1, from: 0, data });
            }
        }
        let ended = stopped(&self.fabric) - before + self.denied;
        (self.mail.iter().map(|(to, from, _)| (*from, *to as u8)).collect(), ended)
    }

    /// Which port reaches which, whatever the owners have opened.
    fn led(&self) -> BTreeSet<(usize, u8)> {
        let gates = (0..self.hosts)
            .flat_map(|host| (0..LINKS as u8 * VPS).map(move |gate| Entry::Gate { host, gate }));
        let entries = self.entries.iter().copied().chain(gates).collect();
        self.expected(&entries)
    }

    /// The same, as it has to be.
    fn expected(&self, entries: &BTreeSet<Entry>) -> BTreeSet<(usize, u8)> {
        let pairs = (0..self.hosts).flat_map(|a| (0..self.hosts).map(move |b| (a, b)));
        pairs
            .filter(|(a, b)| a != b && reaches(self.fabric.topology(), entries, *a, *b))
            .map(|(a, b)| (a, b as u8))
            .collect()
    }
}

/// Hosts, switches, and what joins them, as ends of node numbers: hosts first.
#[derive(Debug)]
struct Plan {
    hosts: usize,
    switches: usize,
    links: Vec<(Index, Index)>,
    /// VP of each link, and of each destination its way to it.
    vps: Vec<u8>,
    order: Vec<Index>,
}

fn plan() -> impl Strategy<Value = Plan> {
    (2usize..5, 1usize..4)
        .prop_flat_map(|(hosts, switches)| {
            let links = prop::collection::vec(any::<(Index, Index)>(), 3..9);
            let vps = prop::collection::vec(0..VPS, 32);
            let order = prop::collection::vec(any::<Index>(), 64);
            (Just(hosts), Just(switches), links, vps, order)
        })
        .prop_map(|(hosts, switches, links, vps, order)| Plan {
            hosts,
            switches,
            links,
            vps,
            order,
        })
}

impl Plan {
    /// The topology: a chain of everything, so that all can be reached, and more.
    fn text(&self) -> String {
        let nodes = self.hosts + self.switches;
        let name = |n: usize| match n < self.hosts {
            true => format!("h{n}"),
            false => format!("s{}", n - self.hosts),
        };
        let mut text = String::new();
        let mut used = vec![0usize; nodes];
        let hosts = (0..self.hosts).map(|n| format!("{{ name = \"{}\" }}", name(n)));
        let switches = (self.hosts..nodes)
            .map(|n| format!("{{ name = \"{}\", ports = 16, routes = true }}", name(n)));
        let _ = writeln!(text, "host = [{}]", hosts.collect::<Vec<_>>().join(", "));
        let _ = writeln!(text, "switch = [{}]", switches.collect::<Vec<_>>().join(", "));
        let chain = (1..nodes).map(|n| (n - 1, n));
        let more = self.links.iter().map(|(a, b)| (a.index(nodes), b.index(nodes)));
        let mut links = vec![];
        for (a, b) in chain.chain(more) {
            let room = |n: usize| used[n] < if n < self.hosts { LINKS } else { 16 };
            if a != b && room(a) && room(b) {
                links.push(format!(
                    "{{ ends = [\"{}:{}\", \"{}:{}\"] }}",
                    name(a),
                    used[a],
                    name(b),
                    used[b]
                ));
                used[a] += 1;
                used[b] += 1;
            }
        }
        let _ = writeln!(text, "link = [{}]", links.join(", "));
        text
    }

    /// Entries along a random tree to every host, all in one hierarchy.
    fn entries(&self, topology: &Topology) -> BTreeSet<Entry> {
        let mut entries = BTreeSet::new();
        let vp = |trunk: usize| self.vps[trunk % self.vps.len()];
        for (n, trunk) in topology.trunks.iter().enumerate() {
            for end in trunk.ends {
                match end.node {
                    Node::Switch(switch) => {
                        let vp = vp(n);
                        entries.insert(Entry::Vp { switch, port: end.port, vp, vh: 7 });
                    }
                    Node::Host(host) => {
                        let gate = end.port * VPS + vp(n);
                        entries.insert(Entry::Gate { host, gate });
                    }
                }
            }
        }
        for target in 0..self.hosts {
            let lid = lid_of(target);
            let mut reached = vec![Node::Host(target)];
            for pick in self.order.iter().cycle().skip(target).take(64) {
                let steps: Vec<_> = topology
                    .trunks
                    .iter()
                    .enumerate()
                    .flat_map(|(n, t)| [(n, t.ends[0], t.ends[1]), (n, t.ends[1], t.ends[0])])
                    .filter(|(_, from, to)| {
                        reached.contains(&to.node) && !reached.contains(&from.node)
                    })
                    .collect();
                if steps.is_empty() {
                    break;
                }
                let (n, from, _) = *pick.get(&steps);
                reached.push(from.node);
                match from.node {
                    Node::Switch(switch) => {
                        entries.insert(Entry::Route { switch, lid, port: from.port });
                    }
                    Node::Host(host) => {
                        let (link, vp) = (from.port, vp(n));
                        entries.insert(Entry::Host { host, lid, from: None, link, vp });
                        // And on behalf of those behind it.
                        for (m, trunk) in topology.trunks.iter().enumerate() {
                            for end in trunk.ends.iter().filter(|e| e.node == from.node && m != n) {
                                let from = Some(end.port * VPS + self.vps[m % self.vps.len()]);
                                entries.insert(Entry::Host { host, lid, from, link, vp });
                            }
                        }
                    }
                }
            }
        }
        entries
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_entry_taken_out_stops_what_uses_it_and_nothing_else(
        plan in plan(),
        picks in prop::collection::vec(any::<Index>(), 12),
    ) {
        let mut net = Net::new(&plan.text());
        let all: Vec<_> = plan.entries(net.fabric.topology()).into_iter().collect();
        for entry in &all {
            net.apply(entry, true);
            net.confirm();
        }
        let whole = net.expected(&net.entries);
        prop_assert_eq!(whole.len(), plan.hosts * (plan.hosts - 1), "all are reached");
        prop_assert_eq!(&net.seen(), &whole);

        for pick in picks {
            let entry = pick.get(&all);
            let mut rest = net.entries.clone();
            rest.remove(entry);
            let left = net.expected(&rest);
            net.told.clear();
            net.over = 0;
            net.apply(entry, false);
            let lost: BTreeSet<_> = whole.difference(&left).copied().collect();
            prop_assert_eq!(&net.told, &lost, "{:?}", entry);
            // A change of an inbound entry is told to those that keep it as well.
            if !lost.is_empty() || !matches!(entry, Entry::Gate { .. }) {
                prop_assert_eq!(net.over > 0, lost.is_empty(), "answered only when it is over");
            }
            net.confirm();
            prop_assert_eq!(net.over, 1, "{:?}", entry);
            prop_assert_eq!(&net.seen(), &left, "{:?}", entry);
            let (mailed, ended) = net.post();
            prop_assert_eq!(&mailed, &net.led(), "messages go by the same tables");
            prop_assert_eq!(ended, (whole.len() - mailed.len()) as u64, "or are counted");
            net.apply(entry, true);
            net.confirm();
            prop_assert_eq!(&net.seen(), &whole);
        }
    }

    #[test]
    fn an_owner_waits_for_those_whose_route_was_broken(
        plan in plan(),
        pick: Index,
        dies: bool,
    ) {
        let mut net = Net::new(&plan.text());
        for entry in plan.entries(net.fabric.topology()) {
            net.apply(&entry, true);
            net.confirm();
        }
        let seen: Vec<_> = net.seen().into_iter().collect();
        let &(source, owner) = pick.get(&seen);
        let way = |e: &&Entry| matches!(e, Entry::Host { host, lid, from: None, .. }
            if (*host, *lid) == (source, lid_of(owner.into())));
        let way = net.entries.iter().find(way).copied().expect("its own entry");
        net.apply(&way, false);
        prop_assert!(net.closing.iter().any(|c| (c.0, c.1) == (source, owner)));
        // The route is broken, but its port has not let go: neither has the owner
        // got its memory back.
        net.sequence += 1;
        net.over = 0;
        let part = InboundPart {
            entry: 0,
            offset: 0,
            bytes: 0,
            rights: 0,
            allow: 0,
            sequence: net.sequence,
            first: 0,
            more: false,
            segments: vec![],
        };
        net.say(owner.into(), FromPort::Inbound(part));
        for (host, link, entry, sequence) in std::mem::take(&mut net.acks) {
            net.say(host, FromPort::InboundAck { link, entry, sequence });
        }
        prop_assert_eq!(net.over, 0, "the owner is not answered yet");
        if dies {
            net.fabric.gone(PortId(source as u64), "test".into());
            let gone = net.fabric.take_effects().into_iter().any(|e| matches!(e,
                Effect::Send { to, message: ToPort::PeerGone { .. }, .. }
                    if to.0 == u64::from(owner)));
            prop_assert!(gone, "the owner is to see for itself");
        } else {
            net.confirm();
            prop_assert_eq!(net.over, 2, "the change of the route, and the owner's");
        }
    }
}

const RING: &str = r#"
    host = [{ name = "h0" }, { name = "h1" }]
    switch = [{ name = "a", ports = 4, routes = true }, { name = "b", ports = 4, routes = true }]
    link = [
        { ends = ["h0:0", "a:0"] }, { ends = ["a:1", "b:1"] },
        { ends = ["a:2", "b:2"] }, { ends = ["b:0", "h1:0"] },
    ]
"#;

#[test]
fn a_loop_ends_at_the_limit_and_is_counted_there() {
    let mut net = Net::new(RING);
    for switch in 0..2 {
        for port in 0..3 {
            net.apply(&Entry::Vp { switch, port, vp: 1, vh: 1 }, true);
        }
    }
    net.apply(&Entry::Host { host: 0, lid: 101, from: None, link: 0, vp: 1 }, true);
    net.apply(&Entry::Route { switch: 0, lid: 101, port: 1 }, true);
    net.apply(&Entry::Route { switch: 1, lid: 101, port: 2 }, true);
    let walk = net.fabric.walk_route("h0", 101).unwrap();
    assert_eq!(walk.why.as_deref(), Some("too_many_hops"));
    assert_eq!(walk.hops.len(), crate::wire::MAX_HOPS);
    net.say(0, FromPort::Denied { link: LINKS as u8 + 1, offset: 0, kind: 1, count: 3, to: 0 });
    let stopped: u64 = net.fabric.status().switches.iter().flat_map(|s| s.stopped.values()).sum();
    assert_eq!(stopped, 3);
}

#[test]
fn a_hierarchy_has_one_vp_at_a_port() {
    let mut net = Net::new(RING);
    net.apply(&Entry::Vp { switch: 0, port: 0, vp: 1, vh: 1 }, true);
    assert!(net.fabric.change_vp("a:0", 2, Some(1), 0).is_err());
    assert!(net.fabric.change_vp("a:0", 1, Some(2), 0).is_ok(), "another hierarchy");
    assert!(net.fabric.change_vp("a:0", 2, Some(1), 0).is_ok());
    for (end, vp, vh) in [("a:4", 0, Some(1)), ("a:0", VPS, Some(1)), ("a:0", 3, Some(0))] {
        assert!(net.fabric.change_vp(end, vp, vh, 0).is_err(), "{end} {vp} {vh:?}");
    }
    assert!(net.fabric.change_route("a", 0, Some(1), 0).is_err());
    assert!(net.fabric.change_route("a", 1, Some(4), 0).is_err());
    assert!(net.fabric.change_route("h0", 1, Some(0), 0).is_err());
    assert!(net.fabric.change_route("a", 77, None, 0).is_ok(), "what is not there");
}
