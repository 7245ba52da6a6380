// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which nodes a node with a key believes: those with the same key, once, and in this life. Without attestation.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

use proptest::prelude::*;
use std::hash::{DefaultHasher, Hash, Hasher};
use weft_proto::{
    mac::{Mac, Tag},
    nm::{
        kind::NO_HOST,
        mastership::Mastership,
        member::Member,
        message::{Differ, Info, Message, Page, Taken, Write},
        node::{Effects, Mismatch, Node, Role, There, MAX_NODES},
        packet::{Direction, Packet, MAX_BYTES, MAX_PAYLOAD},
        path::Path,
        port::{Port, PORTS},
        seal::{Origin, Receiver, SEAL_BYTES},
        table::{self, Slot},
    },
};

const ME: u64 = 20;
const MASTER: u64 = 10;
const SWITCH: u64 = NO_HOST | 1;
const LIFE: u32 = 7;
/// Nonces of this node, and of the others.
const NONCE: u64 = 1000;
const THEIRS: u64 = 2000;
/// Keys.
const KEY: Key = Key(1);
const OTHER: Key = Key(2);
const NO_KEY: Key = Key(0);

/// Not a key of HMAC, but one that makes as different tags.
#[derive(Clone, Copy, PartialEq)]
struct Key(u64);

impl Mac for Key {
    fn tag(&self, message: &[u8]) -> Option<Tag> {
        let half = |n: u8| {
            let mut hasher = DefaultHasher::new();
            (self.0, n, message).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        (self.0 != 0).then(|| ((half(1) << 64) | half(2)).to_le_bytes())
    }
}

/// What the node has done; the fabric attests nothing.
struct Fabric {
    key: Key,
    sent: Vec<Packet>,
    mismatches: Vec<(Mismatch, u64)>,
    lid: u32,
}

impl Mac for Fabric {
    fn tag(&self, message: &[u8]) -> Option<Tag> {
        self.key.tag(message)
    }
}

impl table::Effects for Fabric {
    fn route(&mut self, _lid: u32, _port: Option<u8>) {}
}

impl Effects for Fabric {
    fn send(&mut self, _port: u8, message: &[u8]) {
        self.sent.push(Packet::parse(message).unwrap());
    }
    fn role(&mut self, _role: Role, _mastership: &Mastership) {}
    fn lid(&mut self, lid: u32) {
        self.lid = lid;
    }
    fn assignments(&mut self, _version: u32) {}
    fn there(&mut self, _path: &Path) -> There {
        panic!("a fabric that attests nothing is not asked");
    }
    fn attests(&self) -> bool {
        false
    }
    fn mismatched(&mut self, how: Mismatch, hwid: u64) {
        self.mismatches.push((how, hwid));
    }
}

/// How a message is sealed.
#[derive(Clone, Copy)]
struct By {
    key: Key,
    origin: Origin,
    to: Receiver,
}

impl By {
    /// As the master does, with this number.
    fn master(number: u64) -> Self {
        Self {
            key: KEY,
            origin: Origin {
                hwid: MASTER,
                nonce: THEIRS,
                number,
            },
            to: Receiver {
                hwid: ME,
                nonce: NONCE,
            },
        }
    }
}

struct Bed {
    node: Node<Vec<Member>, Vec<Slot>, Vec<u8>, Vec<u64>>,
    fabric: Fabric,
    now: u64,
}

impl Bed {
    /// A host, with the master at port 0 and a switch at port 1.
    fn new(key: Key) -> Self {
        let bytes = [vec![0; 64], vec![0; 64], vec![0; 64]];
        let (members, slots) = (vec![Member::NONE; MAX_NODES], vec![Slot::NONE; 16]);
        let fabric = Fabric {
            key: NO_KEY,
            sent: vec![],
            mismatches: vec![],
            lid: 0,
        };
        let mut bed = Self {
            node: Node::new(ME, LIFE, members, slots, bytes, vec![]),
            fabric,
            now: 1000,
        };
        bed.rekey(key, NONCE);
        bed.plug();
        bed
    }

    fn plug(&mut self) {
        for (number, peer) in [(0, MASTER), (1, SWITCH)] {
            let port = Port {
                peer,
                speed: 3,
                width: 8,
                excluded: false,
            };
            self.node.port(self.now, number, port, &mut self.fabric);
        }
    }

    fn rekey(&mut self, key: Key, nonce: u64) {
        self.fabric.key = key;
        let nonce = if key == NO_KEY { 0 } else { nonce };
        self.node.rekey(self.now, nonce);
    }

    /// Bytes come by a port. Returns what the node has sent.
    fn bytes(&mut self, port: u8, bytes: &[u8]) -> Vec<Packet> {
        self.fabric.sent.clear();
        self.node.receive(self.now, port, bytes, &mut self.fabric);
        std::mem::take(&mut self.fabric.sent)
    }

    fn message(
        &mut self,
        port: u8,
        xid: u32,
        message: &Message<'_>,
        by: Option<By>,
    ) -> Vec<Packet> {
        let (bytes, len) = encode(direction(message), xid, message, by);
        self.bytes(port, &bytes[..len])
    }

    /// How a write of the local id is taken; `None`: it is not answered.
    fn write(&mut self, by: Option<By>, lid: u32) -> Option<Taken> {
        self.write_in(3, MASTER, by, lid)
    }

    fn write_in(&mut self, term: u32, master: u64, by: Option<By>, lid: u32) -> Option<Taken> {
        let message = assign(term, master, lid);
        taken(&self.message(0, 99, &message, by))
    }

    /// Explores until the node has a role, with what the hosts at port 0 answer.
    fn explore(
        &mut self,
        mut answer: impl FnMut(&Packet) -> Option<(Message<'static>, Option<By>)>,
    ) {
        for _ in 0..500 {
            self.now += 20;
            self.node.tick(self.now, &mut self.fabric);
            for packet in std::mem::take(&mut self.fabric.sent) {
                let (xid, asked) = Message::parse(packet.payload()).unwrap();
                let (Message::PortsRequest { .. }, Some(port)) = (asked, packet.out()) else {
                    continue;
                };
                if let Some((message, by)) = answer(&packet) {
                    self.message(port, xid, &message, by);
                }
            }
            if self.node.role() != Role::Unknown {
                return;
            }
        }
    }
}

fn direction(message: &Message<'_>) -> Direction {
    [
        Direction::FromMaster,
        Direction::ToMaster,
        Direction::Unknown,
    ]
    .into_iter()
    .find(|direction| message.fits(*direction))
    .unwrap()
}

fn encode(
    direction: Direction,
    xid: u32,
    message: &Message<'_>,
    by: Option<By>,
) -> ([u8; MAX_BYTES], usize) {
    let mut payload = [0; MAX_PAYLOAD];
    let len = message.encode(xid, &mut payload).unwrap();
    let path = Path::new(&[0]).unwrap();
    let mut packet = Packet::new(direction, path, &payload[..len]).unwrap();
    if let Some(By { key, origin, to }) = by {
        packet.seal(&key, origin, to);
    }
    let mut bytes = [0; MAX_BYTES];
    let len = packet.encode(&mut bytes);
    (bytes, len)
}

fn assign(term: u32, master: u64, lid: u32) -> Message<'static> {
    let write = Write {
        mastership: Mastership { term, master },
        version: 1,
        to: ME,
        life: LIFE,
    };
    Message::Assign {
        write,
        lid,
        next_lid: lid + 1,
    }
}

fn taken(sent: &[Packet]) -> Option<Taken> {
    sent.iter()
        .find_map(|packet| match Message::parse(packet.payload()) {
            Ok((99, Message::Ack { taken, .. })) => Some(taken),
            _ => None,
        })
}

/// The answer of a host with one neighbour, the node.
fn reply(hwid: u64) -> Message<'static> {
    let mut ports = [Port::NONE; PORTS];
    ports[0] = Port {
        peer: ME,
        speed: 3,
        width: 8,
        excluded: false,
    };
    let info = Info {
        hwid,
        life: 1,
        next_lid: 1,
        ..Info::default()
    };
    Message::PortsReply {
        info,
        page: Page::of(&ports, 0),
    }
}

#[test]
fn n_5_a_node_without_a_key_obeys_where_the_fabric_attests_nothing() {
    let mut bed = Bed::new(NO_KEY);
    assert_eq!(bed.write(None, 5), Some(Taken::Yes));
    // Also what is sealed: it cannot tell.
    assert_eq!(bed.write(Some(By::master(1)), 6), Some(Taken::Yes));
    assert_eq!(bed.fabric.lid, 6);
    assert_eq!(bed.fabric.mismatches, [(Mismatch::Here, MASTER)]);
    assert_eq!(bed.node.unsealed(), 0);
}

#[test]
fn n_5_a_node_with_a_key_obeys_that_key_alone() {
    let mut bed = Bed::new(KEY);
    assert_eq!(bed.write(Some(By::master(1)), 5), Some(Taken::Yes));
    let good = By::master(2);
    let wrong = [
        None,
        Some(By { key: OTHER, ..good }),
        // For another node, for another life of this one, for any.
        Some(By {
            to: Receiver {
                hwid: ME + 1,
                ..good.to
            },
            ..good
        }),
        Some(By {
            to: Receiver {
                nonce: NONCE + 1,
                ..good.to
            },
            ..good
        }),
        Some(By {
            to: Receiver::ANY,
            ..good
        }),
        // In the name of the master, by another host with the key.
        Some(By {
            origin: Origin {
                hwid: MASTER + 1,
                ..good.origin
            },
            ..good
        }),
    ];
    for (n, by) in wrong.into_iter().enumerate() {
        for term in [3, 4] {
            assert_eq!(bed.write_in(term, MASTER, by, 6), Some(Taken::Stale), "{n}");
        }
    }
    assert_eq!(bed.node.unsealed(), 2 * wrong.len() as u64);
    let info = bed.node.info();
    assert_eq!((info.lid, info.mastership.term), (5, 3));
    assert_eq!(bed.write(Some(good), 6), Some(Taken::Yes));
}

#[test]
fn n_5_a_sealed_write_is_obeyed_once_and_not_after_a_later_one() {
    let mut bed = Bed::new(KEY);
    assert_eq!(bed.write(Some(By::master(5)), 5), Some(Taken::Yes));
    assert_eq!(bed.write(Some(By::master(5)), 5), None, "the same again");
    assert_eq!(bed.write(Some(By::master(4)), 6), None, "overtaken");
    assert_eq!(bed.write(Some(By::master(7)), 7), Some(Taken::Yes));
    // Of a master that is replaced, whether with a higher id or a lower one.
    let other = |number| {
        let by = By::master(number);
        let origin = Origin {
            hwid: MASTER - 1,
            ..by.origin
        };
        Some(By { origin, ..by })
    };
    assert_eq!(bed.write_in(4, MASTER - 1, other(8), 8), Some(Taken::Yes));
    for number in [6, 9] {
        assert_eq!(bed.write(Some(By::master(number)), 9), Some(Taken::Stale));
    }
    // A new master that has not heard of the numbers learns them when it explores.
    let term_5 = |bed: &mut Bed, number| bed.write_in(5, MASTER, Some(By::master(number)), 9);
    assert_eq!(term_5(&mut bed, 2), Some(Taken::Stale));
    let asked = Message::PortsRequest { first: 0 };
    let to = Receiver::ANY;
    let told = bed.message(
        0,
        1,
        &asked,
        Some(By {
            to,
            ..By::master(1)
        }),
    );
    let number = told[0].seal.unwrap().origin.number;
    assert_eq!(term_5(&mut bed, number + 1), Some(Taken::Yes));
    assert_eq!(bed.fabric.lid, 9);
}

#[test]
fn n_5_what_was_sealed_for_a_former_key_or_life_is_worth_nothing() {
    let mut bed = Bed::new(KEY);
    assert_eq!(bed.write(Some(By::master(1)), 5), Some(Taken::Yes));
    let late = By::master(2);
    // The same key again: another nonce.
    bed.rekey(KEY, NONCE + 1);
    assert_eq!(bed.write(Some(late), 6), Some(Taken::Stale));
    let renewed = |number| {
        let by = By::master(number);
        By {
            to: Receiver {
                nonce: NONCE + 1,
                ..by.to
            },
            ..by
        }
    };
    assert_eq!(bed.write(Some(renewed(3)), 6), Some(Taken::Yes));
    // Another key under way: the master with the old one, then with the new one.
    bed.rekey(OTHER, NONCE + 1);
    assert_eq!(bed.write(Some(renewed(4)), 7), Some(Taken::Stale));
    let by = By {
        key: OTHER,
        ..renewed(5)
    };
    assert_eq!(bed.write(Some(by), 7), Some(Taken::Yes));
    // A new life of the port: what was obeyed before is not obeyed again.
    bed.node.begin(ME, LIFE);
    bed.plug();
    assert_eq!(bed.write(Some(by), 7), Some(Taken::Stale));
    // None any more.
    bed.rekey(NO_KEY, 0);
    assert_eq!(bed.write(None, 8), Some(Taken::Yes));
}

#[test]
fn n_5_answers_are_sealed_for_the_node_that_asked() {
    let mut bed = Bed::new(KEY);
    let asked = Message::PortsRequest { first: 0 };
    let valid = |packet: &Packet, to| {
        let claimed = packet.seal.unwrap().origin;
        assert_eq!((claimed.hwid, claimed.nonce), (ME, NONCE));
        packet.origin(&KEY, to).is_some()
    };
    let theirs = Receiver {
        hwid: MASTER,
        nonce: THEIRS,
    };
    let by = By {
        to: Receiver::ANY,
        ..By::master(1)
    };
    let told = bed.message(0, 1, &asked, Some(by));
    assert!(valid(&told[0], theirs) && !valid(&told[0], Receiver::ANY));
    // A node that it does not believe gets nothing that it could use later.
    for by in [None, Some(By { key: OTHER, ..by })] {
        let told = bed.message(0, 1, &asked, by);
        assert!(valid(&told[0], Receiver::ANY) && !valid(&told[0], theirs));
    }
    let sent = bed.message(0, 99, &assign(3, MASTER, 5), Some(By::master(2)));
    assert!(valid(&sent[0], theirs));
}

#[test]
fn n_5_a_host_without_the_key_is_not_elected_nor_listed() {
    // Each answers for 10: with the key and this question's nonce; without; with another key; late.
    let by = |to| {
        Some(By {
            to,
            ..By::master(1)
        })
    };
    let me = Receiver {
        hwid: ME,
        nonce: NONCE,
    };
    let late = Receiver {
        nonce: NONCE - 1,
        ..me
    };
    let other = Some(By {
        key: OTHER,
        ..By::master(1)
    });
    for (by, master) in [(by(me), MASTER), (by(late), ME), (None, ME), (other, ME)] {
        let mut bed = Bed::new(KEY);
        bed.explore(|packet| match packet.out() {
            Some(0) => Some((reply(MASTER), by)),
            // A switch has no key.
            _ => Some((reply(SWITCH), None)),
        });
        assert_eq!(bed.node.master(), master);
        let known = |hwid| bed.node.members().get(hwid).is_some_and(|m| m.known);
        assert_eq!((known(MASTER), known(SWITCH)), (master == MASTER, true));
    }
    // Without a key of its own the node takes all of them.
    let mut bed = Bed::new(NO_KEY);
    bed.explore(|packet| match packet.out() {
        Some(0) => Some((reply(MASTER), None)),
        _ => Some((reply(SWITCH), None)),
    });
    assert_eq!(bed.node.master(), MASTER);
}

#[test]
fn n_5_a_forged_report_or_answer_changes_nothing_at_a_master() {
    // The node is the master of 30, which has the key.
    const MEMBER: u64 = 30;
    let mut bed = Bed::new(KEY);
    let port = Port {
        peer: MEMBER,
        speed: 3,
        width: 8,
        excluded: false,
    };
    bed.node.port(bed.now, 0, port, &mut bed.fabric);
    bed.node.port(bed.now, 1, Port::NONE, &mut bed.fabric);
    let member = |number, to| By {
        key: KEY,
        origin: Origin {
            hwid: MEMBER,
            nonce: THEIRS,
            number,
        },
        to,
    };
    let me = Receiver {
        hwid: ME,
        nonce: NONCE,
    };
    bed.explore(|_| Some((reply(MEMBER), Some(member(10, me)))));
    assert_eq!(bed.node.role(), Role::Master);
    // Until it is settled: what it writes is done, as the member says. Before, others say so.
    let mut number = 10;
    let forged = [
        None,
        Some(By {
            key: OTHER,
            ..member(99, me)
        }),
    ];
    for _ in 0..100 {
        bed.now += 20;
        bed.node.tick(bed.now, &mut bed.fabric);
        for packet in std::mem::take(&mut bed.fabric.sent) {
            let (xid, _) = Message::parse(packet.payload()).unwrap();
            let ack = |taken| Message::Ack {
                from: MEMBER,
                taken,
                mastership: bed.node.info().mastership,
                differ: Differ::default(),
            };
            let [bad, good] = [Taken::Stale, Taken::Yes].map(ack);
            for by in forged {
                bed.message(0, xid, &bad, by);
            }
            number += 1;
            bed.message(0, xid, &good, Some(member(number, me)));
        }
    }
    assert!(bed.node.settled().is_some());
    // A report that ports have changed has it explore: not one that is forged, or old.
    let Message::PortsReply { info, .. } = reply(MEMBER) else {
        unreachable!()
    };
    let info = Info { change: 1, ..info };
    let poll = Message::Poll {
        changed: true,
        info,
    };
    let any = |number| Some(member(number, Receiver::ANY));
    let [unsealed, other] = forged.map(|by| {
        by.map(|by| By {
            to: Receiver::ANY,
            ..by
        })
    });
    for by in [unsealed, other, any(10)] {
        bed.message(0, 1, &poll, by);
        assert!(bed.node.settled().is_some());
    }
    bed.message(0, 1, &poll, any(number + 1));
    assert!(bed.node.settled().is_none());
}

#[test]
fn n_5_a_mismatch_of_keys_is_told_and_forgotten() {
    let any = |key| {
        Some(By {
            key,
            to: Receiver::ANY,
            ..By::master(1)
        })
    };
    let ask = Message::PortsRequest { first: 0 };
    let mut bed = Bed::new(KEY);
    assert_eq!(bed.node.mismatch(bed.now), None);
    for _ in 0..5 {
        bed.message(0, 1, &ask, any(OTHER));
    }
    assert_eq!(
        bed.node.mismatch(bed.now),
        Some((Mismatch::Differs, MASTER))
    );
    bed.write(None, 5);
    assert_eq!(bed.node.mismatch(bed.now), Some((Mismatch::There, MASTER)));
    let told = [(Mismatch::Differs, MASTER), (Mismatch::There, MASTER)];
    assert_eq!(bed.fabric.mismatches, told, "each once");
    // The other one has the key now.
    bed.message(0, 1, &ask, any(KEY));
    assert_eq!(bed.node.mismatch(bed.now), None);
    // What was sealed for another life of the node shows nothing of keys.
    let by = By {
        to: Receiver { hwid: ME, nonce: 1 },
        ..By::master(2)
    };
    assert_eq!(bed.write(Some(by), 5), Some(Taken::Stale));
    assert_eq!(bed.node.mismatch(bed.now), None);
    bed.message(0, 1, &ask, any(OTHER));
    bed.now += 20_000;
    assert_eq!(bed.node.mismatch(bed.now), None);
    bed.rekey(NO_KEY, 0);
    bed.message(0, 1, &ask, any(OTHER));
    assert_eq!(bed.node.mismatch(bed.now), Some((Mismatch::Here, MASTER)));
}

proptest! {
    #[test]
    fn n_5_no_part_of_a_sealed_write_can_be_changed(at in 12..MAX_BYTES, bits in 1..=255u8) {
        let (good, len) = encode(Direction::FromMaster, 99, &assign(3, MASTER, 5), Some(By::master(1)));
        let mut bytes = good;
        let at = at.min(len - 1);
        bytes[at] ^= bits;
        let sum = weft_proto::crc::crc32c(bytes[12..len].iter().copied());
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        // Paths are for the nodes on the way to write.
        let paths = 12 + 4..12 + 4 + 64;
        let mut bed = Bed::new(KEY);
        bed.bytes(0, &bytes[..len]);
        if !paths.contains(&at) {
            prop_assert_eq!((bed.fabric.lid, bed.node.info().mastership), (0, Mastership::default()), "{}", at);
        }
        // What was sealed is obeyed, unless that was done.
        let obeyed = bed.fabric.lid == 5;
        let now = taken(&bed.bytes(0, &good[..len]));
        prop_assert_eq!(now, (!obeyed).then_some(Taken::Yes));
    }

    #[test]
    fn n_5_a_sealed_write_cannot_be_shortened(to in 0..SEAL_BYTES) {
        let (good, len) = encode(Direction::FromMaster, 99, &assign(3, MASTER, 5), Some(By::master(1)));
        // With a length that says so, and the checksum right.
        let len = len - SEAL_BYTES + to;
        let mut bytes = good;
        bytes[6..8].copy_from_slice(&(len as u16).to_le_bytes());
        let sum = weft_proto::crc::crc32c(bytes[12..len].iter().copied());
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        let mut bed = Bed::new(KEY);
        bed.bytes(0, &bytes[..len]);
        prop_assert_eq!(bed.fabric.lid, 0);
    }
}
