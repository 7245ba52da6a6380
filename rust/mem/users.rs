// SPDX-License-Identifier: GPL-2.0

//! Who needs an object: while somebody does it cannot be destroyed.

use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Relaxed},
        Arc,
    },
};

/// Set for good when the object is destroyed. The bits below count its users.
const CLOSED: u32 = 1 << 31;

/// How many users an object has.
pub(crate) struct Users(Atomic<u32>);

impl Users {
    pub(crate) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// One more. `ENOENT`: the object is being destroyed.
    fn join(&self) -> Result {
        let mut now = self.0.load(Relaxed);
        loop {
            if now & CLOSED != 0 {
                return Err(ENOENT);
            }
            if now == CLOSED - 1 {
                return Err(ENOSPC);
            }
            match self.0.cmpxchg(now, now + 1, Full) {
                Ok(_) => return Ok(()),
                Err(other) => now = other,
            }
        }
    }

    fn leave(&self) {
        self.0.fetch_sub(1, Full);
    }

    /// From now on nobody joins. For one caller: `EBUSY` while there are users, `ENOENT` if it was
    /// closed before.
    pub(crate) fn close(&self) -> Result {
        match self.0.cmpxchg(0, CLOSED, Full) {
            Ok(_) => Ok(()),
            Err(now) if now & CLOSED != 0 => Err(ENOENT),
            Err(_) => Err(EBUSY),
        }
    }
}

/// An object that others need.
pub(crate) trait Used {
    fn users(&self) -> &Users;
}

/// The need of it.
pub(crate) struct Use<T: Used>(Arc<T>);

impl<T: Used> Use<T> {
    /// `ENOENT`: it is being destroyed.
    pub(crate) fn new(object: Arc<T>) -> Result<Self> {
        object.users().join()?;
        Ok(Self(object))
    }
}

impl<T: Used> Deref for Use<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: Used> Drop for Use<T> {
    fn drop(&mut self) {
        self.0.users().leave();
    }
}
