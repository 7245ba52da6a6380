// SPDX-License-Identifier: GPL-2.0

//! Who needs an object: while somebody does it cannot be destroyed.

use crate::sys::drain::{Drain, Refused};
use core::ops::Deref;
use kernel::{prelude::*, sync::Arc};

/// How many users an object has. Closed for good when it is destroyed.
pub(crate) struct Users(Drain);

impl Users {
    pub(crate) fn new() -> Self {
        Self(Drain::open())
    }

    /// One more. `ENOENT`: the object is being destroyed.
    fn join(&self) -> Result {
        self.0.enter().map_err(|refused| match refused {
            Refused::Closed => ENOENT,
            Refused::Busy => ENOSPC,
        })
    }

    /// From now on nothing joins. For one caller: `EBUSY` while there are users, `ENOENT` if it was
    /// closed before.
    pub(crate) fn close(&self) -> Result {
        self.0.close_idle().map_err(|refused| match refused {
            Refused::Closed => ENOENT,
            Refused::Busy => EBUSY,
        })
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
        self.0.users().0.leave();
    }
}
