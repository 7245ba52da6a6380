// SPDX-License-Identifier: GPL-2.0

//! Random numbers.

use kernel::bindings;

/// Returns a random number that is not 0. Wraps `get_random_u32()`, `include/linux/random.h`.
pub(crate) fn nonzero32() -> u32 {
    // SAFETY: No requirements.
    unsafe { bindings::get_random_u32() }.max(1)
}

/// Returns a random number that is not 0. Wraps `get_random_u64()`, `include/linux/random.h`.
pub(crate) fn nonzero64() -> u64 {
    // SAFETY: No requirements.
    unsafe { bindings::get_random_u64() }.max(1)
}
