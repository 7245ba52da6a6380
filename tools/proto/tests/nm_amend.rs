// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Hosts ask the master for changes of the assignments: who may, when it takes them, and that every host
//! keeps what comes of it, whichever host is master by then.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

use std::cell::RefCell;
use std::collections::VecDeque;
use weft_proto::mac::Mac;
use weft_proto::nm::{
    mastership::Mastership,
    member::Member,
    message::{Message, Taken},
    modes::{self, Modes, MAGICS},
    node::{AnyNode, Effects, Node, Role, There, TICK_MS},
    packet::{Direction, Packet, MAX_BYTES, MAX_PAYLOAD},
    path::Path,
    port::{Port, PORTS},
    scale::{self, store::Store, Parts},
    table::{self, Slot},
};

/// Hosts in a row: port 1 of each leads to port 0 of the next.
const HWIDS: [u64; 3] = [10, 20, 30];
const ROOM: usize = 64;

type Manager = Node<Vec<Member>, Vec<Slot>, Vec<u8>, Vec<u64>>;

/// What a node has done.
struct Host {
    at: usize,
    sent: Vec<(u8, Vec<u8>)>,
    /// Changes for which hosts have asked, and the hosts that were there.
    asked: Vec<(u64, Vec<u8>, Vec<u64>)>,
    role: Role,
}

impl table::Effects for Host {
    fn route(&mut self, _lid: u32, _port: Option<u8>) {}
}

impl Mac for Host {}

impl modes::Effects for Host {
    fn routes(&mut self, _first: u32, _last: u32, _port: Option<u8>) {}
}

/// A list without room.
struct NoRoom;

impl<T> Store<T> for NoRoom {
    fn all(&self) -> &[T] {
        &[]
    }
    fn all_mut(&mut self) -> &mut [T] {
        &mut []
    }
    fn insert(&mut self, _at: usize, _what: T) -> bool {
        false
    }
    fn remove(&mut self, _at: usize) {}
    fn clear(&mut self) {}
}

impl scale::Memory for NoRoom {
    type Routes = NoRoom;
    type Names = NoRoom;
    type Holders = NoRoom;
    type Bytes = Vec<u8>;
    type Peers = Vec<scale::tree::Peer>;
    type Links = Vec<scale::link::Link>;
}

impl Effects for Host {
    fn send(&mut self, port: u8, message: &[u8]) {
        self.sent.push((port, message.to_vec()));
    }
    fn role(&mut self, role: Role, _mastership: &Mastership) {
        self.role = role;
    }
    fn lid(&mut self, _lid: u32) {}
    fn assignments(&mut self, _version: u32) {}
    /// Appends the change; one that begins with `!` is refused.
    fn amend(
        &mut self,
        text: &[u8],
        from: u64,
        change: &[u8],
        any: &AnyNode<'_>,
        to: &mut [u8],
    ) -> Result<Option<usize>, Taken> {
        let hosts = RefCell::new(Vec::new());
        let none = any(&|hwid| {
            hosts.borrow_mut().push(hwid);
            false
        });
        assert!(!none);
        self.asked.push((from, change.to_vec(), hosts.into_inner()));
        if text.ends_with(change) {
            return Ok(None);
        }
        if change.starts_with(b"!") {
            return Err(Taken::Order);
        }
        let all = [text, change].concat();
        to.get_mut(..all.len())
            .ok_or(Taken::NoRoom)?
            .copy_from_slice(&all);
        Ok(Some(all.len()))
    }
    fn there(&mut self, path: &Path) -> There {
        let mut at = self.at;
        for port in path.ports() {
            let next = match port {
                0 => at.checked_sub(1),
                _ => Some(at + 1).filter(|next| *next < HWIDS.len()),
            };
            let Some(next) = next else {
                return There::Nothing;
            };
            at = next;
        }
        There::Node(HWIDS[at])
    }
}

struct World {
    nodes: Vec<(Manager, Host)>,
    dead: [bool; HWIDS.len()],
    now: u64,
}

impl World {
    fn new() -> Self {
        let nodes = HWIDS.iter().enumerate().map(|(at, hwid)| {
            let bytes = [vec![0; 2 * ROOM], vec![0; 64], vec![0; 64]];
            let (members, slots) = (vec![Member::NONE; 8], vec![Slot::NONE; 16]);
            let host = Host {
                at,
                sent: Vec::new(),
                asked: Vec::new(),
                role: Role::Unknown,
            };
            (Node::new(*hwid, 7, members, slots, bytes, Vec::new()), host)
        });
        let mut world = World {
            nodes: nodes.collect(),
            dead: [false; HWIDS.len()],
            now: 1000,
        };
        for at in 0..HWIDS.len() - 1 {
            world.link(at, true);
        }
        world.pass(4000);
        assert_eq!(world.nodes[0].1.role, Role::Master);
        world
    }

    /// The link between a host and the next comes up, or goes down.
    fn link(&mut self, at: usize, up: bool) {
        for (from, port, to) in [(at, 1, at + 1), (at + 1, 0, at)] {
            let there = Port {
                peer: HWIDS[to],
                speed: 3,
                width: 8,
                excluded: false,
            };
            let (node, host) = &mut self.nodes[from];
            node.port(self.now, port, if up { there } else { Port::NONE }, host);
        }
    }

    fn deliver(&mut self) {
        let mut wire: VecDeque<(usize, u8, Vec<u8>)> = VecDeque::new();
        loop {
            for (at, (_, host)) in self.nodes.iter_mut().enumerate() {
                for (port, bytes) in host.sent.drain(..) {
                    let to = if port == 0 {
                        at.checked_sub(1)
                    } else {
                        Some(at + 1)
                    };
                    let to = to.filter(|to| *to < HWIDS.len() && !self.dead[*to] && !self.dead[at]);
                    wire.extend(to.map(|to| (to, 1 - port, bytes)));
                }
            }
            let Some((to, port, bytes)) = wire.pop_front() else {
                return;
            };
            let (node, host) = &mut self.nodes[to];
            node.receive(self.now, port, &bytes, host);
        }
    }

    fn pass(&mut self, ms: u64) {
        for _ in 0..ms / TICK_MS {
            self.now += TICK_MS;
            for (at, (node, host)) in self.nodes.iter_mut().enumerate() {
                if !self.dead[at] {
                    node.tick(self.now, host);
                }
            }
            self.deliver();
        }
    }

    fn ask(&mut self, at: usize, change: &[u8]) -> Taken {
        let (node, host) = &mut self.nodes[at];
        let taken = node.amend(self.now, change, host);
        self.deliver();
        taken
    }

    /// Repeats a request until the host's own copy shows the change.
    fn ask_until_shown(&mut self, at: usize, change: &[u8]) {
        for _ in 0..40 {
            self.ask(at, change);
            self.pass(200);
            if self.text(at).ends_with(change) {
                return;
            }
        }
        panic!("{:?} at {at}", self.text(at));
    }

    fn text(&self, at: usize) -> &[u8] {
        self.nodes[at].0.assignments().bytes()
    }
}

#[test]
fn n_6_a_host_asks_and_every_host_keeps_the_change() {
    let mut world = World::new();
    assert_eq!(world.ask(2, b"one"), Taken::Later);
    world.pass(1000);
    assert_eq!([world.text(0), world.text(1), world.text(2)], [b"one"; 3]);
    let asked = &world.nodes[0].1.asked;
    assert_eq!(asked[..], [(30, b"one".to_vec(), HWIDS.to_vec())]);
    // The master asks itself.
    assert_eq!(world.ask(0, b"two"), Taken::Yes);
    world.pass(1000);
    assert_eq!(world.text(2), b"onetwo");
    // Once more, although it is so; and one that is refused.
    let version = world.nodes[0].0.assignments().version();
    assert_eq!(world.ask(0, b"two"), Taken::Yes);
    assert_eq!(world.ask(0, b"!no"), Taken::Order);
    world.ask(1, b"!no");
    assert_eq!(world.ask(0, &[b'x'; ROOM]), Taken::NoRoom);
    world.pass(1000);
    assert_eq!(world.nodes[0].0.assignments().version(), version);
    assert_eq!(world.text(1), b"onetwo");
    assert_eq!(world.nodes[0].1.asked.len(), 6);
}

#[test]
fn n_6_a_master_that_is_not_settled_takes_no_change() {
    let mut world = World::new();
    world.dead[1] = true;
    world.link(0, false);
    assert_eq!(world.ask(0, b"one"), Taken::Later, "it is about to look");
    assert!(world.nodes[0].1.asked.is_empty());
    world.pass(4000);
    world.dead[1] = false;
    world.link(0, true);
    world.pass(6000);
    world.ask_until_shown(2, b"one");
    assert_eq!(world.text(0), b"one");
}

#[test]
fn n_5_the_next_master_has_what_the_last_one_gave() {
    let mut world = World::new();
    world.ask_until_shown(2, b"one");
    world.dead[0] = true;
    world.link(0, false);
    world.ask_until_shown(2, b"two");
    assert_eq!(world.nodes[1].1.role, Role::Master);
    assert_eq!(world.text(1), b"onetwo");
    // The first one is back, in another life, and knows nothing.
    world.dead[0] = false;
    world.nodes[0].0.begin(HWIDS[0], 8);
    world.link(0, true);
    world.pass(6000);
    world.ask_until_shown(2, b"three");
    assert_eq!(world.nodes[0].1.role, Role::Master);
    assert_eq!(world.text(0), b"onetwothree");
}

#[test]
fn n_6_at_scale_no_change_is_made() {
    let mut world = World::new();
    let (master, mut host) = world.nodes.swap_remove(0);
    let parts = Parts::<NoRoom> {
        routes: NoRoom,
        names: NoRoom,
        holders: NoRoom,
        bytes: vec![0; 2 * ROOM],
        peers: vec![scale::tree::Peer::NONE; PORTS],
        links: vec![scale::link::Link::DOWN; PORTS],
    };
    let mut master = Modes::new(master, parts);
    let there = Port {
        peer: HWIDS[1],
        speed: 3,
        width: 8,
        excluded: false,
    };
    assert_eq!(master.amend(world.now, b"one", &mut host), Taken::Yes);
    // It was settled, and is not for a while.
    assert_eq!(master.assignments().1, b"one");
    master.port(world.now, 1, there, &mut host);
    master.receive(world.now, 1, &MAGICS[0], &mut host);
    assert!(
        master.large().is_some(),
        "the neighbour has changed the mode"
    );
    for ms in [0, 5000] {
        assert_eq!(master.amend(world.now + ms, b"two", &mut host), Taken::Bad);
    }
    assert_eq!(master.assignments().1, b"one");
    assert_eq!(host.asked.len(), 1);
}

#[test]
fn n_6_no_host_asks_in_the_name_of_another() {
    let mut world = World::new();
    let send = |world: &mut World, from, life, direction| {
        let change = b"one";
        let mut payload = [0; MAX_PAYLOAD];
        let message = Message::Amend { from, life, change };
        let len = message.encode(5, &mut payload).unwrap();
        let forward = Path::new(&[0]).unwrap();
        let packet = Packet::new(direction, forward, &payload[..len]).unwrap();
        let mut bytes = [0; MAX_BYTES];
        let len = packet.encode(&mut bytes);
        world.nodes[1].1.sent.push((0, bytes[..len].to_vec()));
        world.deliver();
        world.nodes[0].1.asked.len()
    };
    // Host 20 sends: as another host, in another life, as one that is not there, and as a master.
    for (from, life) in [(30, 7), (20, 8), (40, 7), (10, 7), ((1 << 63) | 1, 7)] {
        world.now += 1000;
        assert_eq!(
            send(&mut world, from, life, Direction::ToMaster),
            0,
            "{from}"
        );
    }
    assert_eq!(send(&mut world, 20, 7, Direction::FromMaster), 0);
    world.now += 1000;
    assert_eq!(send(&mut world, 20, 7, Direction::ToMaster), 1);
    // To a host that is not the master.
    world.pass(1000);
    let asked = |world: &World| world.nodes[1].1.asked.len();
    let mut payload = [0; MAX_PAYLOAD];
    let message = Message::Amend {
        from: 30,
        life: 7,
        change: b"two",
    };
    let len = message.encode(5, &mut payload).unwrap();
    let path = Path::new(&[0]).unwrap();
    let packet = Packet::new(Direction::ToMaster, path, &payload[..len]).unwrap();
    let mut bytes = [0; MAX_BYTES];
    let len = packet.encode(&mut bytes);
    world.nodes[2].1.sent.push((0, bytes[..len].to_vec()));
    world.deliver();
    assert_eq!(asked(&world), 0);
}
