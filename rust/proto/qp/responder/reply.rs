// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Sends the messages and words that a responder has recorded, in the required order, as far as there is
//! room. All decisions are made elsewhere.

use crate::proto::{
    qp::{
        env::{Memory, Queues, Transport},
        Carried, Heap, Machine, Served,
    },
    request::{Address, Message},
    word::{Says, Word},
};

impl<H: Heap> Machine<H> {
    /// Sends everything that is due, as far as there is room.
    pub(in crate::proto::qp) fn serve_responder<E>(&mut self, env: &mut E) -> Carried<Served>
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        let mut served = Served::default();
        if self.responder.is_idle() && !self.owes_gone && !self.owes_join {
            return Ok(served);
        }
        let Some(peer_qpn) = self.peer_qpn else {
            return Ok(served);
        };
        let protocol = self.protocol;
        let to = |psn| Address { qpn: peer_qpn, psn };
        let word = |psn, says| Word {
            qpn: peer_qpn,
            psn,
            says,
        };
        if self.owes_join {
            let join = Message::Join(self.says_of_itself());
            if !served.note(env.send(protocol, to(0), &join)?) {
                return Ok(served);
            }
            self.owes_join = false;
        }
        if protocol.data {
            // The results of these are sent below.
            self.pull_message(env, peer_qpn, &mut served)?;
            self.expose_read(env, peer_qpn, &mut served)?;
        }
        let responder = &mut self.responder;
        if let Some((psn, says)) = responder.say {
            if !served.note(env.word(protocol, word(psn, says))?) {
                return Ok(served);
            }
            responder.say = None;
        }
        if let Some(psn) = responder.ack {
            if !served.note(env.word(protocol, word(psn, Says::Ack))?) {
                return Ok(served);
            }
            responder.ack = None;
        }
        if let Some((psn, message)) = &responder.answer {
            if !served.note(env.send(protocol, to(*psn), message)?) {
                return Ok(served);
            }
            responder.answer = None;
        }
        if responder.owes_recv {
            if !env.has_recv() {
                served.starved = true;
            } else if served.note(env.word(protocol, word(responder.expected, Says::Recv))?) {
                responder.owes_recv = false;
            }
        }
        if !protocol.data {
            self.grant_more(env, peer_qpn, &mut served)?;
        }
        if let Some(what) = self.ends(false).filter(|_| self.owes_gone) {
            if !served.note(env.disconnect(protocol, self.number, what)?) {
                return Ok(served);
            }
            self.owes_gone = false;
        }
        Ok(served)
    }
}
