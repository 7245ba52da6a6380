// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Receives a message of the peer: copies its data to their destination, then writes its completion.

use super::{Reject, Verdict};
use crate::proto::{
    cqe::{Cqe, Status},
    qp::{
        env::{Memory, Queues, Transport},
        inbound::{Goal, Inbound},
        segment::SEGMENTS,
        Heap, Machine, Refused,
    },
    request::Data,
    tpt::Rights,
    word::Says,
};

impl<H: Heap> Machine<H> {
    /// Copies the data of a message to their destination; begins to receive them if the message is long.
    pub(super) fn place<E>(
        &mut self,
        env: &mut E,
        psn: u16,
        goal: Goal,
        data: &Data,
        imm: Option<u32>,
    ) -> Result<(), Reject>
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        let length = match data {
            Data::Inline(inline) => inline.as_bytes().len() as u64,
            Data::Eager { len, .. } => u64::from(*len),
            Data::Long(length) => *length,
        };
        let room = match &goal {
            Goal::Recv { .. } => env.recv_list().bytes(),
            Goal::Tagged { .. } => u64::MAX,
        };
        if length > room {
            return Err(Reject {
                says: Status::RemoteRequest,
                recv: goal.recv().map(|(id, op)| (id, op, Status::LocalLength)),
            });
        }
        let placed = match data {
            Data::Inline(inline) => env.write(goal.sink(env.recv_list()), inline.as_bytes()),
            Data::Eager { .. } => {
                let at = env.eager_place(data).ok_or(Status::Protocol)?;
                env.moved(length);
                env.take(goal.sink(env.recv_list()), at, length)
            }
            Data::Long(_) => return self.begin_message(env, psn, goal, length, imm),
        };
        placed.map_err(|why| rejection(&goal, why))?;
        self.received_all(env, psn, &goal, length, imm);
        Ok(())
    }

    /// Begins to receive a long message.
    fn begin_message<E: Memory<Heap = H>>(
        &mut self,
        env: &mut E,
        psn: u16,
        goal: Goal,
        length: u64,
        imm: Option<u32>,
    ) -> Result<(), Reject> {
        // Checks rights and bounds before anything is sent.
        if let Goal::Tagged { stag, to, .. } = goal {
            if !env.allows(stag, Rights::REMOTE_WRITE, to, length) {
                return Err(rejection(&goal, Refused::Denied));
            }
        }
        let message = env.inbound(Inbound {
            psn,
            goal,
            list: *env.recv_list(),
            imm,
            length,
            granted: 0,
            placed: 0,
            under_way: 0,
            segments: 0,
            named: [None; SEGMENTS],
            refused: None,
        });
        let Some(message) = message else {
            return Err(rejection(&goal, Refused::Failed));
        };
        self.responder.inbound.push(message);
        Ok(())
    }

    /// Counts bytes of the long message `psn` that are in their place, or rejects it if they could not
    /// be copied.
    pub(in crate::proto::qp) fn placed<Q: Queues>(
        &mut self,
        env: &mut Q,
        psn: u16,
        bytes: Result<u64, Refused>,
    ) {
        let Some(message) = self.responder.inbound.find(psn) else {
            return;
        };
        match bytes {
            Ok(bytes) => message.placed = message.placed.saturating_add(bytes),
            Err(why) => message.refused = Some(why),
        }
        self.settle(env);
    }

    /// Ends the long messages that are over and have none before them, and then records what the peer
    /// is to be told of a request behind them.
    pub(super) fn settle<Q: Queues>(&mut self, env: &mut Q) {
        while let Some(message) = self.responder.inbound.get_mut(0) {
            if !message.is_over() {
                return;
            }
            let Some(message) = self.responder.inbound.pop() else {
                return;
            };
            let Inbound {
                psn, length, imm, ..
            } = *message;
            match message.refused {
                None => self.received_all(env, psn, &message.goal, length, imm),
                Some(why) => self.reject(env, psn, rejection(&message.goal, why)),
            }
        }
        match self.responder.verdict.take() {
            Some((psn, Verdict::NoRecv)) => {
                self.responder.says(psn, Says::NoRecv);
                self.responder.owes_recv = true;
            }
            Some((psn, Verdict::Rejected(reject))) => self.reject(env, psn, reject),
            None => {}
        }
    }

    /// Completes a message when all its data are in their place.
    fn received_all<Q: Queues>(
        &mut self,
        env: &mut Q,
        psn: u16,
        goal: &Goal,
        length: u64,
        imm: Option<u32>,
    ) {
        if let Some((wr_id, opcode)) = goal.recv() {
            let told = env.complete_recv(&Cqe {
                wr_id,
                qpn: self.number,
                byte_len: length as u32,
                imm,
                status: Status::Success,
                opcode,
                ends: false,
            });
            if told.is_err() {
                // A message without a completion was not received.
                self.reject(env, psn, Status::RemoteOp.into());
                return;
            }
        }
        self.responder.ack = Some(psn);
    }
}

/// Returns the rejection of a message after its data could not be copied to their destination.
fn rejection(goal: &Goal, why: Refused) -> Reject {
    match goal {
        Goal::Recv { .. } => Reject {
            says: Status::RemoteOp,
            recv: goal.recv().map(|(id, op)| (id, op, Status::LocalProt)),
        },
        Goal::Tagged { .. } => Reject {
            says: why.remotely(),
            // The receive request for immediate data, which do not come.
            recv: goal.recv().map(|(id, op)| (id, op, Status::Flushed)),
        },
    }
}
