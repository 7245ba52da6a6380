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
        if self.owes_join {
            let to = Address {
                qpn: peer_qpn,
                psn: 0,
            };
            let join = Message::Join(self.says_of_itself());
            if !served.note(env.send(protocol, to, &join)?) {
                return Ok(served);
            }
            self.owes_join = false;
        }
        if protocol.data {
            // The results of these are sent below.
            self.pull_message(env, peer_qpn, &mut served)?;
            self.expose_read(env, peer_qpn, &mut served)?;
        }
        if !self.serve_results(env, peer_qpn, &mut served)? {
            return Ok(served);
        }
        let responder = &mut self.responder;
        if responder.owes_recv {
            let recv = Word {
                qpn: peer_qpn,
                psn: responder.expected,
                says: Says::Recv,
            };
            if !env.has_recv() {
                served.starved = true;
            } else if served.note(env.word(protocol, recv)?) {
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

    /// Sends the results of requests that were carried out or refused. Returns false if there is no room
    /// for all of them now.
    fn serve_results<E: Transport>(
        &mut self,
        env: &mut E,
        peer_qpn: u32,
        served: &mut Served,
    ) -> Carried<bool> {
        let (protocol, responder) = (self.protocol, &mut self.responder);
        let word = |psn, says| Word {
            qpn: peer_qpn,
            psn,
            says,
        };
        if let Some((psn, says)) = responder.say {
            if !served.note(env.word(protocol, word(psn, says))?) {
                return Ok(false);
            }
            responder.say = None;
        }
        if let Some(psn) = responder.ack {
            if !served.note(env.word(protocol, word(psn, Says::Ack))?) {
                return Ok(false);
            }
            responder.ack = None;
        }
        if let Some((psn, message)) = &responder.answer {
            let to = Address {
                qpn: peer_qpn,
                psn: *psn,
            };
            if !served.note(env.send(protocol, to, message)?) {
                return Ok(false);
            }
            responder.answer = None;
        }
        Ok(true)
    }

    /// Sends the results that are due, as far as there is room, before [`Machine::disconnect`]: the peer's
    /// requests that were carried out are then complete there, though this end has gone.
    pub fn serve_last<E: Transport>(&mut self, env: &mut E) -> Carried<()> {
        if let Some(peer_qpn) = self.peer_qpn.filter(|_| self.joined && self.state.hears()) {
            self.serve_results(env, peer_qpn, &mut Served::default())?;
        }
        Ok(())
    }
}
