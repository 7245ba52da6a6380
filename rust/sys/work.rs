// SPDX-License-Identifier: GPL-2.0

//! Functions that the kernel crate's work queues lack: cancelling an item, waiting for it, and moving
//! its timer (`include/linux/workqueue.h`).
//!
//! A work item that is queued owns a reference to its object. When an item is cancelled or its timer is
//! moved, a reference is released; these functions keep the count right.

use kernel::{
    bindings,
    prelude::*,
    sync::Arc,
    time::Jiffies,
    workqueue::{HasDelayedWork, HasWork, Work, WorkItem},
};

fn raw_work<T, const ID: u64>(this: &Arc<T>) -> *mut bindings::work_struct
where
    T: HasWork<T, ID> + WorkItem<ID>,
{
    // SAFETY: The reference keeps the object, and with it its work item.
    unsafe { Work::raw_get(T::raw_get_work(Arc::as_ptr(this).cast_mut())) }
}

fn raw_delayed<T, const ID: u64>(this: &Arc<T>) -> *mut bindings::delayed_work
where
    T: HasDelayedWork<T, ID> + WorkItem<ID>,
{
    let work = raw_work::<T, ID>(this);
    // SAFETY: By the requirements of `HasDelayedWork` it is the `work` of a `delayed_work`.
    unsafe { kernel::container_of!(work, bindings::delayed_work, work) }
}

/// Takes the item out of its queue, or stops its timer, and waits until it does not run.
///
/// Wraps `cancel_delayed_work_sync()`, `include/linux/workqueue.h`. Sleeps.
pub(crate) fn cancel_delayed<T, const ID: u64>(this: &Arc<T>)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>>,
{
    // SAFETY: Initialised with the object.
    if unsafe { bindings::cancel_delayed_work_sync(raw_delayed::<T, ID>(this)) } {
        // SAFETY: The reference that it owned while it was queued.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(this)) });
    }
}

/// Makes the item run on the CPU's work queue in `delay` jiffies. If the item is queued already, for
/// whatever time, the new time replaces that.
///
/// Does what `mod_delayed_work()`, `include/linux/workqueue.h`, does. Any context.
pub(crate) fn run_in<T, const ID: u64>(this: &Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    // SAFETY: A queue of the kernel's, which is always there.
    unsafe { run_on(this, bindings::system_percpu_wq, delay) }
}

/// As [`run_in`], on the unbound work queue: for an item that runs for long, so that other items of the
/// CPU do not wait for it.
pub(crate) fn run_unbound_in<T, const ID: u64>(this: &Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    // SAFETY: As above.
    unsafe { run_on(this, bindings::system_dfl_wq, delay) }
}

/// Makes the item run on the CPU's work queue in `delay` jiffies, unless it is queued already. An item
/// calls this for itself at its end: a run that was requested meanwhile is not postponed.
///
/// Wraps `queue_delayed_work_on()`, `include/linux/workqueue.h`. Any context.
pub(crate) fn again_in<T, const ID: u64>(this: &Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    // SAFETY: A queue of the kernel's, which is always there.
    unsafe { queue_on(this, bindings::system_percpu_wq, delay) }
}

/// As [`again_in`], on the unbound work queue: for an item that runs for long.
pub(crate) fn again_unbound_in<T, const ID: u64>(this: &Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    // SAFETY: As above.
    unsafe { queue_on(this, bindings::system_dfl_wq, delay) }
}

/// Queues the item to `queue`, to run in `delay` jiffies; the new time replaces an earlier one.
///
/// # Safety
///
/// `queue` exists.
unsafe fn run_on<T, const ID: u64>(
    this: &Arc<T>,
    queue: *mut bindings::workqueue_struct,
    delay: Jiffies,
) where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    // Not `mod_delayed_work()`: for an item that is being cancelled it does not tell whether it was
    // queued.
    // SAFETY: Initialised with the object.
    if unsafe { bindings::cancel_delayed_work(raw_delayed::<T, ID>(this)) } {
        // SAFETY: The reference that it owned while it was queued; the caller has another.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(this)) });
    }
    // SAFETY: By the requirements.
    unsafe { queue_on(this, queue, delay) }
}

/// Queues the item to `queue`, to run in `delay` jiffies, unless it is queued already.
///
/// # Safety
///
/// `queue` exists.
unsafe fn queue_on<T, const ID: u64>(
    this: &Arc<T>,
    queue: *mut bindings::workqueue_struct,
    delay: Jiffies,
) where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    let owned = Arc::into_raw(this.clone());
    // SAFETY: Initialised with the object; it owns a reference while it is queued. The queue exists by
    // the requirements.
    let queued = unsafe {
        bindings::queue_delayed_work_on(
            bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
            queue,
            raw_delayed::<T, ID>(this),
            delay,
        )
    };
    if !queued {
        // The item is queued and has a reference already, or is being cancelled.
        // SAFETY: Made above, and not taken.
        drop(unsafe { Arc::from_raw(owned) });
    }
}
