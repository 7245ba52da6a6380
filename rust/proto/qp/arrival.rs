// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a queue pair is given: what has come for it, and its turn.

use super::{
    env::{Memory, Queues, Transport},
    lease::Lease,
    Carried, Heap, Machine, Served, State,
};
use crate::proto::{
    fifo::Arrived,
    request::{Message, Role},
    word::Word,
};

/// Requests of a queue that are ended in one turn, in ERR.
pub const FLUSH: u32 = 256;

impl<H: Heap> Machine<H> {
    /// A cell has come for this queue pair, in the session in which it was connected; JOIN and GONE are
    /// for [`Machine::on_join`] and [`Machine::on_gone`]. False: it is not heard.
    pub fn on_cell<E>(&mut self, env: &mut E, arrived: &Arrived) -> bool
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        if !self.hears() {
            // The peer was told when it went to ERR.
            return false;
        }
        let psn = arrived.address.psn;
        match arrived.message {
            _ if !self.joined => {}
            ref message if !self.protocol.allows(arrived.lane, message) => self.violated(env),
            ref message @ (Message::SizeIs { .. } | Message::Value { .. }) => {
                self.answered(env, psn, message);
            }
            Message::Lend { part, extents } => self.granted(env, psn, part, extents),
            Message::Offer {
                to: Role::Initiator,
                part,
                extents,
            } => self.read_is_exposed(env, psn, part, extents),
            Message::Offer { part, extents, .. } => {
                self.segment_is_exposed(env, psn, part, extents);
            }
            ref message => self.requested(env, psn, message),
        }
        true
    }

    /// A word has come for this queue pair, as above; `pulled`: from the peer's outgoing completions.
    /// Of DONE: `lease` is what the peer is done with. False: it is not heard.
    pub fn on_word<E>(
        &mut self,
        env: &mut E,
        word: &Word,
        pulled: bool,
        lease: Option<&Lease>,
    ) -> bool
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        if !self.hears() || !self.joined {
            return false;
        }
        if !self.protocol.allows_word(pulled, word.says) {
            self.violated(env);
            return true;
        }
        match lease {
            // Of what there was before a reset.
            Some(lease) if lease.epoch != self.epoch => {}
            Some(lease) => match (lease.role, self.protocol.data) {
                (Role::Initiator, false) => self.read_done(env, lease),
                (Role::Responder, false) => self.segment_done(env, lease),
                (Role::Initiator, true) => self.segment_was_pulled(lease),
                (Role::Responder, true) => self.read_was_pulled(lease),
            },
            None => self.told(env, word.psn, word.says),
        }
        true
    }

    /// The queue pair's turn: says what is to be said, sends requests in up to `quantum` steps, or
    /// flushes some.
    pub fn serve<E>(&mut self, env: &mut E, quantum: usize) -> Carried<Served>
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        let mut served = self.serve_responder(env)?;
        if self.state == State::Err {
            served.again |= self.flush(env, FLUSH);
        } else if self.may_request() {
            let sent = self.serve_requester(env, quantum)?;
            served.progress |= sent.progress;
            // What was found out now may have to be said.
            served.again |= sent.again || self.owes_gone;
            served.blocked |= sent.blocked;
        }
        Ok(served)
    }
}
