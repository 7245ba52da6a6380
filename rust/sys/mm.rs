// SPDX-License-Identifier: GPL-2.0

//! The memory of a process, for a thread of the kernel, or one of the process, that copies to and from it.
//!
//! A reference keeps the structure of the kernel, not the memory: nothing is copied when the process has ended, or has
//! called `exec`. This file must not know what is copied.

use crate::sys::ext;
use core::ptr::NonNull;
use kernel::{bindings, error::to_result, page::PAGE_SIZE, prelude::*};

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

    /// Returns whether it is that of the current task.
    pub(crate) fn is_current(&self) -> bool {
        // SAFETY: The reference is ours.
        unsafe { ext::weft_mm_is_current(self.0.as_ptr()) }
    }

    /// Copies bytes to address `at`. In a thread of [`super::thread`], which sleeps for page faults, or in a task of the
    /// process itself ([`Self::is_current`]), which does not wait for pages.
    ///
    /// Wraps `mmget_not_zero()`, `include/linux/sched/mm.h`, `kthread_use_mm()`, `include/linux/kthread.h`, and
    /// `copy_to_user()` or `copy_to_user_nofault()`, `include/linux/uaccess.h`.
    ///
    /// # Errors
    ///
    /// In a thread `ESRCH` if the process has ended or called `exec`; `EFAULT` if not all of it can be written, or the
    /// thread is to stop. In a task of the process `EAGAIN` if not all of it can be written now.
    pub(crate) fn store(&self, at: u64, from: &[u8]) -> Result {
        let data = from.as_ptr().cast_mut().cast();
        // SAFETY: `from` has so many bytes, which are only read.
        unsafe { self.copy(at, data, from.len(), true) }
    }

    /// Copies bytes from address `at`. As [`Self::store`].
    pub(crate) fn load(&self, at: u64, to: &mut [u8]) -> Result {
        let (data, bytes) = (to.as_mut_ptr().cast(), to.len());
        // SAFETY: `to` has room for so many bytes.
        unsafe { self.copy(at, data, bytes, false) }
    }

    /// # Safety
    ///
    /// `data` has `bytes` bytes, which are not written to with `store`.
    unsafe fn copy(&self, at: u64, data: *mut c_void, bytes: usize, store: bool) -> Result {
        to_result(match self.is_current() {
            // SAFETY: By the requirements.
            true => unsafe { ext::weft_mm_copy_now(at, data, bytes, store) },
            // SAFETY: Likewise, and the reference is ours.
            false => unsafe { ext::weft_mm_copy(self.0.as_ptr(), at, data, bytes, store) },
        })
    }
}

impl Mm {
    /// Has the page at address `at` be there, to be changed. In a thread alone. Errors as [`Self::store`].
    ///
    /// Wraps `pin_user_pages_fast()`, `include/linux/mm.h`, as well.
    pub(crate) fn hold(&self, at: u64) -> Result<HeldPage<'_>> {
        let mut page = core::ptr::null_mut();
        // SAFETY: The reference is ours.
        to_result(unsafe { ext::weft_mm_hold(self.0.as_ptr(), at, &mut page) })?;
        Ok(HeldPage {
            mm: self,
            page: NonNull::new(page).ok_or(EFAULT)?,
            number: at / PAGE_SIZE as u64,
        })
    }
}

/// A page of a process that stays where it is, and the memory of the process with it.
pub(crate) struct HeldPage<'a> {
    mm: &'a Mm,
    page: NonNull<bindings::page>,
    number: u64,
}

impl HeldPage<'_> {
    /// Returns whether it has the byte at address `at`.
    pub(crate) fn has(&self, at: u64) -> bool {
        at / PAGE_SIZE as u64 == self.number
    }

    /// Replaces the integer of `bytes` bytes at address `at` by what `new` makes of it, atomically for all processors,
    /// and returns what it was. `EINVAL`: `at` is outside, or not a multiple of `bytes`, or there are no such integers.
    ///
    /// Wraps `cmpxchg()`, `linux/atomic.h`, and `kmap_local_page()`, `linux/highmem.h`.
    pub(crate) fn change(&self, at: u64, bytes: u8, new: impl Fn(u64) -> u64) -> Result<u64> {
        let inside = (at % PAGE_SIZE as u64) as u32;
        let fits = matches!(bytes, 1 | 2 | 4 | 8) && inside & (u32::from(bytes) - 1) == 0;
        if !self.has(at) || !fits {
            return Err(EINVAL);
        }
        // Mostly it is not 0, and this tells what it is.
        let mut old = 0;
        loop {
            let (page, new) = (self.page.as_ptr(), new(old));
            // SAFETY: The page is pinned, and an aligned integer at a byte of it ends in it.
            if unsafe { ext::weft_page_exchange(page, inside, bytes.into(), &mut old, new) } {
                return Ok(old);
            }
        }
    }
}

impl Drop for HeldPage<'_> {
    fn drop(&mut self) {
        // SAFETY: Held by `hold`, which nothing else releases.
        unsafe { ext::weft_mm_release(self.mm.0.as_ptr(), self.page.as_ptr()) };
    }
}

impl Drop for Mm {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { ext::weft_mm_drop(self.0.as_ptr()) };
    }
}
