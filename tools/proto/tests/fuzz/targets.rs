// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What is fuzzed. Each takes any bytes and says how they were answered, as a number of its own.

use super::matching::{play, queues::play_queues};
use super::qp::end::{number_of, End, Qp};
use super::qp::env::{lease_of, Env, Trunks};
use super::qp::user::{Op, Wr};
use super::trunk::{Memory, WORDS};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;
use weft_proto::cell::{bulk_place, Head, Kind, Seen, Shape};
use weft_proto::cqe::{CqShape, Producer};
use weft_proto::crc::crc32c;
use weft_proto::envelope::{self, Envelope};
use weft_proto::fence::Fence;
use weft_proto::fifo::{Arrived, Inbound, Outbound};
use weft_proto::hold::Standing;
use weft_proto::mac::{Mac, Tag};
use weft_proto::matching::atomic::{Change, MOST};
use weft_proto::mr;
use weft_proto::nm::kind::NO_HOST;
use weft_proto::nm::mastership::Mastership;
use weft_proto::nm::member::Member;
use weft_proto::nm::message::Taken;
use weft_proto::nm::modes::{self, Modes, MAGICS};
use weft_proto::nm::node::{Effects, Node, Role, There};
use weft_proto::nm::packet::{Direction, Packet, HEADER_BYTES, MAX_BYTES};
use weft_proto::nm::path::Path;
use weft_proto::nm::port;
use weft_proto::nm::scale::{self, area::MAX_AREA, letter, store::Store, sum, Parts};
use weft_proto::nm::seal::{self, Origin};
use weft_proto::nm::table::{self, Slot};
use weft_proto::protocol::Protocol;
use weft_proto::qp::{Joined, State};
use weft_proto::request::{decode, Address, Data, Extents, Join, Lane, Message, HEAD};
use weft_proto::ring::{Next, Receiver};
use weft_proto::slot;
use weft_proto::stag::Stag;
use weft_proto::tpt::{Entry, Extent, Owner, Piece, Rights};
use weft_proto::trunk::Layout;
use weft_proto::window::{Area, Window};
use weft_proto::wire;
use weft_proto::word::Word;
use weft_proto::wqe::{QueueShape, RecvWqe, SendWqe, Sgl, MAX_MESSAGE};

/// Panics if bytes do harm.
pub type Target = fn(&[u8]) -> u64;

/// Passes the list of targets to a macro: the function, how many tries `cargo test` makes, and how many
/// different answers it has to find. Fewer would mean that the bytes are all refused at the gate.
macro_rules! each_target {
    ($user:ident) => {
        $user! {
            message_of_a_mailbox: 60_000, 12;
            cell_of_a_channel: 150_000, 10;
            ring_of_a_channel: 40_000, 120;
            cell_of_a_trunk: 150_000, 30;
            word_of_a_trunk: 150_000, 8;
            trunk_of_a_peer: 20_000, 250;
            queue_pair_of_a_peer: 200_000, 28;
            envelope_of_a_peer: 150_000, 21;
            slot_of_a_program: 150_000, 20;
            send_request: 150_000, 20;
            receive_request: 150_000, 5;
            count_of_a_queue: 200_000, 5;
            access_by_an_stag: 150_000, 15;
            messages_of_a_manager: 10_000, 2000;
            messages_at_scale: 10_000, 100;
            match_requests: 8_000, 500;
            match_queues: 8_000, 200;
        }
    };
}

/// Bytes that are taken from the front; zeros when there are no more.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u64(&mut self) -> u64 {
        let (front, rest) = self.0.split_at(self.0.len().min(8));
        let mut word = [0; 8];
        word[..front.len()].copy_from_slice(front);
        self.0 = rest;
        u64::from_le_bytes(word)
    }

    fn u32(&mut self) -> u32 {
        self.u64() as u32
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An answer, by what it consists of.
fn answer(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn small() -> Layout {
    Layout::of_arena(128 << 10).expect("large enough")
}

/// What a peer sends through the mailbox. What is behind the header is as long as the header says,
/// most of the time, and the checksum is right: any peer can see to that.
pub fn message_of_a_mailbox(bytes: &[u8]) -> u64 {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().clamp(wire::HEADER_BYTES, wire::MAX_BYTES), 0);
    bytes[..4].copy_from_slice(&wire::MAGIC.to_le_bytes());
    bytes[4] = wire::VERSION;
    bytes[5] %= 12;
    if bytes[7] != 0xff {
        let body = match bytes[6] {
            // Of its type, from HELLO on.
            0..0xc0 => [0, 24, 0, 0, 0, 40, 40, 8, 16, 8, 0, 0][usize::from(bytes[5])],
            other => usize::from(other) % 64 / 4 * 4,
        };
        let length = wire::HEADER_BYTES + body;
        bytes[6..8].copy_from_slice(&(length as u16).to_le_bytes());
    }
    let length = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
    if let Some(whole) = bytes.get(..length) {
        let sum = wire::checksum(whole).to_le_bytes();
        bytes[44..48].copy_from_slice(&sum);
    }
    match wire::Message::parse(&bytes) {
        Ok(message) => {
            let mut buf = [0; wire::MAX_BYTES];
            let count = message.encode(&mut buf);
            assert_eq!(wire::Message::parse(&buf[..count]), Ok(message));
            answer(discriminant(&message.body))
        }
        Err(error) => answer((0, discriminant(&error))),
    }
}

pub fn cell_of_a_channel(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let shape = Shape::new(16, 8192).expect("allowed");
    let number = bytes.u64() % 64;
    // The phase and the number are easily right.
    let right = Head {
        kind: Kind::Fin,
        len: 0,
    }
    .encode(number, shape)
        & !(0xff << 32);
    let word = bytes.u64() ^ right;
    match Head::decode(word, number, shape) {
        Seen::Ready(head) => {
            assert_eq!(head.encode(number, shape), word);
            let place = bulk_place(bytes.u64(), head.len, shape);
            if let (Kind::Bulk, Ok(at)) = (head.kind, place) {
                assert!(at >= shape.bulk_at() && at + head.len as usize <= shape.area_bytes());
            }
            answer((discriminant(&head.kind), place.is_ok()))
        }
        Seen::Empty => 0,
        Seen::Corrupt(fault) => answer((0, discriminant(&fault))),
    }
}

/// An area, which asserts that nothing outside of it is reached.
struct Words(std::cell::RefCell<Vec<u64>>);

impl Area for Words {
    fn load(&self, at: usize) -> u64 {
        self.0.borrow()[at / 8]
    }

    fn rmb(&self, _: Fence) {}
}

impl Window for Words {
    fn store(&self, at: usize, word: u64) {
        self.0.borrow_mut()[at / 8] = word;
    }

    fn wmb(&self, _: Fence) {}

    fn mb(&self, _: Fence) {}
}

/// A channel's area that a peer wrote all over, while it is read.
pub fn ring_of_a_channel(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let shape = Shape::new(16, 4096).expect("allowed");
    let words = shape.area_bytes() / 8;
    let area = Words(vec![0; words].into());
    let back = Words(vec![0; words].into());
    let mut receiver = Receiver::new(shape);
    let mut buffer = [0; 4096 + 40];
    let mut kinds = vec![];
    while !bytes.is_empty() {
        let (what, word) = (bytes.u32(), bytes.u64());
        let at = shape.cell_at(receiver.consumed());
        match what % 5 {
            0 => area.store(what as usize / 5 % words * 8, word),
            // The next head, nearly right, and where it says that its payload is.
            1 => {
                let kind = if word & 1 == 0 {
                    Kind::Inline
                } else {
                    Kind::Bulk
                };
                let len = (word >> 32) as u32 % 4200;
                area.store(at, Head { kind, len }.encode(receiver.consumed(), shape));
            }
            2 => area.store(at + 16, (word % 8192) & !63),
            3 => {
                let (kind, len) = (Kind::Split, 32 + word as u32 % 256);
                area.store(at, Head { kind, len }.encode(receiver.consumed(), shape));
            }
            _ => {}
        }
        match receiver.peek(&area, &back) {
            Ok(Next::Message(message)) => {
                assert_eq!(
                    receiver.copy(&area, &message, 0, &mut buffer),
                    message.len as usize
                );
                receiver.consume(&back, &message);
                kinds.push(message.len > 48);
            }
            Ok(_) => {}
            Err(fault) => return answer((discriminant(&fault), kinds.len())),
        }
        receiver.needs_kick(&area, &back);
    }
    kinds.truncate(4);
    answer(kinds)
}

/// Asserts that a message names nothing but memory for data.
fn believe(address: Address, message: &Message, own: &Layout, peer: &Layout) {
    assert!(address.qpn < 1 << 24);
    let inside = |extents: &Extents| {
        for extent in extents.as_slice() {
            assert!(extent.bytes > 0 && peer.is_staging(extent.at.into(), extent.bytes));
        }
    };
    match message {
        Message::Send { data, .. } | Message::Write { data, .. } => match data {
            Data::Inline(inline) => assert!(inline.as_bytes().len() <= 64),
            Data::Eager { at, len } => {
                assert!(own.eager_place(*at, (*len).into()).is_ok());
            }
            Data::Long(length) => assert!((1..=MAX_MESSAGE).contains(length)),
        },
        Message::Read {
            length, extents, ..
        } => {
            inside(extents);
            assert!(u64::from(*length) <= MAX_MESSAGE);
        }
        Message::Lend { part, extents } | Message::Offer { part, extents, .. } => {
            inside(extents);
            assert!(!extents.as_slice().is_empty() && part.offset < MAX_MESSAGE);
        }
        _ => {}
    }
}

fn lane(n: u64) -> Lane {
    [Lane::Receive, Lane::Transmit, Lane::Pulled][(n % 3) as usize]
}

/// Which message it is, and how its data travel.
fn kind(message: &Message) -> u64 {
    let data = match message {
        Message::Send { data, .. } | Message::Write { data, .. } => Some(discriminant(data)),
        _ => None,
    };
    answer((discriminant(message), data))
}

pub fn cell_of_a_trunk(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let lane = lane(bytes.u64());
    let words: [u64; WORDS] = std::array::from_fn(|_| bytes.u64());
    // An operation that there is.
    let head = words[HEAD] & !(0xe0 << 32);
    let own = small();
    match decode(lane, head, |n| words[n], &own, &own) {
        Ok((address, message)) => {
            believe(address, &message, &own, &own);
            answer((kind(&message), discriminant(&lane)))
        }
        Err(fault) => answer((discriminant(&fault), discriminant(&lane))),
    }
}

pub fn word_of_a_trunk(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let slots = small().cq();
    let (number, word) = (bytes.u64(), bytes.u64());
    match Word::decode(word, number, slots) {
        Ok(Some(says)) => {
            assert_eq!(says.encode(number, slots), word);
            answer(discriminant(&says.says))
        }
        Ok(None) => 0,
        Err(fault) => answer((0, discriminant(&fault))),
    }
}

/// A queue pair whose peer sends any cells and words that can be decoded, in any order: it ends, or goes
/// on, and in either case each work request ends once and staging memory is neither lost nor given twice.
/// What is read is what was written.
pub fn envelope_of_a_peer(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let mut words = [0; envelope::WORDS];
    for word in &mut words {
        *word = bytes.u64();
    }
    // Mostly what a kind has, as there are few that have all.
    words[0] = words[0] & !0xff | words[0] & 15;
    if words[2] & 1 == 0 {
        words[5] &= 0xffff_ffff_ffff;
        words[1] &= !0xfff8;
        words[0] &= !0xff00;
    }
    if words[2] & 2 == 0 {
        words[7] = 0;
        words[5] &= u64::from(u32::MAX);
        words[1] &= !0xfffe;
    }
    if words[2] & 4 == 0 {
        // An operation on integers that there is, mostly.
        let (operation, integer) = ((words[5] >> 32) % 24, 1 << ((words[5] >> 40) & 3));
        words[5] = words[5] & 0x8000_ffff_ffff | (operation << 32) | (integer << 40);
        words[6] &= 0xfff;
    }
    if words[4] & 1 == 0 {
        words[3..8].fill(0);
        words[1] &= !0xffff;
    }
    let behind: Vec<u8> = words[1..]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    // All of it, or less than there has to be.
    let whole = match words[2] & 8 {
        0 => behind.len(),
        _ => bytes.u64() as usize % 64,
    };
    let seen = &behind[..whole.min(envelope::BEHIND)];
    let Some((said, own)) = Envelope::decode(words[0], seen, whole) else {
        return 0;
    };
    let encoded = said.encode();
    assert_eq!(encoded.first(), words[0]);
    assert_eq!(encoded.behind(), &words[1..=own / 8]);
    assert!(own <= whole && own == 8 * encoded.behind().len());
    let offset = match said.body {
        envelope::Body::Put(message) | envelope::Body::Get(message) => message.offset.is_some(),
        envelope::Body::Eager(message) => {
            assert_eq!(
                (message.length, message.offset),
                ((whole - own) as u64, None)
            );
            message.first
        }
        envelope::Body::Atomic(message, change) => {
            if let Some(known) = Change::of(change.operation, change.integer) {
                // What a peer says is never more than what is there.
                let operands = known.operands(message.length);
                assert!(operands.is_none_or(|bytes| bytes <= 2 * MOST && message.length <= MOST));
                return answer((2, operands.is_some(), known.operation as u8));
            }
            change.fetches
        }
        _ => false,
    };
    answer((1, offset, discriminant(&said.body)))
}

/// Nothing is believed that the interface does not have.
pub fn slot_of_a_program(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let mut words = [0; slot::WORDS];
    for word in &mut words {
        *word = bytes.u64();
    }
    words[0] = words[0] & !0xffe0 | (words[0] & 0x1f);
    if words[6] & 1 == 0 {
        words[0] &= !0xf000_ff00;
        words[7] &= !0xffff_0000;
    }
    let Some(slot) = slot::Slot::decode(&words) else {
        return 0;
    };
    assert_eq!((slot.context, slot.bits), (words[1], words[4]));
    assert_eq!(slot.flags >> 12, 0);
    assert!(slot.is_of_initiator() || !slot.has_more());
    // What stands behind it, if it has more.
    let more = slot.has_more().then(|| {
        let next = std::array::from_fn(|n| if n < 4 { bytes.u64() & 0xffff } else { 0 });
        slot::More::decode(&next).map(|more| Change::of(more.operation, more.integer).is_some())
    });
    answer((1, more, discriminant(&slot.op)))
}

pub fn queue_pair_of_a_peer(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let own = small();
    let t = &[Memory::new(own), Memory::new(own)];
    let bits = bytes.u32();
    let protocol = Protocol::of(bits % 8).expect("three bits");
    let mut end = End::new(own, own, &[protocol], bits & 8 != 0);
    end.qps[0].user.peer_is_honest = false;
    let qpn = number_of(0);
    if bits & 16 == 0 {
        let Qp { machine, user } = &mut end.qps[0];
        let join = Join {
            qpn,
            protocol,
            asks: true,
            stands: Standing::FRESH,
            epoch: 1,
            peer_epoch: machine.epoch(),
        };
        assert_eq!(machine.on_join(user, &join), Joined::Known);
    }
    let mut seen = vec![];
    while !bytes.is_empty() && seen.len() < 24 {
        let what = bytes.u32();
        let n = what >> 4;
        match what & 15 {
            0..=5 => {
                // A number near those that are expected.
                let lane = lane(n.into());
                let mut words: [u64; WORDS] = std::array::from_fn(|_| bytes.u64());
                words[HEAD] &= !((0xe0 << 32) | (0xfffc << 47));
                let Ok((to, message)) = decode(lane, words[HEAD], |n| words[n], &own, &own) else {
                    continue;
                };
                let address = Address { qpn, ..to };
                seen.push(answer(discriminant(&message)));
                let arrived = Arrived {
                    lane,
                    address,
                    message,
                };
                end.given(&arrived, &t[0], &t[1]);
            }
            6..=8 => {
                let word = bytes.u64() & !((1 << 63) | (0xfffc << 32)) | own.cq().phase(0);
                let Ok(Some(word)) = Word::decode(word, 0, own.cq()) else {
                    continue;
                };
                seen.push(answer(discriminant(&word.says)));
                let word = Word { qpn, ..word };
                let lease = lease_of(&mut end.link.buffers, &word);
                let qp = &mut end.qps[0];
                let mut env = Env {
                    link: &mut end.link,
                    user: &mut qp.user,
                    t: Trunks {
                        own: &t[0],
                        peer: &t[1],
                    },
                };
                qp.machine
                    .on_word(&mut env, &word, n & 1 != 0, lease.as_ref());
                if let Some(lease) = lease {
                    end.link.buffers.give(&lease.extents);
                }
            }
            9..=10 if end.qps[0].user.has_room() => {
                let ops = [
                    Op::Send,
                    Op::Write { imm: false },
                    Op::Write { imm: true },
                    Op::Read,
                    Op::ReadAll,
                    Op::Add,
                ];
                let (op, len) = (ops[n as usize % ops.len()], bytes.u32() as usize % 100_000);
                end.qps[0].user.post(Wr {
                    op,
                    len,
                    bad: false,
                });
            }
            11 => end.qps[0].user.post_recvs(n as usize % 4),
            // Its turn, and what the DMA engine does; credit is given back.
            _ => {
                for step in [0, 5, 6, 7] {
                    end.step(step, 0, &t[0], &t[1]);
                }
                end.link.take_all(&t[0]);
            }
        }
        end.check_memory();
    }
    let (state, why) = (end.qps[0].machine.state(), end.qps[0].machine.why());
    end.fail(0);
    assert!(end.qps[0].user.is_done(), "each ends once");
    assert_eq!(end.qps[0].machine.state(), State::Err);
    answer((state as u32, why as u16, seen.last().copied()))
}

/// A trunk that a peer wrote all over, while it is read and answered.
pub fn trunk_of_a_peer(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let own = small();
    let (area, theirs) = (Memory::new(own), Memory::new(own));
    let (mut inn, mut out) = (Inbound::new(own, own), Outbound::new(own, own));
    let (mut cells, mut words) = ([0u64; 3], 0u64);
    let mut seen = vec![];
    while !bytes.is_empty() && seen.len() < 8 {
        let (what, word) = (bytes.u32(), bytes.u64());
        let n = what as usize >> 4;
        match what & 15 {
            // Anything anywhere.
            0 => area.set(n % (own.bytes() / 8) * 8, word),
            1 => theirs.set(n % (own.bytes() / 8) * 8, word),
            // A count.
            2 => area.set(n % 8 * 64, word % 1024),
            3 => area.set(n % 8 * 64, word),
            // The body of a cell that is next.
            4..=6 => {
                let (slots, taken) = [
                    (own.rx(), cells[0]),
                    (own.tx(), cells[1]),
                    (own.out_cells(), cells[2]),
                ][n % 3];
                let memory = if n % 3 == 2 { &theirs } else { &area };
                memory.set(slots.place(taken) + n / 3 % WORDS * 8, word);
            }
            // Its head, of an operation that there is.
            7..=11 => {
                let lane = n % 3;
                let (slots, taken) = [
                    (own.rx(), cells[0]),
                    (own.tx(), cells[1]),
                    (own.out_cells(), cells[2]),
                ][lane];
                let memory = if lane == 2 { &theirs } else { &area };
                let head = word & !((1 << 63) | (0xe0 << 32)) | slots.phase(taken);
                memory.set(slots.place(taken) + 8 * HEAD, head);
            }
            _ => {
                let word = word & !(1 << 63) | own.cq().phase(words);
                area.set(own.cq().place(words), word);
            }
        }
        for came in [inn.peek(&area), inn.pull(&area, &theirs)] {
            match came {
                Ok(Some(arrived)) => {
                    believe(arrived.address, &arrived.message, &own, &own);
                    inn.consume(&theirs, &arrived);
                    cells[match arrived.lane {
                        Lane::Receive => 0,
                        Lane::Transmit => 1,
                        Lane::Pulled => 2,
                    }] += 1;
                    seen.push(answer(kind(&arrived.message)));
                }
                Ok(None) => {}
                Err(fault) => return answer((discriminant(&fault), seen.len())),
            }
        }
        match inn.word(&area, &theirs) {
            Ok(Some(word)) => {
                words += 1;
                seen.push(answer(discriminant(&word.says)));
            }
            Ok(None) => {}
            Err(fault) => return answer((discriminant(&fault), seen.len())),
        }
        let _ = inn.pull_word(&area, &theirs, &theirs);
        let answer: Message = Message::Value { old: word };
        let _ = out.send(&area, &theirs, Address { qpn: 1, psn: 1 }, &answer);
        let _ = out.refresh(&area);
        out.needs_kick(&area, &theirs);
    }
    seen.sort_unstable();
    seen.dedup();
    answer(seen)
}

fn list(list: &Sgl, bytes: &mut Bytes<'_>) -> usize {
    assert!(list.bytes() <= MAX_MESSAGE);
    let (offset, len) = (bytes.u64(), bytes.u64());
    let there: u64 = list.pieces(offset, len).map(|s| u64::from(s.length)).sum();
    assert_eq!(there, list.bytes().saturating_sub(offset).min(len));
    list.as_slice().len().min(3)
}

/// Loads words of an entry of a queue; behind its end they are 0.
fn words_of(entry: &[u8]) -> impl Fn(usize) -> u64 + '_ {
    |n| {
        let mut word = [0; 8];
        let there = entry.get(8 * n..).unwrap_or_default();
        word.iter_mut()
            .zip(there)
            .for_each(|(to, byte)| *to = *byte);
        u64::from_ne_bytes(word)
    }
}

pub fn send_request(bytes: &[u8]) -> u64 {
    let (entry, rest) = bytes.split_at(bytes.len().min(320));
    let shape = QueueShape::send(16, 16, 256).expect("allowed");
    let mut wqe = SendWqe::BLANK;
    let (identity, sense) = wqe.read(words_of(entry), &shape);
    match sense {
        Ok(()) => {
            assert_eq!(wqe.opcode as u8, identity.opcode);
            let count = wqe.tail.list().map(|l| list(l, &mut Bytes(rest)));
            if let Some(data) = wqe.tail.inline() {
                assert_eq!(data.len() as u64, wqe.tail.bytes());
            }
            answer((identity.opcode, count))
        }
        Err(_) => 0,
    }
}

pub fn receive_request(bytes: &[u8]) -> u64 {
    let (entry, rest) = bytes.split_at(bytes.len().min(272));
    let shape = QueueShape::recv(16, 16).expect("allowed");
    let mut wqe = RecvWqe::BLANK;
    match wqe.read(words_of(entry), &shape) {
        Ok(()) => answer(list(&wqe.list, &mut Bytes(rest))),
        Err(_) => 0,
    }
}

/// What a user says to have posted, or consumed.
pub fn count_of_a_queue(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let queue = QueueShape::recv(16, 1).expect("allowed");
    let (posted, taken) = (bytes.u64(), bytes.u64());
    let pending = queue.pending(posted, taken);
    assert!(pending.is_none_or(|count| count <= 16));
    let at = queue.entry_at(taken);
    assert!(at + queue.stride() as usize <= queue.bytes());
    let cq = CqShape::new(16).expect("allowed");
    let mut producer = Producer::new(cq);
    let mut given = vec![];
    for _ in 0..40 {
        let consumed = bytes.u64();
        let Some(number) = producer.next(|| consumed) else {
            break;
        };
        assert_eq!(number, given.len() as u64, "each once");
        assert!(cq.entry_at(number) + 32 <= cq.bytes());
        given.push(consumed);
    }
    answer((pending.is_some(), producer.is_overrun(), given.len() / 8))
}

/// An access: allowed only within the region or window, to who may.
pub fn access_by_an_stag(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let mut extent = || Extent {
        base: bytes.u64(),
        length: bytes.u64(),
    };
    let (region, window) = (extent(), extent());
    let (bits, key, shift) = (bytes.u32(), bytes.u32() as u8, 12 + bytes.u32() % 10);
    let Some(rights) = Rights::of_region(bits & 0x1f) else {
        return 1;
    };
    let owner = Owner { key, pd: 7, rights };
    let first = bytes.u64() % (1 << shift);
    let Some(entry) = Entry::region(owner, region, shift, first) else {
        return 2;
    };
    let by = Stag(bytes.u32());
    let owned = Owner {
        rights: Rights::of_window((bits >> 8) & 0xe).unwrap_or(rights),
        ..owner
    };
    let bound = entry.window(Stag(key.into()), owned, window);
    let (pd, need) = (bytes.u64() % 8, Rights::of_region((bits >> 16) & 0xf));
    let (to, len) = (bytes.u64(), bytes.u64());
    let Some(need) = need else { return 3 };
    let mut answers = vec![];
    for (entry, extent) in [(Some(entry), region), (bound.ok(), window)] {
        let Some(entry) = entry else { continue };
        assert!(extent.base >= region.base);
        assert!(extent.base - region.base + extent.length <= region.length);
        match entry.check(by, pd, need, to, len) {
            Ok(span) => {
                assert!(pd == 7 && by.key() == entry.key && entry.rights.has(need));
                assert!(to >= extent.base && to - extent.base + len <= extent.length);
                let mut at = first + (to - region.base);
                for piece in span.pieces().take(64) {
                    let Piece::Page {
                        index,
                        offset,
                        bytes,
                    } = piece
                    else {
                        panic!("a region has pages");
                    };
                    assert_eq!((u64::from(index) << shift) + offset, at);
                    assert!(offset + bytes <= 1 << shift);
                    at += bytes;
                }
                answers.push(None);
            }
            Err(denied) => answers.push(Some(discriminant(&denied))),
        }
    }
    answer(answers)
}

/// What a manager does, by its kind.
#[derive(Default)]
struct Managed {
    done: Vec<(u8, u8)>,
    keyed: bool,
}

impl Mac for Managed {
    fn tag(&self, message: &[u8]) -> Option<Tag> {
        let sum = crc32c(message.iter().copied());
        self.keyed.then(|| u128::from(sum).to_le_bytes())
    }
}

impl table::Effects for Managed {
    fn route(&mut self, lid: u32, port: Option<u8>) {
        assert!(lid != 0 && port.is_none_or(|port| usize::from(port) < port::PORTS));
        self.done.push((1, 0));
    }
}

impl Effects for Managed {
    fn send(&mut self, port: u8, message: &[u8]) {
        assert!(
            port < 2 && message.len() <= MAX_BYTES,
            "to a port that is there"
        );
        // One that is passed on may have nothing in it.
        let kind = message.get(12 + HEADER_BYTES).copied();
        self.done.push((2, kind.unwrap_or(0)));
    }
    fn role(&mut self, role: Role, _mastership: &Mastership) {
        self.done.push((3, role as u8));
    }
    fn lid(&mut self, _lid: u32) {
        self.done.push((4, 0));
    }
    fn assignments(&mut self, _version: u32) {
        self.done.push((5, 0));
    }
    fn there(&mut self, path: &Path) -> There {
        // Two hosts by either port, and a node that nothing is known of.
        match (path.first(), path.hops()) {
            (Some(0), 1..=2) => There::Node(10),
            (Some(1), 1..=2) => There::Node(30),
            (_, 3) => There::Unknown,
            _ => There::Nothing,
        }
    }
    fn hierarchy(&mut self, bytes: &[u8]) -> Result<(), Taken> {
        let whole = mr::hierarchy::Hierarchy::parse(bytes).is_ok();
        self.done.push((6, u8::from(whole)));
        Ok(())
    }
}

/// Nonce of a manager with a key.
const NONCE: u64 = 77;

/// What neighbours send to a manager: whole packets, for any peer can see to that, with anything in them.
pub fn messages_of_a_manager(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let first = bytes.u64();
    let hwid = if first & 1 == 0 { 20 } else { NO_HOST | 20 };
    let (members, slots) = (vec![Member::NONE; 8], vec![Slot::NONE; 16]);
    let mut node = Node::new(
        hwid,
        1,
        members,
        slots,
        [vec![0; 64], vec![0; 128], vec![0; 64]],
        vec![],
    );
    let mut fx = Managed {
        keyed: first & 2 != 0,
        ..Managed::default()
    };
    if fx.keyed {
        node.rekey(0, NONCE);
    }
    for (number, peer) in [(0, 10), (1, 30)] {
        let port = port::Port {
            peer,
            speed: 3,
            width: 8,
            excluded: false,
        };
        node.port(0, number, port, &mut fx);
    }
    let mut now = 0;
    while !bytes.is_empty() {
        let how = bytes.u64();
        now += how & 0xff;
        node.tick(now, &mut fx);
        let direction = match (how >> 8) & 3 {
            0 => Direction::Unknown,
            1 => Direction::FromMaster,
            _ => Direction::ToMaster,
        };
        // Mostly to the node itself.
        let path = match (how >> 10) & 7 {
            0 => Path::new(&[0, 1]),
            1 => Path::new(&[0, 0, 1]),
            2 => Path::new(&[0, 9]),
            _ => Path::new(&[0]),
        };
        let len = (how >> 16) as usize % 80;
        let (payload, rest) = bytes.0.split_at(bytes.0.len().min(len));
        bytes.0 = rest;
        let Some(mut packet) = path.and_then(|path| Packet::new(direction, path, payload)) else {
            continue;
        };
        // By a host with the same key, to this node or to any; or by none.
        let origin = Origin {
            hwid: if how >> 63 == 0 { 10 } else { 30 },
            nonce: 5,
            number: (how >> 20) & 0xff,
        };
        let to = match (how >> 60) & 3 {
            0 => Some(seal::Receiver::ANY),
            1 => Some(seal::Receiver { hwid, nonce: NONCE }),
            2 => Some(seal::Receiver {
                hwid,
                nonce: NONCE + 1,
            }),
            _ => None,
        };
        if let Some(to) = to {
            packet.seal(&fx, origin, to);
        }
        let mut message = [0; MAX_BYTES];
        let len = packet.encode(&mut message);
        let by = (how >> 13) as u8 & 1;
        node.receive(now, by, &message[..len], &mut fx);
        assert!(
            node.role() != Role::Master || hwid == 20,
            "a master has a host"
        );
        assert!(node
            .table()
            .routes()
            .all(|(lid, links, _)| lid != 0 && (1..=32).contains(&links)));
    }
    fx.done.sort_unstable();
    fx.done.dedup();
    answer(fx.done)
}

impl modes::Effects for Managed {
    fn routes(&mut self, first: u32, last: u32, port: Option<u8>) {
        assert!(first != 0 && first <= last && last < (MAX_AREA + 1) << 8);
        assert!(port.is_none_or(|port| port < 2), "by a port that is there");
        self.done.push((7, u8::from(first == last)));
    }
    fn grown(&mut self) {
        self.done.push((8, 0));
    }
    fn found(&mut self, _name: &letter::Name) {
        self.done.push((9, 0));
    }
}

/// A list that has room for few.
struct Few<T>(Vec<T>);

impl<T> Store<T> for Few<T> {
    fn all(&self) -> &[T] {
        &self.0
    }
    fn all_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
    fn insert(&mut self, at: usize, what: T) -> bool {
        let room = self.0.len() < 12;
        if room {
            self.0.insert(at, what);
        }
        room
    }
    fn remove(&mut self, at: usize) {
        self.0.remove(at);
    }
    fn clear(&mut self) {
        self.0.clear();
    }
}

struct Little;

impl scale::Memory for Little {
    type Routes = Few<scale::entry::Entry>;
    type Names = Few<letter::Name>;
    type Holders = Few<scale::directory::Holder>;
    type Bytes = Vec<u8>;
    type Peers = Vec<scale::tree::Peer>;
    type Links = Vec<scale::link::Link>;
}

/// What neighbours send to a manager of a large fabric: anything, with the right checksum.
pub fn messages_at_scale(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let first = bytes.u64();
    let hwid = if first & 1 == 0 { 20 } else { NO_HOST | 20 };
    let memory = (vec![Member::NONE; 8], vec![Slot::NONE; 16]);
    let kept = [vec![0; 64], vec![], vec![]];
    let small = Node::new(hwid, 1, memory.0, memory.1, kept, vec![]);
    let parts = Parts::<Little> {
        routes: Few(vec![]),
        names: Few(vec![]),
        holders: Few(vec![]),
        bytes: vec![0; 64],
        peers: vec![scale::tree::Peer::NONE; port::PORTS],
        links: vec![scale::link::Link::DOWN; port::PORTS],
    };
    let mut node = Modes::new(small, parts);
    let mut fx = Managed::default();
    let up = |peer| port::Port {
        peer,
        speed: 3,
        width: 8,
        excluded: false,
    };
    for (number, peer) in [(0, 10), (1, 30)] {
        node.port(0, number, up(peer), &mut fx);
    }
    let mut now = 0;
    while !bytes.is_empty() {
        let how = bytes.u64();
        now += how & 0x3ff;
        let by = (how >> 10) as u8 & 1;
        match (how >> 11) & 0x1f {
            0 => node.port(now, by, port::Port::NONE, &mut fx),
            1 => node.port(now, by, up(10 + 20 * u64::from(by)), &mut fx),
            2 => node.find(now, 30, &mut fx),
            _ => {}
        }
        node.tick(now, &mut fx);
        let kind = (how >> 16) as usize % 3;
        let magic = MAGICS[kind];
        // The version, and what each kind has there.
        let version = if kind == 0 { 2 } else { 1 };
        let more = (how >> 24) as u8 & 0xf;
        let head = [version, more, (how >> 28) as u8 & 1, 0];
        // Mostly as long as it has to be: a state with a report and a grant, items of routes, a letter.
        let has = |bit: u8| usize::from((more >> bit) & 1);
        let len = match (how >> 30) & 7 {
            0 => (how >> 33) as usize % 120,
            _ if kind == 0 => 32 + 42 * has(1) + 29 * has(2),
            _ if kind == 1 => 16 + 13 * usize::from(more),
            _ => [12, 16, 17][(how >> 33) as usize % 3] + usize::from(head[2]),
        };
        let (payload, rest) = bytes.0.split_at(bytes.0.len().min(len));
        bytes.0 = rest;
        let mut message = [&magic[..], &head, &[0; 4], payload].concat();
        sum::put(&mut message);
        node.receive(now, by, &message, &mut fx);
        assert!(
            node.role() != Role::Master || hwid == 20,
            "a master has a host"
        );
        assert!(node.lid() < (MAX_AREA + 1) << 8);
        if let Some(large) = node.large() {
            fx.done.push((10, large.routes().count() as u8));
        }
    }
    fx.done.sort_unstable();
    fx.done.dedup();
    answer(fx.done)
}

/// Words of eight bytes.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks(8).map(|chunk| Bytes(chunk).u64())
}

/// Commands of programs and messages of peers, in any order, for one processing engine: it does what its
/// model does.
pub fn match_requests(bytes: &[u8]) -> u64 {
    play(words(bytes))
}

/// Match requests for a dispatcher with few slots, and endings of those that it gives out.
pub fn match_queues(bytes: &[u8]) -> u64 {
    play_queues(words(bytes))
}
