// SPDX-License-Identifier: GPL-2.0

//! What the peer says of an initiator's requests, and what becomes of them by it.
//!
//! Nothing is completed here: that is done in order, in `completion`.

use super::{local, Initiator, Wait};
use crate::{
    proto::{cqe::Status, request::Message, word::Says, wqe::Tail},
    queue::{
        cx::Cx,
        data::{Refused, Sink},
        parts::{Offering, PARTS},
        qp::{Inner, Qp},
    },
};

impl Qp {
    /// A word has come for a request.
    pub(in crate::queue) fn told(&self, cx: &mut Cx<'_>, inner: &mut Inner, psn: u16, says: Says) {
        let initiator = &mut inner.initiator;
        let known = match says {
            // An answer that went by another way may have told of it before.
            Says::Ack => initiator.acked(psn, true) || initiator.is_past(psn),
            Says::Nak(status) => {
                let known = initiator.acked(psn, false);
                if known {
                    if let Some(n) = initiator.find(psn) {
                        if let Some(request) = initiator.get(n) {
                            request.wait = Wait::Failed(status);
                        }
                    }
                }
                known
            }
            Says::NoRecv => {
                let known = initiator.acked(psn, false);
                if let Some(n) = initiator.find(psn) {
                    initiator.sent = n;
                    initiator.starved = true;
                    initiator.parts = [None; PARTS];
                    self.take_back(cx, initiator);
                }
                known
            }
            Says::Recv => core::mem::replace(&mut initiator.starved, false),
            // Found by what was lent.
            Says::Done { .. } => false,
        };
        if !known {
            self.violated(inner);
        }
    }

    /// An answer has come: the old value of an atomic, or the size of what is to be read.
    pub(in crate::queue) fn answered(
        &self,
        cx: &Cx<'_>,
        inner: &mut Inner,
        psn: u16,
        message: &Message,
    ) {
        let next_psn = inner.initiator.next_psn;
        let initiator = &mut inner.initiator;
        let n = initiator.find(psn);
        initiator.acked(psn, true);
        let request = n.and_then(|n| initiator.get(n));
        let fits = match (request, message) {
            (Some(request), Message::Value { old }) if matches!(request.wait, Wait::Value) => {
                let written = match &request.wqe.tail {
                    Tail::List(sgl) => {
                        let sink = Sink::List(sgl);
                        sink.write(cx.memory, &self.made.pd, 0, &old.to_ne_bytes())
                    }
                    Tail::Inline(..) => Err(Refused::Failed),
                };
                request.byte_len = 8;
                request.wait = match written {
                    Ok(()) => Wait::Ack,
                    Err(why) => Wait::Failed(local(why)),
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
                        initiator.next_psn = next_psn.wrapping_add(1);
                        initiator.sent -= 1;
                    }
                }
                true
            }
            _ => false,
        };
        if !fits {
            self.violated(inner);
        }
    }

    /// Of the last request, which the peer has dropped, the memory: nobody writes or reads there.
    fn take_back(&self, cx: &mut Cx<'_>, initiator: &mut Initiator) {
        let Some(last) = initiator.count.checked_sub(1) else {
            return;
        };
        let Some(request) = initiator.get(last) else {
            return;
        };
        match &mut request.wait {
            Wait::Read { coming, .. } => *coming = 0,
            Wait::Offered(offering) => *offering = Offering::default(),
            _ => return,
        }
        let psn = request.psn as u16;
        cx.lent.dropped(self.number(), psn, &mut cx.trunk.staging);
    }
}
