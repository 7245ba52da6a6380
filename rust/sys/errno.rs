// SPDX-License-Identifier: GPL-2.0

//! Errors for which the kernel crate has no name: `Err(ENOLINK.into())`.

use kernel::{bindings, prelude::*};

/// An error by its number.
#[derive(Clone, Copy)]
pub(crate) struct Errno(u32);

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::from_errno(-(errno.0 as c_int))
    }
}

pub(crate) const ENOLINK: Errno = Errno(bindings::ENOLINK);
pub(crate) const EPROTO: Errno = Errno(bindings::EPROTO);
