// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Flow control of a source and an endpoint: NO_SPACE, RESUME, and go back N.
//!
//! A message is refused when it arrives, if the queue of its endpoint is full, or when it is executed, if there is
//! no memory for it. The target says NO_SPACE with the number of the message, and drops what the source has sent
//! behind it; the source goes back to that message, and waits until it is told RESUME. A target has state for a
//! source only from NO_SPACE until the message comes again. Links deliver in order and lose nothing within a
//! session. This file is independent of matching, and of how either is said.

use super::{
    free::{Chained, Free},
    hash::siphash,
    storage::{Storage, NONE},
};

/// A violation of the protocol by the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolError;

/// What a source knows of the messages to an endpoint. Numbers wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The message that is not acknowledged, the one that is to be sent, and the one that is to come.
    acknowledged: u32,
    sent: u32,
    queued: u32,
    paused: bool,
}

impl Source {
    /// Makes the state before the first message, whose number is 0.
    pub const fn new() -> Self {
        Self {
            acknowledged: 0,
            sent: 0,
            queued: 0,
            paused: false,
        }
    }

    /// Queues a message, if there are less than `most` that are not acknowledged. Returns its number.
    pub fn queue(&mut self, most: u32) -> Option<u32> {
        if self.unacknowledged() >= most.min(u32::MAX / 2) {
            return None;
        }
        let number = self.queued;
        self.queued = number.wrapping_add(1);
        Some(number)
    }

    /// Returns the messages that the source has to keep.
    pub const fn unacknowledged(&self) -> u32 {
        self.queued.wrapping_sub(self.acknowledged)
    }

    /// Returns the number of the message that is to be sent now; it is sent.
    pub fn send(&mut self) -> Option<u32> {
        if self.paused || self.sent == self.queued {
            return None;
        }
        let number = self.sent;
        self.sent = number.wrapping_add(1);
        Some(number)
    }

    /// Returns whether all that is queued is sent, and more may be.
    pub const fn is_clear(&self) -> bool {
        !self.paused && self.sent == self.queued
    }

    /// Returns the number of the first message that is not acknowledged.
    pub const fn oldest(&self) -> u32 {
        self.acknowledged
    }

    /// Takes back that this message, and those behind it, were sent: there was no room for them on the way.
    pub fn unsend(&mut self, number: u32) {
        if number.wrapping_sub(self.acknowledged) < self.in_flight() {
            self.sent = number;
        }
    }

    const fn in_flight(&self) -> u32 {
        self.sent.wrapping_sub(self.acknowledged)
    }

    /// The target has taken all messages up to and with this one.
    pub fn acknowledge(&mut self, number: u32) -> Result<(), ProtocolError> {
        if number.wrapping_sub(self.acknowledged) >= self.in_flight() {
            return Err(ProtocolError);
        }
        self.acknowledged = number.wrapping_add(1);
        Ok(())
    }

    /// The target had no space for this message, and takes none behind it. A target that has queued messages
    /// may find later that it has none for an earlier one.
    pub fn no_space(&mut self, number: u32) -> Result<(), ProtocolError> {
        if number.wrapping_sub(self.acknowledged) >= self.in_flight() {
            return Err(ProtocolError);
        }
        self.sent = number;
        self.paused = true;
        Ok(())
    }

    /// The target may have space.
    pub fn resume(&mut self) -> Result<(), ProtocolError> {
        if !self.paused {
            return Err(ProtocolError);
        }
        self.paused = false;
        Ok(())
    }
}

impl Default for Source {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// When it arrives.
    Queue,
    /// When it is executed.
    Engine,
}

/// A source that an endpoint had no space for.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// The first of the refusals in the bucket that has this index.
    head: u32,
    next: u32,
    source: u32,
    endpoint: u16,
    used: bool,
    /// The source was told RESUME.
    resumed: bool,
    /// The message that has to arrive next, and the one that has to be executed next: those between are dropped.
    arrives: Option<u32>,
    executes: Option<u32>,
}

impl Refusal {
    /// Initial value for memory.
    pub const FREE: Self = Self {
        head: NONE,
        next: NONE,
        source: 0,
        endpoint: 0,
        used: false,
        resumed: false,
        arrives: None,
        executes: None,
    };
}

impl Chained for Refusal {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// The sources that the endpoints of a port had no space for.
pub struct Refusals<S> {
    memory: S,
    seed: [u64; 2],
    free: Free,
    count: u32,
}

impl<S: Storage<Refusal>> Refusals<S> {
    /// Makes a table for as many pairs of a source and an endpoint as `memory` has places, all
    /// [`Refusal::FREE`]. `seed` is secret.
    pub const fn new(memory: S, seed: [u64; 2]) -> Self {
        Self {
            memory,
            seed,
            free: Free::ALL,
            count: 0,
        }
    }

    /// Returns whether there are any.
    pub fn any(&self) -> bool {
        self.count > 0
    }

    fn bucket(&self, source: u32, endpoint: u16) -> u32 {
        let hash = siphash(self.seed, [u64::from(source), u64::from(endpoint)]) >> 32;
        ((hash * u64::from(self.memory.count())) >> 32) as u32
    }

    /// Returns the refusal of a pair, and the one in front of it.
    fn find(&self, source: u32, endpoint: u16) -> Option<(u32, u32)> {
        let mut before = NONE;
        let mut at = self.memory.at(self.bucket(source, endpoint))?.head;
        while let Some(refusal) = self.memory.at(at) {
            if refusal.source == source && refusal.endpoint == endpoint {
                return Some((at, before));
            }
            before = at;
            at = refusal.next;
        }
        None
    }

    /// Returns whether a message goes on, when it arrives (before it is queued) or when it is about to be
    /// executed: not if the source has sent it behind one that was refused.
    pub fn admit(&mut self, source: u32, endpoint: u16, sequence: u32, stage: Stage) -> bool {
        if self.count == 0 {
            return true;
        }
        let Some((at, before)) = self.find(source, endpoint) else {
            return true;
        };
        let Some(refusal) = self.memory.at_mut(at) else {
            return true;
        };
        let expected = match stage {
            Stage::Queue => &mut refusal.arrives,
            Stage::Engine => &mut refusal.executes,
        };
        if expected.is_some_and(|expected| expected != sequence) {
            return false;
        }
        *expected = None;
        if refusal.arrives.is_none() && refusal.executes.is_none() {
            self.remove(at, before);
        }
        true
    }

    /// Notes that a message is refused. Returns false if there is no place: the session with the source has to
    /// end.
    pub fn refuse(&mut self, source: u32, endpoint: u16, sequence: u32, stage: Stage) -> bool {
        let known = self.find(source, endpoint).map(|(at, _)| at);
        let Some(at) = known.or_else(|| self.insert(source, endpoint)) else {
            return false;
        };
        if let Some(refusal) = self.memory.at_mut(at) {
            refusal.resumed = false;
            refusal.arrives = Some(sequence);
            if stage == Stage::Engine {
                refusal.executes = Some(sequence);
            }
        }
        true
    }

    fn insert(&mut self, source: u32, endpoint: u16) -> Option<u32> {
        let bucket = self.bucket(source, endpoint);
        let (at, _) = self.free.take(&mut self.memory)?;
        let next = core::mem::replace(&mut self.memory.at_mut(bucket)?.head, at);
        self.count += 1;
        let place = self.memory.at_mut(at)?;
        *place = Refusal {
            head: place.head,
            next,
            source,
            endpoint,
            used: true,
            ..Refusal::FREE
        };
        Some(at)
    }

    /// Returns the next source that is told RESUME, as an endpoint may have space, or any if none is named; and
    /// where to go on after it. Begins at 0. Looks at each place.
    pub fn resume(&mut self, endpoint: Option<u16>, from: u32) -> Option<(u32, u16, u32)> {
        let mut at = from;
        while at < self.free.fresh() {
            let refusal = self.memory.at_mut(at)?;
            at += 1;
            let meant = endpoint.is_none_or(|endpoint| endpoint == refusal.endpoint);
            // One that has come again waits to be executed.
            if refusal.used && meant && !refusal.resumed && refusal.arrives.is_some() {
                refusal.resumed = true;
                return Some((refusal.source, refusal.endpoint, at));
            }
        }
        None
    }

    /// Forgets pairs: of a source whose session has ended, or of an endpoint that is closed. Looks at each place.
    pub fn forget(&mut self, forgets: impl Fn(u32, u16) -> bool) {
        for at in 0..self.free.fresh() {
            let Some(refusal) = self.memory.at(at).copied() else {
                return;
            };
            if !refusal.used || !forgets(refusal.source, refusal.endpoint) {
                continue;
            }
            if let Some((at, before)) = self.find(refusal.source, refusal.endpoint) {
                self.remove(at, before);
            }
        }
    }

    fn remove(&mut self, at: u32, before: u32) {
        let Some(refusal) = self.memory.at(at).copied() else {
            return;
        };
        let bucket = self.bucket(refusal.source, refusal.endpoint);
        match self.memory.at_mut(before) {
            Some(before) => before.next = refusal.next,
            None => {
                if let Some(bucket) = self.memory.at_mut(bucket) {
                    bucket.head = refusal.next;
                }
            }
        }
        if let Some(place) = self.free.put(&mut self.memory, at) {
            place.used = false;
        }
        self.count = self.count.saturating_sub(1);
    }
}
