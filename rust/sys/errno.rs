// SPDX-License-Identifier: GPL-2.0

//! Errors for which the kernel crate has no name: `Err(ENOLINK.into())`, `if e == ENOLINK`.

use kernel::{bindings, prelude::*};

/// An error by its number.
#[derive(Clone, Copy)]
pub(crate) struct Errno(u32);

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::from_errno(-(errno.0 as c_int))
    }
}

impl PartialEq<Errno> for Error {
    fn eq(&self, errno: &Errno) -> bool {
        self.to_errno() == -(errno.0 as c_int)
    }
}

pub(crate) const EADDRINUSE: Errno = Errno(bindings::EADDRINUSE);
pub(crate) const ECONNABORTED: Errno = Errno(bindings::ECONNABORTED);
pub(crate) const ECONNREFUSED: Errno = Errno(bindings::ECONNREFUSED);
pub(crate) const ECONNRESET: Errno = Errno(bindings::ECONNRESET);
pub(crate) const EDQUOT: Errno = Errno(bindings::EDQUOT);
pub(crate) const EHOSTUNREACH: Errno = Errno(bindings::EHOSTUNREACH);
pub(crate) const EISCONN: Errno = Errno(bindings::EISCONN);
pub(crate) const EMSGSIZE: Errno = Errno(bindings::EMSGSIZE);
pub(crate) const EINPROGRESS: Errno = Errno(bindings::EINPROGRESS);
pub(crate) const ENETDOWN: Errno = Errno(bindings::ENETDOWN);
pub(crate) const ENOBUFS: Errno = Errno(bindings::ENOBUFS);
pub(crate) const ENODATA: Errno = Errno(bindings::ENODATA);
pub(crate) const ENOLINK: Errno = Errno(bindings::ENOLINK);
pub(crate) const ENOTCONN: Errno = Errno(bindings::ENOTCONN);
pub(crate) const EOPNOTSUPP: Errno = Errno(bindings::EOPNOTSUPP);
pub(crate) const EPROTO: Errno = Errno(bindings::EPROTO);
pub(crate) const EREMOTE: Errno = Errno(bindings::EREMOTE);
pub(crate) const ESHUTDOWN: Errno = Errno(bindings::ESHUTDOWN);
pub(crate) const ESTALE: Errno = Errno(bindings::ESTALE);
