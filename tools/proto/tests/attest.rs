// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Whose writes a node obeys: those of a host that the fabric attests at the end of the path back. When
//! it is asked, and how often at the most.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

use std::collections::HashMap;
use weft_proto::mac::Mac;
use weft_proto::nm::{
    kind::NO_HOST,
    mastership::Mastership,
    member::Member,
    message::{Info, Message, Page, Taken, Write},
    node::{Effects, Node, Role, There, MAX_NODES},
    packet::{Arrival, Direction, Packet, MAX_BYTES, MAX_PAYLOAD},
    path::Path,
    port::{Port, PORTS},
    table::{self, Slot},
};

/// As in Documentation/manager.rst.
const ATTESTED_MS: u64 = 1000;
const REFUSED_MS: u64 = 500;
const LOOKS: usize = 16;

const ME: u64 = 20;
const SWITCH: u64 = NO_HOST | 1;

/// What is at the end of paths, and what the node has done.
#[derive(Default)]
struct Fabric {
    there: HashMap<Vec<u8>, u64>,
    mute: bool,
    looked: Vec<Vec<u8>>,
    told: Vec<(u64, There)>,
    sent: Vec<(u8, Vec<u8>)>,
    role: Option<Role>,
}

impl table::Effects for Fabric {
    fn route(&mut self, _lid: u32, _port: Option<u8>) {}
}

impl Mac for Fabric {}

impl Effects for Fabric {
    fn send(&mut self, port: u8, message: &[u8]) {
        self.sent.push((port, message.to_vec()));
    }
    fn role(&mut self, role: Role, _mastership: &Mastership) {
        self.role = Some(role);
    }
    fn lid(&mut self, _lid: u32) {}
    fn assignments(&mut self, _version: u32) {}
    fn there(&mut self, path: &Path) -> There {
        self.looked.push(path.ports().to_vec());
        match self.there.get(path.ports()) {
            _ if self.mute => There::Unknown,
            Some(hwid) => There::Node(*hwid),
            None => There::Nothing,
        }
    }
    fn unattested(&mut self, master: u64, there: There) {
        self.told.push((master, there));
    }
}

type Manager = Node<Vec<Member>, Vec<Slot>, Vec<u8>, Vec<u64>>;

struct Bed {
    node: Manager,
    fabric: Fabric,
    now: u64,
}

impl Bed {
    /// A host with a switch at port 0 and a host, 30, at port 1. Behind port 3 of the switch is 10.
    fn new(allowed: &[u64]) -> Self {
        let bytes = [vec![0; 64], vec![0; 64], vec![0; 64]];
        let (members, slots) = (vec![Member::NONE; MAX_NODES], vec![Slot::NONE; 16]);
        let mut bed = Self {
            node: Node::new(ME, 7, members, slots, bytes, allowed.to_vec()),
            fabric: Fabric::default(),
            now: 1000,
        };
        let there = [(&[0][..], SWITCH), (&[0, 3], 10), (&[0, 4], 40), (&[1], 30)];
        bed.fabric.there = there.map(|(path, hwid)| (path.to_vec(), hwid)).into();
        bed.plug(0, SWITCH);
        bed.plug(1, 30);
        bed
    }

    fn plug(&mut self, number: u8, peer: u64) {
        let port = Port {
            peer,
            speed: 3,
            width: 8,
            excluded: false,
        };
        self.node.port(self.now, number, port, &mut self.fabric);
    }

    /// A message comes by a path, given as the way back. Of those that the node sends, the answers.
    fn receive(
        &mut self,
        direction: Direction,
        back: &[u8],
        xid: u32,
        message: &Message<'_>,
    ) -> Vec<Vec<u8>> {
        let mut payload = [0; MAX_PAYLOAD];
        let len = message.encode(xid, &mut payload).unwrap();
        // By which ports it leaves the nodes on the way does not matter.
        let forward = Path::new(&vec![0; back.len()]).unwrap();
        let mut packet = Packet::new(direction, forward, &payload[..len]).unwrap();
        for port in back[1..].iter().rev() {
            assert!(matches!(packet.arrive(*port), Some(Arrival::Relay(_))));
        }
        let mut bytes = [0; MAX_BYTES];
        let len = packet.encode(&mut bytes);
        self.fabric.sent.clear();
        self.node
            .receive(self.now, back[0], &bytes[..len], &mut self.fabric);
        let sent = std::mem::take(&mut self.fabric.sent);
        sent.iter()
            .map(|(_, bytes)| Packet::parse(bytes).unwrap().payload().to_vec())
            .collect()
    }

    /// A write in this mastership: how it was taken.
    fn write(&mut self, term: u32, master: u64, back: &[u8]) -> Taken {
        let mastership = Mastership { term, master };
        let write = Write {
            mastership,
            version: 1,
            to: ME,
            life: 7,
        };
        let message = Message::Assign {
            write,
            lid: 5,
            next_lid: 6,
        };
        let answers = self.receive(Direction::FromMaster, back, 99, &message);
        let ack = |payload: &Vec<u8>| match Message::parse(payload) {
            Ok((99, Message::Ack { taken, .. })) => Some(taken),
            _ => None,
        };
        answers.iter().find_map(ack).expect("an answer")
    }

    fn looks(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.fabric.looked)
    }
}

#[test]
fn n_5_the_fabric_is_asked_for_a_master_that_is_not_known_at_that_path_and_no_more() {
    let mut bed = Bed::new(&[]);
    assert_eq!(bed.write(1, 10, &[0, 3]), Taken::Yes);
    assert_eq!(bed.looks(), [[0, 3]], "once, for its end");
    // In this mastership, and in the next of the same host by the same path.
    bed.now += ATTESTED_MS - 1;
    assert_eq!(
        [bed.write(1, 10, &[0, 3]), bed.write(2, 10, &[0, 3])],
        [Taken::Yes; 2]
    );
    assert_eq!(bed.looks().len(), 0);
    // The host that is there may be another one after a while, or when the link has changed.
    bed.now += 1;
    assert_eq!(bed.write(2, 10, &[0, 3]), Taken::Yes);
    assert_eq!(bed.looks(), [[0, 3]]);
    bed.plug(0, SWITCH | 2);
    assert_eq!(bed.write(2, 10, &[0, 3]), Taken::Yes);
    assert_eq!(bed.looks(), [[0, 3]]);
    bed.plug(1, 50);
    assert_eq!(bed.write(2, 10, &[0, 3]), Taken::Yes);
    assert_eq!(bed.looks().len(), 0, "another link");
    assert_eq!(bed.node.refusals(), 0);
}

#[test]
fn n_5_a_write_from_the_wrong_place_is_refused_whatever_it_claims() {
    let mut bed = Bed::new(&[]);
    assert_eq!(bed.write(5, 10, &[0, 3]), Taken::Yes);
    // In the mastership in force; in a later one; in the name of a host that is not there.
    for (term, master) in [(5, 10), (6, 10), (6, 1), (1 << 31, 1)] {
        bed.now += REFUSED_MS;
        assert_eq!(
            bed.write(term, master, &[0, 4]),
            Taken::Stale,
            "{term}, {master}"
        );
        assert_eq!(bed.fabric.told.pop(), Some((master, There::Node(40))));
    }
    // By its own neighbour, and by a path that leads nowhere.
    assert_eq!(bed.write(6, 10, &[1]), Taken::Stale);
    assert_eq!(bed.fabric.told.pop(), Some((10, There::Node(30))));
    assert_eq!(bed.write(6, 10, &[0, 5]), Taken::Stale);
    assert_eq!(bed.fabric.told.pop(), Some((10, There::Nothing)));
    assert_eq!(bed.node.refusals(), 6);
    let info = bed.node.info();
    assert_eq!(
        (info.mastership, info.lid),
        (
            Mastership {
                term: 5,
                master: 10
            },
            5
        )
    );
    assert_eq!(bed.write(5, 10, &[0, 3]), Taken::Yes);
    // What the host at the end of a path writes in its own name does not suffer from what it forged.
    bed.now += ATTESTED_MS;
    assert_eq!(bed.write(6, 1, &[0, 3]), Taken::Stale);
    assert_eq!(bed.write(6, 10, &[0, 3]), Taken::Yes);
}

#[test]
fn n_5_forged_writes_do_not_keep_a_node_busy_with_questions() {
    let mut bed = Bed::new(&[]);
    assert_eq!(bed.write(5, 10, &[0, 3]), Taken::Yes);
    bed.looks();
    for _ in 0..100 {
        assert_eq!(bed.write(6, 1, &[0, 4]), Taken::Stale);
    }
    assert_eq!(bed.looks().len(), 1, "one path");
    // Over many paths.
    for n in 0..100 {
        assert_eq!(bed.write(6, 1, &[0, 4, n / 16, n % 16]), Taken::Stale);
        assert_eq!(
            bed.write(5, 10, &[0, 3]),
            Taken::Yes,
            "the master is heard meanwhile"
        );
    }
    assert_eq!(bed.looks().len(), LOOKS - 1);
    assert_eq!((bed.node.refusals(), bed.fabric.told.len()), (200, LOOKS));
    // Another master is heard when that is over.
    bed.fabric.there.insert(vec![0, 6], 2);
    bed.now += REFUSED_MS;
    assert_eq!(bed.write(6, 2, &[0, 6]), Taken::Yes);
}

#[test]
fn n_5_a_fabric_that_does_not_answer_has_nothing_obeyed_for_the_moment() {
    let mut bed = Bed::new(&[]);
    bed.fabric.mute = true;
    assert_eq!(bed.write(5, 10, &[0, 3]), Taken::Stale);
    bed.fabric.mute = false;
    bed.now += REFUSED_MS;
    assert_eq!(bed.write(5, 10, &[0, 3]), Taken::Yes);
}

#[test]
fn n_5_with_a_list_no_other_host_may_be_on_the_way() {
    // Whether 30 has forged what came by it, it alone knows.
    for (allowed, taken) in [(&[][..], Taken::Yes), (&[10, 20, 30], Taken::Yes)] {
        let mut bed = Bed::new(allowed);
        bed.fabric.there.insert(vec![1, 0], 10);
        assert_eq!(bed.write(5, 10, &[1, 0]), taken);
    }
    let mut bed = Bed::new(&[10, 20]);
    bed.fabric
        .there
        .extend([(vec![0, 4, 1], SWITCH | 2), (vec![0, 4, 1, 2], 10)]);
    assert_eq!(bed.write(5, 10, &[0, 4, 1, 2]), Taken::Stale);
    assert_eq!(
        bed.looks(),
        [&[0][..], &[0, 4]],
        "up to the host that is on the way"
    );
    assert_eq!(bed.fabric.told.pop(), Some((10, There::Node(40))));
    bed.fabric.there.insert(vec![0, 4], SWITCH | 1);
    bed.now += REFUSED_MS;
    assert_eq!(
        bed.write(5, 10, &[0, 4, 1, 2]),
        Taken::Yes,
        "by switches alone"
    );
}

/// The host at port 1 names a host with a lower id behind its port 2, and answers for it.
fn explored(bed: &mut Bed) -> (Option<Role>, u64) {
    for _ in 0..200 {
        bed.now += 20;
        bed.node.tick(bed.now, &mut bed.fabric);
        for (out, bytes) in std::mem::take(&mut bed.fabric.sent) {
            let packet = Packet::parse(&bytes).unwrap();
            let Ok((xid, Message::PortsRequest { .. })) = Message::parse(packet.payload()) else {
                continue;
            };
            let mut ports = [Port::NONE; PORTS];
            let port = |peer| Port {
                peer,
                speed: 3,
                width: 8,
                excluded: false,
            };
            let two = packet.out().is_some() && bytes[12 + 2] == 2;
            let hwid = match (out, two) {
                (1, false) => {
                    (ports[0], ports[2]) = (port(ME), port(10));
                    30
                }
                (1, true) => {
                    ports[0] = port(30);
                    10
                }
                _ => continue,
            };
            let info = Info {
                hwid,
                life: 1,
                next_lid: 1,
                ..Info::default()
            };
            let reply = Message::PortsReply {
                info,
                page: Page::of(&ports, 0),
            };
            bed.receive(
                Direction::Unknown,
                if two { &[1, 2] } else { &[1] },
                xid,
                &reply,
            );
        }
        if bed.node.role() != Role::Unknown {
            break;
        }
    }
    (bed.fabric.role, bed.node.master())
}

#[test]
fn n_5_a_host_that_another_one_has_made_up_is_not_elected() {
    let mut bed = Bed::new(&[]);
    assert_eq!(explored(&mut bed), (Some(Role::Master), ME));
    let mut bed = Bed::new(&[]);
    bed.fabric.there.insert(vec![1, 2], 40);
    assert_eq!(explored(&mut bed), (Some(Role::Master), ME));
    // One that is there is.
    let mut bed = Bed::new(&[]);
    bed.fabric.there.insert(vec![1, 2], 10);
    assert_eq!(explored(&mut bed), (Some(Role::Standby), 10));
    // Where that cannot be found out, none is for now.
    let mut bed = Bed::new(&[]);
    bed.fabric.mute = true;
    assert_eq!(explored(&mut bed), (None, 0));
}
