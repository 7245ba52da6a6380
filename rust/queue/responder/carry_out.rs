// SPDX-License-Identifier: GPL-2.0

//! A request of the peer's, carried out, begun or refused.
//!
//! It must not know by which way it has come, nor when the peer is told of it.

use super::{Goal, No, Reading};
use crate::{
    mem::{Access, Rights},
    proto::{
        cqe::{Cqe, Status},
        request::Message,
        word::Says,
        wqe::{RecvWqe, OP_RECV},
    },
    queue::{
        cx::Cx,
        parts::Offering,
        qp::{Inner, Qp},
    },
    sys::ext,
};
use kernel::prelude::Error;

type Result<T, E> = core::result::Result<T, E>;

impl Qp {
    /// A request has come. It is done with when this returns.
    pub(in crate::queue) fn requested(
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
            responder.says(psn, Says::NoRecv);
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

    /// Does what a request asks for, or begins to; the answer, if any, is put aside.
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
                let swap = |access: &Access| access.compare_swap(expected, new);
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
                let length = u64::from(length);
                let read = Reading {
                    psn,
                    stag,
                    to,
                    length,
                    offering: Offering::default(),
                };
                if !self.protocol().data {
                    return self.answer_read(cx, inner, &read, extents);
                }
                // Rights and bounds, before anything is put down.
                cx.memory
                    .access(&self.made.pd, stag, Rights::REMOTE_READ, to, length)
                    .map_err(|_| Status::RemoteAccess)?;
                inner.responder.reading = Some(read);
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

    /// Whether the queue pair lets the peer do this at all.
    fn may(&self, inner: &Inner, right: u32) -> Result<(), No> {
        if inner.access & right == 0 {
            return Err(Status::RemoteRequest.into());
        }
        Ok(())
    }

    /// Does an atomic operation; returns the old value.
    fn atomic(
        &self,
        cx: &Cx<'_>,
        inner: &Inner,
        stag: u32,
        to: u64,
        f: impl FnOnce(&Access) -> Result<u64, Error>,
    ) -> Result<u64, No> {
        self.may(inner, ext::WEFT_ACCESS_REMOTE_ATOMIC)?;
        let access = cx
            .memory
            .access(&self.made.pd, stag, Rights::REMOTE_ATOMIC, to, 8)
            .map_err(|_| Status::RemoteAccess)?;
        f(&access).map_err(|_| Status::RemoteOp.into())
    }

    /// Says no, and goes to ERR.
    pub(in crate::queue) fn refuse(&self, inner: &mut Inner, psn: u16, no: No) {
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
        inner.responder.says(psn, Says::Nak(no.says));
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
