// SPDX-License-Identifier: GPL-2.0

//! What the kernel crate's work queues lack: waiting, cancelling and moving a timer.
//!
//! A work item that is queued owns a reference to its object. An item that is cancelled, or whose
//! timer was moved, gives one back; these functions keep that account.

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
    // SAFETY: The object is there, and with it its work item.
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

/// Takes the item out of its queue, or stops its timer, and waits until it does not run. Sleeps.
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

/// Has the item run `delay` from now, whether it waits for another time or not at all.
pub(crate) fn run_in<T, const ID: u64>(this: &Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    // SAFETY: A queue of the kernel's, which is always there.
    unsafe { run_on(this, bindings::system_percpu_wq, delay) }
}

/// The same for one that takes its time: other items of the CPU do not wait for it.
pub(crate) fn run_unbound_in<T, const ID: u64>(this: &Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    // SAFETY: As above.
    unsafe { run_on(this, bindings::system_dfl_wq, delay) }
}

/// Has the item run `delay` from now, unless it waits already: what was asked for meanwhile is not put
/// off. For the item itself, when it ends.
pub(crate) fn again_in<T, const ID: u64>(this: &Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    // SAFETY: A queue of the kernel's, which is always there.
    unsafe { queue_on(this, bindings::system_percpu_wq, delay) }
}

/// The same for one that takes its time.
pub(crate) fn again_unbound_in<T, const ID: u64>(this: &Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    // SAFETY: As above.
    unsafe { queue_on(this, bindings::system_dfl_wq, delay) }
}

/// # Safety
///
/// `queue` is there.
unsafe fn run_on<T, const ID: u64>(
    this: &Arc<T>,
    queue: *mut bindings::workqueue_struct,
    delay: Jiffies,
) where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    // `mod_delayed_work` does not say whether an item that is being cancelled was queued.
    // SAFETY: Initialised with the object.
    if unsafe { bindings::cancel_delayed_work(raw_delayed::<T, ID>(this)) } {
        // SAFETY: The reference that it owned while it was queued; the caller has another.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(this)) });
    }
    // SAFETY: By the requirements.
    unsafe { queue_on(this, queue, delay) }
}

/// # Safety
///
/// `queue` is there.
unsafe fn queue_on<T, const ID: u64>(
    this: &Arc<T>,
    queue: *mut bindings::workqueue_struct,
    delay: Jiffies,
) where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync,
{
    let owned = Arc::into_raw(this.clone());
    // SAFETY: Initialised with the object; it owns a reference while it is queued. The queue is there
    // by the requirements.
    let queued = unsafe {
        bindings::queue_delayed_work_on(
            bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
            queue,
            raw_delayed::<T, ID>(this),
            delay,
        )
    };
    if !queued {
        // It has one, or is being cancelled.
        // SAFETY: Made above, and not taken.
        drop(unsafe { Arc::from_raw(owned) });
    }
}
