// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Switches as nodes of the network manager, with hosts that are no QEMU but run the
//! very manager that the driver has: one master, routes through both switches' tables
//! and the common hierarchy, a master that dies, a link that breaks, terms.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Daemon, PATIENCE, Port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;
use weft_fabric::firmware::heap::Heap;
use weft_fabric::wire::{Packet, ROUTES, abi::*};
use weft_proto::mac::Mac;
use weft_proto::nm::{
    assignments::MAX_ASSIGNMENTS,
    mastership::Mastership,
    member::Member,
    message::{Message, Taken, Write},
    modes::{self, Modes},
    node::{Effects, MAX_NODES, Node, Role, TICK_MS, There},
    packet::{self as mail, Direction, MAX_BYTES, MAX_PAYLOAD},
    path::Path,
    port,
    table::{self, Slot},
};

/// h1 and h2 at s1, h3 and h4 at s2, and two ways from s1 to s2.
const FABRIC: &str = r#"
    host = [
        { name = "h1", hwid = 11 }, { name = "h2", hwid = 22 },
        { name = "h3", hwid = 33 }, { name = "h4", hwid = 44 },
    ]
    switch = [{ name = "s1", ports = 16 }, { name = "s2", ports = 8 }]
    link = [
        { ends = ["h1:0", "s1:0"] }, { ends = ["h2:1", "s1:15"] },
        { ends = ["h3:3", "s2:1"] }, { ends = ["h4:0", "s2:2"] },
        { ends = ["s1:4", "s2:7"], speed = 5 }, { ends = ["s2:6", "s1:5"], speed = 3 },
    ]
"#;

/// What a manager wants done.
struct Done<'a> {
    port: &'a Port,
    /// What has come while the fabric was asked.
    early: &'a mut VecDeque<Packet>,
    sent: Vec<(u8, Vec<u8>)>,
    /// First and last LID, and the link.
    routes: Vec<(u32, u32, Option<u8>)>,
    lid: Option<u32>,
}

impl Done<'_> {
    /// A register of the node at the end of a path.
    fn register(&mut self, path: &Path, address: u32) -> Option<u64> {
        let ctrl = u64::from(path.hops() as u32 | (WEFT_SPACE_CONFIG << 8));
        self.port.say(WEFT_FAB_CONFIG, 0, [7, ctrl, address.into(), 0, 0, 0], path.ports());
        loop {
            let got = self.port.receive().expect("the daemon lives").packet;
            if got.kind == WEFT_FAB_CONFIG_REPLY {
                return (got.arg[1] as u32 == WEFT_CFG_OK).then_some(got.arg[3]);
            }
            self.early.push_back(got);
        }
    }
}

impl table::Effects for Done<'_> {
    fn route(&mut self, lid: u32, port: Option<u8>) {
        self.routes.push((lid, lid, port));
    }
}

impl modes::Effects for Done<'_> {
    fn routes(&mut self, first: u32, last: u32, port: Option<u8>) {
        self.routes.push((first, last, port));
    }
}

impl Mac for Done<'_> {}

impl Effects for Done<'_> {
    fn send(&mut self, port: u8, message: &[u8]) {
        self.sent.push((port, message.to_vec()));
    }
    fn role(&mut self, _role: Role, _mastership: &Mastership) {}
    fn lid(&mut self, lid: u32) {
        self.lid = Some(lid);
    }
    fn assignments(&mut self, _version: u32) {}
    fn there(&mut self, path: &Path) -> There {
        let half = [0, 4].map(|at| self.register(path, WEFT_CS_HWID + at));
        match half {
            [Some(low), Some(high)] => There::Node(low | (high << 32)),
            _ => There::Nothing,
        }
    }
}

type Manager = Modes<Vec<Member>, Vec<Slot>, Vec<u8>, Vec<u64>, Heap>;

/// A host: its port, its manager, and where in its route table LIDs are, single ones in front.
struct Host {
    port: Port,
    /// What has come, and was not taken yet.
    early: VecDeque<Packet>,
    manager: Manager,
    entries: BTreeMap<(u32, u32), u64>,
    /// Hardware id of the port that each link leads to.
    peers: [u64; 4],
}

struct Fabric {
    daemon: Daemon,
    hosts: BTreeMap<&'static str, Host>,
    /// Nodes that are no hosts.
    others: usize,
    start: Instant,
}

impl Fabric {
    fn new() -> Self {
        Self::of(FABRIC, 2)
    }

    fn of(topology: &str, others: usize) -> Self {
        let mut fabric = Self::empty(topology, others);
        for name in ["h1", "h2", "h3", "h4"] {
            fabric.join(name);
        }
        fabric
    }

    fn empty(topology: &str, others: usize) -> Self {
        let daemon = Daemon::start(topology);
        Fabric { daemon, hosts: BTreeMap::new(), others, start: Instant::now() }
    }

    fn join(&mut self, name: &'static str) {
        let (port, welcome) = Port::join(&self.daemon, name);
        let status = self.daemon.json(&["status"]);
        let switch = if matches!(name, "h1" | "h2") { 0 } else { 1 };
        let peers = [status["switches"][switch]["hwid"].as_u64().unwrap(); 4];
        let small = Node::new(
            welcome.arg[1],
            welcome.arg[0] as u32,
            vec![Member::NONE; MAX_NODES],
            vec![Slot::NONE; 2 * MAX_NODES],
            [vec![0; 2 * MAX_ASSIGNMENTS], vec![], vec![]],
            vec![],
        );
        let manager = Modes::new(small, Heap::parts());
        port.enable();
        let (early, entries) = Default::default();
        self.hosts.insert(name, Host { port, early, manager, entries, peers });
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }

    /// Lets managers work until `done`, and fails if that takes too long.
    fn until(&mut self, what: &str, done: impl Fn(&Fabric) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < deadline, "{what}");
            self.turn();
        }
    }

    /// All that has come, or a tick without anything.
    fn turn(&mut self) {
        let now = self.now();
        let mut fds: Vec<_> =
            self.hosts.values().map(|h| PollFd::new(&h.port.fd, PollFlags::IN)).collect();
        let time = Timespec { tv_sec: 0, tv_nsec: TICK_MS as i64 * 1_000_000 };
        poll(&mut fds, Some(&time)).unwrap();
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (host, ready) in self.hosts.values_mut().zip(ready) {
            host.work(|manager, fx| manager.tick(now, fx));
            if ready {
                let got = host.port.receive().expect("the daemon lives").packet;
                host.early.push_back(got);
            }
            while let Some(got) = host.early.pop_front() {
                host.take(now, got);
            }
        }
    }

    /// All obey this master, and all that is to be told is told.
    fn settled(&self, master: u64) -> bool {
        let quiet = |h: &Host| h.manager.small().is_quiet() && h.manager.master().0 == master;
        let routes = self.hosts.len() + self.others - 1;
        self.hosts
            .values()
            .all(|h| quiet(h) && h.manager.small().table().routes().count() == routes)
    }

    /// All are in the mode of a large fabric, have a local id, obey this master, and reach each other.
    fn at_scale(&self, master: u64) -> bool {
        let is = |h: &Host| {
            let m = &h.manager;
            m.large().is_some_and(|large| large.is_settled())
                && m.lid() != 0
                && m.master().0 == master
        };
        let reached = |from: &str, to: &str| from == to || self.walk(from, to)["at"] == json!(to);
        let mut names = self.hosts.keys();
        self.hosts.values().all(is)
            && names.all(|from| self.hosts.keys().all(|to| reached(from, to)))
    }

    fn lid(&self, name: &str) -> u32 {
        self.hosts[name].manager.lid()
    }

    fn walk(&self, from: &str, to: &str) -> Value {
        self.daemon.json(&["route", "walk", from, &self.lid(to).to_string()])
    }

    /// Every host reaches every other, on the common VP.
    fn check_routes(&self) {
        for from in self.hosts.keys() {
            for to in self.hosts.keys().filter(|to| to != &from) {
                let walk = self.walk(from, to);
                assert_eq!((&walk["at"], &walk["vp"]), (&json!(to), &json!(0)), "{from}: {walk}");
            }
        }
    }

    fn lids(&self) -> BTreeMap<String, u64> {
        let names = self.hosts.keys().copied().chain(["s1", "s2"]);
        let lid = |name: &str| self.daemon.json(&["route", "show", name])["lid"].as_u64().unwrap();
        names.map(|name| (name.to_owned(), lid(name))).collect()
    }
}

impl Host {
    fn work(&mut self, what: impl FnOnce(&mut Manager, &mut Done<'_>)) {
        let (port, early) = (&self.port, &mut self.early);
        let mut done = Done { port, early, sent: vec![], routes: vec![], lid: None };
        what(&mut self.manager, &mut done);
        let Done { sent, routes, lid, .. } = done;
        for (link, data) in sent {
            self.port.say(WEFT_FAB_MBOX, link.into(), [0; 6], &data);
        }
        if let Some(lid) = lid {
            self.port.say(WEFT_FAB_LID, 0, [lid.into(), 0, 0, 0, 0, 0], &[]);
        }
        for (lid, last, link) in routes {
            let others = self.entries.keys();
            let before = others.filter(|(a, b)| (a == b) == (lid == last)).count() as u64;
            let free = if lid == last { before } else { ROUTES as u64 - 1 - before };
            let entry = *self.entries.entry((lid, last)).or_insert(free);
            let lids = u64::from(lid) | (u64::from(last) << 32);
            let from = link.map_or(0, |_| u64::from(WEFT_ROUTE_FROM_SELF));
            let (lids, out) = (link.map_or(0, |_| lids), link.unwrap_or(0).into());
            self.port.say(WEFT_FAB_ROUTE, 0, [entry, lids, out, from, 0, 1 << 32], &[]);
        }
    }

    /// Sends a switch what takes all its routes from it, in a later term: how each write was taken.
    fn forge(&mut self, path: &[u8], to: u64, master: u64) -> [Taken; 5] {
        let term = self.manager.master().1 + 1;
        let life = self.manager.small().members().get(to).expect("the switch is known").info.life;
        let write = Write { mastership: Mastership { term, master }, version: 1, to, life };
        let writes = [
            Message::Assign { write, lid: 4242, next_lid: 4243 },
            Message::Stage { write, piece: 0, of: 1, runs: &[] },
            Message::Commit { write, hops: 1 },
            Message::Commit { write, hops: 2 },
            Message::Commit { write, hops: 3 },
        ];
        let mut xid = 1 << 30;
        writes.map(|message| {
            xid += 1;
            let (mut payload, mut bytes) = ([0; MAX_PAYLOAD], [0; MAX_BYTES]);
            let len = message.encode(xid, &mut payload).unwrap();
            let path = Path::new(path).unwrap();
            let packet = mail::Packet::new(Direction::FromMaster, path, &payload[..len]).unwrap();
            let len = packet.encode(&mut bytes);
            let link = path.first().unwrap().into();
            self.port.say(WEFT_FAB_MBOX, link, [0; 6], &bytes[..len]);
            loop {
                let got = self.port.receive().expect("the daemon lives").packet;
                let mail = (got.kind == WEFT_FAB_MBOX).then(|| mail::Packet::parse(&got.data));
                if let Some(Ok(mail)) = mail {
                    match Message::parse(mail.payload()) {
                        Ok((number, Message::Ack { taken, .. })) if number == xid => break taken,
                        _ => {}
                    }
                }
                self.early.push_back(got);
            }
        })
    }

    /// Takes one packet.
    fn take(&mut self, now: u64, got: Packet) {
        match got.kind {
            WEFT_FAB_MBOX => {
                self.work(|m, fx| m.receive(now, got.link as u8, &got.data, fx));
            }
            WEFT_FAB_LINK_INFO => {
                let up = got.arg[2] & 4 != 0;
                let peer = if up { self.peers[usize::from(got.link)] } else { 0 };
                let (speed, width) = (got.arg[0] as u8, got.arg[1] as u8);
                let port = port::Port { peer, speed, width, excluded: false };
                let port = if up { port } else { port::Port::NONE };
                self.work(|m, fx| m.port(now, got.link as u8, port, fx));
            }
            _ => {}
        }
    }
}

#[test]
fn n_5_n_6_switches_obey_the_hosts_master() {
    let mut fabric = Fabric::new();
    fabric.until("a master and all routes", |f| f.settled(11));
    let lids = fabric.lids();
    let mut unique: Vec<_> = lids.values().copied().collect();
    unique.sort_unstable();
    assert_eq!(unique, [1, 2, 3, 4, 5, 6], "{lids:?}");
    fabric.check_routes();
    // By the faster of the two ways.
    let walk = fabric.walk("h1", "h4");
    assert_eq!(walk["hops"][1], json!({"from": "s1:4", "to": "s2:7"}));
    let status = fabric.daemon.json(&["status"]);
    let term = fabric.hosts["h1"].manager.master().1;
    for switch in [0, 1] {
        let switch = &status["switches"][switch];
        assert_eq!((&switch["master"], &switch["term"]), (&json!(11), &json!(term)));
    }
    // Every cabled port, and no other, is in the common hierarchy.
    let vps = fabric.daemon.json(&["route", "show", "s1"]);
    let ports = vps["vps"].as_array().unwrap().iter().map(|v| v["port"].as_u64().unwrap());
    assert_eq!(ports.collect::<Vec<_>>(), [0, 4, 5, 15]);

    // A cable between the switches goes: the other way is taken, and back again.
    fabric.daemon.json(&["link", "down", "s1:4"]);
    let by = |f: &Fabric, out: &str| f.walk("h1", "h4")["hops"][1]["from"] == out;
    fabric.until("routes around the broken cable", |f| f.settled(11) && by(f, "s1:5"));
    fabric.check_routes();
    fabric.daemon.json(&["link", "up", "s1:4"]);
    fabric.until("routes by the mended cable", |f| f.settled(11) && by(f, "s1:4"));

    // The master dies: the next one is the master at once, and everybody keeps its id.
    fabric.hosts.remove("h1");
    fabric.until("another master", |f| f.settled(22));
    let now = fabric.lids();
    assert!(now.iter().all(|(name, lid)| lids[name] == *lid), "{now:?}, before {lids:?}");
    fabric.check_routes();
    let switch = &fabric.daemon.json(&["status"])["switches"][1];
    assert_eq!(switch["master"], 22);
    assert!(switch["term"].as_u64().unwrap() > u64::from(term));

    // It comes back, in another life.
    fabric.join("h1");
    fabric.until("the former master", |f| f.settled(11));
    fabric.check_routes();
    assert!(lids.values().all(|lid| *lid != u64::from(fabric.lid("h1"))), "an id given twice");
}

#[test]
fn p_5_n_6_switches_follow_hosts_into_the_mode_of_a_large_fabric() {
    let mut fabric = Fabric::new();
    fabric.until("a master and all routes", |f| f.settled(11));
    let before = fabric.lids();
    fabric.hosts.get_mut("h3").unwrap().manager.set_limit(3);
    fabric.until("all hosts at scale", |f| f.at_scale(11));
    assert_eq!(fabric.lids(), before, "local ids outlive the change of the mode");
    fabric.check_routes();

    // A cable between the switches goes: the other way is taken, and back again.
    fabric.daemon.json(&["link", "down", "s1:4"]);
    let by = |f: &Fabric, out: &str| f.walk("h1", "h4")["hops"][1]["from"] == out;
    fabric.until("routes around the broken cable", |f| by(f, "s1:5"));
    fabric.check_routes();
    fabric.daemon.json(&["link", "up", "s1:4"]);
    fabric.until("routes by the mended cable", |f| by(f, "s1:4"));

    // The master dies, and another one comes that explores at first.
    fabric.hosts.remove("h1");
    fabric.until("another master", |f| f.at_scale(22));
    fabric.join("h1");
    fabric.until("the former master", |f| f.at_scale(11));
    fabric.check_routes();
    let now = fabric.lids();
    let kept = |(name, lid): (&String, &u64)| name == "h1" || before[name] == *lid;
    assert!(now.iter().all(kept), "{now:?}, before {before:?}");
    assert!(before.values().all(|lid| *lid != now["h1"]), "an id given twice");
}

#[test]
fn p_5_local_ids_by_areas_have_routes_by_areas() {
    // Eight switches in a row, each with six more: with hosts at both ends more than fit into an area of their size.
    let mut fabric = Fabric::empty(&tree(8, 6), 8 * 7);
    for name in ["h1", "h2", "h3", "h4"] {
        fabric.join(name);
        fabric.hosts.get_mut(name).unwrap().manager.set_limit(1);
    }
    fabric.until("all hosts at scale", |f| f.at_scale(11));
    fabric.check_routes();
    let table = fabric.daemon.json(&["route", "show", "s1"]);
    let routes = table["routes"].as_array().unwrap();
    assert!(routes.iter().any(|route| route["first"] != route["last"]), "{table}");
    assert!(fabric.hosts["h1"].entries.keys().any(|(first, last)| first != last));
    assert!(routes.len() < 4 * 60_usize.isqrt(), "{} routes", routes.len());
}

/// So many switches in a row, each with so many others at it; h1 and h2 at the first, h3 and h4 at the last.
fn tree(row: usize, leaves: usize) -> String {
    let mut text = String::from("host = [");
    for (name, hwid) in [("h1", 11), ("h2", 22), ("h3", 33), ("h4", 44)] {
        text += &format!("{{ name = \"{name}\", hwid = {hwid} }},");
    }
    text += "]\n";
    let mut links = vec![
        ("h1:0".into(), "s1:0".into()),
        ("h2:1".into(), "s1:1".into()),
        ("h3:3".into(), format!("s{row}:0")),
        ("h4:0".into(), format!("s{row}:1")),
    ];
    // The last one is the second, as where there are two.
    for n in [1, row].into_iter().chain(2..row) {
        text += &format!("[[switch]]\nname = \"s{n}\"\nports = 16\n");
        if n < row {
            links.push((format!("s{n}:2"), format!("s{}:3", n + 1)));
        }
        for leaf in 0..leaves {
            text += &format!("[[switch]]\nname = \"s{n}-{leaf}\"\nports = 2\nroutes = true\n");
            links.push((format!("s{n}-{leaf}:0"), format!("s{n}:{}", 4 + leaf)));
        }
    }
    for (one, other) in links {
        text += &format!("[[link]]\nends = [\"{one}\", \"{other}\"]\n");
    }
    text
}

#[test]
fn n_5_a_switch_obeys_no_master_that_is_not_where_its_writes_came_from() {
    let managed = FABRIC.replacen("host = [", "managers = [\"h1\"]\n    host = [", 1);
    for topology in [FABRIC, &managed] {
        let mut fabric = Fabric::of(topology, 2);
        fabric.until("a master and all routes", |f| f.settled(11));
        let tables = |f: &Fabric| {
            let table = |name| f.daemon.json(&["route", "show", name]);
            let status = f.daemon.json(&["status"])["switches"].clone();
            (f.lids(), status, [table("s1"), table("s2")])
        };
        let before = tables(&fabric);
        // h3 forges, to the switch next to it and to the other one: of no host, and of the master.
        let hwid = |n: usize| before.1[n]["hwid"].as_u64().unwrap();
        for (path, to) in [(&[3][..], hwid(1)), (&[3, 7], hwid(0))] {
            for master in [1, 11] {
                let h3 = fabric.hosts.get_mut("h3").unwrap();
                assert_eq!(h3.forge(path, to, master), [Taken::Stale; 5], "{path:?}, {master}");
            }
        }
        assert_eq!(tables(&fabric), before);
        fabric.until("that all goes on", |f| f.settled(11));
        assert_eq!(tables(&fabric), before);
    }
}

#[test]
fn n_5_a_switch_that_cannot_attest_obeys_what_claims_to_be_the_master() {
    let blind = FABRIC.replacen("host = [", "attests = false\n    host = [", 1);
    let mut fabric = Fabric::of(&blind, 2);
    fabric.until("a master and all routes", |f| f.settled(11));
    let to = fabric.daemon.json(&["status"])["switches"][1]["hwid"].as_u64().unwrap();
    let h3 = fabric.hosts.get_mut("h3").unwrap();
    assert_eq!(h3.forge(&[3], to, 1), [Taken::Yes; 5]);
    assert_eq!(fabric.daemon.json(&["status"])["switches"][1]["master"], 1);
}

#[test]
fn n_8_routes_avoid_a_link_between_switches_that_saves_power_and_come_back() {
    let mut fabric = Fabric::new();
    fabric.until("a master and all routes", |f| f.settled(11));
    let by = |f: &Fabric, out: &str| {
        let from = |a, b| f.walk(a, b)["hops"][1]["from"].clone();
        from("h1", "h4") == out && from("h2", "h3") == out
    };
    assert!(by(&fabric, "s1:4"), "by the faster of the two");
    fabric.daemon.json(&["link", "set", "s1:4", "--speed", "4", "--power", "auto"]);
    let shown = |f: &Fabric| {
        let link = &f.daemon.json(&["status"])["links"][4];
        assert_eq!(link["ends"], json!(["s1:4", "s2:7"]));
        (link["speed"].as_u64().unwrap(), link["width"].as_u64().unwrap())
    };
    assert_eq!(shown(&fabric), (4, 8), "it begins at the most");
    fabric.until("routes by the one that is faster now", |f| f.settled(11) && by(f, "s1:5"));
    let (speed, width) = shown(&fabric);
    assert!(speed <= 4 && width <= 4, "gen{speed} x{width}");
    fabric.check_routes();
    fabric.daemon.json(&["link", "set", "s1:4", "--power", "performance"]);
    assert_eq!(shown(&fabric), (4, 8));
    fabric.until("routes by the faster one again", |f| f.settled(11) && by(f, "s1:4"));
    fabric.check_routes();
}

#[test]
fn n_8_at_scale_routes_heed_what_the_administrator_allows_and_not_what_saves_power() {
    let mut fabric = Fabric::new();
    fabric.until("a master and all routes", |f| f.settled(11));
    fabric.daemon.json(&["link", "set", "s1:4", "--speed", "4", "--power", "auto"]);
    let by = |f: &Fabric, out: &str| f.walk("h1", "h4")["hops"][1]["from"] == out;
    let rate = |f: &Fabric| {
        let link = &f.daemon.json(&["status"])["links"][4];
        assert_eq!(link["ends"], json!(["s1:4", "s2:7"]));
        link["width"].as_u64().unwrap() << link["speed"].as_u64().unwrap()
    };
    // The other way is gen3 x8.
    fabric.until("a link that is slow for want of traffic", |f| rate(f) < 8 << 3);
    fabric.hosts.get_mut("h3").unwrap().manager.set_limit(3);
    fabric.until("all hosts at scale, by what could be the faster way", |f| {
        f.at_scale(11) && by(f, "s1:4")
    });
    fabric.until("the slowest", |f| {
        assert!(by(f, "s1:4"), "a route has moved");
        rate(f) == 1 << 1
    });
    fabric.daemon.json(&["link", "set", "s1:4", "--speed", "2"]);
    fabric.until("the faster way", |f| by(f, "s1:5"));
    fabric.check_routes();
}

#[test]
fn n_6_an_administrators_word_on_a_virtual_plane_stands() {
    let mut fabric = Fabric::empty(FABRIC, 2);
    fabric.daemon.json(&["vp", "set", "s1:0", "0", "9"]);
    fabric.daemon.json(&["vp", "set", "s1:15", "0", "9"]);
    fabric.daemon.json(&["vp", "del", "s1:15", "0"]);
    for name in ["h1", "h2", "h3", "h4"] {
        fabric.join(name);
    }
    fabric.until("a master and all routes", |f| f.settled(11));
    assert_eq!(fabric.walk("h3", "h4")["at"], "h4");
    // What h1 sends stays in hierarchy 9, and h2 is in none.
    for (from, to, at) in [("h1", "h3", "s1"), ("h2", "h3", "s1"), ("h3", "h2", "s1")] {
        let walk = fabric.walk(from, to);
        assert_eq!((&walk["at"], &walk["why"]), (&json!(at), &json!("no_vp")), "{from}: {walk}");
    }
}

#[test]
fn n_6_a_configuration_request_of_a_higher_term_makes_the_master_take_a_term_above_it() {
    let mut fabric = Fabric::new();
    fabric.until("a master and all routes", |f| f.settled(11));
    // h4 writes to the switch next to it, as if it were master.
    let h4 = &fabric.hosts["h4"];
    let ctrl = 1 | (WEFT_SPACE_ROUTE << 8) | WEFT_CFG_WRITE;
    h4.port.say(WEFT_FAB_CONFIG, 0, [1, ctrl.into(), 99, 0, 500, 0], &[0]);
    assert_eq!(h4.port.expect(WEFT_FAB_CONFIG_REPLY).arg[1], u64::from(WEFT_CFG_OK));
    let term = |f: &Fabric| f.daemon.json(&["status"])["switches"][1]["term"].as_u64().unwrap();
    assert_eq!(term(&fabric), 500);
    // The next poll of that switch tells the master.
    fabric.until("a term above 500", |f| f.settled(11) && term(f) == 501);
    assert_eq!(fabric.daemon.json(&["status"])["switches"][1]["master"], 11);
    fabric.check_routes();
}

#[test]
fn n_5_an_endpoint_has_its_local_id_from_the_master() {
    let endpoint = r#"
    [[endpoint]]
    name = "ep"
    kind = "copy"
    ves = 2
    "#;
    let text = FABRIC.replace("link = [", "link = [ { ends = [\"s2:3\", \"ep:0\"] },") + endpoint;
    let mut fabric = Fabric::of(&text, 3);
    let ep = |f: &Fabric| {
        let status = f.daemon.json(&["status"]);
        let nodes = status["nodes"].as_array().unwrap();
        let ep = nodes.iter().find(|n| n["name"] == "ep").unwrap();
        ep["endpoint"].clone()
    };
    fabric.until("a master and all routes", |f| f.settled(11));
    let lid = ep(&fabric)["lid"].as_u64().unwrap();
    let taken: Vec<_> = fabric.lids().into_values().collect();
    assert!(lid != 0 && !taken.contains(&lid), "{lid} of {taken:?}");
    assert_eq!((&ep(&fabric)["master"], &ep(&fabric)["ves"][0]["vp"]), (&json!(11), &Value::Null));
    // The way there is known to every switch; what is open there is another matter.
    let walk = fabric.daemon.json(&["route", "walk", "h1", &lid.to_string()]);
    assert_eq!((&walk["at"], &walk["hops"][2]["to"]), (&json!("ep"), &json!("ep:0")), "{walk}");

    // Pulled out and put back, it is found again; everybody else keeps what he has.
    fabric.daemon.json(&["unplug", "ep"]);
    fabric.others = 2;
    fabric.until("routes without it", |f| f.settled(11));
    fabric.check_routes();
    fabric.daemon.json(&["plug", "ep"]);
    fabric.others = 3;
    fabric.until("routes with it", |f| f.settled(11) && ep(f)["lid"].as_u64() > Some(0));
    assert_eq!(fabric.lids().into_values().collect::<Vec<_>>(), taken);
    fabric.check_routes();
}

#[test]
fn n_5_a_switch_that_refuses_a_master_takes_no_local_ids_from_the_others() {
    let only_h2 = FABRIC.replacen("host = [", "managers = [\"h2\"]\n    host = [", 1);
    let mut fabric = Fabric::empty(&only_h2, 2);
    fabric.join("h1");
    fabric.join("h2");
    let found = |fabric: &Fabric| fabric.hosts["h1"].manager.small().found();
    let mut looked = 0;
    let mut last = None;
    while looked < 10 {
        let before = last;
        fabric.until("h1 looks again and again", |fabric| found(fabric) > before);
        last = found(&fabric);
        looked += 1;
    }
    // Itself, h2 and two switches.
    let info = *fabric.hosts["h1"].manager.small().info();
    assert!(info.next_lid <= 5, "{info:?}");
}
