// SPDX-License-Identifier: GPL-2.0

//! What an interface receives: what the lists have found is carried out, a step each.

use super::{
    carry::Carry,
    initiator::errno,
    interface::{Interface, Worker},
    lists::{answer, errno_of, Peers, Source},
    peer::Peer,
    pull::Purpose,
};
use crate::proto::{
    envelope::Body,
    matching::{
        outcome::{Outcome, Receipt},
        request::{self, Command, Header, Message, Work},
    },
    slot::{self, Event, Kind},
};
use kernel::{bindings, prelude::*, sync::Arc};

/// Events that a step posts at most.
pub(super) const EVENTS: u64 = 2;

impl Interface {
    /// Carries out the next step of what the lists have executed. Returns whether there was one, and room for what
    /// comes of it.
    pub(super) fn carry_out(&self, worker: &mut Worker) -> bool {
        if !worker.direct.is_empty() {
            return self.store_now(worker);
        }
        if worker.now.is_none() {
            let mut state = self.state.lock();
            worker.now = state.next_carry();
            let deferred = worker.now.is_some() && state.was_deferred();
            drop(state);
            if deferred {
                let number = self.address.endpoint;
                self.matcher
                    .with_lists(|lists, matcher| lists.undefer(matcher, number));
            }
        }
        let Some(carry) = worker.now.take() else {
            return false;
        };
        if !self.can_carry(worker, &carry) {
            worker.now = Some(carry);
            return false;
        }
        if self.perform(worker, &carry).is_err() {
            worker.now = Some(carry);
            return false;
        }
        if let Some(context) = carry.reply.freed {
            self.post(worker, &Event::of(Kind::Freed, context, 0));
        }
        let (job, order) = (carry.job, carry.reply.order);
        if carry.reply.more {
            let number = self.address.endpoint;
            let next = self
                .matcher
                .with_lists(|lists, matcher| lists.go_on(matcher, number));
            if let Some(reply) = next {
                worker.now = Some(Carry { job, reply });
                return true;
            }
        }
        if matches!(job.request.work, Work::Command(_)) {
            worker.command = None;
        }
        self.matcher
            .with_lists(|lists, matcher| lists.done(matcher, job, order));
        true
    }

    /// Has sources begin again that there was no memory for. Returns whether there were any.
    pub(super) fn relieve(&self) -> bool {
        let refused = self.state.lock().was_refused();
        if refused {
            let number = self.address.endpoint;
            self.matcher
                .with_lists(|lists, matcher| lists.resume(matcher, number));
        }
        refused
    }

    /// Returns the host that a message, or a header, is from.
    pub(super) fn peer_of(&self, source: u32) -> Option<Arc<Peer>> {
        self.matcher.peer(Source(source).peer())
    }

    /// Returns whether a step can be carried out now.
    fn can_carry(&self, worker: &Worker, carry: &Carry) -> bool {
        if !self.rings.has_room(&worker.counts, EVENTS) {
            return false;
        }
        let source = match (&carry.reply.outcome, &carry.job.request.work) {
            (Outcome::Receive(_), Work::Message(message)) if message.op != request::Op::Put => {
                if !self.can_serve(message.op) {
                    return false;
                }
                message.source
            }
            (Outcome::Receive(receipt), _) => {
                let waits = receipt.is_rendezvous() && receipt.rest() > 0;
                if waits && !self.state.lock().can_pull() {
                    return false;
                }
                receipt.header.source
            }
            (Outcome::Discarded(header), _) => header.source,
            (_, Work::Message(message)) => message.source,
            _ => return true,
        };
        self.peer_of(source).is_none_or(|peer| peer.has_room())
    }

    /// Carries a step out. Fails if it is left to the thread: then nothing has come of it.
    fn perform(&self, worker: &mut Worker, carry: &Carry) -> Result {
        let message = match &carry.job.request.work {
            Work::Message(message) => Some(message),
            Work::Command(_) => None,
        };
        let status = match &carry.reply.outcome {
            Outcome::Receive(receipt) => {
                return match message.filter(|message| message.op != request::Op::Put) {
                    Some(message) => self.carry_for(worker, receipt, message),
                    None => self.receive(worker, receipt, message),
                };
            }
            Outcome::Unexpected(receipt) => {
                return match message {
                    Some(message) => self.keep(worker, receipt, message),
                    None => Ok(()),
                };
            }
            Outcome::Found(header) | Outcome::Claimed(header) => {
                self.found(worker, header);
                return Ok(());
            }
            Outcome::Discarded(header) => {
                if u64::from(header.eager) < header.length {
                    self.answer(header, 0, 0);
                }
                self.found(worker, header);
                return Ok(());
            }
            Outcome::Software(receipt) => {
                return match message {
                    Some(message) => self.hand(worker, receipt, message),
                    None => Ok(()),
                };
            }
            // What was to be appended is in no list.
            Outcome::HandOver if !is_hand_over(&carry.job.request.work) => bindings::EBUSY,
            outcome => status_of(outcome),
        };
        if let (Some(command), None) = (worker.command, message) {
            let data = match &carry.job.request.work {
                // Also if it is in no list any more: one whose matches post no event is asked for again.
                Work::Command(Command::Unlink { context }) => self.pulled_with(*context),
                _ => 0,
            };
            self.end_command(worker, command, status, data);
        }
        match &carry.reply.outcome {
            Outcome::HandOver => self.begin_to_give(worker),
            Outcome::Return => self.say_state(worker, slot::STATE_RETURNING),
            _ => {}
        }
        Ok(())
    }

    /// Tells the program what has become of a command, with `data` for it, unless all is well and the program has asked
    /// for no event then.
    pub(super) fn end_command(
        &self,
        worker: &mut Worker,
        (context, quiet): (u64, bool),
        status: u32,
        data: u64,
    ) {
        if status != 0 || !quiet {
            let event = Event {
                data,
                ..Event::of(Kind::Command, context, status)
            };
            self.post(worker, &event);
        }
    }

    /// Returns how many messages are pulled into buffers with a context, or got from them: what was unlinked is used
    /// until they are over.
    fn pulled_with(&self, context: u64) -> u64 {
        let state = self.state.lock();
        let of = |event: &Event| event.context == context;
        let pulls = state.pulls.iter();
        let pulled = pulls.filter(|pull| match &pull.purpose {
            Purpose::Message { event, .. } => of(event),
            Purpose::Operation(_) => false,
        });
        let grants = state.grants.iter();
        let granted = grants.filter(|grant| of(&grant.event));
        (pulled.count() + granted.count()) as u64
    }

    /// Tells the program of a message that a search has found.
    fn found(&self, worker: &mut Worker, header: &Header) {
        let (context, _) = worker.command.unwrap_or((0, true));
        let event = Event {
            length: header.length,
            stored: header.eager.into(),
            ..self.of_header(Kind::Command, context, 0, header)
        };
        self.post(worker, &event);
    }

    pub(super) fn of_header(
        &self,
        kind: Kind,
        context: u64,
        status: u32,
        header: &Header,
    ) -> Event {
        let source = Source(header.source);
        Event {
            endpoint: source.address().endpoint,
            hwid: self.peer_of(header.source).map_or(0, |peer| peer.hwid),
            length: header.length,
            bits: header.bits,
            data: header.data,
            ..Event::of(kind, context, status)
        }
    }

    /// Says to the initiator that a message is over.
    pub(super) fn answer(&self, header: &Header, status: u32, length: u64) {
        let body = Body::Done {
            status: status as u8,
            length,
        };
        self.answer_with(header, body);
    }

    /// Says that a message is over that has come with all of its bytes: at once only if they are not all stored.
    pub(super) fn say_end(&self, worker: &mut Worker, header: &Header, status: u32, length: u64) {
        match status == 0 && length == header.length {
            true => self.note_stored(worker, header),
            false => self.answer(header, status, length),
        }
    }

    pub(super) fn answer_with(&self, header: &Header, body: Body) {
        if let Some(peer) = self.peer_of(header.source) {
            let source = Source(header.source);
            peer.reply(&answer(self.address.endpoint, source, header.cookie, body));
        }
    }

    /// Stores the bytes of a message that has come, at `address`; and gives their memory back. Returns what has become of
    /// it; fails if it is left to the thread.
    pub(super) fn store_arrival(
        &self,
        worker: &mut Worker,
        message: &Message,
        address: u64,
        length: u64,
    ) -> Result<Result> {
        let payload = message.payload;
        let Some((buffer, bytes)) = self.state.lock().lend_arrival(payload) else {
            return Ok(Ok(()));
        };
        // What is longer than any size ends with the message.
        let bytes = bytes.min(usize::try_from(length).unwrap_or(usize::MAX));
        let from = buffer.get(..bytes).unwrap_or(&[]);
        let stored = match from.is_empty() {
            true => Ok(()),
            false => self.mm.store(address, from),
        };
        let left = stored.is_err_and(|e| worker.leaves(e));
        self.state.lock().give_arrival(payload, buffer, !left);
        match left {
            true => Err(EAGAIN),
            false => Ok(stored),
        }
    }

    /// Copies the bytes of a message from overflow memory. As [`Self::store_arrival`].
    fn copy(&self, worker: &mut Worker, from: u64, to: u64, length: u64) -> Result<Result> {
        if length == 0 {
            return Ok(Ok(()));
        }
        let bounce = worker.bounce.get_mut(..usize::try_from(length)?);
        let copied = bounce.ok_or(EINVAL).and_then(|bounce| {
            self.mm.load(from, bounce)?;
            self.mm.store(to, bounce)
        });
        match copied {
            Err(e) if worker.leaves(e) => Err(e),
            copied => Ok(copied),
        }
    }

    /// Puts a message that no buffer was for into overflow memory.
    fn keep(&self, worker: &mut Worker, receipt: &Receipt, message: &Message) -> Result {
        let stored = self.store_arrival(worker, message, receipt.address, receipt.length)?;
        let status = stored.map_or_else(errno, |()| 0);
        self.kept(worker, receipt, status);
        Ok(())
    }

    /// Puts a message into the buffer that it has met, or begins to pull it.
    fn receive(&self, worker: &mut Worker, receipt: &Receipt, message: Option<&Message>) -> Result {
        let (header, to) = (&receipt.header, receipt.address);
        let stored = match message {
            Some(message) => self.store_arrival(worker, message, to, receipt.eager())?,
            None => self.copy(worker, header.address, to, receipt.eager())?,
        };
        let mut status = stored.map_or_else(errno, |()| 0);
        if receipt.is_rendezvous() {
            if message.is_some() {
                self.answer_with(header, Body::Taken);
            }
            if receipt.rest() > 0 {
                match self.begin_pull(receipt) {
                    Ok(()) => return Ok(()),
                    Err(e) => status = errno(e),
                }
            }
            let length = if status == 0 { receipt.length } else { 0 };
            self.answer(header, status, length);
        } else if message.is_some() {
            self.has_met(worker, receipt, status);
            return Ok(());
        }
        self.tell_received(worker, receipt, status);
        Ok(())
    }

    /// Says that what has come of a message is in overflow memory, or is not.
    pub(super) fn kept(&self, worker: &mut Worker, receipt: &Receipt, status: u32) {
        match receipt.is_rendezvous() {
            true => self.answer_with(&receipt.header, Body::Taken),
            false => self.say_end(worker, &receipt.header, status, receipt.length),
        }
        if receipt.unlinked {
            self.post(worker, &Event::of(Kind::Unlinked, receipt.context, 0));
        }
    }

    /// Says that a message that has come with all of its bytes is in its buffer, or is not.
    pub(super) fn has_met(&self, worker: &mut Worker, receipt: &Receipt, status: u32) {
        let length = if status == 0 { receipt.length } else { 0 };
        self.say_end(worker, &receipt.header, status, length);
        self.tell_received(worker, receipt, status);
    }

    fn tell_received(&self, worker: &mut Worker, receipt: &Receipt, status: u32) {
        let header = &receipt.header;
        let source = Source(header.source);
        let event = Event {
            flags: flags(receipt.unlinked, receipt.is_truncated()),
            endpoint: source.address().endpoint,
            hwid: self.hwid_of(worker, source),
            address: receipt.address,
            length: header.length,
            stored: if status == 0 { receipt.length } else { 0 },
            bits: header.bits,
            data: header.data,
            ..Event::of(Kind::Received, receipt.context, status)
        };
        self.received(worker, &event, !receipt.full);
    }

    /// Returns the hardware id of the host of a source: mostly that of the last one.
    fn hwid_of(&self, worker: &mut Worker, source: Source) -> u64 {
        let number = source.peer();
        if worker.host.0 != number {
            let hwid = self.matcher.peer(number).map_or(0, |peer| peer.hwid);
            worker.host = (number, hwid);
        }
        worker.host.1
    }

    /// Tells the program that a message was received.
    pub(super) fn received(&self, worker: &mut Worker, event: &Event, silent: bool) {
        let failed = event.status != 0 || event.flags & slot::EVENT_TRUNCATED != 0;
        self.count(worker, false, failed);
        if !silent {
            self.post(worker, event);
        }
    }
}

/// Returns the status of a command that has this outcome, and tells of no message.
pub(super) const fn status_of(outcome: &Outcome) -> u32 {
    match outcome {
        Outcome::NotFound => bindings::ENOENT,
        Outcome::Rejected(reason) => errno_of(*reason),
        _ => 0,
    }
}

/// Returns whether a program wants its lists.
fn is_hand_over(work: &Work) -> bool {
    matches!(work, Work::Command(Command::HandOver))
}

/// Returns the flags of an event.
pub(super) fn flags(unlinked: bool, truncated: bool) -> u8 {
    let flag = |set, bit| if set { bit } else { 0 };
    flag(unlinked, slot::EVENT_UNLINKED) | flag(truncated, slot::EVENT_TRUNCATED)
}
