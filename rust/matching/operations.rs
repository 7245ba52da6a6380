// SPDX-License-Identifier: GPL-2.0

//! What an interface has begun: how it goes on, by what hosts say, and what becomes of it when a session is lost. This
//! file must not know rings or lists.

use super::{
    operation::{Flow, Operation, Phase},
    peer::Peer,
    pull::Chunk,
    state::State,
    to::To,
    CHUNK, OPERATIONS, RETRIES,
};
use crate::proto::{
    envelope::{Body, Envelope},
    matching::retry::{Class, Id, Verdict},
};
use kernel::{bindings, prelude::*, sync::Arc};

/// How long to wait before an operation is done again; twice as long each time.
const RETRY_MS: u64 = 250;

const _: () = assert!(RETRIES < 16);

impl State {
    /// Returns the operation that an interface of a host has said something of.
    pub(super) fn operation(
        &mut self,
        peer: &Arc<Peer>,
        what: &Envelope,
    ) -> Option<(usize, &mut Operation)> {
        let n = self.pending.find(Id(what.cookie))? as usize;
        let operation = self.operations.get_mut(n)?;
        let to = operation.to.as_ref()?;
        to.says(peer, what.from.endpoint).then_some((n, operation))
    }

    /// Begins an operation, in a place that is free: it is queued in its flow, unless it is over at once.
    pub(super) fn begin(&mut self, n: usize, class: Class, mut operation: Operation) {
        if let Some(to) = &operation.to {
            operation.id = self.pending.begin(class, n as u64);
            match operation.id.and_then(|_| queue(&mut self.flows, to, n)) {
                Some(sequence) => operation.sequence = sequence,
                None => {
                    operation.phase = Phase::Over(bindings::ENOMEM, 0);
                    operation.to = None;
                }
            }
        }
        if operation.is_over() {
            self.over.insert(n);
            if let Some(id) = operation.id {
                self.pending.complete(id);
            }
        }
        self.operations.put(n, operation);
    }

    /// Notes that an operation is over: an errno, and the bytes that were stored.
    pub(super) fn complete(&mut self, n: usize, status: u32, stored: u64) {
        let Some(operation) = self.operations.get_mut(n) else {
            return;
        };
        if let Some(id) = operation.id.take() {
            self.pending.complete(id);
        }
        if !operation.is_over() {
            operation.phase = Phase::Over(status, stored);
        }
        self.over.insert(n);
        if let Some(to) = operation.to.clone() {
            let sequence = operation.sequence;
            self.acknowledge(&to, sequence);
        }
    }

    /// Takes what a target has said of a message, that it is stored: so are those before it whose bytes went with them.
    pub(super) fn stored(&mut self, peer: &Arc<Peer>, what: &Envelope) {
        let Some((_, operation)) = self.operation(peer, what) else {
            return;
        };
        let (Some(to), last) = (operation.to.clone(), operation.sequence) else {
            return;
        };
        for n in self.operations.used() {
            let Some(operation) = self.operations.get_mut(n) else {
                continue;
            };
            // Of those that were refused, or not sent, it says nothing.
            let is_meant = operation.phase == Phase::Sent
                && last.wrapping_sub(operation.sequence) < OPERATIONS as u32
                && operation.is_eager()
                && operation.is_to(&to);
            if !is_meant {
                continue;
            }
            if let Some(id) = operation.id.take() {
                self.pending.complete(id);
            }
            operation.phase = Phase::Over(0, operation.length);
            self.over.insert(n);
        }
        self.acknowledge(&to, last);
    }

    /// Ends operations whose target is closed. Returns whether there were any.
    pub(super) fn end_of(&mut self, is_closed: &dyn Fn(&To) -> bool) -> bool {
        let (mut any, mut next) = (false, 0);
        while let Some(n) = self.operations.next(next) {
            next = n + 1;
            let Some(operation) = self.operations.get(n) else {
                continue;
            };
            let closed = operation.to.as_ref().is_some_and(is_closed);
            if closed && !operation.is_over() {
                self.complete(n, bindings::ENXIO, 0);
                any = true;
            }
        }
        any
    }

    /// Notes that the target has taken an operation. What was acknowledged with a later one is so already.
    pub(super) fn acknowledge(&mut self, to: &To, sequence: u32) {
        if let Some(flow) = self.flows.iter_mut().find(|flow| flow.to.is(to)) {
            let _ = flow.source.acknowledge(sequence);
        }
    }

    /// Goes back to an operation that its target had no space for. That, and what was sent behind it, has not arrived:
    /// if the session ends now, it was not sent.
    pub(super) fn go_back(&mut self, to: &To, sequence: u32) {
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.to.is(to)) else {
            return;
        };
        if flow.source.no_space(sequence).is_err() {
            return;
        }
        flow.sending = None;
        for n in self.operations.used() {
            let Some(operation) = self.operations.get_mut(n) else {
                continue;
            };
            let behind = operation.sequence.wrapping_sub(sequence) < OPERATIONS as u32;
            if behind && operation.phase == Phase::Sent && operation.is_to(to) {
                operation.phase = Phase::Waiting;
            }
        }
    }

    /// Decides what becomes of operations whose session is lost: those that change nothing are done again, later.
    /// Returns when the next one is, and whether one has begun again; `now` tells the time, and that one is, in
    /// milliseconds.
    pub(super) fn lose(&mut self, now: impl Fn() -> u64) -> (Option<u64>, bool) {
        let (mut first, mut begun) = (None::<u64>, false);
        // What is done again later is one of a session that is lost.
        if !self.flows.iter().any(|flow| flow.to.is_lost()) {
            return (first, begun);
        }
        let earlier = |first: Option<u64>, when: u64| Some(first.map_or(when, |at| at.min(when)));
        let mut next = 0;
        while let Some(n) = self.operations.next(next) {
            next = n + 1;
            let Some(operation) = self.operations.get_mut(n) else {
                continue;
            };
            if let Phase::Later(when) = operation.phase {
                if when <= now() {
                    self.again(n);
                    begun = true;
                } else {
                    first = earlier(first, when);
                }
                continue;
            }
            let lost = operation.to.as_ref().is_some_and(To::is_lost);
            if operation.is_over() || !lost {
                continue;
            }
            match operation.id.and_then(|id| self.pending.lose(id)) {
                Some(Verdict::Retry(id, _)) => {
                    let when = now() + (RETRY_MS << operation.retries);
                    operation.id = Some(id);
                    operation.retries += 1;
                    operation.phase = Phase::Later(when);
                    self.forget_asked(n);
                    first = earlier(first, when);
                }
                _ => {
                    operation.fail();
                    self.over.insert(n);
                }
            }
        }
        (first, begun)
    }

    /// Begins an operation again, in the session that there is now.
    fn again(&mut self, n: usize) {
        let tag = self.next_tag();
        let Some(operation) = self.operations.get_mut(n) else {
            return;
        };
        let Some(old) = operation.to.clone() else {
            return;
        };
        operation.phase = Phase::Waiting;
        let to = To::now(old.peer.clone(), old.address);
        let sequence = match to.peer.is_closed() {
            true => None,
            false => queue(&mut self.flows, &to, n),
        };
        match sequence {
            Some(sequence) => operation.sequence = sequence,
            None => {
                if let Some(id) = operation.id {
                    self.pending.complete(id);
                }
                self.over.insert(n);
                return operation.fail();
            }
        }
        operation.to = Some(to.clone());
        let pull = operation.pull.and_then(|pull| self.pulls.get_mut(pull));
        if let Some(pull) = pull {
            pull.restart(to, tag);
        }
        self.leave(&old);
    }

    /// Frees the place of an operation, and what goes with it.
    pub(super) fn free_operation(&mut self, n: usize) {
        self.over.remove(n);
        if self.asked.has(n) {
            self.forget_asked(n);
        }
        let Some(operation) = self.operations.get_mut(n) else {
            return;
        };
        let (bytes, pull, to) = (operation.take_copy(), operation.pull, operation.to.take());
        // The rest is dropped in its place: to move it out would cost each message another copy.
        self.operations.free_place(n);
        if let Some(buffer) = bytes {
            self.copies.put(buffer);
        }
        if let Some(pull) = pull.and_then(|pull| self.pulls.take(pull)) {
            self.keep_chunks(pull);
        }
        if let Some(to) = &to {
            self.leave(to);
        }
    }

    /// Takes an operation out of its flow, and forgets one that has none.
    fn leave(&mut self, to: &To) {
        let Some(n) = self.flows.iter().position(|flow| flow.to.is(to)) else {
            return;
        };
        let Some(flow) = self.flows.get_mut(n) else {
            return;
        };
        flow.count = flow.count.saturating_sub(1);
        if flow.count == 0 {
            let _ = self.flows.remove(n);
        }
    }

    /// Returns whether the target of a flow has to hear of an operation first: no other one before it has no answer.
    pub(super) fn is_first(&self, flow: &Flow, sequence: u32) -> bool {
        let waits = |n: usize| {
            let operation = self.operations.get(n).filter(|o| o.is_to(&flow.to));
            operation.filter(|o| matches!(o.phase, Phase::Waiting | Phase::Sent))
        };
        let oldest = flow.source.oldest();
        if oldest == sequence {
            return true;
        }
        if waits(flow.place_of(oldest)).is_some_and(|o| o.sequence == oldest) {
            return false;
        }
        // The oldest one has ended here, without an answer.
        let before =
            |o: &Operation| (1..OPERATIONS as u32).contains(&sequence.wrapping_sub(o.sequence));
        let mut all = self.operations.used();
        !all.any(|n| waits(n).is_some_and(before))
    }

    /// Takes what a target has said of a get, and the first bytes, by `read`. Returns false if there is no such get.
    /// `EAGAIN`: they cannot be read now.
    pub(super) fn granted(
        &mut self,
        peer: &Arc<Peer>,
        what: &Envelope,
        bytes: usize,
        read: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<bool> {
        let Body::Granted { length, grant } = what.body else {
            return Ok(false);
        };
        let Some((n, operation)) = self.operation(peer, what) else {
            return Ok(false);
        };
        let (sent, number) = (operation.phase == Phase::Sent, operation.pull);
        let place = number.and_then(|pull| self.pulls.get_mut(pull));
        let Some(pull) = place.filter(|_| sent) else {
            return Ok(false);
        };
        let first = length.min(CHUNK as u64);
        let says = length <= pull.whole && first == bytes as u64;
        if !says || (grant == 0) != (first == length) {
            return Err(EINVAL);
        }
        let [place, ..] = &mut pull.chunks;
        let mut buffer = match core::mem::replace(place, Chunk::Copying) {
            Chunk::Free(buffer) => buffer,
            other => {
                *place = other;
                return Err(EINVAL);
            }
        };
        let result = read(buffer.get_mut(..bytes).unwrap_or(&mut []));
        if result.is_err() {
            *place = Chunk::Free(buffer);
            return result.map(|()| true);
        }
        *place = Chunk::Come(buffer, 0, first as u32);
        pull.granted = true;
        pull.cookie = grant;
        pull.length = length;
        pull.asked = first;
        if let Some(operation) = self.operations.get_mut(n) {
            operation.phase = Phase::Taken;
            operation.truncated = length < operation.length;
            if let Some(to) = operation.to.clone() {
                let sequence = operation.sequence;
                self.acknowledge(&to, sequence);
            }
        }
        Ok(true)
    }
}

/// Returns the flow to an interface, which may be a new one. `None`: there is no place for another flow.
pub(super) fn flow_of(flows: &mut KVVec<Flow>, to: &To) -> Option<usize> {
    let known = flows.iter().position(|flow| flow.to.is(to));
    if known.is_none() {
        flows.push_within_capacity(Flow::new(to.clone())).ok()?;
    }
    Some(known.unwrap_or(flows.len() - 1))
}

/// Queues the operation in place `at` in its flow. `None`: there is no place for it.
fn queue(flows: &mut KVVec<Flow>, to: &To, at: usize) -> Option<u32> {
    let n = flow_of(flows, to)?;
    let flow = flows.get_mut(n)?;
    let sequence = flow.source.queue(OPERATIONS as u32)?;
    flow.put(sequence, at);
    Some(sequence)
}
