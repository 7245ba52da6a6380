// SPDX-License-Identifier: GPL-2.0

//! Data that are pulled, at both ends of a queue pair: who has them puts them down in its own trunk,
//! part by part, and who wants them reads them over the bridge.
//!
//! What the peer has put down is not read when it says so, but in the queue pair's turn: so nothing in
//! a FIFO waits for it, and what the bridge has not brought is read again.

use super::{
    cx::{Cx, Served},
    data::{spread, Sink},
    initiator::{local, Wait},
    lent::{part, Lease},
    parts::{done, Offering, Parts, Pulling, MOST_PART, PARTS},
    qp::{Inner, Qp},
};
use crate::{
    mem::Rights,
    proto::{
        cqe::Status,
        request::{Address, Extents, Lane, Message, Part, Role},
        trunk::Fault,
        wqe::Tail,
    },
};

type Result<T, E> = core::result::Result<T, E>;

/// Keeps what the peer has named, if it is the next part that there can be and has at most `left`
/// bytes; returns how many.
fn keep(parts: &mut Parts, next: Part, left: u64, part: Part, extents: Extents) -> Option<u64> {
    let bytes = extents.bytes();
    if part != next || bytes == 0 || bytes > left {
        return None;
    }
    *parts.iter_mut().find(|free| free.is_none())? = Some((part, extents));
    Some(bytes)
}

/// A part that is to be put down.
struct Next {
    role: Role,
    peer_qpn: u32,
    psn: u16,
    epoch: u32,
    /// Bytes of all of it.
    length: u64,
}

impl Next {
    /// The message that names it.
    fn offer(&self, part: Part, extents: Extents) -> (Address, Message) {
        let to = match self.role {
            Role::Initiator => Role::Responder,
            Role::Responder => Role::Initiator,
        };
        let address = Address {
            qpn: self.peer_qpn,
            psn: self.psn,
        };
        (address, Message::Offer { to, part, extents })
    }
}

impl Qp {
    /// Puts down what there is room for, part by part, by `put`: from an offset on into extents of the
    /// own arena. False: there is no room now.
    fn offer(
        &self,
        cx: &mut Cx<'_>,
        next: &Next,
        offering: &mut Offering,
        put: impl Fn(&Cx<'_>, u64, &Extents) -> Result<(), Status>,
    ) -> Result<Result<bool, Status>, Fault> {
        let protocol = self.protocol();
        let lane = match next.role {
            Role::Initiator => protocol.requests(Lane::Transmit),
            Role::Responder => Lane::Transmit,
        };
        while offering.offered < next.length && offering.out < PARTS {
            if !cx.has_room(lane)? {
                return Ok(Ok(false));
            }
            let wanted = (next.length - offering.offered).min(MOST_PART);
            let Some(extents) = cx.trunk.staging.take(wanted) else {
                // There is some again when another transfer ends.
                return Ok(Ok(false));
            };
            cx.moved(extents.bytes());
            if let Err(why) = put(cx, offering.offered, &extents) {
                cx.trunk.staging.give(&extents);
                return Ok(Err(why));
            }
            let lease = Lease {
                qpn: self.number(),
                peer_qpn: next.peer_qpn,
                psn: next.psn,
                epoch: next.epoch,
                role: next.role,
                part: part(offering.parts),
                offset: offering.offered,
                extents,
            };
            if !cx.lent.add(lease, &mut cx.trunk.staging) {
                return Ok(Ok(false));
            }
            let part = Part {
                number: offering.parts,
                offset: offering.offered,
            };
            let (to, message) = next.offer(part, extents);
            // There is room.
            cx.send(protocol, to, &message)?;
            offering.offered += extents.bytes();
            offering.parts += 1;
            offering.out += 1;
        }
        Ok(Ok(true))
    }

    /// Of an initiator: puts down data of the last request. False: there is no room now.
    pub(super) fn offer_parts(&self, cx: &mut Cx<'_>, inner: &mut Inner) -> Result<bool, Fault> {
        let epoch = inner.epoch;
        let initiator = &mut inner.initiator;
        let (Some(path), Some(last)) = (inner.path, initiator.count.checked_sub(1)) else {
            return Ok(true);
        };
        if initiator.sent <= last {
            return Ok(true);
        }
        let Some(request) = initiator.get(last) else {
            return Ok(true);
        };
        let Wait::Offered(mut offering) = request.wait else {
            return Ok(true);
        };
        let source = self.source(cx, &request.wqe.tail);
        let next = Next {
            role: Role::Initiator,
            peer_qpn: path.peer_qpn,
            psn: request.psn as u16,
            epoch,
            length: request.wqe.tail.bytes(),
        };
        let offered = self.offer(cx, &next, &mut offering, |cx, offset, extents| {
            let spread = source.spread(cx.io.arena, offset, extents);
            spread.map_err(local)
        })?;
        request.wait = Wait::Offered(offering);
        match offered {
            Ok(all) => Ok(all),
            Err(status) => {
                self.fail(inner, status, status, Status::Flushed);
                Ok(true)
            }
        }
    }

    /// Of an initiator: the peer has read a part of a request.
    pub(super) fn part_was_pulled(&self, inner: &mut Inner, lease: &Lease) {
        let initiator = &mut inner.initiator;
        let Some(n) = initiator.find(lease.psn) else {
            return;
        };
        if let Some(request) = initiator.get(n) {
            if let Wait::Offered(offering) = &mut request.wait {
                offering.out = offering.out.saturating_sub(1);
            }
        }
    }

    /// Of a responder: the peer has put down a part of a long message.
    pub(super) fn part_is_offered(
        &self,
        inner: &mut Inner,
        psn: u16,
        part: Part,
        extents: Extents,
    ) {
        let responder = &mut inner.responder;
        let Some(long) = responder.long.as_mut().filter(|long| long.psn == psn) else {
            // Of a request that was dropped.
            if !responder.drops {
                self.violated(inner);
            }
            return;
        };
        let next = Part {
            number: long.parts,
            offset: long.lent,
        };
        let left = long.length - long.lent;
        match keep(&mut long.named, next, left, part, extents) {
            Some(bytes) => {
                long.lent += bytes;
                long.parts += 1;
            }
            None => self.violated(inner),
        }
    }

    /// Of a responder: reads what the peer has put down of a long message.
    pub(super) fn pull_named(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut Inner,
        peer_qpn: u32,
        served: &mut Served,
    ) -> Result<(), Fault> {
        for n in 0..PARTS {
            let Some(long) = inner.responder.long.as_mut() else {
                return Ok(());
            };
            let Some((part, extents)) = long.named.get(n).copied().flatten() else {
                continue;
            };
            if !cx.may_say(self.protocol())? {
                served.blocked = true;
                return Ok(());
            }
            let sink = long.goal.sink();
            let placed = match cx.pull(&sink, &self.made.pd, part.offset, &extents) {
                Ok(true) => {
                    let word = done(Role::Initiator, peer_qpn, long.psn, part.number);
                    // There is room.
                    cx.word(self.protocol(), word)?;
                    Ok(extents.bytes())
                }
                Ok(false) => {
                    served.blocked = true;
                    return Ok(());
                }
                Err(why) => Err(why),
            };
            if let Some(place) = long.named.get_mut(n) {
                *place = None;
            }
            served.progress = true;
            self.placed(inner, placed);
        }
        Ok(())
    }

    /// Of a responder: puts down data that are read.
    pub(super) fn offer_read(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut Inner,
        peer_qpn: u32,
        served: &mut Served,
    ) -> Result<(), Fault> {
        let Some(mut reading) = inner.responder.reading else {
            return Ok(());
        };
        let next = Next {
            role: Role::Responder,
            peer_qpn,
            psn: reading.psn,
            epoch: inner.epoch,
            length: reading.length,
        };
        let before = reading.offering.parts;
        let offered = self.offer(cx, &next, &mut reading.offering, |cx, offset, extents| {
            // The bounds of all of it were checked; what is there may be gone since.
            let access = reading
                .to
                .checked_add(offset)
                .ok_or(Status::RemoteAccess)
                .and_then(|to| {
                    cx.memory
                        .access(
                            &self.made.pd,
                            reading.stag,
                            Rights::REMOTE_READ,
                            to,
                            extents.bytes(),
                        )
                        .map_err(|_| Status::RemoteAccess)
                })?;
            spread(&access, cx.io.arena, extents, extents.bytes()).map_err(|_| Status::RemoteOp)
        })?;
        served.progress |= reading.offering.parts != before;
        match offered {
            Ok(all) => {
                served.blocked |= !all;
                let ends = reading.offering.offered == reading.length;
                inner.responder.reading = (!ends).then_some(reading);
            }
            Err(status) => {
                inner.responder.reading = None;
                self.refuse(inner, reading.psn, status.into());
            }
        }
        Ok(())
    }

    /// Of a responder: the peer has read a part of what it reads.
    pub(super) fn read_was_pulled(&self, inner: &mut Inner, lease: &Lease) {
        if let Some(reading) = &mut inner.responder.reading {
            if reading.psn == lease.psn {
                reading.offering.out = reading.offering.out.saturating_sub(1);
            }
        }
    }

    /// Of an initiator: the peer has put down a part of what is read.
    pub(super) fn read_is_offered(
        &self,
        inner: &mut Inner,
        psn: u16,
        part: Part,
        extents: Extents,
    ) {
        let initiator = &mut inner.initiator;
        let n = initiator.find(psn);
        let wait = n.and_then(|n| initiator.get(n)).map(|read| read.wait);
        let pulling = &mut initiator.pulling;
        let kept = match wait {
            Some(Wait::Read { coming, .. }) => {
                let next = Part {
                    number: pulling.parts,
                    offset: pulling.named,
                };
                let left = u64::from(coming).saturating_sub(pulling.named);
                keep(&mut initiator.parts, next, left, part, extents)
            }
            _ => None,
        };
        match kept {
            Some(bytes) => {
                pulling.named += bytes;
                pulling.parts += 1;
            }
            None => self.violated(inner),
        }
    }

    /// Of an initiator: reads what the peer has put down. False: that is not possible now.
    pub(super) fn pull_parts(&self, cx: &mut Cx<'_>, inner: &mut Inner) -> Result<bool, Fault> {
        for n in 0..PARTS {
            let initiator = &mut inner.initiator;
            let Some((part, extents)) = initiator.parts.get(n).copied().flatten() else {
                continue;
            };
            let (Some(path), Some(last)) = (inner.path, initiator.count.checked_sub(1)) else {
                continue;
            };
            if !cx.has_word_room()? {
                return Ok(false);
            }
            let pulling = initiator.pulling;
            let Some(request) = initiator.get(last) else {
                continue;
            };
            let psn = request.psn as u16;
            let Wait::Read {
                done: before,
                all,
                coming,
            } = request.wait
            else {
                continue;
            };
            let Tail::List(list) = &request.wqe.tail else {
                continue;
            };
            let sink = Sink::List(list);
            match cx.pull(&sink, &self.made.pd, before + part.offset, &extents) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => {
                    request.wait = Wait::Failed(local(why));
                    return Ok(true);
                }
            }
            let pulled = pulling.done + extents.bytes();
            if pulled == u64::from(coming) {
                let now = before + pulled;
                request.wait = Wait::Read {
                    done: now,
                    all,
                    coming: 0,
                };
                request.byte_len = now as u32;
                initiator.acked(psn, true);
                initiator.pulling = Pulling::NONE;
            } else {
                initiator.pulling.done = pulled;
            }
            if let Some(place) = initiator.parts.get_mut(n) {
                *place = None;
            }
            let word = done(Role::Responder, path.peer_qpn, psn, part.number);
            // There is room.
            cx.word(self.protocol(), word)?;
        }
        Ok(true)
    }
}
