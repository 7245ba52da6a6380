// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What becomes of operations that have no answer when a session is lost.
//!
//! The initiator cannot know whether the target has carried them out. An idempotent operation is retried, as
//! often as the policy allows; an ordered one ends with an error, as it may not be carried out twice. An answer
//! to an earlier try is not taken for one to a later. This file is independent of sessions and of time.

use super::{
    free::{Chained, Free},
    storage::{Storage, NONE},
};

/// What an operation is to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It can be carried out again: a put to, or a get from, an address.
    Idempotent,
    /// It changes what the next finds: an atomic operation, or a put that is matched.
    Ordered,
}

/// How often an idempotent operation is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The retries of one operation.
    pub retries: u8,
}

/// Names a try of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(pub u64);

/// What to do with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it again, under this name.
    Retry(Id, u64),
    /// Tell its program that it is not known whether it was carried out.
    Fail(u64),
}

/// An operation that has no answer yet.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Rises with each try in this place.
    generation: u32,
    next: u32,
    cookie: u64,
    retries: u8,
    class: Option<Class>,
}

impl Pending {
    /// Initial value for memory, whose names begin behind `generation`: where those of no other memory do that may be
    /// meant.
    pub const fn free(generation: u32) -> Self {
        Self {
            generation,
            next: NONE,
            cookie: 0,
            retries: 0,
            class: None,
        }
    }

    fn id(&self, at: u32) -> Id {
        Id((u64::from(self.generation) << 32) | u64::from(at))
    }
}

impl Chained for Pending {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// The operations of an initiator that have no answer yet.
pub struct Operations<S> {
    memory: S,
    policy: Policy,
    free: Free,
}

impl<S: Storage<Pending>> Operations<S> {
    /// Makes the table, for as many operations as `memory` has places, all [`Pending::free`].
    pub const fn new(memory: S, policy: Policy) -> Self {
        Self {
            memory,
            policy,
            free: Free::ALL,
        }
    }

    /// Notes an operation that is sent. Returns its name; `None` if there is no place.
    pub fn begin(&mut self, class: Class, cookie: u64) -> Option<Id> {
        let (at, place) = self.free.take(&mut self.memory)?;
        *place = Pending {
            generation: place.generation.wrapping_add(1),
            next: NONE,
            cookie,
            retries: 0,
            class: Some(class),
        };
        Some(place.id(at))
    }

    /// Returns its memory, to have it grow.
    pub fn memory(&mut self) -> &mut S {
        &mut self.memory
    }

    /// Notes that the operation whose last try has this name has another number from here on.
    pub fn renumber(&mut self, id: Id, cookie: u64) {
        if self.find(id).is_some() {
            if let Some(place) = self.memory.at_mut(id.0 as u32) {
                place.cookie = cookie;
            }
        }
    }

    /// Returns the operation whose last try has this name.
    pub fn find(&self, id: Id) -> Option<u64> {
        let at = id.0 as u32;
        let place = self.memory.at(at)?;
        let is = place.class.is_some() && place.id(at) == id;
        is.then_some(place.cookie)
    }

    /// Takes the answer to a try. Returns the operation; `None` if it is not the answer to its last try.
    pub fn complete(&mut self, id: Id) -> Option<u64> {
        let cookie = self.find(id)?;
        self.remove(id.0 as u32);
        Some(cookie)
    }

    /// Decides what becomes of an operation whose session is lost, by the name of its last try.
    pub fn lose(&mut self, id: Id) -> Option<Verdict> {
        let cookie = self.find(id)?;
        let at = id.0 as u32;
        let retries = self.policy.retries;
        let place = self.memory.at_mut(at)?;
        if place.class == Some(Class::Idempotent) && place.retries < retries {
            place.retries += 1;
            place.generation = place.generation.wrapping_add(1);
            return Some(Verdict::Retry(place.id(at), cookie));
        }
        self.remove(at);
        Some(Verdict::Fail(cookie))
    }

    fn remove(&mut self, at: u32) {
        if let Some(place) = self.free.put(&mut self.memory, at) {
            place.class = None;
        }
    }
}
