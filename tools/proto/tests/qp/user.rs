// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The user of one end of a queue pair: what it posts, its memory, and what it is told.
//!
//! The data of work request `n` follow from `n`, so that each end can check what the other has sent.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use weft_proto::cqe::{Cqe, Status};
use weft_proto::qp::{Overrun, Queues, Taken};
use weft_proto::wqe::{
    Identity, Opcode, QueueShape, RecvWqe, SendWqe, OP_RECV, OP_RECV_WRITE_IMM, RECV_BYTES,
    SEND_BYTES, SGE_BYTES,
};

/// What a work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Send,
    Write { imm: bool },
    Read,
    ReadAll,
    Add,
    Invalidate,
}

/// A work request.
#[derive(Clone, Copy, Debug)]
pub struct Wr {
    pub op: Op,
    pub len: usize,
    /// It names memory that is not there: at the peer, or here if it names none there.
    pub bad: bool,
}

/// The longest message that is received.
pub const LONGEST: usize = 300_000;

const SHAPE: (u32, u32, u32) = (64, 4, 128);
/// STags: the kind above, the number of the work request below.
const LOCAL: u32 = 1 << 24;
const REMOTE: u32 = 2 << 24;
const RECV: u32 = 3 << 24;
const BAD: u32 = 4 << 24;
const NUMBER: u32 = (1 << 24) - 1;

/// The data of work request `number`.
pub fn pattern(number: u32, len: usize) -> Vec<u8> {
    (0..len)
        .map(|n| (number as usize * 31 + n * 7 + n / 256 + 1) as u8)
        .collect()
}

/// How many bytes there are for READ_ALL to read.
pub fn size_of_read(number: u32) -> usize {
    number as usize * 977 % 20_000
}

/// The kind of memory that an STag names, and the number of its work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Of the user that posts: where data come from, or go to.
    Local(u32),
    /// Of the peer's user: the same at the other end.
    Remote(u32),
    /// Of a receive request.
    Recv(u32),
}

impl Tag {
    pub fn of(stag: u32) -> Option<Self> {
        let number = stag & NUMBER;
        Some(match stag & !NUMBER {
            LOCAL => Self::Local(number),
            REMOTE => Self::Remote(number),
            RECV => Self::Recv(number),
            _ => return None,
        })
    }
}

/// Which memory a user has taken back: that of work requests before these.
#[derive(Clone, Copy, Default)]
pub struct TakenBack {
    /// Of the user's own.
    pub local: u32,
    /// Of the peer's.
    pub remote: u32,
}

/// The user's end of a queue pair.
pub struct User {
    /// All that was posted since the last reset.
    pub wrs: Vec<Wr>,
    /// The number of the first of them: numbers are never used again.
    base: usize,
    begun: usize,
    recvs: VecDeque<u32>,
    posted_recvs: u32,
    /// Completions of the send queue, and of the receive queue.
    pub sent: Vec<Cqe>,
    pub received: Vec<Cqe>,
    /// What was written into memory, by STag.
    written: RefCell<HashMap<u32, Vec<u8>>>,
    /// Numbers of the peer's work requests, in the order in which they were carried out.
    pub executed: RefCell<Vec<u32>>,
    /// How often the counter was added to.
    pub counter: RefCell<u64>,
    /// The receive request that was taken last.
    pub recv: RecvWqe,
    pub taken_back: TakenBack,
    /// The peer sends what its user has posted: what comes is checked.
    pub peer_is_honest: bool,
}

impl User {
    pub fn new() -> Self {
        Self {
            wrs: vec![],
            base: 0,
            begun: 0,
            recvs: VecDeque::new(),
            posted_recvs: 0,
            sent: vec![],
            received: vec![],
            written: RefCell::default(),
            executed: RefCell::default(),
            counter: RefCell::default(),
            recv: RecvWqe::BLANK,
            taken_back: TakenBack::default(),
            peer_is_honest: true,
        }
    }

    /// The queue pair was reset: what was posted, and what became of it, is forgotten.
    pub fn reset(&mut self) {
        self.base += self.wrs.len();
        self.wrs.clear();
        self.begun = 0;
        self.recvs.clear();
        self.sent.clear();
    }

    /// The number of the next work request.
    pub fn next(&self) -> u32 {
        (self.base + self.wrs.len()) as u32
    }

    /// Whether there is a free entry in the send queue.
    pub fn has_room(&self) -> bool {
        self.wrs.len() - self.sent.len() < SHAPE.0 as usize
    }

    pub fn post(&mut self, wr: Wr) {
        self.wrs.push(wr);
    }

    pub fn post_recvs(&mut self, count: usize) {
        for _ in 0..count {
            self.recvs.push_back(self.posted_recvs);
            self.posted_recvs += 1;
        }
    }

    pub fn free_recvs(&self) -> usize {
        self.recvs.len()
    }

    /// Whether each work request has its completion.
    pub fn is_done(&self) -> bool {
        self.sent.len() == self.wrs.len()
    }

    /// Whether memory of an STag has `len` bytes at `at`.
    pub fn has(at: u64, len: u64) -> bool {
        at.checked_add(len).is_some_and(|end| end <= LONGEST as u64)
    }

    /// Records that a work request of the peer is carried out here.
    pub fn execute(&self, number: u32) {
        let mut executed = self.executed.borrow_mut();
        if executed.last() != Some(&number) {
            executed.push(number);
        }
    }

    /// Writes `bytes` to `at` of the memory of `stag`.
    pub fn write(&self, stag: u32, at: u64, bytes: &[u8]) {
        let mut written = self.written.borrow_mut();
        let memory = written.entry(stag).or_default();
        let end = at as usize + bytes.len();
        if memory.len() < end {
            memory.resize(end, 0);
        }
        memory[at as usize..end].copy_from_slice(bytes);
    }

    /// Reads `len` bytes at `at` of the memory of `stag`.
    pub fn read(&self, stag: u32, at: u64, len: usize) -> Vec<u8> {
        let number = stag & NUMBER;
        let end = at as usize + len;
        pattern(number, end)[at as usize..].to_vec()
    }

    /// What was written for work request `number` of this user, `len` bytes.
    pub fn read_back(&self, number: u32, len: usize) -> Vec<u8> {
        self.taken(LOCAL | number, len)
    }

    fn taken(&self, stag: u32, len: usize) -> Vec<u8> {
        let written = self.written.borrow();
        let mut memory = written.get(&stag).cloned().unwrap_or_default();
        memory.truncate(len);
        memory
    }

    /// Checks a message that was received: its data are those of the work request that it names.
    fn check_received(&self, cqe: &Cqe) {
        if cqe.status != Status::Success || cqe.ends || !self.peer_is_honest {
            return;
        }
        let number = cqe.imm.expect("each has immediate data");
        let len = cqe.byte_len as usize;
        let stag = match cqe.opcode {
            OP_RECV => RECV | cqe.wr_id as u32,
            OP_RECV_WRITE_IMM => REMOTE | number,
            other => panic!("opcode {other}"),
        };
        assert_eq!(self.taken(stag, len), pattern(number, len), "torn: {cqe:?}");
        self.execute(number);
    }

    /// Checks what this user was told of its own work requests, which `peer` has carried out.
    pub fn check(&self, peer: &Self) {
        let (mut failed, mut counted) = (false, None);
        for (n, cqe) in self.sent.iter().enumerate() {
            let number = (self.base + n) as u32;
            assert_eq!(cqe.wr_id, u64::from(number), "completions are in order");
            let wr = self.wrs[n];
            if cqe.status != Status::Success {
                // The first that fails may say why, those behind it were not done; but where the link
                // has gone, all say so.
                let behind = matches!(cqe.status, Status::Flushed | Status::Link);
                assert!(!failed || behind, "{n}: {cqe:?}");
                failed = true;
                continue;
            }
            assert!(!failed && !wr.bad, "{n}: {wr:?} {cqe:?}");
            let data = pattern(number, wr.len);
            match wr.op {
                Op::Read | Op::ReadAll => {
                    assert_eq!(cqe.byte_len as usize, wr.len, "{n}: {wr:?}");
                    assert_eq!(self.read_back(number, wr.len), data, "{n}: {wr:?}");
                }
                Op::Write { imm: false } => {
                    assert_eq!(peer.taken(REMOTE | number, wr.len), data, "{n}: {wr:?}");
                }
                Op::Add => {
                    let value = self.read_back(number, 8);
                    let value = u64::from_ne_bytes(value.try_into().expect("8 bytes"));
                    assert!(counted < Some(value), "{n}: {value} after {counted:?}");
                    counted = Some(value);
                }
                Op::Send | Op::Write { imm: true } | Op::Invalidate => {}
            }
        }
    }

    /// The entry of a send queue for work request `number`.
    fn entry(&self, at: usize) -> Vec<u8> {
        let wr = self.wrs[at];
        let number = self.base + at;
        let n = number as u32;
        let mut entry = vec![0; SEND_BYTES];
        let opcode = match wr.op {
            Op::Send => Opcode::Send,
            Op::Write { imm: false } => Opcode::Write,
            Op::Write { imm: true } => Opcode::WriteImm,
            Op::Read => Opcode::Read,
            Op::ReadAll => Opcode::ReadAll,
            Op::Add => Opcode::FetchAdd,
            Op::Invalidate => Opcode::LocalInv,
        };
        entry[..8].copy_from_slice(&(number as u64).to_le_bytes());
        entry[8] = opcode as u8;
        let imm = matches!(wr.op, Op::Send);
        // Short data of every other request are in the entry itself.
        let inline = opcode.reads_list() && wr.len <= 128 && number % 2 == 1 && !wr.bad;
        entry[9] = 1 | if inline { 2 } else { 0 } | if imm { 4 } else { 0 };
        entry[12..16].copy_from_slice(&if opcode.reads_list() { n } else { 0 }.to_le_bytes());
        let local = if wr.bad && wr.op == Op::Send {
            BAD
        } else {
            LOCAL
        };
        let remote = if wr.bad { BAD } else { REMOTE };
        entry[24..28].copy_from_slice(&(remote | n).to_le_bytes());
        entry[32..40].copy_from_slice(&1u64.to_le_bytes());
        if wr.op == Op::Add {
            entry[16..24].copy_from_slice(&8u64.to_le_bytes());
        }
        if inline {
            entry[10..12].copy_from_slice(&(wr.len as u16).to_le_bytes());
            entry.extend(pattern(n, wr.len));
        } else if wr.op != Op::Invalidate {
            let room = if wr.op == Op::Add { 8 } else { wr.len };
            let list = elements(local | n, room, number % 3);
            entry[10..12].copy_from_slice(&(list.len() as u16).to_le_bytes());
            list.iter().for_each(|element| entry.extend(element));
        }
        entry.resize(shape().stride() as usize, 0);
        entry
    }
}

/// A list of `cuts + 1` elements for `len` bytes of `stag`.
fn elements(stag: u32, len: usize, cuts: usize) -> Vec<[u8; SGE_BYTES]> {
    let mut list = vec![];
    let mut at = 0;
    for n in 0..=cuts {
        let bytes = if n == cuts {
            len - at
        } else {
            len / (cuts + 2)
        };
        let mut element = [0; SGE_BYTES];
        element[..8].copy_from_slice(&(at as u64).to_le_bytes());
        element[8..12].copy_from_slice(&(bytes as u32).to_le_bytes());
        element[12..].copy_from_slice(&stag.to_le_bytes());
        list.push(element);
        at += bytes;
    }
    list
}

fn shape() -> QueueShape {
    let (entries, sges, inline) = SHAPE;
    QueueShape::send(entries, sges, inline).expect("allowed")
}

impl Queues for User {
    fn sends_pending(&self) -> u32 {
        (self.wrs.len() - self.begun) as u32
    }

    fn has_send(&self) -> bool {
        self.sends_pending() > 0
    }

    fn take_send(&mut self, wqe: &mut SendWqe) -> Result<Option<Taken>, Status> {
        if !self.has_send() {
            return Ok(None);
        }
        let entry = self.entry(self.begun);
        let taken = wqe.read(words_of(&entry), &shape());
        assert_eq!(taken.1, Ok(()), "{:?}", self.wrs[self.begun]);
        self.begun += 1;
        Ok(Some(taken))
    }

    fn drop_send(&mut self) -> Option<Identity> {
        if !self.has_send() {
            return None;
        }
        let entry = self.entry(self.begun);
        let identity = Identity::of(words_of(&entry));
        self.begun += 1;
        Some(identity)
    }

    fn recvs_pending(&self) -> u32 {
        self.recvs.len() as u32
    }

    fn has_recv(&self) -> bool {
        !self.recvs.is_empty()
    }

    fn drop_recv(&mut self) -> Option<u64> {
        self.recvs.pop_front().map(u64::from)
    }

    fn has_srq(&self) -> bool {
        false
    }

    fn complete_send(&mut self, cqe: &Cqe) -> Result<(), Overrun> {
        self.sent.push(*cqe);
        Ok(())
    }

    fn complete_recv(&mut self, cqe: &Cqe) -> Result<(), Overrun> {
        self.check_received(cqe);
        self.received.push(*cqe);
        Ok(())
    }
}

impl User {
    /// Takes a receive request into [`Self::recv`].
    pub fn take_recv(&mut self) -> Option<(u64, Result<(), Status>)> {
        let number = self.recvs.pop_front()?;
        let mut entry = vec![0; RECV_BYTES];
        entry[..8].copy_from_slice(&u64::from(number).to_le_bytes());
        let list = elements(RECV | number, LONGEST, number as usize % 3);
        entry[8..12].copy_from_slice(&(list.len() as u32).to_le_bytes());
        list.iter().for_each(|element| entry.extend(element));
        let shape = QueueShape::recv(64, 4).expect("allowed");
        entry.resize(shape.stride() as usize, 0);
        let sense = self.recv.read(words_of(&entry), &shape);
        let sense = sense.map_err(|_| Status::LocalRequest);
        Some((self.recv.wr_id, sense))
    }
}

/// Loads words of an entry of a queue.
fn words_of(entry: &[u8]) -> impl Fn(usize) -> u64 + '_ {
    |n| u64::from_ne_bytes(entry[8 * n..][..8].try_into().expect("a word"))
}
