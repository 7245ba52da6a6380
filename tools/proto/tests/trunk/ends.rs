// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Two ends of a link with a few queue pairs, as small as they can be: everything of `proto` that
//! takes part in a transfer, over two trunks, and no other engine. Each step is one that an engine
//! may take at any time.

use super::Memory;
use std::collections::VecDeque;
use weft_proto::cqe::Status;
use weft_proto::eager::{pieces, Eager, Piece};
use weft_proto::fifo::{Arrived, Error, Inbound, Outbound};
use weft_proto::protocol::Protocol;
use weft_proto::qp::{Arrival, Borrower, Entry, Initiator, Kind, Lender, Outcome, Responder};
use weft_proto::request::{Address, Data, Extents, Inline, Lane, Message, Part, Role};
use weft_proto::ring::{Area, Window};
use weft_proto::staging::Staging;
use weft_proto::trunk::Layout;
use weft_proto::word::{Says, Word};

pub const WINDOW: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Send,
    Write { imm: bool },
    Read,
    ReadAll,
    Add,
}

/// A work request. Its data are made of its number.
#[derive(Clone, Copy, Debug)]
pub struct Wr {
    pub op: Op,
    pub len: usize,
    /// The peer will refuse it.
    pub bad: bool,
}

const BAD: u32 = 1 << 30;
const MORE: u32 = 1 << 31;

/// The data of work request `number`.
pub fn pattern(number: u32, len: usize) -> Vec<u8> {
    (0..len)
        .map(|n| (number as usize * 31 + n * 7 + n / 256 + 1) as u8)
        .collect()
}

/// What an initiator keeps about a request.
struct What {
    wr: usize,
    last: bool,
    offset: usize,
    extents: Option<Extents>,
    /// Of a long message: who names memory for it.
    lender: Option<Lender<Extents>>,
    borrower: Option<Borrower>,
}

/// What a responder keeps about a request that was begun.
struct Begun {
    psn: u32,
    number: u32,
    recv: bool,
    data: Vec<u8>,
    lender: Option<Lender<Extents>>,
    borrower: Option<Borrower>,
}

/// Data that a DMA engine will write, and the word behind them.
struct Move {
    extents: Extents,
    data: Vec<u8>,
    word: Word,
    /// The responder's read that is finished then.
    read: Option<u32>,
}

pub struct Pair {
    protocol: Protocol,
    initiator: Initiator<What, Vec<Option<Entry<What>>>>,
    responder: Responder,
    pub wrs: Vec<Wr>,
    issue: usize,
    offset: usize,
    /// What READ_ALL has learnt.
    size: Option<usize>,
    longs: Vec<u16>,
    begun: Vec<Begun>,
    pub recvs: usize,
    /// Work requests that have ended, and how.
    pub ended: Vec<(usize, Status)>,
    /// Numbers of the peer's work requests that were carried out.
    pub executed: Vec<u32>,
    pub failed: bool,
}

/// Where the end's own trunk and the peer's are.
#[derive(Clone, Copy)]
struct Trunks<'a> {
    own: &'a Memory,
    peer: &'a Memory,
}

pub struct End {
    own: Layout,
    peer: Layout,
    out: Outbound,
    inn: Inbound,
    eager: Eager<Vec<Piece>>,
    pub staging: Staging,
    pub pairs: Vec<Pair>,
    moves: VecDeque<Move>,
}

fn put(memory: &impl Window, extents: &Extents, data: &[u8]) {
    let mut rest = data;
    for extent in extents.as_slice() {
        let (here, next) = rest.split_at(rest.len().min(extent.bytes as usize));
        memory.write(extent.at as usize, here);
        rest = next;
    }
    assert_eq!(rest, [], "extents are too short");
}

fn get(memory: &impl Area, extents: &Extents, len: usize) -> Vec<u8> {
    let mut data = vec![];
    for extent in extents.as_slice() {
        let mut part = vec![0; (extent.bytes as usize).min(len - data.len())];
        memory.read(extent.at as usize, &mut part);
        data.extend(part);
    }
    assert_eq!(data.len(), len, "extents are too short");
    data
}

/// Whether something was done; a FIFO that is full is no fault.
fn room(result: Result<(), Error>) -> bool {
    match result {
        Ok(()) => true,
        Err(Error::Full) => false,
        Err(error) => panic!("{error:?}"),
    }
}

/// Says `word`: a responder by the way of the pair, an initiator by a push.
fn speak(out: &mut Outbound, protocol: Protocol, word: &Word, t: Trunks<'_>) -> bool {
    let said = room(if protocol.offers(word.says) {
        out.offer_word(t.own, t.own, word)
    } else {
        out.word(t.own, t.peer, word)
    });
    out.tell(t.peer);
    said
}

impl End {
    pub fn new(own: Layout, peer: Layout, protocols: &[Protocol]) -> Self {
        let pair = |protocol: &Protocol| Pair {
            protocol: *protocol,
            initiator: Initiator::new((0..WINDOW).map(|_| None).collect()).expect("a power of two"),
            responder: Responder::new(),
            wrs: vec![],
            issue: 0,
            offset: 0,
            size: None,
            longs: vec![],
            begun: vec![],
            recvs: 0,
            ended: vec![],
            executed: vec![],
            failed: false,
        };
        End {
            own,
            peer,
            out: Outbound::new(own, peer),
            inn: Inbound::new(own, peer),
            eager: Eager::new(&peer, vec![Piece::NONE; pieces(&own, &peer)]),
            staging: Staging::new(&own),
            pairs: protocols.iter().map(pair).collect(),
            moves: VecDeque::new(),
        }
    }

    /// Takes step `n` of those that there are, for pair `q`; whether there was anything to do.
    pub fn step(&mut self, n: usize, q: usize, own: &Memory, peer: &Memory) -> bool {
        let t = Trunks { own, peer };
        match n {
            0 => self.issue(q, t),
            1 => self.take_cell(t, false),
            2 => self.take_cell(t, true),
            3 => self.take_word(t, false),
            4 => self.pairs[q].protocol.cqe && self.take_word(t, true),
            5 => self.run_move(t),
            6 => self.say(q, t),
            7 => self.lend(q, t),
            8 => self.offer(q, t),
            _ => {
                self.inn.flush(t.peer);
                false
            }
        }
    }

    pub const STEPS: usize = 10;

    /// Sends the next request of a pair.
    fn issue(&mut self, q: usize, t: Trunks<'_>) -> bool {
        let pair = &mut self.pairs[q];
        let Some(&wr) = pair.wrs.get(pair.issue).filter(|_| !pair.failed) else {
            return false;
        };
        let number = pair.issue as u32;
        let stag = number | if wr.bad { BAD } else { 0 };
        let lane = if pair.protocol.wqe {
            Lane::Pulled
        } else {
            Lane::Receive
        };
        let mut what = What {
            wr: pair.issue,
            last: true,
            offset: pair.offset,
            extents: None,
            lender: None,
            borrower: None,
        };
        let psn = pair.initiator.next() as u16;
        let address = Address { qpn: q as u32, psn };
        let message = match wr.op {
            Op::Send | Op::Write { .. } => {
                let recv = !matches!(wr.op, Op::Write { imm: false });
                let data = pattern(number, wr.len);
                let short = wr.len == 0 || !pair.protocol.data;
                let kind = if short && wr.len <= self.peer.eager_most() {
                    Kind::Plain { recv }
                } else {
                    Kind::Long { recv }
                };
                if !pair.initiator.may_send(kind) {
                    return false;
                }
                let place = match kind {
                    Kind::Long { .. } => {
                        if pair.protocol.data {
                            what.lender = Some(Lender::new(wr.len as u64));
                        } else {
                            what.borrower = Some(Borrower::new(wr.len as u64));
                        }
                        Data::Long(wr.len as u64)
                    }
                    _ => match Inline::new(&data) {
                        Some(inline) => Data::Inline(inline),
                        None => {
                            let next = self.out.written(lane);
                            if !room(self.out.reserve_cells(t.own, lane, 1)) {
                                return false;
                            }
                            self.out.refresh(t.own).expect("the peer is honest");
                            let out = &self.out;
                            let len = wr.len as u32;
                            let at = self.eager.take(len, lane, next, |lane| out.taken(lane));
                            let Some(at) = at else { return false };
                            t.peer.write(self.peer.eager_at() + at as usize, &data);
                            Data::Eager { at, len }
                        }
                    },
                };
                match wr.op {
                    Op::Send => Message::Send {
                        data: place,
                        imm: Some(stag),
                    },
                    _ => Message::Write {
                        data: place,
                        to: 0,
                        stag,
                        imm: recv.then_some(stag),
                    },
                }
            }
            Op::Add => Message::FetchAdd {
                to: 8,
                stag,
                add: 1,
            },
            Op::ReadAll if pair.size.is_none() => {
                what.last = false;
                Message::Size { to: 0, stag }
            }
            Op::Read | Op::ReadAll => {
                let (len, stag) = match pair.size {
                    Some(size) => (size, stag | MORE),
                    None => (wr.len, stag),
                };
                let left = len - pair.offset;
                if !pair.initiator.may_send(Kind::Read) {
                    return false;
                }
                let mut here = left;
                let mut extents = Extents::NONE;
                if !pair.protocol.data && left > 0 {
                    // No more at once than a quarter, so that others get something.
                    let most = (self.staging.pages() * 1024) as u64;
                    let Some(some) = self.staging.take((left as u64).min(most)) else {
                        return false;
                    };
                    here = some.bytes() as usize;
                    extents = some;
                    what.extents = Some(some);
                }
                what.borrower = Some(Borrower::new(here as u64));
                what.last = here == left;
                let to = pair.offset as u64;
                let length = here as u32;
                pair.offset += here;
                Message::Read {
                    to,
                    stag,
                    length,
                    extents,
                }
            }
        };
        let kind = Kind::of(&message).expect("a request");
        let sent = pair.initiator.may_send(kind)
            && if pair.protocol.wqe {
                room(self.out.offer(t.own, t.own, address, &message))
            } else {
                room(self.out.send(t.own, t.peer, address, &message))
            };
        self.out.tell(t.peer);
        if !sent {
            pair.offset = what.offset;
            if let Some(extents) = what.extents {
                assert!(self.staging.give(&extents));
            }
            if matches!(
                message,
                Message::Send {
                    data: Data::Eager { .. },
                    ..
                } | Message::Write {
                    data: Data::Eager { .. },
                    ..
                }
            ) {
                self.eager.untake();
            }
            return false;
        }
        if matches!(kind, Kind::Long { .. }) {
            pair.longs.push(psn);
        }
        if what.last {
            pair.issue += 1;
            pair.offset = 0;
            pair.size = None;
        }
        assert!(pair.initiator.sent(kind, what).is_ok());
        true
    }

    fn release(staging: &mut Staging, mut what: What) {
        if let Some(extents) = what.extents {
            assert!(staging.give(&extents));
        }
        while let Some(extents) = what.lender.as_mut().and_then(Lender::take) {
            assert!(staging.give(&extents));
        }
    }

    /// Work requests end.
    fn end(&mut self, q: usize) {
        let pair = &mut self.pairs[q];
        while let Some(outcome) = pair.initiator.outcome() {
            match outcome {
                Outcome::Done(what) => {
                    if what.last {
                        pair.ended.push((what.wr, Status::Success));
                    }
                    Self::release(&mut self.staging, what);
                }
                Outcome::Failed(what, why) => {
                    pair.ended.push((what.wr, why));
                    let mut last = what.wr;
                    Self::release(&mut self.staging, what);
                    while let Some(what) = pair.initiator.flush() {
                        last = what.wr;
                        Self::release(&mut self.staging, what);
                    }
                    assert!(last <= pair.issue);
                    let first = pair.ended.len();
                    pair.ended
                        .extend((first..pair.wrs.len()).map(|wr| (wr, Status::Flushed)));
                    pair.failed = true;
                }
            }
        }
    }

    fn take_word(&mut self, t: Trunks<'_>, pull: bool) -> bool {
        let word = if pull {
            self.inn.pull_word(t.own, t.peer, t.peer)
        } else {
            self.inn.word(t.own, t.peer)
        };
        let Some(word) = word.expect("the peer is honest") else {
            return false;
        };
        let q = word.qpn as usize;
        let pair = &mut self.pairs[q];
        assert!(pair.protocol.allows_word(pull, word.says), "{word:?}");
        let staging = &mut self.staging;
        match word.says {
            _ if pair.failed
                && !matches!(
                    word.says,
                    Says::Done {
                        to: Role::Responder,
                        ..
                    }
                ) => {}
            Says::Ack => pair.initiator.ack(word.psn).expect("honest"),
            Says::Nak(why) => pair.initiator.nak(word.psn, why).expect("honest"),
            Says::NoRecv => {
                let mut first = None;
                let back = |what: What| {
                    first = Some(what.wr);
                    Self::release(staging, what);
                };
                pair.initiator.no_recv(word.psn, back).expect("honest");
                pair.issue = first.expect("one at least");
                pair.offset = 0;
                pair.size = None;
            }
            Says::Recv => pair.initiator.recv(word.psn).expect("honest"),
            Says::Done {
                to: Role::Initiator,
                part,
            } => {
                let (kind, what) = pair.initiator.find(word.psn).expect("honest");
                if kind == Kind::Read {
                    assert_eq!(part, 0);
                    let wr = pair.wrs[what.wr];
                    let whole = pattern(what.wr as u32, wr.len);
                    if let Some(extents) = what.extents {
                        let len = extents.bytes() as usize;
                        let data = get(t.own, &extents, len);
                        assert_eq!(data, whole[what.offset..what.offset + len], "read");
                    }
                    pair.initiator.answered(word.psn, kind).expect("honest");
                } else {
                    let lender = what.lender.as_mut().expect("data are pulled");
                    let (_, extents) = lender.done(part).expect("honest");
                    assert!(staging.give(&extents));
                }
            }
            Says::Done {
                to: Role::Responder,
                part,
            } => {
                let psn = pair.responder.find(word.psn).expect("honest");
                let begun = pair.begun.iter_mut().find(|b| b.psn == psn).expect("kept");
                let lender = begun.lender.as_mut().expect("it has named memory");
                let (piece, extents) = lender.done(part).expect("honest");
                if begun.recv || begun.borrower.is_none() {
                    let at = piece.part.offset as usize;
                    if !pair.protocol.data {
                        let data = get(t.own, &extents, piece.len as usize);
                        begun.data[at..at + data.len()].copy_from_slice(&data);
                    }
                }
                assert!(staging.give(&extents));
                if lender.is_complete() {
                    pair.responder.finished(psn);
                    Self::finish(pair);
                }
            }
        }
        self.end(q);
        true
    }

    /// Requests that were begun end.
    fn finish(pair: &mut Pair) {
        while let Some(psn) = pair.responder.end() {
            let at = pair.begun.iter().position(|b| b.psn == psn).expect("kept");
            let begun = pair.begun.remove(at);
            if begun.recv {
                assert_eq!(begun.data, pattern(begun.number, begun.data.len()), "torn");
                pair.executed.push(begun.number);
            }
        }
    }

    fn take_cell(&mut self, t: Trunks<'_>, pull: bool) -> bool {
        let arrived = if pull {
            self.inn.pull(t.own, t.peer)
        } else {
            self.inn.peek(t.own)
        };
        let Some(arrived) = arrived.expect("the peer is honest") else {
            return false;
        };
        if !self.handle(&arrived, t) {
            return false;
        }
        self.inn.consume(t.peer, &arrived);
        self.end(arrived.address.qpn as usize);
        true
    }

    /// Does what a cell asks for; false if it has to stay.
    fn handle(&mut self, arrived: &Arrived, t: Trunks<'_>) -> bool {
        let q = arrived.address.qpn as usize;
        let low = arrived.address.psn;
        let Arrived { lane, message, .. } = arrived;
        assert!(self.pairs[q].protocol.allows(*lane, message), "{message:?}");
        // Whatever is to be said of it.
        if !room(self.out.reserve_words(t.own, 1))
            || !room(self.out.reserve_offered_words(t.own, 1))
            || !room(self.out.reserve_cells(t.own, Lane::Receive, 1))
        {
            return false;
        }
        if let Some(kind) = Kind::of(&arrived.message) {
            return self.request(q, kind, arrived, t);
        }
        let pair = &mut self.pairs[q];
        let done = |to, part: u64| Word {
            qpn: q as u32,
            psn: low,
            says: Says::Done {
                to,
                part: (part % 0x4000) as u16,
            },
        };
        match arrived.message {
            Message::Offer {
                to: Role::Responder,
                part,
                ref extents,
            } => {
                let Ok(psn) = pair.responder.find(low) else {
                    assert!(pair.responder.drops(), "an offer for nothing");
                    return true;
                };
                let begun = pair.begun.iter_mut().find(|b| b.psn == psn).expect("kept");
                let borrower = begun.borrower.as_mut().expect("data are pulled");
                let piece = borrower.named(part, extents.bytes()).expect("honest");
                let data = get(t.peer, extents, piece.len as usize);
                let at = part.offset as usize;
                begun.data[at..at + data.len()].copy_from_slice(&data);
                let word = done(Role::Initiator, part.number);
                assert!(speak(&mut self.out, pair.protocol, &word, t));
                borrower.done();
                if borrower.is_complete() {
                    pair.responder.finished(psn);
                    Self::finish(pair);
                }
            }
            _ if pair.failed => {}
            Message::SizeIs { length } => {
                let what = pair.initiator.answered(low, Kind::Size).expect("honest");
                assert_eq!(length as usize, pair.wrs[what.wr].len);
                assert_eq!(what.wr, pair.issue);
                pair.size = Some(length as usize);
            }
            Message::Value { old } => {
                let what = pair.initiator.answered(low, Kind::Atomic).expect("honest");
                assert_eq!(old, what.wr as u64 * 7);
            }
            Message::Lend { part, extents } => {
                let (_, what) = pair.initiator.find(low).expect("honest");
                let borrower = what.borrower.as_mut().expect("data are pushed");
                let piece = borrower.named(part, extents.bytes()).expect("honest");
                let whole = pattern(what.wr as u32, pair.wrs[what.wr].len);
                let at = part.offset as usize;
                self.moves.push_back(Move {
                    extents,
                    data: whole[at..at + piece.len as usize].to_vec(),
                    word: done(Role::Responder, part.number),
                    read: None,
                });
            }
            Message::Offer { part, extents, .. } => {
                let (_, what) = pair.initiator.find(low).expect("honest");
                let borrower = what.borrower.as_mut().expect("a read");
                let piece = borrower.named(part, extents.bytes()).expect("honest");
                let whole = pattern(what.wr as u32, pair.wrs[what.wr].len);
                let at = what.offset + part.offset as usize;
                let data = get(t.peer, &extents, piece.len as usize);
                assert_eq!(data, whole[at..at + data.len()], "read");
                borrower.done();
                let complete = borrower.is_complete();
                let word = done(Role::Responder, part.number);
                assert!(speak(&mut self.out, pair.protocol, &word, t));
                if complete {
                    pair.initiator.answered(low, Kind::Read).expect("honest");
                }
            }
            _ => panic!("{:?}", arrived.message),
        }
        true
    }

    fn request(&mut self, q: usize, kind: Kind, arrived: &Arrived, t: Trunks<'_>) -> bool {
        let low = arrived.address.psn;
        let pair = &mut self.pairs[q];
        let Arrival::Take(psn) = pair.responder.arrive(low, kind).expect("honest") else {
            return true;
        };
        let stag = match arrived.message {
            Message::Send { imm, .. } => imm.expect("with immediate data"),
            Message::Write { stag, .. }
            | Message::Size { stag, .. }
            | Message::FetchAdd { stag, .. }
            | Message::Read { stag, .. } => stag,
            _ => panic!("{:?}", arrived.message),
        };
        let number = stag & !(BAD | MORE);
        if arrived.message.takes_recv() {
            if pair.recvs == 0 {
                pair.responder.no_recv();
                return true;
            }
            pair.recvs -= 1;
        }
        if stag & BAD != 0 {
            pair.responder.failed(psn, Status::RemoteAccess);
            return true;
        }
        match arrived.message {
            Message::Send { data, .. } | Message::Write { data, .. } => {
                let bytes = match data {
                    Data::Inline(inline) => inline.as_bytes().to_vec(),
                    Data::Eager { at, len } => {
                        let place = self.own.eager_place(at, len.into()).expect("checked");
                        let mut bytes = vec![0; len as usize];
                        t.own.read(place, &mut bytes);
                        bytes
                    }
                    Data::Long(length) => {
                        let pull = pair.protocol.data;
                        pair.begun.push(Begun {
                            psn,
                            number,
                            recv: true,
                            data: vec![0; length as usize],
                            lender: (!pull).then(|| Lender::new(length)),
                            borrower: pull.then(|| Borrower::new(length)),
                        });
                        pair.responder.begun(kind);
                        return true;
                    }
                };
                assert_eq!(bytes, pattern(number, bytes.len()), "torn");
                pair.executed.push(number);
                pair.responder.carried_out();
            }
            Message::Size { .. } | Message::FetchAdd { .. } => {
                let answer = if kind == Kind::Size {
                    // The sizes are those that the work requests have: who asks checks that.
                    Message::SizeIs {
                        length: size_of_read(number) as u64,
                    }
                } else {
                    Message::Value {
                        old: u64::from(number) * 7,
                    }
                };
                assert!(room(self.out.send(t.own, t.peer, arrived.address, &answer)));
                pair.executed.push(number);
                pair.responder.answered();
            }
            Message::Read {
                to,
                length,
                extents,
                ..
            } => {
                let (to, length) = (to as usize, length as usize);
                let data = pattern(number, to + length)[to..].to_vec();
                if to == 0 && stag & MORE == 0 {
                    pair.executed.push(number);
                }
                let pull = pair.protocol.data && length > 0;
                pair.begun.push(Begun {
                    psn,
                    number,
                    recv: false,
                    data: data.clone(),
                    lender: pull.then(|| Lender::new(length as u64)),
                    borrower: None,
                });
                pair.responder.begun(kind);
                if !pull {
                    self.moves.push_back(Move {
                        extents,
                        data,
                        word: Word {
                            qpn: q as u32,
                            psn: low,
                            says: Says::Done {
                                to: Role::Initiator,
                                part: 0,
                            },
                        },
                        read: Some(psn),
                    });
                }
            }
            _ => panic!("{:?}", arrived.message),
        }
        true
    }

    /// The DMA engine writes something.
    fn run_move(&mut self, t: Trunks<'_>) -> bool {
        let Some(next) = self.moves.front() else {
            return false;
        };
        put(t.peer, &next.extents, &next.data);
        let protocol = self.pairs[next.word.qpn as usize].protocol;
        if !speak(&mut self.out, protocol, &next.word, t) {
            return false;
        }
        let next = self.moves.pop_front().expect("looked at");
        let pair = &mut self.pairs[next.word.qpn as usize];
        match next.read {
            Some(psn) => {
                pair.responder.finished(psn);
                Self::finish(pair);
            }
            None => {
                let (_, what) = pair.initiator.find(next.word.psn).expect("under way");
                what.borrower.as_mut().expect("pushed").done();
            }
        }
        true
    }

    /// Says what is owed.
    fn say(&mut self, q: usize, t: Trunks<'_>) -> bool {
        let pair = &mut self.pairs[q];
        if pair.responder.awaits_recv() && pair.recvs > 0 {
            pair.responder.recv();
        }
        let Some((psn, says)) = pair.responder.owed() else {
            return false;
        };
        let word = Word {
            qpn: q as u32,
            psn,
            says,
        };
        let said = speak(&mut self.out, pair.protocol, &word, t);
        if said {
            pair.responder.told(says);
        }
        said
    }

    /// Names memory to the peer, for long messages that it pushes or reads that it pulls.
    fn lend(&mut self, q: usize, t: Trunks<'_>) -> bool {
        let pair = &mut self.pairs[q];
        for begun in &mut pair.begun {
            let Some(lender) = begun.lender.as_mut().filter(|l| l.wanted() > 0) else {
                continue;
            };
            let most = (self.staging.pages() * 1024) as u64;
            if !room(self.out.reserve_cells(t.own, Lane::Transmit, 1)) {
                return false;
            }
            let Some(extents) = self.staging.take(lender.wanted().min(most)) else {
                return false;
            };
            let part: Part = lender.lend(extents.bytes(), extents).expect("wanted");
            let address = Address {
                qpn: q as u32,
                psn: begun.psn as u16,
            };
            let message = if begun.recv {
                Message::Lend { part, extents }
            } else {
                let at = part.offset as usize;
                put(
                    t.own,
                    &extents,
                    &begun.data[at..at + extents.bytes() as usize],
                );
                Message::Offer {
                    to: Role::Initiator,
                    part,
                    extents,
                }
            };
            assert!(room(self.out.send(t.own, t.peer, address, &message)));
            return true;
        }
        false
    }

    /// Puts parts of long messages down to be pulled.
    fn offer(&mut self, q: usize, t: Trunks<'_>) -> bool {
        let pair = &mut self.pairs[q];
        if pair.failed {
            return false;
        }
        for at in 0..pair.longs.len() {
            let psn = pair.longs[at];
            let Ok((_, what)) = pair.initiator.find(psn) else {
                pair.longs.remove(at);
                return true;
            };
            let Some(lender) = what.lender.as_mut().filter(|l| l.wanted() > 0) else {
                continue;
            };
            let lane = if pair.protocol.wqe {
                Lane::Pulled
            } else {
                Lane::Transmit
            };
            if !room(self.out.reserve_cells(t.own, lane, 1)) {
                return false;
            }
            let most = (self.staging.pages() * 1024) as u64;
            let Some(extents) = self.staging.take(lender.wanted().min(most)) else {
                return false;
            };
            let part = lender.lend(extents.bytes(), extents).expect("wanted");
            let whole = pattern(what.wr as u32, pair.wrs[what.wr].len);
            let from = part.offset as usize;
            put(
                t.own,
                &extents,
                &whole[from..from + extents.bytes() as usize],
            );
            let message = Message::Offer {
                to: Role::Responder,
                part,
                extents,
            };
            let address = Address { qpn: q as u32, psn };
            if pair.protocol.wqe {
                assert!(room(self.out.offer(t.own, t.own, address, &message)));
                self.out.tell(t.peer);
            } else {
                assert!(room(self.out.send(t.own, t.peer, address, &message)));
            }
            return true;
        }
        false
    }
}

/// How many bytes there are for READ_ALL to read.
pub fn size_of_read(number: u32) -> usize {
    number as usize * 977 % 20000
}
