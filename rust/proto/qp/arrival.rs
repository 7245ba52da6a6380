// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Entry points of a queue pair: cells and words that have come for it, and its service.

use super::{
    env::{Memory, Queues, Transport},
    lease::Lease,
    Carried, Heap, Machine, Served, State, FLUSHED_AT_ONCE,
};
use crate::proto::{
    fifo::Arrived,
    request::{Message, Role},
    word::Word,
};

impl<H: Heap> Machine<H> {
    /// Handles a cell for this queue pair, in the session in which it was connected; JOIN and GONE are
    /// for [`Machine::on_join`] and [`Machine::on_gone`]. Returns false if the queue pair does not take
    /// cells in its state.
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

    /// Handles a word for this queue pair, as [`Machine::on_cell`] does. `pulled`: it is from the peer's
    /// outgoing completions. `lease`: for DONE, the lease that the peer is done with. Returns false if
    /// the queue pair does not take words in its state.
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
            // The lease is from before a reset.
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

    /// Services the queue pair: sends the words and cells that are due, and sends up to `quantum`
    /// requests, or flushes them in ERR.
    pub fn serve<E>(&mut self, env: &mut E, quantum: usize) -> Carried<Served>
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        let mut served = self.serve_responder(env)?;
        if self.state == State::Err {
            let most = quantum as u32;
            let flushed = self.flush(env, most);
            served.again |= flushed == most;
            served.requests = flushed as usize;
        } else if self.may_request() {
            let sent = self.serve_requester(env, quantum)?;
            served.progress |= sent.progress;
            served.again |= sent.again;
            served.blocked |= sent.blocked;
            served.requests = sent.requests;
            if self.state == State::Err {
                // It has failed in this service: the peer is to be told, and the rest is to be flushed.
                served.again = true;
                served.requests += FLUSHED_AT_ONCE as usize;
            }
        }
        Ok(served)
    }
}
