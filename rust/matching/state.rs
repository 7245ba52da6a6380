// SPDX-License-Identifier: GPL-2.0

//! What the thread of an interface shares with the hosts' work items: messages that have come, what is to be carried
//! out, operations, pulls and grants.
//!
//! All memory is allocated when the interface is opened, but for the chunks of a pull, and for messages that are parked.
//! Memory that is being copied is taken out meanwhile: the lock is not held during a page fault. This file must not know
//! rings or lists.

use super::{
    buffers::Buffers,
    carry::Carry,
    grant::{self, Grant},
    operation::{Flow, Operation},
    peer::Peer,
    places::{Marks, Places, Set},
    pull::{Chunk, Kept, Pull},
    to::Asked,
    CARRIED, CHUNK, CHUNKS, COPIES, GETS, GRANTS, OPERATIONS, PARKED, PULLS, RETRIES, WAITING,
};
use crate::{
    proto::{
        envelope::Envelope,
        matching::{
            atomic::Change,
            retry::{Operations, Pending, Policy},
        },
    },
    sys::{memory::Memory, random},
};
use kernel::{bindings, prelude::*, sync::Arc};

/// Eager messages that have come: those that wait in the queue, and those that are being carried out.
const ARRIVALS: usize = WAITING as usize + CARRIED;
/// What is to be carried out: one that an engine has executed, and hits.
const CARRIES: usize = CARRIED + 1;
/// The number of the first grant, of what hosts ask for: behind those of operations.
pub(super) const GRANTED: usize = OPERATIONS + PARKED;
/// So many pulls at once have memory for [`CHUNKS`] chunks each; others for so many, which is enough for all together to
/// keep a channel busy.
const ALONE: usize = 2;
const BESIDE: usize = 2;

/// A message that has come.
pub(super) struct Arrival {
    pub(super) buffer: KVVec<u8>,
    pub(super) bytes: usize,
    /// What it does to integers.
    pub(super) change: Option<Change>,
}

/// What is shared.
pub(super) struct State {
    spare: Buffers,
    arrivals: KVec<Option<Arrival>>,
    /// Which of their places are free.
    vacant: KVec<usize>,
    /// An arrival of so many bytes found no memory, and its source was told: the shortest of them.
    refused: Option<usize>,
    carries: KVec<Carry>,
    /// There was no place for one.
    deferred: bool,
    pub(super) operations: Places<Operation>,
    /// Operations that are over, and those of whose bytes hosts have asked for some: for which.
    pub(super) over: Marks,
    pub(super) asked: Marks,
    pub(super) asks: KVVec<[Option<Asked>; CHUNKS]>,
    /// Those that are not over, by their names.
    pub(super) pending: Operations<Memory<Pending>>,
    pub(super) flows: KVVec<Flow>,
    /// Of messages, and behind [`PULLS`] of them those of operations.
    pub(super) pulls: Places<Pull>,
    pub(super) grants: Places<Grant>,
    /// Grants of whose bytes hosts have asked for some.
    pub(super) asked_of_grants: Set,
    /// Memory of the last pulls, for the next ones.
    kept: Kept,
    /// Memory for eager messages that are sent.
    pub(super) copies: Buffers,
    tag: u32,
}

fn all<T>(count: usize, make: impl Fn(usize) -> T) -> Result<KVec<T>> {
    let mut all = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
    for n in 0..count {
        all.push(make(n), GFP_KERNEL_ACCOUNT)?;
    }
    Ok(all)
}

impl State {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            spare: Buffers::new(WAITING as usize, CARRIED)?,
            arrivals: all(ARRIVALS, |_| None)?,
            vacant: all(ARRIVALS, |n| n)?,
            refused: None,
            carries: KVec::with_capacity(CARRIES, GFP_KERNEL_ACCOUNT)?,
            deferred: false,
            operations: Places::new(OPERATIONS)?,
            over: Marks::new(),
            asked: Marks::new(),
            asks: KVVec::from_elem([None; CHUNKS], OPERATIONS, GFP_KERNEL_ACCOUNT)?,
            pending: Operations::new(
                Memory::new(Pending::free(random::nonzero32()), OPERATIONS)?,
                Policy { retries: RETRIES },
            ),
            flows: KVVec::with_capacity(OPERATIONS, GFP_KERNEL_ACCOUNT)?,
            pulls: Places::new(PULLS + GETS)?,
            grants: Places::new(GRANTS)?,
            asked_of_grants: Set::EMPTY,
            kept: [const { None }; CHUNKS],
            copies: Buffers::new(COPIES[0], COPIES[1])?,
            tag: random::nonzero32(),
        })
    }

    /// Returns a number by which something is told apart from what had its place before.
    pub(super) fn next_tag(&mut self) -> u32 {
        self.tag = self.tag.wrapping_add(1);
        self.tag
    }

    /// Takes memory for a message of so many bytes that has come.
    pub(super) fn take_spare(&mut self, bytes: usize) -> Option<KVVec<u8>> {
        self.spare.take(bytes)
    }

    /// Notes that a message of so many bytes was refused as there was no memory for it: [`Self::was_refused`] says so
    /// later.
    pub(super) fn refuse(&mut self, bytes: usize) {
        self.refused = Some(self.refused.map_or(bytes, |least| least.min(bytes)));
    }

    /// Returns whether one was, and that was not said yet.
    pub(super) fn has_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Keeps a message, and returns by which number.
    pub(super) fn keep(&mut self, arrival: Arrival) -> Option<u64> {
        let n = self.vacant.pop()?;
        *self.arrivals.get_mut(n)? = Some(arrival);
        Some(n as u64)
    }

    /// Takes a message out, to copy it.
    pub(super) fn take_arrival(&mut self, payload: u64) -> Option<Arrival> {
        let n = usize::try_from(payload).ok()?;
        let arrival = self.arrivals.get_mut(n)?.take()?;
        let _ = self.vacant.push_within_capacity(n);
        Some(arrival)
    }

    /// Lends the bytes of a message. [`Self::give_arrival`] gives them back.
    pub(super) fn lend_arrival(&mut self, payload: u64) -> Option<(KVVec<u8>, usize)> {
        let place = self.arrivals.get_mut(usize::try_from(payload).ok()?)?;
        let arrival = place.as_mut()?;
        let buffer = core::mem::replace(&mut arrival.buffer, KVVec::new());
        Some((buffer, arrival.bytes))
    }

    /// Takes back what was lent; with `over` the message is not kept any longer.
    pub(super) fn give_arrival(&mut self, payload: u64, buffer: KVVec<u8>, over: bool) {
        if over {
            let _ = self.take_arrival(payload);
            return self.put_spare(buffer);
        }
        let place = usize::try_from(payload).ok();
        let place = place.and_then(|n| self.arrivals.get_mut(n)?.as_mut());
        if let Some(arrival) = place {
            arrival.buffer = buffer;
        }
    }

    /// Gives memory back.
    pub(super) fn put_spare(&mut self, buffer: KVVec<u8>) {
        self.spare.put(buffer);
    }

    /// Returns whether a message was refused, since this was called last, and there is memory.
    pub(super) fn was_refused(&mut self) -> bool {
        let has = |bytes: &mut usize| self.spare.has(*bytes);
        self.refused.take_if(has).is_some()
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

    /// Begins the pull of a message. `EBUSY`: there is no place.
    pub(super) fn begin_pull(&mut self, mut pull: Pull) -> Result {
        pull.tag = self.next_tag();
        let n = self.pulls.free(0..PULLS).ok_or(EBUSY)?;
        self.pulls.put(n, pull);
        Ok(())
    }

    /// Returns how many chunks of another pull are got at once: beside others a few.
    pub(super) fn chunks(&self) -> usize {
        match self.pulls.used().count() < ALONE {
            true => CHUNKS,
            false => BESIDE,
        }
    }

    /// Takes memory for the chunks of a pull of so many bytes, as far as there is some.
    pub(super) fn take_chunks(&mut self, length: u64, chunks: usize) -> Kept {
        let mut taken = [const { None }; CHUNKS];
        // Of fewer bytes, less memory will do.
        let whole = usize::try_from(length).unwrap_or(usize::MAX) / CHUNK;
        let kept = self.kept.iter_mut().filter(|place| place.is_some());
        for (to, from) in taken.iter_mut().zip(kept).take(chunks.min(whole)) {
            *to = from.take();
        }
        taken
    }

    /// Keeps the memory of a pull that is over, as far as there is a place for it.
    pub(super) fn keep_chunks(&mut self, pull: Pull) {
        let mut places = self.kept.iter_mut().filter(|place| place.is_none());
        for chunk in pull.chunks {
            let (Chunk::Free(buffer) | Chunk::Asked(buffer, ..) | Chunk::Come(buffer, ..)) = chunk
            else {
                continue;
            };
            if buffer.len() == CHUNK {
                let Some(place) = places.next() else {
                    return;
                };
                *place = Some(buffer);
            }
        }
    }

    /// Returns whether there is a place for the pull of a message.
    pub(super) fn can_pull(&self) -> bool {
        self.pulls.free(0..PULLS).is_some()
    }

    /// Returns a place for the pull of an operation.
    pub(super) fn place_of_get(&self) -> Option<usize> {
        self.pulls.free(PULLS..PULLS + GETS)
    }

    /// Returns the grant with a number, if an interface of a host has it.
    pub(super) fn grant(
        &mut self,
        peer: &Arc<Peer>,
        endpoint: u16,
        number: u64,
    ) -> Option<&mut Grant> {
        let (n, tag) = grant::place_of(number)?;
        let grant = self.grants.get_mut(n)?;
        (grant.tag == tag && grant.to.says(peer, endpoint)).then_some(grant)
    }

    /// Notes what an interface of a host has asked for. Returns false if it may not.
    pub(super) fn note_asked(&mut self, peer: &Arc<Peer>, what: &Envelope, asked: Asked) -> bool {
        let granted = grant::place_of(what.cookie);
        let (n, length, places) = if let Some((n, _)) = granted {
            match self.grant(peer, what.from.endpoint, what.cookie) {
                Some(grant) if grant.over.is_none() && grant.values.is_none() => {
                    (n, grant.length, &mut grant.asked)
                }
                _ => return false,
            }
        } else {
            match self.operation(peer, what) {
                Some((n, operation)) if operation.is_read() => {
                    let length = operation.length;
                    let Some(asks) = self.asks.get_mut(n) else {
                        return false;
                    };
                    (n, length, asks)
                }
                _ => return false,
            }
        };
        let end = asked.offset.checked_add(asked.length.into());
        if asked.length as usize > CHUNK || end.is_none_or(|end| end > length) {
            return false;
        }
        let Some(place) = places.iter_mut().find(|place| place.is_none()) else {
            return false;
        };
        *place = Some(asked);
        self.note_asked_of(if granted.is_some() { GRANTED + n } else { n }, true);
        true
    }

    /// Notes whether bytes are asked for, of an operation, or behind those of a grant.
    pub(super) fn note_asked_of(&mut self, n: usize, are: bool) {
        match (n.checked_sub(GRANTED), are) {
            (None, true) => self.asked.insert(n),
            (None, false) => self.asked.remove(n),
            (Some(n), true) => self.asked_of_grants.insert(n),
            (Some(n), false) => self.asked_of_grants.remove(n),
        }
    }

    /// Forgets what is asked for of an operation.
    pub(super) fn forget_asked(&mut self, n: usize) {
        self.asked.remove(n);
        if let Some(asks) = self.asks.get_mut(n) {
            *asks = [None; CHUNKS];
        }
    }

    /// Takes the bytes that a host has sent for a pull, by `read`. Returns false if they were not asked for.
    pub(super) fn come(
        &mut self,
        peer: &Arc<Peer>,
        endpoint: u16,
        chunk: u64,
        status: u8,
        bytes: usize,
        read: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<bool> {
        let (n, tag) = (chunk as u16 as usize, (chunk >> 32) as u32);
        let pull = self.pulls.get_mut(n);
        let is_of = |pull: &&mut Pull| pull.tag == tag && pull.from.says(peer, endpoint);
        let Some(pull) = pull.filter(is_of) else {
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
