// SPDX-License-Identifier: GPL-2.0

//! A thread of the kernel that can be ended while it waits for a page fault.
//!
//! This file must not know what it does.

use crate::sys::ext;
use core::ptr::NonNull;
use kernel::{bindings, error::from_err_ptr, prelude::*, str::CStrExt, sync::Arc};

/// What a thread does.
pub(crate) trait Run: Send + Sync {
    /// Runs until [`should_stop`], and not longer.
    fn run(&self);
}

/// A thread, which is ended when this is dropped.
pub(crate) struct Thread<T: Run> {
    task: NonNull<bindings::task_struct>,
    /// Of an `Arc`, whose reference the thread takes over when it runs.
    what: *const T,
}

// SAFETY: A task that runs until it is stopped here; `T` is shared with it by an `Arc`.
unsafe impl<T: Run> Send for Thread<T> {}
// SAFETY: As above. Nothing is done by a shared reference.
unsafe impl<T: Run> Sync for Thread<T> {}

impl<T: Run> Thread<T> {
    /// Starts a thread. `ENOMEM`, or `EINTR` if the current task is killed meanwhile. Sleeps.
    ///
    /// Wraps `kthread_run()`, `include/linux/kthread.h`.
    pub(crate) fn start(name: &'static CStr, what: Arc<T>) -> Result<Self> {
        let what = Arc::into_raw(what);
        // SAFETY: `run` takes the reference over.
        let task = unsafe {
            ext::weft_thread_start(Some(run::<T>), what.cast_mut().cast(), name.as_char_ptr())
        };
        let task = from_err_ptr(task).inspect_err(|_| {
            // SAFETY: No thread has taken it.
            drop(unsafe { Arc::from_raw(what) });
        })?;
        Ok(Self {
            task: NonNull::new(task).ok_or(ENOMEM)?,
            what,
        })
    }
}

impl<T: Run> Drop for Thread<T> {
    fn drop(&mut self) {
        // SAFETY: The thread does not end before it is told to, which is done once.
        if !unsafe { ext::weft_thread_stop(self.task.as_ptr()) } {
            // SAFETY: `start` has made it, and the thread has not taken it.
            drop(unsafe { Arc::from_raw(self.what) });
        }
    }
}

/// Returns whether the current thread, one of this file, is to end. Lets other tasks run; sleeps.
///
/// Wraps `kthread_should_stop()`, `include/linux/kthread.h`.
pub(crate) fn should_stop() -> bool {
    // SAFETY: Called in a thread of the kernel.
    unsafe { ext::weft_thread_should_stop() }
}

/// The function of a thread.
extern "C" fn run<T: Run>(data: *mut c_void) -> c_int {
    // SAFETY: `start` has made it of a reference, which is ours now.
    let what = unsafe { Arc::from_raw(data.cast_const().cast::<T>()) };
    // SAFETY: No requirements.
    unsafe { ext::weft_thread_begin() };
    what.run();
    0
}
