// SPDX-License-Identifier: GPL-2.0

//! What the thread of an interface shares with the hosts' work items: messages that have come, what is to be carried
//! out, operations and pulls.
//!
//! All memory is allocated when the interface is opened, but for the chunks of a pull. Memory that is being copied is
//! taken out meanwhile: the lock is not held during a page fault. This file must not know rings or lists.

use super::{carry::Carry, peer::Peer, CHUNK, CHUNKS, EAGER, OPERATIONS, PULLS, WAITING};
use crate::{
    proto::{envelope::Address, matching::flow},
    sys::random,
};
use kernel::{bindings, prelude::*, sync::Arc};

/// Eager messages that have come: those that wait in the queue, and as many that are being carried out.
const ARRIVALS: usize = 2 * WAITING as usize;
/// What is to be carried out: one that an engine has executed, and hits.
const CARRIES: usize = ARRIVALS + 1;

/// A message that has come.
pub(super) struct Arrival {
    pub(super) buffer: KVVec<u8>,
    pub(super) bytes: usize,
}

/// The bytes of an operation.
pub(super) enum Bytes {
    /// Its target pulls them from the memory of the process.
    Pulled,
    InRing([u8; 64]),
    Copied(KVVec<u8>),
}

/// How far an operation is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is to be sent.
    Waiting,
    Sent,
    /// The target has it, and pulls.
    Taken,
    /// The program is to be told: an errno, and bytes that the target has stored.
    Over(u32, u64),
}

/// Bytes that a target has asked for.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) chunk: u64,
}

/// A message that the interface sends.
pub(super) struct Operation {
    pub(super) tag: u32,
    pub(super) phase: Phase,
    /// Where to; `None`: it was over at once.
    pub(super) to: Option<To>,
    pub(super) sequence: u32,
    pub(super) context: u64,
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) bits: u64,
    pub(super) data: u64,
    pub(super) bytes: Bytes,
    pub(super) asked: [Option<Asked>; CHUNKS],
}

/// An interface that something is sent to, in a session.
#[derive(Clone)]
pub(super) struct To {
    pub(super) peer: Arc<Peer>,
    pub(super) epoch: u32,
    pub(super) address: Address,
}

impl To {
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.peer, &other.peer)
            && self.epoch == other.epoch
            && self.address == other.address
    }

    /// Returns whether the session is over.
    pub(super) fn is_lost(&self) -> bool {
        self.peer.epoch() != self.epoch
    }
}

/// Returns by what the target knows the operation in place `n` with a tag; [`State::operation`] finds it by that.
pub(super) fn cookie_of(n: usize, tag: u32) -> u64 {
    n as u64 | u64::from(tag) << 32
}

impl Operation {
    pub(super) fn is_to(&self, to: &To) -> bool {
        self.to.as_ref().is_some_and(|own| own.is(to))
    }
}

/// The messages to one interface.
pub(super) struct Flow {
    pub(super) to: To,
    pub(super) source: flow::Source,
    /// The message that is being sent.
    pub(super) sending: Option<u32>,
}

/// A part of a message that is pulled.
pub(super) enum Chunk {
    Free(KVVec<u8>),
    Asked(KVVec<u8>, u64, u32),
    Come(KVVec<u8>, u64, u32),
    /// The thread copies it.
    Copying,
}

/// A message whose bytes are being got from its initiator.
pub(super) struct Pull {
    pub(super) tag: u32,
    pub(super) from: To,
    pub(super) cookie: u64,
    pub(super) bits: u64,
    pub(super) data: u64,
    pub(super) context: u64,
    pub(super) address: u64,
    /// Bytes that are stored at the end, and those of the message.
    pub(super) length: u64,
    pub(super) whole: u64,
    pub(super) unlinked: bool,
    pub(super) silent: bool,
    /// Bytes that were asked for.
    pub(super) asked: u64,
    pub(super) stored: u64,
    pub(super) status: u32,
    pub(super) chunks: [Chunk; CHUNKS],
}

impl Pull {
    /// Allocates the memory of the chunks. `ENOMEM`.
    pub(super) fn chunks() -> Result<[Chunk; CHUNKS]> {
        let make = || Ok::<_, Error>(Chunk::Free(KVVec::from_elem(0, CHUNK, GFP_KERNEL)?));
        let mut chunks = [const { Chunk::Copying }; CHUNKS];
        for chunk in &mut chunks {
            *chunk = make()?;
        }
        Ok(chunks)
    }

    /// Returns whether nothing is to come or to be copied.
    pub(super) fn is_over(&self) -> bool {
        let idle = self
            .chunks
            .iter()
            .all(|chunk| matches!(chunk, Chunk::Free(_)));
        self.from.is_lost() || idle && (self.status != 0 || self.asked == self.length)
    }
}

/// What is shared.
pub(super) struct State {
    spare: KVec<KVVec<u8>>,
    arrivals: KVec<Option<Arrival>>,
    /// An arrival found no memory, and its source was told.
    refused: bool,
    carries: KVec<Carry>,
    /// There was no place for one.
    deferred: bool,
    pub(super) operations: KVec<Option<Operation>>,
    pub(super) flows: KVec<Flow>,
    pub(super) pulls: KVec<Option<Pull>>,
    /// Memory for eager messages that are sent.
    pub(super) copies: KVec<KVVec<u8>>,
    tag: u32,
}

fn buffers(count: usize) -> Result<KVec<KVVec<u8>>> {
    let mut all = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
    for _ in 0..count {
        let buffer = KVVec::from_elem(0, EAGER, GFP_KERNEL_ACCOUNT)?;
        all.push(buffer, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(all)
}

fn nothing<T>(count: usize) -> Result<KVec<Option<T>>> {
    let mut all = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
    for _ in 0..count {
        all.push(None, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(all)
}

impl State {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            spare: buffers(ARRIVALS)?,
            arrivals: nothing(ARRIVALS)?,
            refused: false,
            carries: KVec::with_capacity(CARRIES, GFP_KERNEL_ACCOUNT)?,
            deferred: false,
            operations: nothing(OPERATIONS)?,
            flows: KVec::with_capacity(OPERATIONS, GFP_KERNEL_ACCOUNT)?,
            pulls: nothing(PULLS)?,
            copies: buffers(WAITING as usize)?,
            tag: random::nonzero32(),
        })
    }

    /// Returns a number by which something is told apart from what had its place before.
    pub(super) fn next_tag(&mut self) -> u32 {
        self.tag = self.tag.wrapping_add(1);
        self.tag
    }

    /// Takes memory for a message that has come.
    pub(super) fn take_spare(&mut self) -> Option<KVVec<u8>> {
        self.spare.pop()
    }

    /// Notes that a message was refused as there was no memory for it: [`Self::was_refused`] says so later.
    pub(super) fn refuse(&mut self) {
        self.refused = true;
    }

    /// Returns whether one was, and that was not said yet.
    pub(super) fn has_refused(&self) -> bool {
        self.refused
    }

    /// Keeps a message, and returns by which number.
    pub(super) fn keep(&mut self, arrival: Arrival) -> Option<u64> {
        let mut places = self.arrivals.iter_mut().enumerate();
        let (n, place) = places.find(|(_, place)| place.is_none())?;
        *place = Some(arrival);
        Some(n as u64)
    }

    /// Takes a message out, to copy it.
    pub(super) fn take_arrival(&mut self, payload: u64) -> Option<Arrival> {
        self.arrivals
            .get_mut(usize::try_from(payload).ok()?)?
            .take()
    }

    /// Gives memory back. Within what there was at the beginning, so there is a place for it.
    pub(super) fn put_spare(&mut self, buffer: KVVec<u8>) {
        let _ = self.spare.push_within_capacity(buffer);
    }

    /// Returns whether a message was refused, since this was called last, and there is memory.
    pub(super) fn was_refused(&mut self) -> bool {
        !self.spare.is_empty() && core::mem::take(&mut self.refused)
    }

    /// Returns whether another hit can be carried out. If not, [`Self::was_deferred`] says so later.
    pub(super) fn has_place(&mut self) -> bool {
        let has = self.carries.len() + 1 < CARRIES;
        self.deferred |= !has;
        has
    }

    /// Returns whether there was no place for a hit, since this was called last.
    pub(super) fn was_deferred(&mut self) -> bool {
        core::mem::take(&mut self.deferred)
    }

    /// Adds what is to be carried out: a hit for which there is a place, or the one that an engine has executed.
    pub(super) fn carry(&mut self, carry: Carry) {
        let _ = self.carries.push_within_capacity(carry);
    }

    pub(super) fn next_carry(&mut self) -> Option<Carry> {
        self.carries.remove(0).ok()
    }

    /// Returns the operation with a cookie, if it is to this peer.
    pub(super) fn operation(&mut self, peer: &Arc<Peer>, cookie: u64) -> Option<&mut Operation> {
        let (n, tag) = (cookie as u32 as usize, (cookie >> 32) as u32);
        let operation = self.operations.get_mut(n)?.as_mut()?;
        let to = operation.to.as_ref()?;
        (operation.tag == tag && Arc::ptr_eq(&to.peer, peer)).then_some(operation)
    }

    /// Notes that the target has taken a message. What was acknowledged with a later one is so already.
    pub(super) fn acknowledge(&mut self, to: &To, sequence: u32) {
        if let Some(flow) = self.flows.iter_mut().find(|flow| flow.to.is(to)) {
            let _ = flow.source.acknowledge(sequence);
        }
    }

    /// Goes back to a message that its target had no space for. That, and what was sent behind it, has not arrived: if
    /// the session ends now, it was not sent.
    pub(super) fn go_back(&mut self, to: &To, sequence: u32) {
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.to.is(to)) else {
            return;
        };
        if flow.source.no_space(sequence).is_err() {
            return;
        }
        flow.sending = None;
        for operation in self.operations.iter_mut().flatten() {
            let behind = operation.sequence.wrapping_sub(sequence) < OPERATIONS as u32;
            if behind && operation.phase == Phase::Sent && operation.is_to(to) {
                operation.phase = Phase::Waiting;
            }
        }
    }

    /// Frees the place of an operation, and the memory that goes with it.
    pub(super) fn free_operation(&mut self, n: usize) {
        let Some(operation) = self.operations.get_mut(n).and_then(Option::take) else {
            return;
        };
        if let Bytes::Copied(buffer) = operation.bytes {
            let _ = self.copies.push_within_capacity(buffer);
        }
        let Some(to) = &operation.to else {
            return;
        };
        if !self
            .operations
            .iter()
            .flatten()
            .any(|other| other.is_to(to))
        {
            self.flows.retain(|flow| !flow.to.is(to));
        }
    }

    /// Takes the bytes that a host has sent for a pull, by `read`. Returns false if they were not asked for.
    pub(super) fn come(
        &mut self,
        peer: &Arc<Peer>,
        chunk: u64,
        status: u8,
        bytes: usize,
        read: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<bool> {
        let (n, tag) = (chunk as u16 as usize, (chunk >> 32) as u32);
        let pull = self.pulls.get_mut(n).and_then(Option::as_mut);
        let pull = pull.filter(|pull| pull.tag == tag && Arc::ptr_eq(&pull.from.peer, peer));
        let Some(pull) = pull else {
            return Ok(false);
        };
        let Some(place) = pull.chunks.get_mut((chunk >> 16) as u16 as usize) else {
            return Ok(false);
        };
        let (mut buffer, offset, length) = match core::mem::replace(place, Chunk::Copying) {
            Chunk::Asked(buffer, offset, length) => (buffer, offset, length),
            other => {
                *place = other;
                return Ok(false);
            }
        };
        let to = buffer.get_mut(..bytes).filter(|_| bytes == length as usize);
        let result = match (status, to) {
            (0, Some(to)) => read(to),
            (0, None) => Err(EINVAL),
            _ => Ok(()),
        };
        if result.is_err_and(|e| e == EAGAIN) {
            *place = Chunk::Asked(buffer, offset, length);
            return Err(EAGAIN);
        }
        *place = match status {
            0 if result.is_ok() => Chunk::Come(buffer, offset, length),
            _ => Chunk::Free(buffer),
        };
        if status != 0 {
            pull.status = status.into();
        } else if result.is_err() {
            pull.status = bindings::EPROTO;
        }
        result.map(|()| true)
    }
}
