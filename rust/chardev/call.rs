// SPDX-License-Identifier: GPL-2.0

//! One call of an ioctl, as its handler gets it, and checks that handlers share.
//!
//! This file must not know which ioctls there are.

use super::file::PortFile;
use crate::fabric::Inside;
use crate::sys::user::{is_admin, Extensible, UserStruct};
use kernel::prelude::*;

/// One call of an ioctl.
pub(super) struct Call<'a> {
    pub(super) file: &'a PortFile,
    /// What sleeps for a peer or a user, or accesses memory of the caller, leaves it meanwhile.
    pub(super) inside: &'a Inside<'a>,
    pub(super) user: UserStruct,
    /// The file is `O_NONBLOCK`.
    pub(super) nonblock: bool,
}

impl Call<'_> {
    /// Copies the structure of the call back, as much of it as the caller knows. The call has left the
    /// gate afterwards: it reports errors, and undoes what it has made, as when its file is closed.
    pub(super) fn write<T: Extensible>(&self, value: &T) -> Result {
        self.inside.leave();
        self.user.write(value)
    }

    /// Calls `f`, which accesses memory of the caller, outside of the gate.
    ///
    /// # Errors
    ///
    /// Those of `f` and of [`Inside::asleep`].
    pub(super) fn outside<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.inside.asleep(f)
    }
}

/// Returns `EINVAL` unless `fits`.
pub(super) fn check(fits: bool) -> Result {
    if fits {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Returns `EPERM` unless the caller may administer the fabric.
pub(super) fn as_admin() -> Result {
    match is_admin() {
        true => Ok(()),
        false => Err(EPERM),
    }
}
