// SPDX-License-Identifier: GPL-2.0

//! A spin lock for data that hard interrupts and other contexts share: `spin_lock_irqsave()`,
//! `include/linux/spinlock.h`.

use kernel::{
    bindings,
    prelude::*,
    sync::{
        lock::{Backend, Lock},
        LockClassKey,
    },
};

/// The backend; see [`SpinLockIrq`].
pub(crate) struct IrqSave;

/// A spin lock that is held with interrupts off.
pub(crate) type SpinLockIrq<T> = Lock<T, IrqSave>;

/// Makes a lock. Use [`new_spinlock_irq`], which gives it a lock class of its own for lockdep.
pub(crate) fn init<T>(
    value: T,
    name: &'static CStr,
    key: Pin<&'static LockClassKey>,
) -> impl PinInit<SpinLockIrq<T>> {
    Lock::new(value, name, key)
}

/// Makes a [`SpinLockIrq`]: `new_spinlock_irq!(value, c"name")`.
macro_rules! new_spinlock_irq {
    ($value:expr, $name:expr) => {
        $crate::sys::irqlock::init($value, $name, kernel::static_lock_class!())
    };
}
pub(crate) use new_spinlock_irq;

// SAFETY: `spinlock_t` gives mutual exclusion. Guards are not `Send`, so that the flags are restored
// by the CPU that saved them, and a lock taken inside another is released first or restores the flags
// that it found.
unsafe impl Backend for IrqSave {
    type State = bindings::spinlock_t;
    type GuardState = c_ulong;

    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: By the requirements of this function.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    unsafe fn lock(ptr: *mut Self::State) -> c_ulong {
        // SAFETY: By the requirements of this function; `raw_spinlock_t` is the first member.
        unsafe { bindings::_raw_spin_lock_irqsave(ptr.cast()) }
    }

    unsafe fn try_lock(_ptr: *mut Self::State) -> Option<c_ulong> {
        // No caller uses this; it fails as if the lock were held.
        None
    }

    unsafe fn unlock(ptr: *mut Self::State, flags: &c_ulong) {
        // SAFETY: By the requirements of this function, with the flags that `lock` gave.
        unsafe { bindings::_raw_spin_unlock_irqrestore(ptr.cast(), *flags) }
    }

    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: By the requirements of this function.
        unsafe { bindings::spin_assert_is_held(ptr) }
    }
}
