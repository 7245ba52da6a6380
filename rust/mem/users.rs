// SPDX-License-Identifier: GPL-2.0

//! Counts the users of an object: it cannot be destroyed while there are any.

use crate::sys::drain::{Drain, Refused};
use core::ops::Deref;
use kernel::{prelude::*, sync::Arc};

/// The number of users of an object. Closed for good when the object is destroyed.
pub(crate) struct Users(Drain);

impl Users {
    pub(crate) fn new() -> Self {
        Self(Drain::open())
    }

    /// Adds a user. `ENOENT`: the object is being destroyed; `ENOSPC`: there are too many.
    fn join(&self) -> Result {
        self.0.enter().map_err(|refused| match refused {
            Refused::Closed => ENOENT,
            Refused::Busy => ENOSPC,
        })
    }

    /// Returns whether it is closed: the object is being destroyed, or was.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Closes it: no user is added any more. `EBUSY`: there are users; `ENOENT`: it was closed
    /// before.
    pub(crate) fn close(&self) -> Result {
        self.0.close_idle().map_err(|refused| match refused {
            Refused::Closed => ENOENT,
            Refused::Busy => EBUSY,
        })
    }
}

/// An object that other objects use.
pub(crate) trait Used {
    fn users(&self) -> &Users;
}

/// A use of an object, counted until it is dropped.
pub(crate) struct Use<T: Used>(Arc<T>);

impl<T: Used> Use<T> {
    /// Adds a user to `object`. `ENOENT`: it is being destroyed.
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
