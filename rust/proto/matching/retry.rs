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
    peer: u32,
    cookie: u64,
    retries: u8,
    class: Option<Class>,
}

impl Pending {
    /// Initial value for memory.
    pub const FREE: Self = Self {
        generation: 0,
        next: NONE,
        peer: 0,
        cookie: 0,
        retries: 0,
        class: None,
    };

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
    /// Makes the table, for as many operations as `memory` has places, all [`Pending::FREE`].
    pub const fn new(memory: S, policy: Policy) -> Self {
        Self {
            memory,
            policy,
            free: Free::ALL,
        }
    }

    /// Notes an operation that is sent to a peer. Returns its name; `None` if there is no place.
    pub fn begin(&mut self, peer: u32, class: Class, cookie: u64) -> Option<Id> {
        let (at, place) = self.free.take(&mut self.memory)?;
        *place = Pending {
            generation: place.generation.wrapping_add(1),
            next: NONE,
            peer,
            cookie,
            retries: 0,
            class: Some(class),
        };
        Some(place.id(at))
    }

    /// Takes the answer to a try. Returns the operation; `None` if it is not the answer to its last try.
    pub fn complete(&mut self, id: Id) -> Option<u64> {
        let at = id.0 as u32;
        let place = self.memory.at(at)?;
        if place.class.is_none() || place.id(at) != id {
            return None;
        }
        let cookie = place.cookie;
        self.remove(at);
        Some(cookie)
    }

    /// Decides what becomes of the next operation to a peer whose session is lost, and returns where to go on
    /// after it. Begins at 0; sees each operation once, if none begins meanwhile.
    pub fn lost(&mut self, peer: u32, from: u32) -> Option<(Verdict, u32)> {
        let mut at = from;
        while at < self.free.fresh() {
            let place = self.memory.at_mut(at)?;
            if let Some(class) = place.class.filter(|_| place.peer == peer) {
                let cookie = place.cookie;
                if class == Class::Idempotent && place.retries < self.policy.retries {
                    place.retries += 1;
                    place.generation = place.generation.wrapping_add(1);
                    return Some((Verdict::Retry(place.id(at), cookie), at + 1));
                }
                self.remove(at);
                return Some((Verdict::Fail(cookie), at + 1));
            }
            at += 1;
        }
        None
    }

    fn remove(&mut self, at: u32) {
        if let Some(place) = self.free.put(&mut self.memory, at) {
            place.class = None;
        }
    }
}
