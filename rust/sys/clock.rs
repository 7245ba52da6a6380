// SPDX-License-Identifier: GPL-2.0

//! Time as a number, for the state machines of `proto`.

use kernel::{
    bindings,
    time::{NSEC_PER_MSEC, NSEC_PER_USEC},
};

/// Returns the monotonic time in milliseconds; it never goes back.
///
/// Wraps `ktime_get()`, `include/linux/timekeeping.h`.
pub(crate) fn now_ms() -> u64 {
    // SAFETY: No requirements.
    let ns = unsafe { bindings::ktime_get() };
    (ns / NSEC_PER_MSEC).unsigned_abs()
}

/// Returns the monotonic time in microseconds; it never goes back.
///
/// Wraps `ktime_get()`, `include/linux/timekeeping.h`.
pub(crate) fn now_us() -> u64 {
    // SAFETY: No requirements.
    let ns = unsafe { bindings::ktime_get() };
    (ns / NSEC_PER_USEC).unsigned_abs()
}
