// SPDX-License-Identifier: GPL-2.0

//! What an interface begins: messages, gets and atomic operations, from slots of its ring to the event that they are
//! over.
//!
//! The bytes of a short message, and the operands of an atomic operation, are copied when it begins, so that it can be
//! sent again after NO_SPACE whatever has become of the memory of the process; those of a long message are read when
//! its target asks for them. What is got is a [`Pull`].

use super::{
    interface::{Interface, Worker},
    operation::{Bytes, Operation, Phase},
    pull::{Pull, Purpose},
    rings::Ring,
    to::To,
    EAGER, OPERATIONS,
};
use crate::{
    proto::{
        envelope::{self, Address},
        matching::{atomic::Change, retry::Class},
        slot::{self, Event, Kind, More, Op, Slot, BYTES, WORDS},
    },
    sys::clock,
};
use kernel::prelude::*;

/// Returns the number of an error, for an event.
pub(super) fn errno(e: Error) -> u32 {
    e.to_errno().unsigned_abs()
}

/// A command: all of its slots.
struct Said {
    /// `None`: it makes no sense.
    slot: Option<Slot>,
    more: Option<More>,
    inline: Option<[u64; WORDS]>,
    context: u64,
    slots: u64,
}

/// What is asked for.
struct Wanted {
    slot: Slot,
    offset: Option<u64>,
    change: envelope::Change,
    /// Bytes that go with it.
    payload: usize,
    /// Where values to compare with are, which are the second half of those bytes.
    compare: Option<u64>,
    /// Where to, and how many: bytes that are got.
    gets: Option<(u64, u64)>,
    class: Class,
}

/// An operation on nothing.
const NO_CHANGE: envelope::Change = envelope::Change {
    operation: 0,
    integer: 0,
    fetches: false,
};

impl Said {
    /// Checks the command. `EINVAL`.
    fn check(&self) -> Result<Wanted> {
        let slot = self.slot.ok_or(EINVAL)?;
        let known = self
            .more
            .and_then(|more| Change::of(more.operation, more.integer));
        let (mut change, mut compare, mut gets) = (NO_CHANGE, None, None);
        let mut retries = false;
        let payload = match slot.op {
            Op::Get => {
                gets = Some((slot.address, slot.length));
                retries = true;
                0
            }
            Op::Atomic | Op::Fetch => {
                let (more, known) = self.more.zip(known).ok_or(EINVAL)?;
                change = envelope::Change {
                    operation: more.operation,
                    integer: more.integer,
                    fetches: slot.op == Op::Fetch,
                };
                gets = change.fetches.then_some((more.result, slot.length));
                compare = known.operation.compares().then_some(more.compare);
                retries = known.operation.only_reads();
                if retries && !change.fetches {
                    return Err(EINVAL);
                }
                known.operands(slot.length).ok_or(EINVAL)?
            }
            _ if self.inline.is_some() || slot.length <= EAGER as u64 => slot.length,
            _ => 0,
        };
        let ranges = [
            Some((slot.address, slot.length)),
            gets,
            compare.map(|at| (at, slot.length)),
        ];
        let mut ranges = ranges.into_iter().flatten();
        let wraps = ranges.any(|(at, length)| at.checked_add(length).is_none());
        let too_long = self.inline.is_some() && payload > BYTES as u64;
        let again = slot.has(slot::RETRY);
        if wraps || too_long || again && !retries {
            return Err(EINVAL);
        }
        Ok(Wanted {
            slot,
            offset: self.more.map(|more| more.offset),
            change,
            payload: usize::try_from(payload)?,
            compare,
            gets,
            class: match again {
                true => Class::Idempotent,
                false => Class::Ordered,
            },
        })
    }
}

impl Interface {
    /// Copies the slots of the next command; `None`: they are not all produced.
    fn read(&self, worker: &mut Worker) -> Option<Said> {
        let words = self.rings.slot(&mut worker.counts, Ring::Initiator, 0)?;
        let mut said = Said {
            slot: Slot::decode(&words).filter(Slot::is_of_initiator),
            more: None,
            inline: None,
            context: words.get(1).copied().unwrap_or(0),
            slots: 1,
        };
        let Some(slot) = said.slot else {
            return Some(said);
        };
        if slot.has_more() {
            let words = self.rings.slot(&mut worker.counts, Ring::Initiator, 1)?;
            said.slots += 1;
            said.more = More::decode(&words);
            if said.more.is_none() {
                said.slot = None;
            }
        }
        if slot.has(slot::INLINE) {
            let ahead = said.slots;
            said.inline = Some(
                self.rings
                    .slot(&mut worker.counts, Ring::Initiator, ahead)?,
            );
            said.slots += 1;
        }
        Some(said)
    }

    /// Begins what the next command asks for. Returns whether there was one, and places for it.
    pub(super) fn begin(&self, worker: &mut Worker) -> bool {
        let Some(said) = self.read(worker) else {
            return false;
        };
        let wanted = said.check();
        let mut state = self.state.lock();
        let free = state.operations.free(0..OPERATIONS);
        let n = match free.map_or_else(|| state.park(), Ok) {
            Ok(n) => n,
            Err(e) => {
                // Nothing else may ring when there is memory.
                worker.starved |= e == ENOMEM;
                return false;
            }
        };
        let gets = wanted.as_ref().is_ok_and(|wanted| wanted.gets.is_some());
        let pull = state.place_of_get();
        if gets && pull.is_none() {
            return false;
        }
        let payload = wanted.as_ref().map_or(0, |wanted| wanted.payload);
        let copy = match payload > 0 && said.inline.is_none() {
            true => match state.copies.take(payload) {
                Some(copy) => Some(copy),
                None => return false,
            },
            false => None,
        };
        drop(state);
        let mut operation = operation_of(said.slot.as_ref(), said.context);
        let mut class = Class::Ordered;
        let prepared = wanted.and_then(|wanted| {
            class = wanted.class;
            self.prepare(&wanted, said.inline, copy, &mut operation)
        });
        if prepared.as_ref().is_err_and(|e| worker.leaves(*e)) {
            if let Bytes::Copied(copy) = operation.bytes {
                // It was taken from there.
                self.state.lock().copies.put(copy);
            }
            return false;
        }
        self.rings
            .consume(&mut worker.counts, Ring::Initiator, said.slots);
        let mut state = self.state.lock();
        match prepared {
            Ok(Some(mut got)) => {
                got.tag = state.next_tag();
                got.purpose = Purpose::Operation(n);
                operation.pull = pull;
                if let Some(pull) = pull {
                    state.pulls.put(pull, got);
                }
            }
            Ok(None) => {}
            Err(e) => {
                operation.to = None;
                operation.phase = Phase::Over(errno(e), 0);
            }
        }
        state.begin(n, class, operation);
        true
    }

    /// Finds the host, copies the bytes, and allocates memory for those that are got.
    fn prepare(
        &self,
        wanted: &Wanted,
        inline: Option<[u64; WORDS]>,
        copy: Option<KVVec<u8>>,
        operation: &mut Operation,
    ) -> Result<Option<Pull>> {
        let slot = &wanted.slot;
        operation.offset = wanted.offset;
        operation.change = wanted.change;
        operation.payload = wanted.payload;
        if let Some(words) = inline {
            operation.bytes = Bytes::InRing(slot::bytes_of(&words));
        } else if let Some(mut copy) = copy {
            let read = self.load_operands(wanted, copy.get_mut(..wanted.payload).ok_or(EINVAL));
            // Given back with the operation.
            operation.bytes = Bytes::Copied(copy);
            read?;
        }
        let peer = self.matcher.named(slot.hwid)?;
        let to = To::now(
            peer,
            Address {
                endpoint: slot.endpoint,
                generation: slot.generation,
            },
        );
        operation.to = Some(to.clone());
        let Some((address, length)) = wanted.gets else {
            return Ok(None);
        };
        let purpose = Purpose::Operation(0);
        Ok(Some(self.new_pull(to, purpose, address, length)?))
    }

    /// Copies the bytes that go with an operation, and behind them what is compared with.
    fn load_operands(&self, wanted: &Wanted, to: Result<&mut [u8]>) -> Result {
        let (slot, to) = (&wanted.slot, to?);
        let Some(compare) = wanted.compare else {
            return self.mm.load(slot.address, to);
        };
        let middle = to.len() / 2;
        let (operands, compared) = to.split_at_mut_checked(middle).ok_or(EINVAL)?;
        self.mm.load(slot.address, operands)?;
        self.mm.load(compare, compared)
    }

    /// Sends the next message of a flow, the flows in turn. Returns whether one was sent.
    pub(super) fn send(&self, worker: &mut Worker) -> bool {
        let flows = self.state.lock().flows.len();
        for _ in 0..flows {
            worker.flow = (worker.flow + 1) % flows;
            if self.send_of(worker, worker.flow) {
                return true;
            }
        }
        false
    }

    fn send_of(&self, worker: &mut Worker, flow: usize) -> bool {
        let mut state = self.state.lock();
        let Some(flow) = state.flows.get_mut(flow) else {
            return false;
        };
        flow.sending = flow.sending.or_else(|| flow.source.send());
        let Some(sequence) = flow.sending else {
            return false;
        };
        let to = flow.to.clone();
        let own = Some(flow.place_of(sequence)).filter(|n| {
            let operation = state.operations.get(*n);
            operation.is_some_and(|o| o.sequence == sequence && o.is_to(&to) && !o.is_over())
        });
        let Some(n) = own else {
            // It has ended before it was sent.
            if let Some(flow) = state.flows.iter_mut().find(|flow| flow.to.is(&to)) {
                flow.sending = None;
            }
            return true;
        };
        let flow = state.flows.iter().find(|flow| flow.to.is(&to));
        let first = flow.is_some_and(|flow| state.is_first(flow, sequence));
        let Some(operation) = state.operations.get_mut(n) else {
            return false;
        };
        let (before, id) = (operation.phase, operation.id);
        let Some(id) = id.filter(|_| matches!(before, Phase::Waiting | Phase::Sent)) else {
            return false;
        };
        // The answer may come before this goes on.
        operation.phase = Phase::Sent;
        let envelope = to.envelope(self.address, id.0, operation.body(first));
        let payload = operation.payload;
        // No other frees it: that is the thread's.
        let bytes = operation.bytes.lend();
        drop(state);
        let sent = to.peer.send(to.epoch, &envelope, bytes.first(payload));
        let mut state = self.state.lock();
        if let Some(operation) = state.operations.get_mut(n) {
            operation.bytes.give_back(bytes);
            if sent.is_err() && operation.phase == Phase::Sent {
                operation.phase = before;
            }
        }
        if sent.is_err() {
            worker.blocked = true;
            return false;
        }
        if let Some(flow) = state.flows.iter_mut().find(|flow| flow.to.is(&to)) {
            if flow.sending == Some(sequence) {
                flow.sending = None;
            }
        }
        true
    }

    /// Decides what becomes of operations whose session is lost, and tells the program of those that are over. Returns
    /// whether there were any.
    pub(super) fn end(&self, worker: &mut Worker) -> bool {
        let mut state = self.state.lock();
        let (later, mut any) = state.lose(clock::now_ms);
        worker.later = later;
        let mut over = state.over.walk();
        while let Some(n) = over.next(&state.over) {
            let Some(operation) = state.operations.get(n) else {
                continue;
            };
            let Phase::Over(status, stored) = operation.phase else {
                continue;
            };
            let truncated = operation.truncated && status == 0;
            if !self.rings.has_room(&worker.counts, 1) {
                break;
            }
            let event = Event {
                flags: if truncated { slot::EVENT_TRUNCATED } else { 0 },
                length: operation.length,
                stored,
                bits: operation.bits,
                data: operation.data,
                ..Event::of(Kind::Sent, operation.context, status)
            };
            state.free_operation(n);
            self.count(worker, true, status != 0 || truncated);
            self.post(worker, &event);
            any = true;
        }
        any
    }
}

/// Returns the operation of a command, of which nothing else is known.
pub(super) fn operation_of(slot: Option<&Slot>, context: u64) -> Operation {
    let of = |get: fn(&Slot) -> u64| slot.map_or(0, get);
    Operation {
        id: None,
        phase: Phase::Waiting,
        to: None,
        sequence: 0,
        op: slot.map_or(Op::Put, |slot| slot.op),
        change: NO_CHANGE,
        context,
        address: of(|slot| slot.address),
        length: of(|slot| slot.length),
        bits: of(|slot| slot.bits),
        offset: None,
        data: of(|slot| slot.ignore),
        bytes: Bytes::Pulled,
        payload: 0,
        pull: None,
        truncated: false,
        retries: 0,
    }
}
