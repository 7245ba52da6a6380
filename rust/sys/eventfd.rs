// SPDX-License-Identifier: GPL-2.0

//! Eventfds, which notify a user of events.

use crate::sys::ext;
use core::ptr::NonNull;
use kernel::{bindings, error::from_err_ptr, prelude::*};

/// A reference to an eventfd (`struct eventfd_ctx`, `include/linux/eventfd.h`).
pub(crate) struct EventFd(NonNull<bindings::eventfd_ctx>);

// SAFETY: It has a lock of its own.
unsafe impl Send for EventFd {}
// SAFETY: As above.
unsafe impl Sync for EventFd {}

impl EventFd {
    /// Returns the eventfd of descriptor `fd` of the current process.
    ///
    /// Wraps `eventfd_ctx_fdget()`, `include/linux/eventfd.h`.
    ///
    /// # Errors
    ///
    /// `EBADF` if there is no such descriptor; `EINVAL` if it is not an eventfd.
    pub(crate) fn get(fd: i32) -> Result<Self> {
        // SAFETY: No requirements.
        let ctx = from_err_ptr(unsafe { ext::weft_eventfd_get(fd) })?;
        NonNull::new(ctx.cast()).map(Self).ok_or(EINVAL)
    }

    /// Adds 1 to the counter. Wraps `eventfd_signal()`, `include/linux/eventfd.h`. Any context.
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
