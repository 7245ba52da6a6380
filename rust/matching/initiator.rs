// SPDX-License-Identifier: GPL-2.0

//! Messages that an interface sends: from a slot of its ring to the event that they are over.
//!
//! The bytes of a short message are copied when it begins, so that it can be sent again after NO_SPACE whatever has become
//! of the memory of the process; those of a long one are read when its target asks for them.

use super::{
    interface::{Interface, Worker},
    rings::Ring,
    state::{cookie_of, Asked, Bytes, Flow, Operation, Phase, State, To},
    EAGER, OPERATIONS,
};
use crate::{
    proto::{
        envelope::{Address, Body, Envelope},
        matching::flow,
        slot::{self, Event, Kind, Op, Slot, BYTES, WORDS},
    },
    sys::errno::ECONNRESET,
};
use kernel::{bindings, prelude::*};

/// Returns the number of an error, for an event.
pub(super) fn errno(e: Error) -> u32 {
    e.to_errno().unsigned_abs()
}

/// What the bytes of a message are, or why it is over.
type Begun = core::result::Result<(To, Bytes), u32>;

impl Interface {
    /// Begins the message of the next slot. Returns whether there was one, and places for it.
    pub(super) fn begin(&self, worker: &mut Worker) -> bool {
        let Some(words) = self.rings.slot(&mut worker.counts, Ring::Initiator, 0) else {
            return false;
        };
        let slot = Slot::decode(&words).filter(|slot| slot.op == Op::Put);
        let inline = match slot.filter(|slot| slot.has(slot::INLINE)) {
            // It comes with its slot, or is waited for.
            Some(_) => match self.rings.slot(&mut worker.counts, Ring::Initiator, 1) {
                Some(words) => Some(words),
                None => return false,
            },
            None => None,
        };
        let mut state = self.state.lock();
        let free = state.operations.iter().position(Option::is_none);
        let Some(n) = free else {
            return false;
        };
        let copies = slot.is_some_and(|slot| {
            !slot.has(slot::INLINE) && (1..=EAGER as u64).contains(&slot.length)
        });
        let copy = match copies {
            true => match state.copies.pop() {
                Some(copy) => Some(copy),
                None => return false,
            },
            false => None,
        };
        drop(state);
        let used = 1 + u64::from(inline.is_some());
        let begun = match &slot {
            Some(slot) => self.prepare(slot, inline, copy),
            None => Err(bindings::EINVAL),
        };
        self.rings
            .consume(&mut worker.counts, Ring::Initiator, used);
        let context = words.get(1).copied().unwrap_or(0);
        self.note(n, context, slot.as_ref(), begun);
        true
    }

    /// Finds the host, and copies the bytes.
    fn prepare(&self, slot: &Slot, inline: Option<[u64; WORDS]>, copy: Option<KVVec<u8>>) -> Begun {
        let bytes = self.bytes_of(slot, inline, copy)?;
        let checked = slot.address.checked_add(slot.length).ok_or(EINVAL);
        let named = checked.and_then(|_| self.matcher.named(slot.hwid));
        match named {
            Ok(peer) => {
                let to = To {
                    epoch: peer.epoch(),
                    peer,
                    address: Address {
                        endpoint: slot.endpoint,
                        generation: slot.generation,
                    },
                };
                Ok((to, bytes))
            }
            Err(e) => {
                self.give_back(bytes);
                Err(errno(e))
            }
        }
    }

    fn bytes_of(
        &self,
        slot: &Slot,
        inline: Option<[u64; WORDS]>,
        copy: Option<KVVec<u8>>,
    ) -> core::result::Result<Bytes, u32> {
        if let Some(words) = inline {
            if slot.length > BYTES as u64 {
                return Err(bindings::EINVAL);
            }
            let mut raw = [0; BYTES];
            for (raw, word) in raw.chunks_exact_mut(8).zip(words) {
                raw.copy_from_slice(&word.to_ne_bytes());
            }
            return Ok(Bytes::InRing(raw));
        }
        let Some(mut copy) = copy else {
            return Ok(Bytes::Pulled);
        };
        let read = match copy.get_mut(..slot.length as usize) {
            Some(to) => self.mm.load(slot.address, to),
            None => Err(EINVAL),
        };
        let bytes = Bytes::Copied(copy);
        match read {
            Ok(()) => Ok(bytes),
            Err(e) => {
                self.give_back(bytes);
                Err(errno(e))
            }
        }
    }

    fn give_back(&self, bytes: Bytes) {
        if let Bytes::Copied(buffer) = bytes {
            let _ = self.state.lock().copies.push_within_capacity(buffer);
        }
    }

    /// Notes an operation in a place that is free.
    fn note(&self, n: usize, context: u64, slot: Option<&Slot>, begun: Begun) {
        let mut state = self.state.lock();
        let mut operation = Operation {
            tag: state.next_tag(),
            phase: Phase::Waiting,
            to: None,
            sequence: 0,
            context,
            address: slot.map_or(0, |slot| slot.address),
            length: slot.map_or(0, |slot| slot.length),
            bits: slot.map_or(0, |slot| slot.bits),
            data: slot.map_or(0, |slot| slot.ignore),
            bytes: Bytes::Pulled,
            asked: [None; super::CHUNKS],
        };
        match begun {
            Ok((to, bytes)) => {
                operation.bytes = bytes;
                match queue(&mut state, &to) {
                    Some(sequence) => operation.sequence = sequence,
                    None => operation.phase = Phase::Over(bindings::ENOMEM, 0),
                }
                operation.to = Some(to);
            }
            Err(errno) => operation.phase = Phase::Over(errno, 0),
        }
        if let Some(place) = state.operations.get_mut(n) {
            *place = Some(operation);
        }
    }

    /// Sends the next message of a flow, the flows in turn. Returns whether one was sent.
    pub(super) fn send(&self, worker: &mut Worker) -> bool {
        let flows = self.state.lock().flows.len();
        for _ in 0..flows {
            worker.flow = (worker.flow + 1) % flows;
            if self.send_of(worker.flow) {
                return true;
            }
        }
        false
    }

    fn send_of(&self, flow: usize) -> bool {
        let mut state = self.state.lock();
        let Some(flow) = state.flows.get_mut(flow) else {
            return false;
        };
        flow.sending = flow.sending.or_else(|| flow.source.send());
        let Some(sequence) = flow.sending else {
            return false;
        };
        let to = flow.to.clone();
        let own = state.operations.iter().position(|o| {
            o.as_ref()
                .is_some_and(|o| o.is_to(&to) && o.sequence == sequence)
        });
        let Some(n) = own else {
            return false;
        };
        // The oldest that is not acknowledged is the first that the target may hear of.
        let first = !state.operations.iter().flatten().any(|other| {
            let before = sequence.wrapping_sub(other.sequence);
            other.is_to(&to)
                && matches!(other.phase, Phase::Waiting | Phase::Sent)
                && (1..OPERATIONS as u32).contains(&before)
        });
        let Some(Some(operation)) = state.operations.get_mut(n) else {
            return false;
        };
        let before = operation.phase;
        if !matches!(before, Phase::Waiting | Phase::Sent) {
            return false;
        }
        // The answer may come before this goes on.
        operation.phase = Phase::Sent;
        let (tag, length) = (operation.tag, operation.length);
        let envelope = Envelope {
            to: to.address,
            from: self.address,
            cookie: cookie_of(n, tag),
            body: Body::Put {
                bits: operation.bits,
                length,
                data: operation.data,
                sequence,
                first,
            },
        };
        // No other frees it: that is the thread's.
        let bytes = core::mem::replace(&mut operation.bytes, Bytes::Pulled);
        drop(state);
        let payload = match &bytes {
            Bytes::Pulled => &[],
            Bytes::InRing(raw) => raw.get(..length as usize).unwrap_or(&[]),
            Bytes::Copied(copy) => copy.get(..length as usize).unwrap_or(&[]),
        };
        let sent = to.peer.send(to.epoch, &envelope, payload);
        let mut state = self.state.lock();
        if let Some(Some(operation)) = state.operations.get_mut(n) {
            operation.bytes = bytes;
            if sent.is_err() && operation.phase == Phase::Sent {
                operation.phase = before;
            }
        }
        if sent.is_err() {
            return false;
        }
        if let Some(flow) = state.flows.iter_mut().find(|flow| flow.to.is(&to)) {
            if flow.sending == Some(sequence) {
                flow.sending = None;
            }
        }
        true
    }

    /// Sends bytes that a target has asked for. Returns whether some were sent.
    pub(super) fn supply(&self, worker: &mut Worker) -> bool {
        let mut any = false;
        for n in 0..OPERATIONS {
            any |= self.supply_one(worker, n);
        }
        any
    }

    fn supply_one(&self, worker: &mut Worker, n: usize) -> bool {
        let mut found = None;
        if let Some(Some(operation)) = self.state.lock().operations.get_mut(n) {
            // Taken out before the bytes are sent: the target asks for the next ones as soon as it has these.
            let asked = operation.asked.iter_mut().find_map(Option::take);
            found = asked
                .zip(operation.to.clone())
                .map(|(asked, to)| (asked, to, operation.address, operation.tag));
        }
        let Some((asked, to, address, tag)) = found else {
            return false;
        };
        let Asked {
            offset,
            length,
            chunk,
        } = asked;
        let read = match worker.bounce.get_mut(..length as usize) {
            Some(bytes) => self.mm.load(address.wrapping_add(offset), bytes),
            None => Err(EINVAL),
        };
        let status = read.map_or_else(|e| errno(e) as u8, |()| 0);
        let envelope = Envelope {
            to: to.address,
            from: self.address,
            cookie: cookie_of(n, tag),
            body: Body::Data { chunk, status },
        };
        let bytes = worker.bounce.get(..length as usize).unwrap_or(&[]);
        let payload = if status == 0 { bytes } else { &[] };
        let sent = to.peer.send(to.epoch, &envelope, payload);
        if sent.is_ok() || sent.is_err_and(|e| e == ECONNRESET) {
            return true;
        }
        // There is a place, as long as the target asks for no more than it may.
        if let Some(Some(operation)) = self.state.lock().operations.get_mut(n) {
            let place = operation.asked.iter_mut().find(|place| place.is_none());
            if let Some(place) = place.filter(|_| operation.tag == tag) {
                *place = Some(asked);
            }
        }
        false
    }

    /// Ends operations whose session is lost, and tells the program of those that are over. Returns whether there
    /// were any.
    pub(super) fn end(&self, worker: &mut Worker) -> bool {
        let mut any = false;
        for n in 0..OPERATIONS {
            let mut state = self.state.lock();
            let Some(Some(operation)) = state.operations.get_mut(n) else {
                continue;
            };
            if operation.to.as_ref().is_some_and(To::is_lost) {
                operation.phase = match operation.phase {
                    Phase::Waiting => Phase::Over(bindings::EHOSTUNREACH, 0),
                    Phase::Sent | Phase::Taken => Phase::Over(bindings::ECONNRESET, 0),
                    over => over,
                };
            }
            let Phase::Over(status, stored) = operation.phase else {
                continue;
            };
            if !self.rings.has_room(&worker.counts, 1) {
                break;
            }
            let event = Event {
                length: operation.length,
                stored,
                bits: operation.bits,
                data: operation.data,
                ..Event::of(Kind::Sent, operation.context, status)
            };
            state.free_operation(n);
            drop(state);
            self.rings.count(&mut worker.counts, true, status != 0);
            self.post(worker, &event);
            any = true;
        }
        any
    }
}

/// Queues a message in its flow. `None`: there is no place for another flow.
fn queue(state: &mut State, to: &To) -> Option<u32> {
    let known = state.flows.iter().position(|flow| flow.to.is(to));
    let n = match known {
        Some(n) => n,
        None => {
            let flow = Flow {
                to: to.clone(),
                source: flow::Source::new(),
                sending: None,
            };
            state.flows.push_within_capacity(flow).ok()?;
            state.flows.len() - 1
        }
    };
    state.flows.get_mut(n)?.source.queue(OPERATIONS as u32)
}
