// SPDX-License-Identifier: GPL-2.0

//! What a responder has to say, in the order in which it may be said, as far as there is room.
//!
//! It says what others have put aside, and decides nothing.

use crate::{
    proto::{
        request::{Address, Message},
        trunk::Fault,
        word::{Says, Word},
    },
    queue::{
        cx::{Cx, Farewell, Served},
        qp::{Ask, Inner, Qp},
    },
};

type Result<T, E> = core::result::Result<T, E>;

impl Qp {
    /// Says what is to be said, as far as there is room.
    pub(in crate::queue) fn respond(
        &self,
        cx: &mut Cx<'_>,
        inner: &mut Inner,
    ) -> Result<Served, Fault> {
        let mut served = Served::default();
        if inner.responder.is_idle() && !inner.owes_gone && inner.owes_join.is_none() {
            return Ok(served);
        }
        let Some(path) = inner.path else {
            return Ok(served);
        };
        let protocol = self.protocol();
        if let Some(ask) = inner.owes_join {
            let to = Address {
                qpn: path.peer_qpn,
                psn: 0,
            };
            let join = Message::Join {
                qpn: self.number(),
                protocol,
                asks: ask == Ask::Yes,
                stands: inner.standing(),
            };
            if !served.note(cx.send(protocol, to, &join)?) {
                return Ok(served);
            }
            inner.owes_join = None;
        }
        if protocol.data {
            // What is found out by it is said below.
            self.pull_named(cx, inner, path.peer_qpn, &mut served)?;
            self.offer_read(cx, inner, path.peer_qpn, &mut served)?;
        }
        let responder = &mut inner.responder;
        let word = |psn, says| Word {
            qpn: path.peer_qpn,
            psn,
            says,
        };
        if let Some((psn, says)) = responder.say {
            if !served.note(cx.word(protocol, word(psn, says))?) {
                return Ok(served);
            }
            responder.say = None;
        }
        if let Some(psn) = responder.ack {
            if !served.note(cx.word(protocol, word(psn, Says::Ack))?) {
                return Ok(served);
            }
            responder.ack = None;
        }
        if let Some((psn, message)) = &responder.answer {
            let to = Address {
                qpn: path.peer_qpn,
                psn: *psn,
            };
            if !served.note(cx.send(protocol, to, message)?) {
                return Ok(served);
            }
            responder.answer = None;
        }
        if responder.owes_recv {
            let psn = responder.expected;
            if !self.has_recv(inner) {
                served.starved = true;
            } else if served.note(cx.word(protocol, word(psn, Says::Recv))?) {
                inner.responder.owes_recv = false;
            }
        }
        if !protocol.data {
            self.lend_more(cx, inner, path.peer_qpn, &mut served)?;
        }
        if inner.owes_gone {
            let word = Farewell {
                to: path.peer_qpn,
                qpn: self.number(),
                refuses: false,
            };
            if !served.note(cx.gone(protocol, Some(self.number()), word)?) {
                return Ok(served);
            }
            inner.owes_gone = false;
        }
        Ok(served)
    }
}
