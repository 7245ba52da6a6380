// SPDX-License-Identifier: GPL-2.0

//! The current task.

use super::ext;

/// Returns whether a fatal signal is pending for the current task: a long operation on its behalf is to
/// end. Never true in a thread of the kernel.
///
/// Wraps `fatal_signal_pending()`, `include/linux/sched/signal.h`. Any context.
pub(crate) fn is_killed() -> bool {
    // SAFETY: No requirements.
    unsafe { ext::weft_is_killed() }
}
