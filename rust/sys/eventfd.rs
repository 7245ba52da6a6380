// SPDX-License-Identifier: GPL-2.0

//! Eventfds, by which a user is told of what he waits for.

use crate::sys::ext;
use core::ptr::NonNull;
use kernel::{bindings, error::from_err_ptr, prelude::*};

/// An eventfd.
pub(crate) struct EventFd(NonNull<bindings::eventfd_ctx>);

// SAFETY: It has a lock of its own.
unsafe impl Send for EventFd {}
// SAFETY: As above.
unsafe impl Sync for EventFd {}

impl EventFd {
    /// That of a descriptor of the current process. `EBADF`: there is none such, `EINVAL`: it is
    /// something else.
    pub(crate) fn get(fd: i32) -> Result<Self> {
        // SAFETY: No requirements.
        let ctx = from_err_ptr(unsafe { ext::weft_eventfd_get(fd) })?;
        NonNull::new(ctx.cast()).map(Self).ok_or(EINVAL)
    }

    /// Adds 1. Any context.
    pub(crate) fn signal(&self) {
        // SAFETY: The reference is ours.
        unsafe { ext::weft_eventfd_signal(self.0.as_ptr().cast()) };
    }
}

impl Drop for EventFd {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { ext::weft_eventfd_put(self.0.as_ptr().cast()) };
    }
}
