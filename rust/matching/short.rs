// SPDX-License-Identifier: GPL-2.0

//! Messages whose bytes are in the ring: several to the same target are begun and sent at once.
//!
//! What is in front of them in their flow goes first, so they are left to the other steps of a round if anything is.

use super::{
    initiator::operation_of,
    interface::{Interface, Worker},
    operation::{Bytes, Operation, Phase},
    operations::flow_of,
    peer::fill,
    rings::Ring,
    to::To,
    OPERATIONS,
};
use crate::{
    proto::{
        envelope::Address,
        matching::retry::Class,
        slot::{self, Op, Slot, BYTES, WORDS},
    },
    sys::client::Short,
};
use kernel::prelude::*;

/// Slots that a message has.
const SLOTS: u64 = 2;

/// Returns a command, if it is for a message that can be sent so.
fn short(words: &[u64; WORDS]) -> Option<Slot> {
    let slot = Slot::decode(words).filter(|slot| slot.op == Op::Put)?;
    let plain = slot.flags == slot::INLINE;
    let fits = slot.length <= BYTES as u64 && slot.address.checked_add(slot.length).is_some();
    (plain && fits).then_some(slot)
}

impl Interface {
    /// Begins and sends the next messages, as long as they are short and for one target. Returns whether there were any,
    /// and places for them.
    pub(super) fn send_now(&self, worker: &mut Worker) -> bool {
        let next = self.rings.slot(&mut worker.counts, Ring::Initiator, 0);
        let Some(first) = next.as_ref().and_then(short) else {
            return false;
        };
        // Whatever is wrong with it, the other step finds out.
        let Ok(peer) = self.matcher.named(first.hwid) else {
            return false;
        };
        let address = Address {
            endpoint: first.endpoint,
            generation: first.generation,
        };
        let to = To::now(peer, address);
        let mut shorts = core::mem::replace(&mut worker.shorts, KVVec::new());
        let begun = self.begin_short(worker, &first, &to, &mut shorts);
        let all = shorts.get(..begun.count).unwrap_or(&[]);
        if !all.is_empty() {
            self.rings.consume(
                &mut worker.counts,
                Ring::Initiator,
                SLOTS * begun.count as u64,
            );
            let sent = to.peer.send_short(to.epoch, all).unwrap_or(0);
            if sent < begun.count {
                self.unsend(&to, begun.sequence.wrapping_add(sent as u32));
            }
        }
        worker.shorts = shorts;
        begun.count > 0
    }

    /// Begins messages to a target: they are sent next.
    fn begin_short(
        &self,
        worker: &mut Worker,
        first: &Slot,
        to: &To,
        shorts: &mut [Short],
    ) -> Begun {
        let mut begun = Begun {
            count: 0,
            sequence: 0,
        };
        let mut state = self.state.lock();
        let Some(at) = flow_of(&mut state.flows, to) else {
            return begun;
        };
        let flow = state.flows.get(at);
        if flow.is_some_and(|flow| flow.sending.is_some() || !flow.source.is_clear()) {
            return begun;
        }
        let mut next = Some(*first);
        for place in shorts {
            let ahead = SLOTS * begun.count as u64;
            let slot = next.take().or_else(|| {
                let words = self
                    .rings
                    .slot(&mut worker.counts, Ring::Initiator, ahead)?;
                let is = |slot: &Slot| {
                    (slot.hwid, slot.endpoint, slot.generation)
                        == (first.hwid, first.endpoint, first.generation)
                };
                short(&words).filter(is)
            });
            let Some(slot) = slot else {
                break;
            };
            let bytes = self
                .rings
                .slot(&mut worker.counts, Ring::Initiator, ahead + 1);
            let Some((bytes, n)) = bytes.zip(state.operations.free(0..OPERATIONS)) else {
                break;
            };
            let Some(id) = state.pending.begin(Class::Ordered, n as u64) else {
                break;
            };
            let Some(flow) = state.flows.get_mut(at) else {
                break;
            };
            let Some(sequence) = flow.source.queue(OPERATIONS as u32) else {
                state.pending.complete(id);
                break;
            };
            flow.source.send();
            flow.put(sequence, n);
            let raw = slot::bytes_of(&bytes);
            let operation = Operation {
                id: Some(id),
                phase: Phase::Sent,
                to: Some(to.clone()),
                sequence,
                bytes: Bytes::InRing(raw),
                payload: slot.length as usize,
                ..operation_of(Some(&slot), slot.context)
            };
            // The others are behind that one.
            let flow = state.flows.get(at).filter(|_| begun.count == 0);
            let is_first = flow.is_some_and(|flow| state.is_first(flow, sequence));
            let envelope = to.envelope(self.address, id.0, operation.body(is_first));
            let payload = raw.get(..operation.payload).unwrap_or(&[]);
            // The longest there is fits.
            fill(place, &envelope, payload);
            state.operations.put(n, operation);
            if begun.count == 0 {
                begun.sequence = sequence;
            }
            begun.count += 1;
        }
        if begun.count == 0 {
            // It may have been made for this.
            state.flows.retain(|flow| flow.count > 0);
        }
        begun
    }

    /// Has messages sent again, from this one on, for which there was no room.
    fn unsend(&self, to: &To, from: u32) {
        let mut state = self.state.lock();
        let flow = state.flows.iter_mut().find(|flow| flow.to.is(to));
        if let Some(flow) = flow {
            flow.source.unsend(from);
        }
        for n in state.operations.used() {
            let Some(operation) = state.operations.get_mut(n) else {
                continue;
            };
            let behind = operation.sequence.wrapping_sub(from) < OPERATIONS as u32;
            if behind && operation.phase == Phase::Sent && operation.is_to(to) {
                operation.phase = Phase::Waiting;
            }
        }
    }
}

/// Messages that were begun.
struct Begun {
    count: usize,
    /// The number of the first one.
    sequence: u32,
}
