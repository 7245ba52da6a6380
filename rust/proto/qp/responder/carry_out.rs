// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Carries out, begins or rejects a request of the peer.
//!
//! This file is independent of the lane of the request, and of when the peer is told the result.

use super::{Reject, Verdict};
use crate::proto::{
    cqe::Status,
    qp::{
        env::{AtomicOp, Memory, Queues, Transport},
        inbound::{Goal, Reading},
        segment::Exposed,
        Heap, Machine, Refused,
    },
    request::Message,
    tpt::Rights,
    word::Says,
    wqe::OP_RECV,
};

impl<H: Heap> Machine<H> {
    /// Handles a request. When this returns, its cell is not needed any more.
    pub(in crate::proto::qp) fn requested<E>(&mut self, env: &mut E, psn: u16, message: &Message)
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        if let Some((_, Verdict::Rejected(_))) = self.responder.verdict {
            // The peer does not know yet that a request before this one was rejected.
            return;
        }
        if psn != self.responder.expected {
            if !self.responder.drops {
                self.violated(env);
            }
            return;
        }
        let long = !self.protocol.data && message.is_long();
        // The peer sends a request again only when it was told that it found no receive request.
        if self.responder.verdict.is_some() || !self.responder.may_begin(long) {
            self.violated(env);
            return;
        }
        let recv = if message.takes_recv() {
            env.take_recv()
        } else {
            None
        };
        let responder = &mut self.responder;
        if message.takes_recv() && recv.is_none() {
            responder.drops = true;
            responder.verdict = Some((psn, Verdict::NoRecv));
            return self.settle(env);
        }
        responder.drops = false;
        responder.owes_recv = false;
        responder.expected = psn.wrapping_add(1);
        self.received += 1;
        self.touched = true;
        let taken = recv.map(|(wr_id, _)| wr_id);
        if let Err(mut reject) = self.carry_out(env, psn, message, recv) {
            let flushed = |wr_id| (wr_id, OP_RECV, Status::Flushed);
            reject.recv = reject.recv.or(taken.map(flushed));
            self.responder.verdict = Some((psn, Verdict::Rejected(reject)));
            self.settle(env);
        }
    }

    /// Carries out a request, or begins to; records the answer, if any.
    fn carry_out<E>(
        &mut self,
        env: &mut E,
        psn: u16,
        message: &Message,
        recv: Option<Recv>,
    ) -> Result<(), Reject>
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        match *message {
            Message::Send { ref data, imm } => {
                let goal = recv_goal(recv)?;
                self.place(env, psn, goal, data, imm)
            }
            Message::Write {
                ref data,
                to,
                stag,
                imm,
            } => {
                self.may(Rights::REMOTE_WRITE)?;
                let recv = recv.map(|(wr_id, _)| wr_id);
                let goal = Goal::Tagged { stag, to, recv };
                self.place(env, psn, goal, data, imm)
            }
            Message::Size { to, stag } => {
                self.may(Rights::REMOTE_READ)?;
                let length = env.size_from(stag, to).ok_or(Status::RemoteAccess)?;
                self.responder.answer = Some((psn, Message::SizeIs { length }));
                Ok(())
            }
            Message::FetchAdd { to, stag, add } => {
                self.atomic(env, psn, stag, to, AtomicOp::FetchAdd(add))
            }
            Message::CmpSwap {
                to,
                stag,
                expected,
                new,
            } => self.atomic(env, psn, stag, to, AtomicOp::CompareSwap(expected, new)),
            Message::Read {
                to,
                stag,
                length,
                ref extents,
            } => {
                self.may(Rights::REMOTE_READ)?;
                let length = u64::from(length);
                let read = Reading {
                    psn,
                    stag,
                    to,
                    length,
                    exposed: Exposed::default(),
                };
                if !self.protocol.data {
                    return self.answer_read(env, &read, extents);
                }
                // Checks rights and bounds before anything is posted.
                if !env.allows(stag, Rights::REMOTE_READ, to, length) {
                    return Err(Status::RemoteAccess.into());
                }
                self.responder.reading = Some(read);
                Ok(())
            }
            // These are not requests.
            Message::SizeIs { .. }
            | Message::Value { .. }
            | Message::Gone(_)
            | Message::Join(_)
            | Message::Lend { .. }
            | Message::Socket(_)
            | Message::Offer { .. } => Err(Status::Protocol.into()),
        }
    }

    /// Checks whether the queue pair allows the peer this kind of access.
    fn may(&self, right: Rights) -> Result<(), Reject> {
        if self.access & right.bits() == 0 {
            return Err(Status::RemoteRequest.into());
        }
        Ok(())
    }

    /// Does an atomic operation, and records the old value as the answer.
    fn atomic<E: Memory>(
        &mut self,
        env: &E,
        psn: u16,
        stag: u32,
        to: u64,
        op: AtomicOp,
    ) -> Result<(), Reject> {
        self.may(Rights::REMOTE_ATOMIC)?;
        let old = env.atomic(stag, to, op).map_err(Refused::remotely)?;
        self.responder.answer = Some((psn, Message::Value { old }));
        Ok(())
    }

    /// Tells the peer that its request is not carried out, and goes to ERR.
    pub(in crate::proto::qp) fn reject<Q: Queues>(
        &mut self,
        env: &mut Q,
        psn: u16,
        reject: Reject,
    ) {
        if let Some((wr_id, opcode, status)) = reject.recv {
            // A completion without room is lost: the queue pair goes to ERR in any case.
            let cqe = self.without_success(wr_id, opcode, status);
            let _ = env.complete_recv(&cqe);
        }
        self.fail(env, reject.says, Status::Flushed, Status::Flushed);
        self.responder.says(psn, Says::Nak(reject.says));
    }
}

/// A receive request that was taken, as [`Memory::take_recv`] returns it.
type Recv = (u64, Result<(), Status>);

/// Returns the destination of a SEND.
fn recv_goal(recv: Option<Recv>) -> Result<Goal, Reject> {
    match recv {
        Some((wr_id, Ok(()))) => Ok(Goal::Recv { wr_id }),
        Some((wr_id, Err(status))) => Err(Reject {
            says: Status::RemoteOp,
            recv: Some((wr_id, OP_RECV, status)),
        }),
        // The caller has taken one.
        None => Err(Status::RemoteOp.into()),
    }
}
