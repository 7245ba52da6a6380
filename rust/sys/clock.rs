// SPDX-License-Identifier: GPL-2.0

//! Time as the state machines of `proto` take it: a number.

use kernel::{
    bindings,
    time::{NSEC_PER_MSEC, NSEC_PER_USEC},
};

/// Milliseconds since boot; never goes back.
pub(crate) fn now_ms() -> u64 {
    // SAFETY: No requirements.
    let ns = unsafe { bindings::ktime_get() };
    (ns / NSEC_PER_MSEC).unsigned_abs()
}

/// Microseconds since boot; never goes back.
pub(crate) fn now_us() -> u64 {
    // SAFETY: No requirements.
    let ns = unsafe { bindings::ktime_get() };
    (ns / NSEC_PER_USEC).unsigned_abs()
}
