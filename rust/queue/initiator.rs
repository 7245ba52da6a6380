// SPDX-License-Identifier: GPL-2.0

//! The initiator's end of a queue pair: work requests, from the send queue to their completion.
//!
//! Requests complete in the order in which they were posted. What takes more than an acknowledgement
//! (long messages, reads, atomics), and what concerns memory of this end only, is the last one under
//! way: nothing is sent behind it until it is done, so that order needs nothing more.

use super::{
    cx::{Cx, Served},
    data::{Refused, Sink, Source, INLINE},
    lent::Lease,
    moving::{Load, Not, What, WORTHWHILE},
    qp::{Qp, State},
};
use crate::hw::Moved;
use crate::proto::{
    cqe::{Cqe, Status},
    request::{Address, Data, Extents, Inline, Lane, Message, Part, Role, INLINE_BYTES},
    trunk::Fault,
    word::{Says, Word},
    wqe::{Identity, Opcode, SendWqe, Senseless, Tail},
};
use kernel::prelude::*;

/// Requests of a queue pair that are under way, at most.
const WINDOW: usize = 64;
/// Parts of a long message that may be lent at a time.
pub(super) const PARTS: usize = 4;
/// The longest part of a read that is asked for at once.
const MOST_READ: u64 = 256 << 10;

/// What it costs to have the mover move a part, in bytes that the CPU would.
const MOVER_COST: u64 = 4 << 10;

/// How far data are that were put down to be pulled.
#[derive(Clone, Copy, Default)]
pub(super) struct Offering {
    /// They were put down up to here,
    pub(super) offered: u64,
    /// in so many parts,
    pub(super) parts: u64,
    /// and so many of them were not read yet.
    pub(super) out: usize,
}

/// How far data are that the peer puts down for a read.
#[derive(Clone, Copy, Default)]
pub(super) struct Pulling {
    /// It has done so up to here,
    pub(super) named: u64,
    /// in so many parts,
    pub(super) parts: u64,
    /// and so much was read.
    pub(super) done: u64,
}

/// What a request waits for.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    /// Its acknowledgement.
    Ack,
    /// The same, while the peer lends memory for its data.
    Long,
    /// The same, while the peer pulls its data.
    Offered(Offering),
    /// The old value.
    Value,
    /// The size of what it reads.
    Size,
    /// Data: so many bytes have come, of so many; so many are on their way.
    Read { done: u64, all: u64, coming: u32 },
    /// All before it to be done: it concerns this end only.
    Turn,
    /// The same: it has failed, and says so then.
    Failed(Status),
}

/// A request under way.
pub(super) struct Request {
    pub(super) wqe: SendWqe,
    /// As the user wrote it, also if it is none.
    pub(super) opcode: u8,
    pub(super) psn: u32,
    pub(super) wait: Wait,
    acked: bool,
    pub(super) byte_len: u32,
}

/// What became of an attempt.
enum Sent {
    Yes,
    /// There is no room now.
    NoRoom,
    /// Earlier requests have to be done first.
    NotYet,
    No(Status),
}

/// Memory of the peer's, for parts of a transfer.
pub(super) type Parts = [Option<(Part, Extents)>; PARTS];

/// What an initiator knows.
pub(super) struct Initiator {
    requests: [Option<KBox<Request>>; WINDOW],
    first: usize,
    pub(super) count: usize,
    /// How many of them were sent; the rest has to be sent, or sent anew.
    pub(super) sent: usize,
    next_psn: u32,
    /// The last of them is one behind which nothing is sent.
    held: bool,
    /// The peer had no receive request, and will say when there is one.
    starved: bool,
    /// What the peer has lent for the last request; if data are pulled, what it has put down for it.
    pub(super) parts: Parts,
    pub(super) pulling: Pulling,
}

impl Initiator {
    pub(super) const fn new() -> Self {
        Self {
            requests: [const { None }; WINDOW],
            first: 0,
            count: 0,
            sent: 0,
            next_psn: 0,
            held: false,
            starved: false,
            parts: [None; PARTS],
            pulling: Pulling {
                named: 0,
                parts: 0,
                done: 0,
            },
        }
    }

    pub(super) fn get(&mut self, n: usize) -> Option<&mut Request> {
        if n >= self.count {
            return None;
        }
        let place = self.requests.get_mut((self.first + n) % WINDOW)?;
        place.as_deref_mut()
    }

    fn push(&mut self, request: KBox<Request>) {
        if let Some(place) = self.requests.get_mut((self.first + self.count) % WINDOW) {
            *place = Some(request);
            self.count += 1;
        }
    }

    /// How many requests are under way: each gets its completion.
    pub(super) fn under_way(&self) -> usize {
        self.count
    }

    /// Whether nothing that was sent waits for an answer.
    pub(super) fn is_quiet(&self) -> bool {
        self.sent == 0
    }

    /// The number of the request that is sent next.
    pub(super) fn next_number(&mut self) -> u16 {
        let first = (self.sent..self.count)
            .find_map(|n| self.get(n).filter(|r| r.is_heard_of()).map(|r| r.psn));
        first.unwrap_or(self.next_psn) as u16
    }

    /// Of one that is quiet: the peer forgets what it has said of what is to be sent anew.
    pub(super) fn rest(&mut self) {
        self.starved = false;
        self.parts = [None; PARTS];
        self.pulling = Pulling::default();
    }

    /// Fills in a request whose work request was taken from the send queue.
    fn begin(&mut self, request: &mut Request, who: Identity, sense: Result<(), Senseless>) {
        request.opcode = who.opcode;
        request.psn = 0;
        request.acked = false;
        request.byte_len = 0;
        if sense.is_err() {
            request.wqe = SendWqe::BLANK;
            request.wqe.wr_id = who.wr_id;
            request.wait = Wait::Failed(Status::LocalRequest);
            self.held = true;
            return;
        }
        let all = request.wqe.tail.bytes();
        request.wait = match request.wqe.opcode {
            Opcode::Send | Opcode::Write | Opcode::WriteImm => Wait::Ack,
            Opcode::Read => Wait::Read {
                done: 0,
                all,
                coming: 0,
            },
            Opcode::ReadAll => Wait::Size,
            Opcode::FetchAdd | Opcode::CmpSwap => Wait::Value,
            Opcode::BindMw | Opcode::LocalInv => Wait::Turn,
        };
        request.psn = self.next_psn;
        if !matches!(request.wait, Wait::Turn | Wait::Read { all: 0, .. }) {
            self.next_psn = self.next_psn.wrapping_add(1);
        }
        if !matches!(request.wait, Wait::Ack) {
            self.held = true;
        }
    }

    /// Takes the oldest request out.
    pub(super) fn pop(&mut self) -> Option<KBox<Request>> {
        if self.count == 0 {
            return None;
        }
        let request = self.requests.get_mut(self.first)?.take();
        self.first = (self.first + 1) % WINDOW;
        self.count -= 1;
        self.sent = self.sent.saturating_sub(1);
        if self.count == 0 {
            self.held = false;
            self.parts = [None; PARTS];
        }
        request
    }

    /// The place of the request with this number among those that were sent.
    pub(super) fn find(&mut self, psn: u16) -> Option<usize> {
        (0..self.sent).find(|&n| {
            self.get(n)
                .is_some_and(|r| r.psn as u16 == psn && r.has_psn())
        })
    }

    /// Whether the request with this number was completed before.
    fn is_past(&mut self, psn: u16) -> bool {
        let next = self.next_psn;
        let oldest = (0..self.count)
            .find_map(|n| self.get(n).filter(|r| r.has_psn()).map(|r| r.psn))
            .unwrap_or(next);
        (1..=0x7fff).contains(&(oldest as u16).wrapping_sub(psn))
    }

    /// All requests up to `psn` are carried out, that one too if `with`. False: no such one was sent.
    pub(super) fn acked(&mut self, psn: u16, with: bool) -> bool {
        let Some(last) = self.find(psn) else {
            return false;
        };
        for n in 0..last + usize::from(with) {
            if let Some(request) = self.get(n) {
                request.acked = true;
            }
        }
        true
    }
}

impl Request {
    /// One that is to be filled in.
    pub(super) fn blank() -> impl Init<Self> {
        init!(Self {
            wqe: SendWqe::BLANK,
            opcode: 0,
            psn: 0,
            wait: Wait::Ack,
            acked: false,
            byte_len: 0,
        })
    }

    /// Whether the peer hears of it.
    fn has_psn(&self) -> bool {
        !matches!(self.wait, Wait::Turn | Wait::Failed(_))
    }

    /// Whether it is sent. A read of nothing has a number, and is not.
    fn is_heard_of(&self) -> bool {
        self.has_psn() && !matches!(self.wait, Wait::Read { done, all, .. } if done >= all)
    }

    fn is_done(&self) -> bool {
        match self.wait {
            Wait::Ack | Wait::Long | Wait::Offered(_) => self.acked,
            Wait::Read { done, all, coming } => coming == 0 && done >= all,
            Wait::Value | Wait::Size | Wait::Turn | Wait::Failed(_) => false,
        }
    }
}

/// What a list's element that was refused makes of its request.
pub(super) fn local(why: Refused) -> Status {
    match why {
        Refused::Denied => Status::LocalProt,
        // Memory of this end: there is no other word for it.
        Refused::Failed => Status::LocalProt,
    }
}

impl Qp {
    pub(super) fn source<'a>(&'a self, cx: &Cx<'a>, tail: &'a Tail) -> Source<'a> {
        Source {
            memory: cx.memory,
            pd: &self.made.pd,
            tail,
        }
    }

    /// Sends what is there to be sent, up to `quantum` requests.
    pub(super) fn initiate(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut super::qp::Inner,
        quantum: usize,
    ) -> Result<Served, Fault> {
        let mut served = Served::default();
        let moved = if self.protocol().data {
            self.pull_parts(cx, inner)? && self.offer_parts(cx, inner)?
        } else {
            self.put_parts(cx, inner)?
        };
        if !moved {
            served.blocked = true;
            return Ok(served);
        }
        for _ in 0..quantum {
            self.finish(cx, inner, &mut served)?;
            if !matches!(inner.state, State::Rts | State::Sqd) || inner.initiator.starved {
                return Ok(served);
            }
            let next = inner.initiator.sent;
            if cx.holds {
                // Nothing tells when it does no more.
                served.blocked = next < inner.initiator.count || self.has_send(inner);
                return Ok(served);
            }
            if next < inner.initiator.count {
                match self.transmit(cx, inner, next)? {
                    Sent::Yes => {
                        inner.initiator.sent += 1;
                        inner.sent += 1;
                        inner.touched = true;
                        served.progress = true;
                        if !self.offer_parts(cx, inner)? {
                            served.blocked = true;
                            return Ok(served);
                        }
                    }
                    Sent::NoRoom => {
                        served.blocked = true;
                        return Ok(served);
                    }
                    Sent::NotYet => return Ok(served),
                    Sent::No(status) => {
                        if let Some(request) = inner.initiator.get(next) {
                            request.wait = Wait::Failed(status);
                        }
                        inner.initiator.sent += 1;
                        inner.initiator.held = true;
                        served.progress = true;
                    }
                }
                continue;
            }
            if inner.initiator.held || inner.initiator.count == WINDOW || inner.state != State::Rts
            {
                return Ok(served);
            }
            if cx.paused || !self.has_send(inner) {
                return Ok(served);
            }
            let Ok(mut request) = cx.spares.take() else {
                served.blocked = true;
                return Ok(served);
            };
            match self.take_send(inner, &mut request.wqe) {
                Ok(Some((who, sense))) => inner.initiator.begin(&mut request, who, sense),
                Ok(None) => return Ok(served),
                Err(status) => {
                    self.fail(inner, status, Status::Flushed, Status::Flushed);
                    served.progress = true;
                    return Ok(served);
                }
            }
            inner.initiator.push(request);
        }
        served.again = true;
        Ok(served)
    }

    /// Sends request `n` of those under way.
    fn transmit(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut super::qp::Inner,
        n: usize,
    ) -> Result<Sent, Fault> {
        let Some(path) = inner.path else {
            return Ok(Sent::NotYet);
        };
        let epoch = inner.epoch;
        let protocol = self.protocol();
        inner.initiator.pulling = Pulling::default();
        let Some(request) = inner.initiator.get(n) else {
            return Ok(Sent::NotYet);
        };
        let to = Address {
            qpn: path.peer_qpn,
            psn: request.psn as u16,
        };
        match request.wait {
            Wait::Ack | Wait::Long | Wait::Offered(_) => {
                let bytes = request.wqe.tail.bytes();
                let sent = self.transmit_data(cx, to, &request.wqe)?;
                if let Sent::Yes = sent {
                    request.wait = if protocol.data && bytes > 0 {
                        Wait::Offered(Offering::default())
                    } else if cx.is_long(bytes) {
                        Wait::Long
                    } else {
                        Wait::Ack
                    };
                    inner.initiator.held |= !matches!(request.wait, Wait::Ack);
                }
                Ok(sent)
            }
            Wait::Size => {
                let message = Message::Size {
                    to: request.wqe.remote_to,
                    stag: request.wqe.remote_stag,
                };
                yes(cx.send(protocol, to, &message)?)
            }
            Wait::Value => {
                let wqe = &request.wqe;
                let message = if wqe.opcode == Opcode::FetchAdd {
                    Message::FetchAdd {
                        to: wqe.remote_to,
                        stag: wqe.remote_stag,
                        add: wqe.arg0,
                    }
                } else {
                    Message::CmpSwap {
                        to: wqe.remote_to,
                        stag: wqe.remote_stag,
                        expected: wqe.arg0,
                        new: wqe.arg1,
                    }
                };
                yes(cx.send(protocol, to, &message)?)
            }
            Wait::Read { .. } => self.transmit_read(cx, to, epoch, path.peer_qpn, request),
            Wait::Turn if n == 0 => Ok(Sent::Yes),
            Wait::Failed(_) => Ok(Sent::Yes),
            Wait::Turn => Ok(Sent::NotYet),
        }
    }

    fn transmit_data(&self, cx: &mut Cx<'_>, to: Address, wqe: &SendWqe) -> Result<Sent, Fault> {
        let len = wqe.tail.bytes();
        let protocol = self.protocol();
        let lane = protocol.requests(Lane::Receive);
        if !cx.has_room(lane)? {
            return Ok(Sent::NoRoom);
        }
        let source = self.source(cx, &wqe.tail);
        let mut eager = false;
        let data = if protocol.data && len > 0 {
            Data::Long(len)
        } else if len <= INLINE {
            let mut copy = [0; INLINE_BYTES];
            let Some(part) = copy.get_mut(..len as usize) else {
                return Ok(Sent::No(Status::LocalRequest));
            };
            if let Err(why) = source.read(0, part) {
                return Ok(Sent::No(local(why)));
            }
            match Inline::new(part) {
                Some(inline) => Data::Inline(inline),
                None => return Ok(Sent::No(Status::LocalRequest)),
            }
        } else if !cx.is_long(len) {
            let Some((at, place)) = cx.trunk.take_eager(&cx.io, len as u32, lane)? else {
                return Ok(Sent::NoRoom);
            };
            eager = true;
            if let Err(why) = source.put(cx.io.window, 0, place, len as usize) {
                cx.trunk.untake_eager();
                return Ok(Sent::No(local(why)));
            }
            Data::Eager {
                at,
                len: len as u32,
            }
        } else {
            Data::Long(len)
        };
        let message = if wqe.opcode == Opcode::Send {
            Message::Send { data, imm: wqe.imm }
        } else {
            Message::Write {
                data,
                to: wqe.remote_to,
                stag: wqe.remote_stag,
                imm: wqe.imm,
            }
        };
        let sent = cx.send(protocol, to, &message)?;
        if eager && !sent {
            cx.trunk.untake_eager();
        }
        yes(sent)
    }

    fn transmit_read(
        &self,
        cx: &mut Cx<'_>,
        to: Address,
        epoch: u32,
        peer_qpn: u32,
        request: &mut Request,
    ) -> Result<Sent, Fault> {
        let Wait::Read { done, all, .. } = request.wait else {
            return Ok(Sent::NotYet);
        };
        let wanted = (all - done).min(MOST_READ);
        if wanted == 0 {
            request.wait = Wait::Read {
                done,
                all,
                coming: 0,
            };
            return Ok(Sent::Yes);
        }
        let Some(at) = request.wqe.remote_to.checked_add(done) else {
            return Ok(Sent::No(Status::RemoteAccess));
        };
        let protocol = self.protocol();
        if !cx.has_room(protocol.requests(Lane::Transmit))? {
            return Ok(Sent::NoRoom);
        }
        if protocol.data {
            let message = Message::Read {
                to: at,
                stag: request.wqe.remote_stag,
                length: wanted as u32,
                extents: Extents::NONE,
            };
            request.wait = Wait::Read {
                done,
                all,
                coming: wanted as u32,
            };
            // There is room.
            return yes(cx.send(protocol, to, &message)?);
        }
        let Some(extents) = cx.trunk.staging.take(wanted) else {
            return Ok(Sent::NoRoom);
        };
        let coming = extents.bytes() as u32;
        let lease = Lease {
            qpn: self.number(),
            peer_qpn,
            psn: to.psn,
            epoch,
            role: Role::Initiator,
            part: 0,
            offset: done,
            extents,
        };
        let message = Message::Read {
            to: at,
            stag: request.wqe.remote_stag,
            length: coming,
            extents,
        };
        if !cx.lent.add(lease) {
            cx.trunk.staging.give(&extents);
            return Ok(Sent::NoRoom);
        }
        request.wait = Wait::Read { done, all, coming };
        // There is room.
        yes(cx.send(protocol, to, &message)?)
    }

    /// Completes what is done, in order.
    pub(super) fn finish(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut super::qp::Inner,
        served: &mut Served,
    ) -> Result<(), Fault> {
        while inner.initiator.sent > 0 {
            let next_psn = inner.initiator.next_psn;
            let Some(request) = inner.initiator.get(0) else {
                break;
            };
            match request.wait {
                Wait::Failed(status) => {
                    self.fail(inner, status, status, Status::Flushed);
                    served.progress = true;
                    break;
                }
                Wait::Turn => match self.here(cx, &request.wqe) {
                    Ok(true) => {}
                    Ok(false) => {
                        served.blocked = true;
                        break;
                    }
                    Err(status) => {
                        self.fail(inner, status, status, Status::Flushed);
                        break;
                    }
                },
                Wait::Read {
                    done,
                    all,
                    coming: 0,
                } if done < all => {
                    // The next part, under a number of its own.
                    request.psn = next_psn;
                    request.acked = false;
                    inner.initiator.next_psn = next_psn.wrapping_add(1);
                    inner.initiator.sent = 0;
                    break;
                }
                _ if !request.is_done() => break,
                _ => {}
            }
            served.progress = true;
            let Some(request) = inner.initiator.pop() else {
                break;
            };
            let wqe = &request.wqe;
            if wqe.signaled {
                let byte_len = if wqe.opcode.reads_list() {
                    wqe.tail.bytes() as u32
                } else {
                    request.byte_len
                };
                let told = self.complete_send(&Cqe {
                    wr_id: wqe.wr_id,
                    qpn: self.number(),
                    byte_len,
                    imm: (wqe.opcode == Opcode::LocalInv).then_some(wqe.remote_stag),
                    status: Status::Success,
                    opcode: request.opcode,
                    ends: false,
                });
                if told.is_err() {
                    self.fail(inner, Status::LocalLength, Status::Flushed, Status::Flushed);
                }
            }
            cx.spares.give(request);
        }
        Ok(())
    }

    /// Does what concerns this end only. False: it has to be tried again.
    fn here(&self, cx: &Cx<'_>, wqe: &SendWqe) -> core::result::Result<bool, Status> {
        match wqe.opcode {
            Opcode::BindMw => cx.bind(&self.made.pd, wqe),
            _ => cx.invalidate(&self.made.pd, wqe.remote_stag),
        }
    }

    /// The peer has lent memory for a part of a message.
    pub(super) fn lend(
        &self,
        inner: &mut super::qp::Inner,
        psn: u16,
        part: Part,
        extents: Extents,
    ) {
        let initiator = &mut inner.initiator;
        let fits = initiator.find(psn).is_some_and(|n| {
            initiator.get(n).is_some_and(|request| {
                let all = request.wqe.tail.bytes();
                matches!(request.wait, Wait::Long)
                    && part
                        .offset
                        .checked_add(extents.bytes())
                        .is_some_and(|end| end <= all)
            })
        });
        let free = initiator.parts.iter_mut().find(|part| part.is_none());
        match free {
            Some(free) if fits => *free = Some((part, extents)),
            _ => self.violated(inner),
        }
    }

    /// Puts data into what the peer has lent. False: there is no room to say so.
    fn put_parts(&self, cx: &mut Cx<'_>, inner: &mut super::qp::Inner) -> Result<bool, Fault> {
        let epoch = inner.epoch;
        for n in 0..PARTS {
            let Some((part, extents)) = inner.initiator.parts.get(n).copied().flatten() else {
                continue;
            };
            let (Some(path), Some(last)) = (inner.path, inner.initiator.count.checked_sub(1))
            else {
                continue;
            };
            if !cx.has_word_room()? {
                return Ok(false);
            }
            let Some(request) = inner.initiator.get(last) else {
                continue;
            };
            let psn = request.psn as u16;
            let source = self.source(cx, &request.wqe.tail);
            let what = What::Part {
                qpn: self.number(),
                epoch,
                psn,
                part: super::lent::part(part.number),
            };
            let begun = match cx.io.mover().filter(|_| extents.bytes() >= WORTHWHILE) {
                Some(mover) => Load::of_source(&source, part.offset, &extents)
                    .and_then(|load| cx.trunk.moving.begin(mover, load, &extents, what)),
                None => Err(Not::Ever),
            };
            match begun {
                Ok(()) => {
                    cx.moved(MOVER_COST);
                    if let Some(place) = inner.initiator.parts.get_mut(n) {
                        *place = None;
                    }
                    continue;
                }
                Err(Not::Ever) => {}
                Err(Not::Now) => return Ok(false),
                Err(Not::Refused(why)) => {
                    let status = local(why);
                    self.fail(inner, status, status, Status::Flushed);
                    return Ok(true);
                }
            }
            let mut offset = part.offset;
            cx.moved(extents.bytes());
            for extent in extents.as_slice() {
                let bytes = extent.bytes as usize;
                if let Err(why) = source.put(cx.io.window, offset, extent.at as usize, bytes) {
                    let status = local(why);
                    self.fail(inner, status, status, Status::Flushed);
                    return Ok(true);
                }
                offset += u64::from(extent.bytes);
            }
            if let Some(place) = inner.initiator.parts.get_mut(n) {
                *place = None;
            }
            let says = Says::Done {
                to: Role::Responder,
                part: super::lent::part(part.number),
            };
            let word = Word {
                qpn: path.peer_qpn,
                psn,
                says,
            };
            // There is room.
            cx.word(self.protocol(), word)?;
        }
        Ok(true)
    }

    /// The data of a part have been moved; what the peer is to be told.
    pub(super) fn part_moved(
        &self,
        inner: &mut super::qp::Inner,
        psn: u16,
        part: u16,
        went: Moved,
    ) -> Option<Word> {
        if went == Moved::Refused {
            let status = Status::LocalProt;
            self.fail(inner, status, status, Status::Flushed);
            return None;
        }
        let path = inner.path?;
        let to = Role::Responder;
        Some(Word {
            qpn: path.peer_qpn,
            psn,
            says: Says::Done { to, part },
        })
    }

    /// A word has come for a request.
    pub(super) fn told(&self, cx: &mut Cx<'_>, inner: &mut super::qp::Inner, psn: u16, says: Says) {
        let initiator = &mut inner.initiator;
        let known = match says {
            // An answer that went by another way may have told of it before.
            Says::Ack => initiator.acked(psn, true) || initiator.is_past(psn),
            Says::Nak(status) => {
                let known = initiator.acked(psn, false);
                if known {
                    if let Some(n) = initiator.find(psn) {
                        if let Some(request) = initiator.get(n) {
                            request.wait = Wait::Failed(status);
                        }
                    }
                }
                known
            }
            Says::NoRecv => {
                let known = initiator.acked(psn, false);
                if let Some(n) = initiator.find(psn) {
                    initiator.sent = n;
                    initiator.starved = true;
                    initiator.parts = [None; PARTS];
                    self.take_back(cx, initiator);
                }
                known
            }
            Says::Recv => core::mem::replace(&mut initiator.starved, false),
            // Found by what was lent.
            Says::Done { .. } => false,
        };
        if !known {
            self.violated(inner);
        }
    }

    /// Of the last request, which the peer has dropped, the memory: nobody writes or reads there.
    fn take_back(&self, cx: &mut Cx<'_>, initiator: &mut Initiator) {
        let Some(last) = initiator.count.checked_sub(1) else {
            return;
        };
        let Some(request) = initiator.get(last) else {
            return;
        };
        match &mut request.wait {
            Wait::Read { coming, .. } => *coming = 0,
            Wait::Offered(offering) => *offering = Offering::default(),
            _ => return,
        }
        let psn = request.psn as u16;
        cx.lent.dropped(self.number(), psn, &mut cx.trunk.staging);
    }

    /// Data that were read have come.
    pub(super) fn read_done(&self, cx: &Cx<'_>, inner: &mut super::qp::Inner, lease: &Lease) {
        let initiator = &mut inner.initiator;
        let Some(n) = initiator.find(lease.psn) else {
            return;
        };
        initiator.acked(lease.psn, true);
        let Some(request) = initiator.get(n) else {
            return;
        };
        let Wait::Read { done, all, coming } = request.wait else {
            return;
        };
        let Tail::List(sgl) = &request.wqe.tail else {
            return;
        };
        let sink = Sink::List(sgl);
        let len = u64::from(coming);
        cx.moved(len);
        let placed = sink.collect(
            cx.io.arena,
            cx.memory,
            &self.made.pd,
            done,
            &lease.extents,
            len,
        );
        match placed {
            Ok(()) => {
                request.wait = Wait::Read {
                    done: done + len,
                    all,
                    coming: 0,
                };
                request.byte_len = (done + len) as u32;
            }
            Err(why) => request.wait = Wait::Failed(local(why)),
        }
    }

    /// An answer has come: the old value of an atomic, or the size of what is to be read.
    pub(super) fn answered(
        &self,
        cx: &Cx<'_>,
        inner: &mut super::qp::Inner,
        psn: u16,
        message: &Message,
    ) {
        let next_psn = inner.initiator.next_psn;
        let initiator = &mut inner.initiator;
        let n = initiator.find(psn);
        initiator.acked(psn, true);
        let request = n.and_then(|n| initiator.get(n));
        let fits = match (request, message) {
            (Some(request), Message::Value { old }) if matches!(request.wait, Wait::Value) => {
                let written = match &request.wqe.tail {
                    Tail::List(sgl) => {
                        let sink = Sink::List(sgl);
                        sink.write(cx.memory, &self.made.pd, 0, &old.to_ne_bytes())
                    }
                    Tail::Inline(..) => Err(Refused::Failed),
                };
                request.byte_len = 8;
                request.wait = match written {
                    Ok(()) => Wait::Ack,
                    Err(why) => Wait::Failed(local(why)),
                };
                true
            }
            (Some(request), Message::SizeIs { length }) if matches!(request.wait, Wait::Size) => {
                if *length > request.wqe.tail.bytes() {
                    request.wait = Wait::Failed(Status::LocalLength);
                } else {
                    request.psn = next_psn;
                    request.wait = Wait::Read {
                        done: 0,
                        all: *length,
                        coming: 0,
                    };
                    if *length > 0 {
                        initiator.next_psn = next_psn.wrapping_add(1);
                        initiator.sent -= 1;
                    }
                }
                true
            }
            _ => false,
        };
        if !fits {
            self.violated(inner);
        }
    }
}

fn yes(sent: bool) -> Result<Sent, Fault> {
    Ok(if sent { Sent::Yes } else { Sent::NoRoom })
}

type Result<T, E> = core::result::Result<T, E>;
