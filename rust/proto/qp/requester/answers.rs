// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Handles the peer's answers to requests of this end.
//!
//! Requests are not completed here, but in order, in `completion`.

use super::{Rnr, Wait};
use crate::proto::{
    cqe::Status,
    qp::{
        env::{Memory, Queues, Transport},
        segment::Exposed,
        Heap, Machine, Refused, Sink,
    },
    request::Message,
    word::Says,
    wqe::Tail,
};

impl<H: Heap> Machine<H> {
    /// Handles a word for a request.
    pub(in crate::proto::qp) fn told<E>(&mut self, env: &mut E, psn: u16, says: Says)
    where
        E: Transport + Queues,
    {
        let requester = &mut self.requester;
        let known = match says {
            // An answer in another FIFO may have acknowledged it before.
            Says::Ack => requester.acked(psn, true) || requester.is_past(psn),
            Says::Nak(status) => {
                let known = requester.acked(psn, false);
                if known {
                    requester.refused = true;
                    if let Some(n) = requester.find(psn) {
                        if let Some(request) = requester.get_mut(n) {
                            request.wait = Wait::Failed(status);
                        }
                    }
                }
                known
            }
            Says::NoRecv => {
                let known = requester.acked(psn, false);
                if let Some(n) = requester.find(psn) {
                    requester.go_back(n);
                    requester.rnr = Rnr::Waits;
                    self.revoke(env);
                }
                known
            }
            Says::Recv => {
                let known = requester.rnr == Rnr::Waits;
                if known {
                    requester.rnr = Rnr::Over;
                }
                known
            }
            // DONE is handled by its lease.
            Says::Done { .. } => false,
        };
        if !known {
            self.violated(env);
        }
    }

    /// Handles an answer: the old value of an atomic, or the size of the memory to be read.
    pub(in crate::proto::qp) fn answered<E>(&mut self, env: &mut E, psn: u16, message: &Message)
    where
        E: Memory<Heap = H> + Queues,
    {
        let requester = &mut self.requester;
        let next_psn = requester.next_psn;
        let n = requester.find(psn);
        requester.acked(psn, true);
        let request = n.and_then(|n| requester.get_mut(n));
        let fits = match (request, message) {
            (Some(request), Message::Value { old }) if matches!(request.wait, Wait::Value) => {
                let written = match &request.wqe.tail {
                    Tail::List(list) => env.write(Sink::List(list), &old.to_ne_bytes()),
                    Tail::Inline(..) => Err(Refused::Failed),
                };
                request.byte_len = 8;
                request.wait = match written {
                    Ok(()) => Wait::Ack,
                    Err(why) => Wait::Failed(why.locally()),
                };
                true
            }
            (Some(request), Message::SizeIs { length }) if matches!(request.wait, Wait::Size) => {
                if *length > request.wqe.tail.bytes() {
                    request.wait = Wait::Failed(Status::LocalLength);
                } else {
                    request.psn = next_psn;
                    request.wait = Wait::Read {
                        done: 0,
                        all: *length,
                        coming: 0,
                    };
                    if *length > 0 {
                        requester.next_psn = next_psn.wrapping_add(1);
                        requester.sent -= 1;
                    }
                }
                true
            }
            _ => false,
        };
        if !fits {
            self.violated(env);
        }
    }

    /// Revokes the memory of the last request, which the peer has dropped: the peer does not access it.
    fn revoke<E: Transport>(&mut self, env: &mut E) {
        let number = self.number;
        let Some(last) = self.requester.last() else {
            return;
        };
        let Some(request) = self.requester.get_mut(last) else {
            return;
        };
        match &mut request.wait {
            Wait::Read { coming, .. } => *coming = 0,
            Wait::Exposed(exposed) => *exposed = Exposed::default(),
            _ => return,
        }
        env.buffers().revoke(number, request.psn as u16);
    }
}
