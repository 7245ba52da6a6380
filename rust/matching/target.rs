// SPDX-License-Identifier: GPL-2.0

//! What an interface receives: commands of its program, what the lists have found, and messages that it pulls.

use super::{
    carry::Carry,
    initiator::errno,
    interface::{Interface, Worker},
    lists::{answer, errno_of, Peers, Source},
    peer::Peer,
    rings::Ring,
    state::{Chunk, Pull, To},
    CHUNK, CHUNKS, PULLS,
};
use crate::proto::{
    envelope::{Body, Envelope},
    matching::{
        outcome::{Outcome, Receipt},
        request::{Buffer, Command, Criteria, Header, List, Message, Options, Work},
    },
    slot::{self, Event, Kind, Op, Slot},
};
use kernel::{bindings, prelude::*, sync::Arc};

/// Events that a step posts at most.
const EVENTS: u64 = 2;

impl Interface {
    /// Gives the lists the next command. Returns whether there was one.
    pub(super) fn take_command(&self, worker: &mut Worker) -> bool {
        // First: what is produced now is looked at when a command is over, or there is room.
        self.rings.look_at(&mut worker.counts, Ring::Target);
        // One at a time: so its events are known to be its.
        if worker.command.is_some() || !self.rings.has_room(&worker.counts, EVENTS) {
            return false;
        }
        let Some(words) = self.rings.slot(&mut worker.counts, Ring::Target, 0) else {
            return false;
        };
        let context = words.get(1).copied().unwrap_or(0);
        let slot = Slot::decode(&words);
        let command = match &slot {
            Some(slot) => self.command_of(slot),
            None => Err(EINVAL),
        };
        let command = match command {
            Ok(command) => command,
            Err(e) => {
                self.rings.consume(&mut worker.counts, Ring::Target, 1);
                self.post(worker, &Event::of(Kind::Command, context, errno(e)));
                return true;
            }
        };
        let quiet = slot.is_some_and(|slot| slot.has(slot::QUIET));
        if !self
            .matcher
            .with_lists(|lists, matcher| lists.command(matcher, self, command))
        {
            // The slots of all interfaces are in use.
            worker.starved = true;
            return false;
        }
        worker.command = Some((context, quiet));
        self.rings.consume(&mut worker.counts, Ring::Target, 1);
        true
    }

    /// Returns the source that a slot names; `None`: any.
    fn source_of(&self, slot: &Slot) -> Result<Option<u32>> {
        if slot.has(slot::ANY_SOURCE) {
            return Ok(None);
        }
        let peer = self.matcher.named(slot.hwid)?;
        let source = Source::new(peer.number, slot.endpoint).ok_or(EINVAL)?;
        Ok(Some(source.0))
    }

    fn command_of(&self, slot: &Slot) -> Result<Command> {
        let criteria = || {
            Ok::<_, Error>(Criteria {
                source: self.source_of(slot)?,
                bits: slot.bits,
                ignore: slot.ignore,
            })
        };
        Ok(match slot.op {
            Op::Append => {
                let buffer = Buffer {
                    criteria: criteria()?,
                    address: slot.address,
                    length: slot.length,
                    offset: 0,
                    min_free: slot.min_free,
                    context: slot.context,
                    options: Options {
                        persistent: slot.has(slot::PERSISTENT),
                        manage_local: slot.has(slot::MANAGE_LOCAL),
                        put: true,
                        get: false,
                        full: !slot.has(slot::SILENT),
                        counting: false,
                    },
                };
                let list = match slot.has(slot::OVERFLOW) {
                    true => List::Overflow,
                    false => List::Priority,
                };
                Command::Append(list, buffer)
            }
            Op::Search => Command::Search(criteria()?),
            Op::Claim | Op::Discard => Command::SearchAndDelete {
                criteria: criteria()?,
                context: slot.context,
                discard: slot.op == Op::Discard,
            },
            Op::Receive => Command::Receive {
                context: slot.context,
                address: slot.address,
                length: slot.length,
            },
            Op::Unlink => Command::Unlink {
                context: slot.context,
            },
            Op::Enable => Command::Enable,
            Op::Disable => Command::Disable,
            Op::Put => return Err(EINVAL),
        })
    }

    /// Carries out the next step of what the lists have executed. Returns whether there was one, and room for what
    /// comes of it.
    pub(super) fn carry_out(&self, worker: &mut Worker) -> bool {
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
        self.perform(worker, &carry);
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
    fn peer_of(&self, source: u32) -> Option<Arc<Peer>> {
        self.matcher.peer(Source(source).peer())
    }

    /// Returns whether a step can be carried out now.
    fn can_carry(&self, worker: &Worker, carry: &Carry) -> bool {
        if !self.rings.has_room(&worker.counts, EVENTS) {
            return false;
        }
        let source = match (&carry.reply.outcome, &carry.job.request.work) {
            (Outcome::Receive(receipt), _) => {
                let waits = receipt.is_rendezvous() && receipt.rest() > 0;
                if waits && !self.state.lock().pulls.iter().any(Option::is_none) {
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

    fn perform(&self, worker: &mut Worker, carry: &Carry) {
        let message = match &carry.job.request.work {
            Work::Message(message) => Some(message),
            Work::Command(_) => None,
        };
        let status = match &carry.reply.outcome {
            Outcome::Receive(receipt) => return self.receive(worker, receipt, message),
            Outcome::Unexpected(receipt) => {
                if let Some(message) = message {
                    self.keep(worker, receipt, message);
                }
                return;
            }
            Outcome::Found(header) | Outcome::Claimed(header) => {
                return self.found(worker, header);
            }
            Outcome::Discarded(header) => {
                if u64::from(header.eager) < header.length {
                    self.answer(header, 0, 0);
                }
                return self.found(worker, header);
            }
            Outcome::NotFound => bindings::ENOENT,
            Outcome::Rejected(reason) => errno_of(*reason),
            _ => 0,
        };
        if let (Some((context, quiet)), None) = (worker.command, message) {
            if status != 0 || !quiet {
                let data = match &carry.reply.outcome {
                    Outcome::Unlinked(context) => self.pulled_with(*context),
                    _ => 0,
                };
                let event = Event {
                    data,
                    ..Event::of(Kind::Command, context, status)
                };
                self.post(worker, &event);
            }
        }
    }

    /// Returns how many messages are pulled into buffers with a context: what was unlinked is written until they are over.
    fn pulled_with(&self, context: u64) -> u64 {
        let state = self.state.lock();
        let pulls = state.pulls.iter().flatten();
        pulls.filter(|pull| pull.context == context).count() as u64
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

    fn of_header(&self, kind: Kind, context: u64, status: u32, header: &Header) -> Event {
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
    fn answer(&self, header: &Header, status: u32, length: u64) {
        let body = Body::Done {
            status: status as u8,
            length,
        };
        self.answer_with(header, body);
    }

    fn answer_with(&self, header: &Header, body: Body) {
        if let Some(peer) = self.peer_of(header.source) {
            let source = Source(header.source);
            peer.reply(&answer(self.address.endpoint, source, header.cookie, body));
        }
    }

    /// Stores the bytes of a message that has come, at `address`; and gives their memory back.
    fn store_arrival(&self, message: &Message, address: u64, length: u64) -> Result {
        let Some(arrival) = self.state.lock().take_arrival(message.payload) else {
            return Ok(());
        };
        let bytes = arrival.bytes.min(usize::try_from(length)?);
        let from = arrival.buffer.get(..bytes).unwrap_or(&[]);
        let stored = match from.is_empty() {
            true => Ok(()),
            false => self.mm.store(address, from),
        };
        self.state.lock().put_spare(arrival.buffer);
        stored
    }

    /// Copies the bytes of a message from overflow memory.
    fn copy(&self, worker: &mut Worker, from: u64, to: u64, length: u64) -> Result {
        if length == 0 {
            return Ok(());
        }
        let bounce = worker.bounce.get_mut(..usize::try_from(length)?);
        let bounce = bounce.ok_or(EINVAL)?;
        self.mm.load(from, bounce)?;
        self.mm.store(to, bounce)
    }

    /// Puts a message that no buffer was for into overflow memory.
    fn keep(&self, worker: &mut Worker, receipt: &Receipt, message: &Message) {
        let stored = self.store_arrival(message, receipt.address, receipt.length);
        let status = stored.map_or_else(errno, |()| 0);
        match receipt.is_rendezvous() {
            true => self.answer_with(&receipt.header, Body::Taken),
            false => self.answer(&receipt.header, status, receipt.length),
        }
        if receipt.unlinked {
            self.post(worker, &Event::of(Kind::Unlinked, receipt.context, 0));
        }
    }

    /// Puts a message into the buffer that it has met, or begins to pull it.
    fn receive(&self, worker: &mut Worker, receipt: &Receipt, message: Option<&Message>) {
        let header = &receipt.header;
        let stored = match message {
            Some(message) => self.store_arrival(message, receipt.address, receipt.eager()),
            None => self.copy(worker, header.address, receipt.address, receipt.eager()),
        };
        let mut status = stored.map_or_else(errno, |()| 0);
        if receipt.is_rendezvous() {
            if message.is_some() {
                self.answer_with(header, Body::Taken);
            }
            if receipt.rest() > 0 {
                match self.begin_pull(receipt) {
                    Ok(()) => return,
                    Err(e) => status = errno(e),
                }
            }
        }
        let length = if status == 0 { receipt.length } else { 0 };
        if message.is_some() || receipt.is_rendezvous() {
            self.answer(header, status, length);
        }
        let event = Event {
            flags: flags(receipt.unlinked, receipt.is_truncated()),
            address: receipt.address,
            stored: length,
            ..self.of_header(Kind::Received, receipt.context, status, header)
        };
        self.received(worker, &event, !receipt.full);
    }

    /// Tells the program that a message was received.
    fn received(&self, worker: &mut Worker, event: &Event, silent: bool) {
        let failed = event.status != 0 || event.flags & slot::EVENT_TRUNCATED != 0;
        self.rings.count(&mut worker.counts, false, failed);
        if !silent {
            self.post(worker, event);
        }
    }

    fn begin_pull(&self, receipt: &Receipt) -> Result {
        let header = &receipt.header;
        let peer = self.peer_of(header.source).ok_or(ENODEV)?;
        let chunks = Pull::chunks()?;
        let mut state = self.state.lock();
        let tag = state.next_tag();
        let place = state.pulls.iter_mut().find(|place| place.is_none());
        *place.ok_or(EBUSY)? = Some(Pull {
            tag,
            from: To {
                epoch: peer.epoch(),
                peer,
                address: Source(header.source).address(),
            },
            cookie: header.cookie,
            bits: header.bits,
            data: header.data,
            context: receipt.context,
            address: receipt.address,
            length: receipt.length,
            whole: header.length,
            unlinked: receipt.unlinked,
            silent: !receipt.full,
            asked: 0,
            stored: 0,
            status: 0,
            chunks,
        });
        Ok(())
    }

    /// Goes on with each message that is pulled: stores what has come, asks for more, ends it. Returns whether there was
    /// something to be done.
    pub(super) fn pull(&self, worker: &mut Worker) -> bool {
        let mut any = false;
        for n in 0..PULLS {
            for chunk in 0..CHUNKS {
                any |= self.store_chunk(n, chunk);
                any |= self.ask(n, chunk);
            }
            any |= self.end_pull(worker, n);
        }
        any
    }

    fn store_chunk(&self, n: usize, chunk: usize) -> bool {
        let mut state = self.state.lock();
        let Some(Some(pull)) = state.pulls.get_mut(n) else {
            return false;
        };
        let address = pull.address;
        let Some(place) = pull.chunks.get_mut(chunk) else {
            return false;
        };
        let (buffer, offset, length) = match core::mem::replace(place, Chunk::Copying) {
            Chunk::Come(buffer, offset, length) => (buffer, offset, length),
            other => {
                *place = other;
                return false;
            }
        };
        drop(state);
        let bytes = buffer.get(..length as usize).unwrap_or(&[]);
        let stored = self.mm.store(address.wrapping_add(offset), bytes);
        let mut state = self.state.lock();
        // No other ends it: that is the thread's.
        if let Some(Some(pull)) = state.pulls.get_mut(n) {
            match stored {
                Ok(()) => pull.stored += u64::from(length),
                Err(e) => pull.status = errno(e),
            }
            if let Some(place) = pull.chunks.get_mut(chunk) {
                *place = Chunk::Free(buffer);
            }
        }
        true
    }

    fn ask(&self, n: usize, chunk: usize) -> bool {
        let mut state = self.state.lock();
        let Some(Some(pull)) = state.pulls.get_mut(n) else {
            return false;
        };
        let left = pull.length - pull.asked;
        if left == 0 || pull.status != 0 || pull.from.is_lost() || !pull.from.peer.has_room() {
            return false;
        }
        let Some(place) = pull.chunks.get_mut(chunk) else {
            return false;
        };
        let offset = pull.asked;
        let length = left.min(CHUNK as u64) as u32;
        match core::mem::replace(place, Chunk::Copying) {
            Chunk::Free(buffer) => *place = Chunk::Asked(buffer, offset, length),
            other => {
                *place = other;
                return false;
            }
        }
        pull.asked += u64::from(length);
        let envelope = Envelope {
            to: pull.from.address,
            from: self.address,
            cookie: pull.cookie,
            body: Body::Pull {
                offset,
                length,
                chunk: n as u64 | (chunk as u64) << 16 | u64::from(pull.tag) << 32,
            },
        };
        pull.from.peer.reply(&envelope);
        true
    }

    fn end_pull(&self, worker: &mut Worker, n: usize) -> bool {
        let mut state = self.state.lock();
        let place = state.pulls.get_mut(n);
        let over = place.filter(|place| place.as_ref().is_some_and(Pull::is_over));
        let Some(place) = over else {
            return false;
        };
        if !self.rings.has_room(&worker.counts, 1) {
            return false;
        }
        let Some(pull) = place.take() else {
            return false;
        };
        drop(state);
        let lost = pull.from.is_lost() && (pull.status != 0 || pull.stored != pull.length);
        let status = match pull.status {
            0 if lost => bindings::ECONNRESET,
            status => status,
        };
        // What was stored otherwise may have gaps.
        let stored = if status == 0 { pull.stored } else { 0 };
        pull.from.peer.reply(&Envelope {
            to: pull.from.address,
            from: self.address,
            cookie: pull.cookie,
            body: Body::Done {
                status: status as u8,
                length: stored,
            },
        });
        let event = Event {
            flags: flags(pull.unlinked, pull.length < pull.whole),
            endpoint: pull.from.address.endpoint,
            address: pull.address,
            length: pull.whole,
            stored,
            bits: pull.bits,
            data: pull.data,
            hwid: pull.from.peer.hwid,
            ..Event::of(Kind::Received, pull.context, status)
        };
        self.received(worker, &event, pull.silent);
        true
    }
}

/// Returns the flags of an event.
fn flags(unlinked: bool, truncated: bool) -> u8 {
    let flag = |set, bit| if set { bit } else { 0 };
    flag(unlinked, slot::EVENT_UNLINKED) | flag(truncated, slot::EVENT_TRUNCATED)
}
