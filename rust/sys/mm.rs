// SPDX-License-Identifier: GPL-2.0

//! The memory of a process, for a thread of the kernel that copies to and from it.
//!
//! A reference keeps the structure of the kernel, not the memory: nothing is copied when the process has ended, or has
//! called `exec`. This file must not know what is copied.

use crate::sys::ext;
use core::ptr::NonNull;
use kernel::{bindings, error::to_result, prelude::*};

/// The memory of a process.
pub(crate) struct Mm(NonNull<bindings::mm_struct>);

// SAFETY: A reference to an object of the kernel that has its locks.
unsafe impl Send for Mm {}
// SAFETY: As above.
unsafe impl Sync for Mm {}

impl Mm {
    /// Returns that of the current process. `EINVAL`: the task is a thread of the kernel.
    ///
    /// Wraps `mmgrab()`, `include/linux/sched/mm.h`.
    pub(crate) fn current() -> Result<Self> {
        // SAFETY: No requirements; returns a reference, or null.
        let mm = NonNull::new(unsafe { ext::weft_mm_grab() });
        Ok(Self(mm.ok_or(EINVAL)?))
    }

    /// Copies bytes to address `at`. Sleeps for page faults; in a thread of [`super::thread`] only.
    ///
    /// Wraps `mmget_not_zero()`, `include/linux/sched/mm.h`, `kthread_use_mm()`, `include/linux/kthread.h`, and
    /// `copy_to_user()`, `include/linux/uaccess.h`.
    ///
    /// # Errors
    ///
    /// `ESRCH` if the process has ended or called `exec`; `EFAULT` if not all of it can be written, or the thread is
    /// to stop.
    pub(crate) fn store(&self, at: u64, from: &[u8]) -> Result {
        let data = from.as_ptr().cast_mut().cast();
        // SAFETY: The reference is ours, and `from` has so many bytes, which are only read.
        to_result(unsafe { ext::weft_mm_copy(self.0.as_ptr(), at, data, from.len(), true) })
    }

    /// Copies bytes from address `at`. As [`Self::store`].
    pub(crate) fn load(&self, at: u64, to: &mut [u8]) -> Result {
        let (data, bytes) = (to.as_mut_ptr().cast(), to.len());
        // SAFETY: The reference is ours, and `to` has room for so many bytes.
        to_result(unsafe { ext::weft_mm_copy(self.0.as_ptr(), at, data, bytes, false) })
    }
}

impl Drop for Mm {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { ext::weft_mm_drop(self.0.as_ptr()) };
    }
}
