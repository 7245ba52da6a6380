// SPDX-License-Identifier: GPL-2.0

//! The responder's end of a queue pair: requests of the peer, carried out in order.
//!
//! A request is carried out, begun or refused when it is taken out of the FIFO: none waits there. What
//! has to be said then, and finds no room, waits here, in a place of its own.

use super::{
    cx::{Cx, Farewell, Served},
    data::{Refused, Sink},
    initiator::{Offering, Parts, PARTS},
    lent::{part, Lease},
    moving::{Load, What, WORTHWHILE},
    qp::{Ask, Inner, Qp},
};
use crate::{
    hw::Moved,
    mem::Rights,
    proto::{
        cqe::{Cqe, Status},
        request::{Address, Data, Lane, Message, Part, Role},
        trunk::Fault,
        word::{Says, Word},
        wqe::{RecvWqe, Sgl, OP_RECV, OP_RECV_WRITE_IMM},
    },
    sys::ext,
};
use kernel::prelude::*;

/// The longest part of a long message that memory is lent for, or that is put down, at once.
pub(super) const MOST_PART: u64 = 64 << 10;

type Result<T, E> = core::result::Result<T, E>;

/// What the peer is told when it has all that it has asked for.
const READ: Says = Says::Done {
    to: Role::Initiator,
    part: 0,
};

/// Where a message goes.
#[derive(Clone, Copy)]
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack or in the QP; a box would be an allocation a message"
)]
pub(super) enum Goal {
    /// To a receive request.
    Recv { wr_id: u64, list: Sgl },
    /// To memory that the peer has named; the receive request is for immediate data.
    Tagged {
        stag: u32,
        to: u64,
        recv: Option<u64>,
    },
}

impl Goal {
    pub(super) fn sink(&self) -> Sink<'_> {
        match self {
            Self::Recv { list, .. } => Sink::List(list),
            Self::Tagged { stag, to, .. } => Sink::Tagged {
                stag: *stag,
                to: *to,
            },
        }
    }

    fn recv(&self) -> Option<(u64, u8)> {
        match *self {
            Self::Recv { wr_id, .. } => Some((wr_id, OP_RECV)),
            Self::Tagged { recv, .. } => recv.map(|wr_id| (wr_id, OP_RECV_WRITE_IMM)),
        }
    }
}

/// A long message that is coming.
pub(super) struct Long {
    pub(super) psn: u16,
    pub(super) goal: Goal,
    imm: Option<u32>,
    pub(super) length: u64,
    /// Memory was lent up to here, or named by the peer if data are pulled,
    pub(super) lent: u64,
    /// so many bytes are in their place,
    placed: u64,
    /// so many parts are lent now,
    out: usize,
    /// and so many were, or were named.
    pub(super) parts: u64,
    /// What the peer has named and was not read yet.
    pub(super) named: Parts,
}

/// A read, while the peer pulls its data.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub(super) psn: u16,
    pub(super) stag: u32,
    pub(super) to: u64,
    pub(super) length: u64,
    pub(super) offering: Offering,
}

/// What a responder knows.
pub(super) struct Responder {
    expected: u16,
    /// Requests are dropped until `expected` comes.
    pub(super) drops: bool,
    /// The peer waits to be told that there is a receive request.
    owes_recv: bool,
    /// The last request that was carried out, and that the peer was not told of.
    ack: Option<u16>,
    say: Option<(u16, Says)>,
    answer: Option<(u16, Message)>,
    pub(super) long: Option<KBox<Long>>,
    /// Until all of it was put down.
    pub(super) reading: Option<Reading>,
    /// What a request reads is on its way.
    moving: bool,
}

impl Responder {
    pub(super) const fn new() -> Self {
        Self {
            expected: 0,
            drops: false,
            owes_recv: false,
            ack: None,
            say: None,
            answer: None,
            long: None,
            reading: None,
            moving: false,
        }
    }

    /// The number of the request that is carried out next.
    pub(super) fn expected(&self) -> u16 {
        self.expected
    }

    /// Whether no request is being carried out, or waits to be answered.
    pub(super) fn is_quiet(&self) -> bool {
        let busy = self.long.is_some() || self.reading.is_some() || self.moving;
        !busy && self.say.is_none() && self.answer.is_none()
    }

    /// Of one that is quiet, as its session is over: the peer sends anew what it was refused.
    pub(super) fn rest(&mut self) {
        self.owes_recv = false;
        self.ack = None;
    }

    /// Nothing more is done: the receive request that was taken for a message that has not come.
    pub(super) fn give_up(&mut self) -> Option<(u64, u8)> {
        self.reading = None;
        let long = self.long.take()?;
        self.ack = None;
        long.goal.recv()
    }

    /// Whether something is to be said, or to be asked again.
    fn is_idle(&self) -> bool {
        self.ack.is_none()
            && self.say.is_none()
            && self.answer.is_none()
            && self.long.is_none()
            && self.reading.is_none()
            && !self.owes_recv
    }
}

/// What a request that cannot be carried out is refused with, and why its receive request ends.
pub(super) struct No {
    says: Status,
    recv: Option<(u64, u8, Status)>,
}

impl From<Status> for No {
    fn from(says: Status) -> Self {
        Self { says, recv: None }
    }
}

impl Qp {
    fn may(&self, inner: &Inner, right: u32) -> Result<(), No> {
        if inner.access & right == 0 {
            return Err(Status::RemoteRequest.into());
        }
        Ok(())
    }

    /// A request has come. It is done with when this returns.
    pub(super) fn requested(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut Inner,
        psn: u16,
        message: &Message,
    ) {
        if psn != inner.responder.expected {
            if !inner.responder.drops {
                self.violated(inner);
            }
            return;
        }
        let responder = &mut inner.responder;
        // Behind such a one the peer sends nothing until it is done.
        let busy = responder.reading.is_some() || responder.moving;
        if responder.long.is_some() || responder.answer.is_some() || busy {
            self.violated(inner);
            return;
        }
        let recv = if message.takes_recv() {
            self.take_recv(inner)
        } else {
            None
        };
        if message.takes_recv() && recv.is_none() {
            let responder = &mut inner.responder;
            responder.drops = true;
            responder.owes_recv = true;
            responder.ack = None;
            responder.say = Some((psn, Says::NoRecv));
            return;
        }
        let taken = recv.as_ref().map(|(wr_id, _)| *wr_id);
        let responder = &mut inner.responder;
        responder.drops = false;
        responder.owes_recv = false;
        responder.expected = psn.wrapping_add(1);
        inner.received += 1;
        inner.touched = true;
        if let Err(mut no) = self.carry_out(cx, inner, psn, message, recv) {
            let flushed = |wr_id| (wr_id, OP_RECV, Status::Flushed);
            no.recv = no.recv.or(taken.map(flushed));
            self.refuse(inner, psn, no);
        }
    }

    /// Says no, and goes to ERR.
    pub(super) fn refuse(&self, inner: &mut Inner, psn: u16, no: No) {
        if let Some((wr_id, opcode, status)) = no.recv {
            // If it finds no room: the queue pair is in ERR in any case.
            let _ = self.complete_recv(&Cqe {
                wr_id,
                qpn: self.number(),
                byte_len: 0,
                imm: None,
                status,
                opcode,
                ends: false,
            });
        }
        self.fail(inner, no.says, Status::Flushed, Status::Flushed);
        inner.responder.ack = None;
        inner.responder.say = Some((psn, Says::Nak(no.says)));
    }

    fn carry_out(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut Inner,
        psn: u16,
        message: &Message,
        recv: Option<Recv>,
    ) -> Result<(), No> {
        match *message {
            Message::Send { ref data, imm } => {
                let goal = recv_goal(recv)?;
                self.place(cx, inner, psn, goal, data, imm)
            }
            Message::Write {
                ref data,
                to,
                stag,
                imm,
            } => {
                self.may(inner, ext::WEFT_ACCESS_REMOTE_WRITE)?;
                let recv = recv.map(|(wr_id, _)| wr_id);
                let goal = Goal::Tagged { stag, to, recv };
                self.place(cx, inner, psn, goal, data, imm)
            }
            Message::Size { to, stag } => {
                self.may(inner, ext::WEFT_ACCESS_REMOTE_READ)?;
                let length = cx
                    .memory
                    .size_from(&self.made.pd, stag, Rights::REMOTE_READ, to)
                    .map_err(|_| Status::RemoteAccess)?;
                inner.responder.answer = Some((psn, Message::SizeIs { length }));
                Ok(())
            }
            Message::FetchAdd { to, stag, add } => {
                let old = self.atomic(cx, inner, stag, to, |access| access.fetch_add(add))?;
                inner.responder.answer = Some((psn, Message::Value { old }));
                Ok(())
            }
            Message::CmpSwap {
                to,
                stag,
                expected,
                new,
            } => {
                let swap = |access: &crate::mem::Access| access.compare_swap(expected, new);
                let old = self.atomic(cx, inner, stag, to, swap)?;
                inner.responder.answer = Some((psn, Message::Value { old }));
                Ok(())
            }
            Message::Read {
                to,
                stag,
                length,
                ref extents,
            } => {
                self.may(inner, ext::WEFT_ACCESS_REMOTE_READ)?;
                let access = cx
                    .memory
                    .access(&self.made.pd, stag, Rights::REMOTE_READ, to, length.into())
                    .map_err(|_| Status::RemoteAccess)?;
                if self.protocol().data {
                    inner.responder.reading = Some(Reading {
                        psn,
                        stag,
                        to,
                        length: length.into(),
                        offering: Offering::default(),
                    });
                    return Ok(());
                }
                if u64::from(length) >= WORTHWHILE && !self.protocol().cqe {
                    if let Some(mover) = cx.io.mover() {
                        let what = What::Answer {
                            qpn: self.number(),
                            epoch: inner.epoch,
                            psn,
                        };
                        let again = Rights::REMOTE_READ;
                        let begun = cx
                            .memory
                            .access(&self.made.pd, stag, again, to, length.into())
                            .map_err(|_| Status::RemoteAccess)
                            .map(|access| Load::of_access(access, extents));
                        if let Ok(load) = begun? {
                            if cx.trunk.moving.begin(mover, load, extents, what).is_ok() {
                                inner.responder.moving = true;
                                return Ok(());
                            }
                        }
                    }
                }
                // Nothing waits here: where there is no room, the CPU does it.
                cx.moved(length.into());
                let mut at = 0;
                for extent in extents.as_slice() {
                    let bytes = (extent.bytes as usize).min(length as usize - at);
                    access
                        .copy_out(at as u64, cx.io.window, extent.at as usize, bytes)
                        .map_err(|_| Status::RemoteOp)?;
                    at += bytes;
                }
                inner.responder.ack = None;
                inner.responder.say = Some((psn, READ));
                Ok(())
            }
            // No requests.
            Message::SizeIs { .. }
            | Message::Value { .. }
            | Message::Gone { .. }
            | Message::Join { .. }
            | Message::Lend { .. }
            | Message::Offer { .. } => Err(Status::Protocol.into()),
        }
    }

    /// What a request reads has been moved; what the peer is to be told, before it may send another.
    pub(super) fn answer_moved(&self, inner: &mut Inner, psn: u16, went: Moved) -> Option<Word> {
        if went == Moved::Refused {
            inner.responder.moving = false;
            self.refuse(inner, psn, Status::RemoteOp.into());
            return None;
        }
        // Implied by what is said now.
        inner.responder.ack = None;
        let path = inner.path?;
        Some(Word {
            qpn: path.peer_qpn,
            psn,
            says: READ,
        })
    }

    /// It has been told.
    pub(super) fn told_of_read(inner: &mut Inner) {
        inner.responder.moving = false;
    }

    fn atomic(
        &self,
        cx: &Cx<'_>,
        inner: &Inner,
        stag: u32,
        to: u64,
        f: impl FnOnce(&crate::mem::Access) -> core::result::Result<u64, Error>,
    ) -> Result<u64, No> {
        self.may(inner, ext::WEFT_ACCESS_REMOTE_ATOMIC)?;
        let access = cx
            .memory
            .access(&self.made.pd, stag, Rights::REMOTE_ATOMIC, to, 8)
            .map_err(|_| Status::RemoteAccess)?;
        f(&access).map_err(|_| Status::RemoteOp.into())
    }

    /// Puts the data of a message in their place, or begins to.
    fn place(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut Inner,
        psn: u16,
        goal: Goal,
        data: &Data,
        imm: Option<u32>,
    ) -> Result<(), No> {
        let length = match data {
            Data::Inline(inline) => inline.as_bytes().len() as u64,
            Data::Eager { len, .. } => u64::from(*len),
            Data::Long(length) => *length,
        };
        let room = match &goal {
            Goal::Recv { list, .. } => list.bytes(),
            Goal::Tagged { .. } => u64::MAX,
        };
        if length > room {
            return Err(No {
                says: Status::RemoteRequest,
                recv: goal.recv().map(|(id, op)| (id, op, Status::LocalLength)),
            });
        }
        let pd = &self.made.pd;
        let placed = match data {
            Data::Inline(inline) => goal.sink().write(cx.memory, pd, 0, inline.as_bytes()),
            Data::Eager { .. } => {
                let Some(at) = cx.trunk.eager_place(&cx.own, data) else {
                    return Err(Status::Protocol.into());
                };
                goal.sink().take(cx.io.arena, cx.memory, pd, 0, at, length)
            }
            Data::Long(_) => {
                let long = KBox::new(
                    Long {
                        psn,
                        goal,
                        imm,
                        length,
                        lent: 0,
                        placed: 0,
                        out: 0,
                        parts: 0,
                        named: [None; PARTS],
                    },
                    GFP_KERNEL,
                );
                // Rights and bounds, before anything is sent.
                let allowed = match goal {
                    Goal::Tagged { stag, to, .. } => cx
                        .memory
                        .access(pd, stag, Rights::REMOTE_WRITE, to, length)
                        .map(drop)
                        .map_err(Refused::from),
                    Goal::Recv { .. } => Ok(()),
                };
                return match (allowed, long) {
                    (Ok(()), Ok(long)) => {
                        inner.responder.long = Some(long);
                        Ok(())
                    }
                    (Err(why), _) => Err(refusal(&goal, why)),
                    (Ok(()), Err(_)) => Err(refusal(&goal, Refused::Failed)),
                };
            }
        };
        placed.map_err(|why| refusal(&goal, why))?;
        self.received(inner, psn, &goal, length, imm);
        Ok(())
    }

    /// All of a message is in its place.
    fn received(&self, inner: &mut Inner, psn: u16, goal: &Goal, length: u64, imm: Option<u32>) {
        if let Some((wr_id, opcode)) = goal.recv() {
            let told = self.complete_recv(&Cqe {
                wr_id,
                qpn: self.number(),
                byte_len: length as u32,
                imm,
                status: Status::Success,
                opcode,
                ends: false,
            });
            if told.is_err() {
                // A message of which nobody hears was not received.
                let no = Status::RemoteOp.into();
                self.refuse(inner, psn, no);
                return;
            }
        }
        inner.responder.ack = Some(psn);
    }

    /// Data of a part of a long message have come.
    pub(super) fn part_done(&self, cx: &Cx<'_>, inner: &mut Inner, lease: &Lease) {
        let Some(long) = inner.responder.long.as_mut().filter(|l| l.psn == lease.psn) else {
            // Of before; the memory is free again.
            return;
        };
        let bytes = lease.extents.bytes();
        cx.moved(bytes);
        long.out = long.out.saturating_sub(1);
        let sink = long.goal.sink();
        let placed = sink.collect(
            cx.io.arena,
            cx.memory,
            &self.made.pd,
            lease.offset,
            &lease.extents,
            bytes,
        );
        self.placed(inner, placed.map(|()| bytes));
    }

    /// So many more bytes of a long message are in their place.
    pub(super) fn placed(&self, inner: &mut Inner, bytes: Result<u64, Refused>) {
        let Some(long) = inner.responder.long.as_mut() else {
            return;
        };
        match bytes {
            Ok(bytes) => long.placed = long.placed.saturating_add(bytes),
            Err(why) => {
                let no = refusal(&long.goal, why);
                let psn = long.psn;
                inner.responder.long = None;
                self.refuse(inner, psn, no);
                return;
            }
        }
        if long.placed == long.length {
            if let Some(long) = inner.responder.long.take() {
                self.received(inner, long.psn, &long.goal, long.length, long.imm);
            }
        }
    }

    /// Says what is to be said, as far as there is room.
    pub(super) fn respond(&self, cx: &mut Cx<'_>, inner: &mut Inner) -> Result<Served, Fault> {
        let mut served = Served::default();
        if inner.responder.is_idle() && !inner.owes_gone && inner.owes_join.is_none() {
            return Ok(served);
        }
        let Some(path) = inner.path else {
            return Ok(served);
        };
        let protocol = self.protocol();
        if let Some(ask) = inner.owes_join {
            let to = Address {
                qpn: path.peer_qpn,
                psn: 0,
            };
            let join = Message::Join {
                qpn: self.number(),
                protocol,
                asks: ask == Ask::Yes,
                stands: inner.standing(),
            };
            if !cx.send(protocol, to, &join)? {
                served.blocked = true;
                return Ok(served);
            }
            inner.owes_join = None;
            served.progress = true;
        }
        if protocol.data {
            // What is found out by it is said below.
            self.pull_named(cx, inner, path.peer_qpn, &mut served)?;
            self.offer_read(cx, inner, path.peer_qpn, &mut served)?;
        }
        let responder = &mut inner.responder;
        let word = |psn, says| Word {
            qpn: path.peer_qpn,
            psn,
            says,
        };
        if let Some((psn, says)) = responder.say {
            if !cx.word(protocol, word(psn, says))? {
                served.blocked = true;
                return Ok(served);
            }
            responder.say = None;
            served.progress = true;
        }
        if let Some(psn) = responder.ack {
            if !cx.word(protocol, word(psn, Says::Ack))? {
                served.blocked = true;
                return Ok(served);
            }
            responder.ack = None;
            served.progress = true;
        }
        if let Some((psn, message)) = &responder.answer {
            let to = Address {
                qpn: path.peer_qpn,
                psn: *psn,
            };
            if !cx.send(protocol, to, message)? {
                served.blocked = true;
                return Ok(served);
            }
            responder.answer = None;
            served.progress = true;
        }
        if responder.owes_recv {
            let psn = responder.expected;
            if !self.has_recv(inner) {
                served.starved = true;
            } else if cx.word(protocol, word(psn, Says::Recv))? {
                inner.responder.owes_recv = false;
                served.progress = true;
            } else {
                served.blocked = true;
            }
        }
        if !protocol.data {
            self.lend_more(cx, inner, path.peer_qpn, &mut served)?;
        }
        if inner.owes_gone {
            let word = Farewell {
                to: path.peer_qpn,
                qpn: self.number(),
                refuses: false,
            };
            if !cx.gone(protocol, Some(self.number()), word)? {
                served.blocked = true;
                return Ok(served);
            }
            inner.owes_gone = false;
            served.progress = true;
        }
        Ok(served)
    }

    /// Lends memory for what is missing of a long message.
    fn lend_more(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut Inner,
        peer_qpn: u32,
        served: &mut Served,
    ) -> Result<(), Fault> {
        let Some(long) = inner.responder.long.as_mut() else {
            return Ok(());
        };
        while long.lent < long.length && long.out < PARTS {
            if !cx.has_room(Lane::Transmit)? {
                served.blocked = true;
                return Ok(());
            }
            let wanted = (long.length - long.lent).min(MOST_PART);
            let Some(extents) = cx.trunk.staging.take(wanted) else {
                // There is some again when another transfer ends.
                served.blocked = true;
                return Ok(());
            };
            let lease = Lease {
                qpn: self.number(),
                peer_qpn,
                psn: long.psn,
                epoch: inner.epoch,
                role: Role::Responder,
                part: part(long.parts),
                offset: long.lent,
                extents,
            };
            if !cx.lent.add(lease) {
                cx.trunk.staging.give(&extents);
                served.blocked = true;
                return Ok(());
            }
            let message = Message::Lend {
                part: Part {
                    number: long.parts,
                    offset: long.lent,
                },
                extents,
            };
            let to = Address {
                qpn: peer_qpn,
                psn: long.psn,
            };
            // There is room.
            cx.send(self.protocol(), to, &message)?;
            long.lent += extents.bytes();
            long.parts += 1;
            long.out += 1;
            served.progress = true;
        }
        Ok(())
    }
}

/// A receive request that was taken.
type Recv = (u64, Result<RecvWqe, Status>);

/// Where a SEND goes.
fn recv_goal(recv: Option<Recv>) -> Result<Goal, No> {
    match recv {
        Some((_, Ok(wqe))) => Ok(Goal::Recv {
            wr_id: wqe.wr_id,
            list: wqe.list,
        }),
        Some((wr_id, Err(status))) => Err(No {
            says: Status::RemoteOp,
            recv: Some((wr_id, OP_RECV, status)),
        }),
        // It was asked for.
        None => Err(Status::RemoteOp.into()),
    }
}

/// How a message is refused whose data could not be put in their place.
fn refusal(goal: &Goal, why: Refused) -> No {
    match (goal, why) {
        (Goal::Recv { .. }, _) => No {
            says: Status::RemoteOp,
            recv: goal.recv().map(|(id, op)| (id, op, Status::LocalProt)),
        },
        (Goal::Tagged { .. }, why) => No {
            says: match why {
                Refused::Denied => Status::RemoteAccess,
                Refused::Failed => Status::RemoteOp,
            },
            // Of immediate data that do not come.
            recv: goal.recv().map(|(id, op)| (id, op, Status::Flushed)),
        },
    }
}
