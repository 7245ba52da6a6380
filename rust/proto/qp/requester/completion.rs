// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completes requests in the order in which they were posted.

use super::Wait;
use crate::proto::{
    cqe::{Cqe, Status},
    qp::{
        env::{Memory, Queues},
        Heap, Machine, Served,
    },
    wqe::{Opcode, SendWqe},
};

impl<H: Heap> Machine<H> {
    /// Completes requests that are done, in order.
    pub(in crate::proto::qp) fn finish<E>(&mut self, env: &mut E, served: &mut Served)
    where
        E: Memory<Heap = H> + Queues,
    {
        while self.requester.sent > 0 {
            let next_psn = self.requester.next_psn;
            let Some(request) = self.requester.get_mut(0) else {
                break;
            };
            match request.wait {
                Wait::Failed(status) => {
                    self.fail(env, status, status, Status::Flushed);
                    served.progress = true;
                    break;
                }
                Wait::Turn => match here(env, &request.wqe) {
                    Ok(true) => {}
                    Ok(false) => {
                        served.blocked = true;
                        break;
                    }
                    Err(status) => {
                        self.fail(env, status, status, Status::Flushed);
                        break;
                    }
                },
                Wait::Read {
                    done,
                    all,
                    coming: 0,
                } if done < all => {
                    // The next part is sent with its own number.
                    request.psn = next_psn;
                    request.acked = false;
                    self.requester.next_psn = next_psn.wrapping_add(1);
                    self.requester.sent = 0;
                    break;
                }
                _ if !request.is_done() => break,
                _ => {}
            }
            served.progress = true;
            let Some(request) = self.requester.pop() else {
                break;
            };
            let wqe = &request.wqe;
            if wqe.signaled {
                let byte_len = if wqe.opcode.reads_list() {
                    wqe.tail.bytes() as u32
                } else {
                    request.byte_len
                };
                let told = env.complete_send(&Cqe {
                    wr_id: wqe.wr_id,
                    qpn: self.number,
                    byte_len,
                    imm: (wqe.opcode == Opcode::LocalInv).then_some(wqe.remote_stag),
                    status: Status::Success,
                    opcode: request.opcode,
                    ends: false,
                });
                if told.is_err() {
                    self.overrun(env);
                }
            }
            env.recycle(request);
        }
    }
}

/// Carries out a request that concerns this end only. Returns false if it is to be retried.
fn here<E: Memory>(env: &E, wqe: &SendWqe) -> Result<bool, Status> {
    match wqe.opcode {
        Opcode::BindMw => env.bind(wqe),
        _ => env.invalidate(wqe.remote_stag),
    }
}
