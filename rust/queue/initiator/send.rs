// SPDX-License-Identifier: GPL-2.0

//! An initiator's requests, from the send queue to the peer: which is sent next, and as what.
//!
//! Data that travel with the request are sent here; those that take parts follow it, by `pushes` and
//! `pulls`.

use super::{local, Request, Wait, WINDOW};
use crate::{
    proto::{
        cqe::Status,
        request::{Address, Data, Extents, Inline, Lane, Message, Role, INLINE_BYTES},
        trunk::Fault,
        wqe::{Opcode, SendWqe},
    },
    queue::{
        cx::{Cx, Served},
        data::INLINE,
        lent::Lease,
        parts::{Offering, Pulling},
        qp::{Inner, Qp, State},
    },
};

type Result<T, E> = core::result::Result<T, E>;

/// The longest part of a read that is asked for at once.
const MOST_READ: u64 = 256 << 10;

/// What became of an attempt.
enum Sent {
    Yes,
    /// There is no room now.
    NoRoom,
    /// Earlier requests have to be done first.
    NotYet,
    No(Status),
}

impl Qp {
    /// Sends what is there to be sent, up to `quantum` requests.
    pub(in crate::queue) fn initiate(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut Inner,
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
            let unsent = inner.initiator.sent < inner.initiator.count;
            if cx.holds {
                // Nothing tells when it does no more.
                served.blocked = unsent || self.has_send(inner);
                return Ok(served);
            }
            let goes_on = if unsent {
                self.send_next(cx, inner, &mut served)?
            } else {
                self.begin_next(cx, inner, &mut served)
            };
            if !goes_on {
                return Ok(served);
            }
        }
        served.again = true;
        Ok(served)
    }

    /// Takes a request from the send queue. False: none can be begun now.
    fn begin_next(&self, cx: &mut Cx<'_>, inner: &mut Inner, served: &mut Served) -> bool {
        if inner.initiator.held || inner.initiator.count == WINDOW || inner.state != State::Rts {
            return false;
        }
        if cx.paused || !self.has_send(inner) {
            return false;
        }
        let Ok(mut request) = cx.spares.take() else {
            served.blocked = true;
            return false;
        };
        match self.take_send(inner, &mut request.wqe) {
            Ok(Some((who, sense))) => inner.initiator.begin(&mut request, who, sense),
            Ok(None) => return false,
            Err(status) => {
                self.fail(inner, status, Status::Flushed, Status::Flushed);
                served.progress = true;
                return false;
            }
        }
        inner.initiator.push(request);
        true
    }

    /// Sends the oldest request that was not. False: none can be sent now.
    fn send_next(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut Inner,
        served: &mut Served,
    ) -> Result<bool, Fault> {
        let next = inner.initiator.sent;
        match self.transmit(cx, inner, next)? {
            Sent::Yes => {
                inner.initiator.sent += 1;
                inner.sent += 1;
                inner.touched = true;
                served.progress = true;
                let offered = self.offer_parts(cx, inner)?;
                served.blocked |= !offered;
                Ok(offered)
            }
            Sent::NoRoom => {
                served.blocked = true;
                Ok(false)
            }
            Sent::NotYet => Ok(false),
            Sent::No(status) => {
                if let Some(request) = inner.initiator.get(next) {
                    request.wait = Wait::Failed(status);
                }
                inner.initiator.sent += 1;
                inner.initiator.held = true;
                served.progress = true;
                Ok(true)
            }
        }
    }

    /// Sends request `n` of those under way.
    fn transmit(&self, cx: &mut Cx<'_>, inner: &mut Inner, n: usize) -> Result<Sent, Fault> {
        let Some(path) = inner.path else {
            return Ok(Sent::NotYet);
        };
        let epoch = inner.epoch;
        let protocol = self.protocol();
        inner.initiator.pulling = Pulling::NONE;
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
            Wait::Read { .. } => self.transmit_read(cx, to, epoch, request),
            Wait::Turn if n == 0 => Ok(Sent::Yes),
            Wait::Failed(_) => Ok(Sent::Yes),
            Wait::Turn => Ok(Sent::NotYet),
        }
    }

    /// Sends a message, with its data if they are short.
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

    /// Asks for the next part of a read.
    fn transmit_read(
        &self,
        cx: &mut Cx<'_>,
        to: Address,
        epoch: u32,
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
        let (extents, coming) = if protocol.data {
            // The peer puts them down in memory of its own.
            (Extents::NONE, wanted)
        } else {
            let Some(extents) = cx.trunk.staging.take(wanted) else {
                return Ok(Sent::NoRoom);
            };
            let lease = Lease {
                qpn: self.number(),
                peer_qpn: to.qpn,
                psn: to.psn,
                epoch,
                role: Role::Initiator,
                part: 0,
                offset: done,
                extents,
            };
            if !cx.lent.add(lease, &mut cx.trunk.staging) {
                return Ok(Sent::NoRoom);
            }
            (extents, extents.bytes())
        };
        let coming = coming as u32;
        let message = Message::Read {
            to: at,
            stag: request.wqe.remote_stag,
            length: coming,
            extents,
        };
        request.wait = Wait::Read { done, all, coming };
        // There is room.
        yes(cx.send(protocol, to, &message)?)
    }
}

fn yes(sent: bool) -> Result<Sent, Fault> {
    Ok(if sent { Sent::Yes } else { Sent::NoRoom })
}
