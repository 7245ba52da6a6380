// SPDX-License-Identifier: GPL-2.0

//! A message of the peer's: its data into their place, then its completion.

use super::{Goal, Long, No};
use crate::{
    mem::Rights,
    proto::{
        cqe::{Cqe, Status},
        request::Data,
    },
    queue::{
        cx::Cx,
        data::Refused,
        parts::PARTS,
        qp::{Inner, Qp},
    },
};
use kernel::prelude::*;

type Result<T, E> = core::result::Result<T, E>;

impl Qp {
    /// Puts the data of a message in their place, or begins to.
    pub(super) fn place(
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

    /// So many more bytes of a long message are in their place.
    pub(in crate::queue) fn placed(&self, inner: &mut Inner, bytes: Result<u64, Refused>) {
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
