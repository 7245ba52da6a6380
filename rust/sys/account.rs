// SPDX-License-Identifier: GPL-2.0

//! Users of the host, and memory that is charged to them.

use crate::sys::ext;
use core::ptr::NonNull;
use kernel::{bindings, prelude::*};

/// A user of the host (`struct user_struct`, `include/linux/sched/user.h`): a reference. Dropped in any
/// context.
pub(crate) struct User(NonNull<bindings::user_struct>);

// SAFETY: A reference to an object of the kernel that has its locks.
unsafe impl Send for User {}
// SAFETY: As above.
unsafe impl Sync for User {}

impl User {
    /// Returns the user that the current task belongs to, by its real user id. Wraps
    /// `get_current_user()`, `include/linux/cred.h`.
    pub(crate) fn current() -> Self {
        // SAFETY: No requirements; returns a reference, and never null.
        Self(unsafe { NonNull::new_unchecked(ext::weft_get_user()) })
    }
}

impl User {
    /// Returns its user id, as the host's first user namespace has it.
    pub(crate) fn uid(&self) -> u32 {
        // SAFETY: The reference is ours; the id never changes.
        unsafe { (*self.0.as_ptr()).uid.val }
    }
}

impl PartialEq for User {
    /// There is one object a user id for as long as it is referenced.
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { ext::weft_put_user(self.0.as_ptr()) };
    }
}

/// A number of pages that are charged to the user of the process that has made this, against its
/// RLIMIT_MEMLOCK, until it is dropped, in any context: neither `exec` nor the end of the process makes
/// room for more.
pub(crate) struct Locked {
    /// `None`: the process was allowed to lock without limit.
    user: Option<User>,
    pages: usize,
}

impl Locked {
    /// Charges pages to the user of the current process, unless it has CAP_IPC_LOCK. `ENOMEM` if
    /// RLIMIT_MEMLOCK does not allow so many.
    ///
    /// Wraps `weft_charge_locked()`, `c/shim.c`: `user_struct.locked_vm`, `include/linux/sched/user.h`.
    pub(crate) fn new(pages: usize) -> Result<Self> {
        let mut user = core::ptr::null_mut();
        // SAFETY: `user` gets a reference, or null, if this succeeds.
        kernel::error::to_result(unsafe { ext::weft_charge_locked(pages, &mut user) })?;
        Ok(Self {
            user: NonNull::new(user).map(User),
            pages,
        })
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(user) = &self.user {
            // SAFETY: Charged by `new`, and the reference is ours.
            unsafe { ext::weft_uncharge_locked(user.0.as_ptr(), self.pages) };
        }
    }
}
