// SPDX-License-Identifier: GPL-2.0

//! A wait queue that hard interrupts wake, and that `poll` and blocking calls wait on.
//!
//! A caller of `CondVar` checks the condition before the task is queued and relies on a lock to exclude
//! a wake-up in between; the wake-up of a handler that takes no lock would be missed. Here the task is
//! queued first.
//!
//! A queue that is polled lives at least as long as the file ([`super::file`] ensures that), so that no
//! entry of `poll` or epoll is left on it when it is freed.

use super::clock;
use core::{mem::MaybeUninit, ptr::NonNull};
use kernel::{
    alloc::Flags,
    bindings,
    prelude::*,
    str::CStrExt,
    sync::{Arc, LockClassKey},
    task::{MAX_SCHEDULE_TIMEOUT, TASK_INTERRUPTIBLE, TASK_NORMAL, TASK_UNINTERRUPTIBLE},
    time::{msecs_to_jiffies, Msecs},
    types::Opaque,
};

/// A wait queue: `struct wait_queue_head`, `include/linux/wait.h`.
#[pin_data]
pub(crate) struct WaitQueue {
    #[pin]
    head: Opaque<bindings::wait_queue_head>,
}

// SAFETY: The queue has a lock of its own.
unsafe impl Sync for WaitQueue {}
// SAFETY: As above; it is pinned.
unsafe impl Send for WaitQueue {}

impl WaitQueue {
    /// Makes an empty queue; `name` and `key` are its lock class, for lockdep.
    pub(crate) fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            head <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is pinned; name and key are static.
                unsafe {
                    bindings::__init_waitqueue_head(slot, name.as_char_ptr(), key.as_ptr())
                }
            }),
        })
    }

    /// Makes an empty queue that several share, as [`WaitQueue::new`]. `ENOMEM`. Context as `flags` demand.
    pub(crate) fn shared(
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
        flags: Flags,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(Self::new(name, key), flags)
    }

    /// Wakes all waiters. Wraps `__wake_up()`, `include/linux/wait.h`. Any context.
    pub(crate) fn wake_all(&self) {
        // SAFETY: Initialised.
        unsafe { bindings::__wake_up(self.head.get(), TASK_NORMAL, 0, core::ptr::null_mut()) };
    }

    /// As [`WaitQueue::wake_all`], but a caller of `poll` that waits for none of these events sleeps on. `events` is a mask of
    /// [`super::file::events`], not 0. Any context.
    pub(crate) fn wake_for(&self, events: u32) {
        let key = events as usize as *mut c_void;
        // SAFETY: Initialised. The key of a queue that is polled is a mask, and no address.
        unsafe { bindings::__wake_up(self.head.get(), TASK_NORMAL, 0, key) };
    }

    /// Wakes the waiters, but of those that were queued by [`On::Turn`] only the first one that sleeps.
    /// Wraps `__wake_up()`, `include/linux/wait.h`. Any context.
    pub(crate) fn wake_one(&self) {
        // SAFETY: Initialised.
        unsafe { bindings::__wake_up(self.head.get(), TASK_NORMAL, 1, core::ptr::null_mut()) };
    }

    /// Adds the queue to those that `poll` waits on. Wraps `poll_wait()`, `include/linux/poll.h`.
    ///
    /// # Safety
    ///
    /// Called in `poll` with its arguments, on a queue that outlives the file.
    pub(super) unsafe fn poll_wait(
        &self,
        file: *mut bindings::file,
        table: *mut bindings::poll_table,
    ) {
        // SAFETY: By the requirements.
        unsafe { bindings::poll_wait(file, self.head.get(), table) };
    }

    /// Sleeps until `done` returns true, regardless of signals: for conditions that become true by
    /// themselves, and soon.
    ///
    /// Wraps `add_wait_queue()` and `wait_woken()`, `include/linux/wait.h`. `done` may sleep.
    pub(crate) fn wait_through(&self, done: impl FnMut() -> bool) {
        // Nothing else ends it.
        let _ = self.sleep(done, MAX_SCHEDULE_TIMEOUT as c_long, TASK_UNINTERRUPTIBLE);
    }

    /// As [`WaitQueue::wait_through`], until `deadline` at the latest.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if `done` returns false until then.
    pub(crate) fn wait_through_until(
        &self,
        done: impl FnMut() -> bool,
        deadline: &Deadline,
    ) -> Result {
        self.sleep(done, deadline.jiffies(), TASK_UNINTERRUPTIBLE)
    }

    /// Sleeps until `done`, which may sleep itself, returns true.
    ///
    /// Wraps `add_wait_queue()` and `wait_woken()`, `include/linux/wait.h`.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` if a signal is pending.
    pub(crate) fn wait(&self, done: impl FnMut() -> bool) -> Result {
        self.sleep(done, MAX_SCHEDULE_TIMEOUT as c_long, TASK_INTERRUPTIBLE)
    }

    /// As [`WaitQueue::wait`], for at most `timeout` milliseconds.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` if a signal is pending; `ETIMEDOUT` if `done` returns false for that long.
    pub(crate) fn wait_ms(&self, done: impl FnMut() -> bool, timeout: Msecs) -> Result {
        self.sleep(done, jiffies_of(timeout), TASK_INTERRUPTIBLE)
    }

    /// Calls `done` in the state `TASK_RUNNING`, so that it may sleep itself (for a mutex). A wake-up in
    /// the meantime is kept in the entry: [`bindings::wait_woken`] returns at once. Signals end it if `state` is
    /// `TASK_INTERRUPTIBLE`.
    fn sleep(&self, mut done: impl FnMut() -> bool, mut jiffies: c_long, state: c_int) -> Result {
        let mut entry = MaybeUninit::<bindings::wait_queue_entry>::uninit();
        let entry = entry.as_mut_ptr();
        // SAFETY: The entry is initialised, does not move and is off the queue when this returns.
        unsafe {
            bindings::init_wait_entry(entry, 0);
            (*entry).func = Some(bindings::woken_wake_function);
            bindings::add_wait_queue(self.head.get(), entry);
            let result = loop {
                if done() {
                    break Ok(());
                }
                if state == TASK_INTERRUPTIBLE && kernel::current!().signal_pending() {
                    break Err(ERESTARTSYS);
                }
                if jiffies == 0 {
                    break Err(ETIMEDOUT);
                }
                jiffies = bindings::wait_woken(entry, state as c_uint, jiffies);
            };
            bindings::remove_wait_queue(self.head.get(), entry);
            result
        }
    }
}

/// What a [`Callback`] calls.
pub(crate) trait Woken: Send + Sync {
    /// Called with interrupts off, perhaps in a hard interrupt, and with the queue locked: wakes nothing on it. `events`
    /// are those of [`WaitQueue::wake_for`]; 0: anything may have changed.
    fn woken(&self, events: u32);
}

/// What [`Callback`] has on the queue.
#[repr(C)]
struct Called<W> {
    entry: bindings::wait_queue_entry,
    woken: W,
}

/// A function that each wake-up of a queue calls, until this is dropped.
pub(crate) struct Callback<W: Woken> {
    /// From a `KBox`.
    called: NonNull<Called<W>>,
    queue: Arc<WaitQueue>,
}

// SAFETY: The entry belongs to no thread, and `W` is `Send`.
unsafe impl<W: Woken> Send for Callback<W> {}
// SAFETY: As above. Nothing is done by a shared reference.
unsafe impl<W: Woken> Sync for Callback<W> {}

impl<W: Woken> Callback<W> {
    /// Has the wake-ups of `queue` call `woken`. `ENOMEM`.
    ///
    /// Wraps `add_wait_queue()`, `include/linux/wait.h`.
    pub(crate) fn new(queue: &Arc<WaitQueue>, woken: W) -> Result<Self> {
        let entry = bindings::wait_queue_entry {
            func: Some(call::<W>),
            ..Default::default()
        };
        let called = KBox::new(Called { entry, woken }, GFP_KERNEL_ACCOUNT)?;
        let called = NonNull::from(KBox::leak(called));
        // SAFETY: The entry stays where it is, and is taken off in `drop`.
        unsafe { bindings::add_wait_queue(queue.head.get(), &raw mut (*called.as_ptr()).entry) };
        Ok(Self {
            called,
            queue: queue.clone(),
        })
    }
}

impl<W: Woken> Drop for Callback<W> {
    fn drop(&mut self) {
        let called = self.called.as_ptr();
        // SAFETY: `new` has added it. This takes the lock under which the function is called: afterwards it
        // does not run, and nothing else has the box.
        unsafe {
            bindings::remove_wait_queue(self.queue.head.get(), &raw mut (*called).entry);
            drop(KBox::from_raw(called));
        }
    }
}

/// The `func` of the entry of a [`Callback`].
extern "C" fn call<W: Woken>(
    entry: *mut bindings::wait_queue_entry,
    _mode: c_uint,
    _flags: c_int,
    key: *mut c_void,
) -> c_int {
    // SAFETY: The entry is the first member of `Called`, whose box lives while it is on the queue.
    let woken = unsafe { &(*entry.cast::<Called<W>>()).woken };
    woken.woken(key as usize as u32);
    // As for `poll`: not counted among those that `wake_one` is to wake.
    0
}

/// Returns a time in jiffies, not less.
fn jiffies_of(time: Msecs) -> c_long {
    let jiffies = c_long::try_from(msecs_to_jiffies(time)).unwrap_or(c_long::MAX);
    jiffies.saturating_add(1)
}

/// Until when to sleep; `None`: any time.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<u64>);

impl Deadline {
    pub(crate) const NEVER: Self = Self(None);

    /// Until `timeout` from now.
    pub(crate) fn new(timeout: Msecs) -> Self {
        Self(Some(clock::now_ms() + u64::from(timeout)))
    }

    /// Returns what is left; `None`: any time.
    pub(crate) fn left(&self) -> Option<Msecs> {
        let left = self.0?.saturating_sub(clock::now_ms());
        Some(Msecs::try_from(left).unwrap_or(Msecs::MAX))
    }

    /// Returns the same in jiffies, not less.
    fn jiffies(&self) -> c_long {
        match self.left() {
            None => MAX_SCHEDULE_TIMEOUT as c_long,
            Some(0) => 0,
            Some(ms) => jiffies_of(ms),
        }
    }
}

/// A queue to sleep on.
#[derive(Clone, Copy)]
pub(crate) enum On<'a> {
    /// Each waker wakes all that sleep.
    All(&'a WaitQueue),
    /// [`WaitQueue::wake_one`] wakes one of those that sleep.
    Turn(&'a WaitQueue),
}

/// Sleeps on all these queues until `done`, which must not sleep, returns true.
///
/// A task that [`WaitQueue::wake_one`] has woken may return all the same because of something else.
///
/// Wraps `prepare_to_wait()`, `finish_wait()`, `include/linux/wait.h`, and `schedule_timeout()`,
/// `include/linux/sched.h`.
///
/// # Errors
///
/// `ERESTARTSYS` if a signal is pending; `ETIMEDOUT` if `deadline` has passed.
pub(crate) fn sleep_on<const N: usize>(
    queues: [On<'_>; N],
    mut done: impl FnMut() -> bool,
    deadline: &Deadline,
) -> Result {
    let mut jiffies = deadline.jiffies();
    let mut entries = [const { MaybeUninit::<bindings::wait_queue_entry>::uninit() }; N];
    for entry in &mut entries {
        // SAFETY: The entry does not move, and is off its queue when this returns.
        unsafe { bindings::init_wait_entry(entry.as_mut_ptr(), 0) };
    }
    let result = loop {
        for (on, entry) in queues.iter().zip(&mut entries) {
            // Queued, and in the state in which it sleeps, before `done` is called: a wake-up from here
            // on is not missed.
            // SAFETY: Both are initialised.
            unsafe {
                let (entry, state) = (entry.as_mut_ptr(), TASK_INTERRUPTIBLE as c_int);
                match on {
                    On::All(queue) => bindings::prepare_to_wait(queue.head.get(), entry, state),
                    On::Turn(queue) => {
                        bindings::prepare_to_wait_exclusive(queue.head.get(), entry, state);
                    }
                }
            }
        }
        if done() {
            break Ok(());
        }
        if kernel::current!().signal_pending() {
            break Err(ERESTARTSYS);
        }
        if jiffies == 0 {
            break Err(ETIMEDOUT);
        }
        // SAFETY: The state was set above.
        jiffies = unsafe { bindings::schedule_timeout(jiffies) };
    };
    for (on, entry) in queues.iter().zip(&mut entries) {
        let (On::All(queue) | On::Turn(queue)) = on;
        // SAFETY: As above. It is in the state TASK_RUNNING again, and the entry off the queue.
        unsafe { bindings::finish_wait(queue.head.get(), entry.as_mut_ptr()) };
    }
    result
}
