// SPDX-License-Identifier: GPL-2.0

//! Data that are pushed, at both ends of a queue pair: who wants them lends memory of its own trunk,
//! part by part, and who has them writes them there, by stores or by the port's DMA engine.
//!
//! What was written is told of by DONE, behind the data. Requests that ask for it are in `initiator` and
//! `responder`; data that are pulled instead are in `pulls`.

use super::{
    cx::{Cx, Served},
    data::{spread, Sink},
    initiator::{local, Wait},
    lent::{self, Lease},
    moving::{Load, Not, What, WORTHWHILE},
    parts::{done, MOST_PART, PARTS},
    qp::{Inner, Qp},
    responder::{No, Reading},
};
use crate::{
    hw::Moved,
    mem::Rights,
    proto::{
        cqe::Status,
        request::{Address, Extents, Lane, Message, Part, Role},
        trunk::Fault,
        word::{Says, Word},
        wqe::Tail,
    },
};

type Result<T, E> = core::result::Result<T, E>;

/// What it costs to have the mover move a part, in bytes that the CPU would.
const MOVER_COST: u64 = 4 << 10;
/// What the peer is told when it has all that it has asked for.
const READ: Says = Says::Done {
    to: Role::Initiator,
    part: 0,
};

impl Qp {
    /// Of an initiator: the peer has lent memory for a part of a message.
    pub(super) fn lend(&self, inner: &mut Inner, psn: u16, part: Part, extents: Extents) {
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

    /// Of an initiator: puts data into what the peer has lent. False: there is no room to say so.
    pub(super) fn put_parts(&self, cx: &mut Cx<'_>, inner: &mut Inner) -> Result<bool, Fault> {
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
                part: lent::part(part.number),
            };
            let begun = match cx.io.mover().filter(|_| extents.bytes() >= WORTHWHILE) {
                Some(mover) => Load::of_source(&source, part.offset, &extents)
                    .and_then(|load| cx.trunk.moving.begin(mover, load, &extents, what)),
                None => Err(Not::Ever),
            };
            let (cost, put) = match begun {
                Ok(()) => (MOVER_COST, Ok(())),
                Err(Not::Ever) => {
                    let put = source.spread(cx.io.window, part.offset, &extents);
                    (extents.bytes(), put)
                }
                Err(Not::Now) => return Ok(false),
                Err(Not::Refused(why)) => (0, Err(why)),
            };
            cx.moved(cost);
            if let Err(why) = put {
                let status = local(why);
                self.fail(inner, status, status, Status::Flushed);
                return Ok(true);
            }
            if let Some(place) = inner.initiator.parts.get_mut(n) {
                *place = None;
            }
            if begun.is_err() {
                // There is room. What the mover does is told of when it is done.
                let word = done(Role::Responder, path.peer_qpn, psn, part.number);
                cx.word(self.protocol(), word)?;
            }
        }
        Ok(true)
    }

    /// Of an initiator: the data of a part have been moved; what the peer is to be told.
    pub(super) fn part_moved(
        &self,
        inner: &mut Inner,
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
        Some(done(Role::Responder, path.peer_qpn, psn, part.into()))
    }

    /// Of a responder: lends memory for what is missing of a long message.
    pub(super) fn lend_more(
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
                part: lent::part(long.parts),
                offset: long.lent,
                extents,
            };
            if !cx.lent.add(lease, &mut cx.trunk.staging) {
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

    /// Of a responder: data of a part of a long message have come.
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

    /// Of an initiator: data that were read have come.
    pub(super) fn read_done(&self, cx: &Cx<'_>, inner: &mut Inner, lease: &Lease) {
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

    /// Of a responder: moves what is read into what the peer has lent for it, or begins to.
    pub(super) fn answer_read(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut Inner,
        read: &Reading,
        extents: &Extents,
    ) -> Result<(), No> {
        let open = || {
            let (need, pd) = (Rights::REMOTE_READ, &self.made.pd);
            let access = cx.memory.access(pd, read.stag, need, read.to, read.length);
            access.map_err(|_| Status::RemoteAccess)
        };
        if read.length >= WORTHWHILE && !self.protocol().cqe {
            if let Some(mover) = cx.io.mover() {
                let what = What::Answer {
                    qpn: self.number(),
                    epoch: inner.epoch,
                    psn: read.psn,
                };
                if let Ok(load) = Load::of_access(open()?, extents) {
                    if cx.trunk.moving.begin(mover, load, extents, what).is_ok() {
                        inner.responder.moving = true;
                        return Ok(());
                    }
                }
            }
        }
        // Nothing waits here: where there is no room, the CPU does it.
        cx.moved(read.length);
        spread(&open()?, cx.io.window, extents, read.length).map_err(|_| Status::RemoteOp)?;
        inner.responder.says(read.psn, READ);
        Ok(())
    }

    /// Of a responder: what a request reads has been moved; what the peer is to be told, before it may send
    /// another.
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
}
