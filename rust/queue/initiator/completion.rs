// SPDX-License-Identifier: GPL-2.0

//! The end of an initiator's requests: each in its turn, in the order in which they were posted.

use super::Wait;
use crate::{
    proto::{
        cqe::{Cqe, Status},
        trunk::Fault,
        wqe::{Opcode, SendWqe},
    },
    queue::{
        cx::{Cx, Served},
        qp::{Inner, Qp},
    },
};

type Result<T, E> = core::result::Result<T, E>;

impl Qp {
    /// Completes what is done, in order.
    pub(in crate::queue) fn finish(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut Inner,
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
    fn here(&self, cx: &Cx<'_>, wqe: &SendWqe) -> Result<bool, Status> {
        match wqe.opcode {
            Opcode::BindMw => cx.bind(&self.made.pd, wqe),
            _ => cx.invalidate(&self.made.pd, wqe.remote_stag),
        }
    }
}
