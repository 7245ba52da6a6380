// SPDX-License-Identifier: GPL-2.0

//! A table of values that are looked up by index without a lock, and can be revoked from their users.
//!
//! A lookup reads two arrays and one atomic; it never waits. To revoke a value, its owner closes the
//! slot, so that no lookup finds the value any more, then waits until every reference to it is dropped.
//! A slot goes through this many times, with another value each time; a [`super::gate::Gate`] opens once
//! and does not suffice.
//!
//! [`Slots::shut`] revokes all values: when it returns, no value of the table is left anywhere.
//!
//! The memory of slots is freed with the table only: any index can be looked up safely at any time.

use crate::sys::{drain::Drain, waitq::WaitQueue};
use core::{cell::UnsafeCell, ops::Deref, ptr::NonNull, task::Poll};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Full, Relaxed},
        Arc, Mutex, SetOnce,
    },
};

/// How many slots are allocated at a time.
const CHUNK: usize = 128;

struct Cell<T> {
    /// Closed while the slot is empty. Counts the references to the value, [`Found`].
    drain: Drain,
    /// Changed only with [`Slots::owners`] locked, while closed, and counting none.
    value: UnsafeCell<Option<T>>,
}

/// Which slots are owned; under a lock.
struct Owners {
    /// Free slots, the one that has been free for longest first, so that an index is reused as late as
    /// possible. A ring with room for all slots that are allocated.
    free: KVVec<u32>,
    head: usize,
    count: usize,
    /// Slots that are allocated.
    total: usize,
    /// No slot can be opened any more.
    shut: bool,
}

/// The table.
#[pin_data]
pub(crate) struct Slots<T> {
    chunks: KVVec<SetOnce<KVVec<Cell<T>>>>,
    #[pin]
    owners: Mutex<Owners>,
    /// The number of [`Busy`] guards. It grows only with `owners` locked, and only while the table is
    /// not shut or when a value is taken out of a slot.
    busy: Atomic<u32>,
    /// Where owners wait for the last [`Found`] of a value, and [`Slots::shut`] for the last [`Busy`].
    #[pin]
    left: WaitQueue,
}

// SAFETY: Values are handed out by shared reference, and moved in and out when there is no reference.
unsafe impl<T: Send + Sync> Sync for Slots<T> {}
// SAFETY: As above.
unsafe impl<T: Send> Send for Slots<T> {}

impl<T> Slots<T> {
    /// Makes a table for at least `limit - 1` values, in whole chunks of 128; index 0 is not used.
    pub(crate) fn new(limit: u32) -> Result<Arc<Self>> {
        let mut chunks = KVVec::new();
        for _ in 0..(limit as usize).div_ceil(CHUNK) {
            chunks.push(SetOnce::new(), GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                chunks,
                owners <- new_mutex!(
                    Owners {
                        free: KVVec::new(),
                        head: 0,
                        count: 0,
                        total: 0,
                        shut: false,
                    },
                    "weft slots"
                ),
                busy: Atomic::new(0),
                left <- WaitQueue::new(c"weft slots", kernel::static_lock_class!()),
            }),
            GFP_KERNEL,
        )
    }

    fn cell(&self, index: u32) -> Option<&Cell<T>> {
        let index = index as usize;
        self.chunks.get(index / CHUNK)?.as_ref()?.get(index % CHUNK)
    }

    /// Returns the value of slot `index`, or `None` if the slot is closed. Never waits.
    pub(crate) fn find(self: &Arc<Self>, index: u32) -> Option<Found<T>> {
        let cell = self.cell(index)?;
        cell.drain.enter().ok()?;
        // SAFETY: This reference is counted: the value does not change. An open slot has one, see
        // `Slot::open`.
        let value = unsafe { (*cell.value.get()).as_ref().unwrap_unchecked() };
        // INVARIANT: Counted above.
        Some(Found {
            slots: self.clone(),
            cell: NonNull::from(cell),
            value: NonNull::from(value),
        })
    }

    /// Makes [`Slots::shut`] wait until the guard is dropped: for a caller that makes or drops values of
    /// the table. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the table is shut.
    pub(crate) fn busy(self: &Arc<Self>) -> Result<Busy<T>> {
        let owners = self.owners.lock();
        if owners.shut {
            return Err(ENODEV);
        }
        self.busy.fetch_add(1, Relaxed);
        drop(owners);
        Ok(Busy(self.clone()))
    }

    /// Takes a free slot, closed and empty. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if no slot is free; `ENODEV` if the table is shut; `ENOMEM` if there is no memory for
    /// more slots.
    pub(crate) fn own(self: &Arc<Self>) -> Result<Slot<T>> {
        let mut owners = self.owners.lock();
        if owners.shut {
            return Err(ENODEV);
        }
        if owners.count == 0 {
            self.grow(&mut owners)?;
        }
        let index = *owners.free.get(owners.head).ok_or(ENOSPC)?;
        owners.head = (owners.head + 1) % owners.free.len();
        owners.count -= 1;
        Ok(Slot {
            slots: self.clone(),
            index,
        })
    }

    /// Allocates the next chunk. No slot is free.
    fn grow(&self, owners: &mut Owners) -> Result {
        let chunk = self.chunks.get(owners.total / CHUNK).ok_or(ENOSPC)?;
        let mut cells = KVVec::with_capacity(CHUNK, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..CHUNK {
            let cell = Cell {
                drain: Drain::closed(),
                value: UnsafeCell::new(None),
            };
            cells.push(cell, GFP_KERNEL_ACCOUNT)?;
        }
        owners.free.reserve(CHUNK, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..CHUNK {
            owners.free.push(0, GFP_KERNEL_ACCOUNT)?;
        }
        chunk.populate(cells);
        // The ring is empty, and may begin anywhere.
        owners.head = 0;
        owners.count = 0;
        for index in owners.total..owners.total + CHUNK {
            // 0 is not used: an index that is 0 by mistake finds nothing.
            if index != 0 {
                owners.give(index as u32);
            }
        }
        owners.total += CHUNK;
        Ok(())
    }

    /// Takes the value out of a closed slot. `None` if the slot is empty or there are references to the
    /// value.
    fn extract(self: &Arc<Self>, cell: &Cell<T>) -> Option<Taken<T>> {
        let owners = self.owners.lock();
        if !cell.drain.is_drained() {
            return None;
        }
        // SAFETY: There is no reference to the value, no lookup finds it, and changes need the lock.
        let value = unsafe { (*cell.value.get()).take() }?;
        // Under the lock: before `shut` can see the slot empty.
        self.busy.fetch_add(1, Relaxed);
        drop(owners);
        Some(Taken {
            value,
            _busy: Busy(self.clone()),
        })
    }

    /// Closes the slot, waits until there is no reference to the value, and takes the value.
    fn take(self: &Arc<Self>, cell: &Cell<T>) -> Option<Taken<T>> {
        cell.drain.close();
        self.left.wait_through(|| cell.drain.is_drained());
        self.extract(cell)
    }

    /// Calls `f` for each value that is in a slot, open or closed, until it fails. Values are neither put
    /// in nor taken out meanwhile. `f` may sleep.
    pub(crate) fn each(&self, mut f: impl FnMut(&T) -> Result) -> Result {
        let owners = self.owners.lock();
        for cell in (0..owners.total as u32).filter_map(|index| self.cell(index)) {
            // SAFETY: The value changes with the lock held only.
            if let Some(value) = unsafe { (*cell.value.get()).as_ref() } {
                f(value)?;
            }
        }
        Ok(())
    }

    /// Waits until there is no [`Busy`] guard: values that were taken out are dropped. Sleeps.
    pub(crate) fn wait_idle(&self) {
        self.left.wait_through(|| self.busy.load(Acquire) == 0);
    }

    /// Revokes and drops all values, and lets no slot be opened any more.
    ///
    /// When this returns, all values are dropped, including those that other callers have taken out or,
    /// with a [`Busy`] guard, not yet put in. Sleeps.
    pub(crate) fn shut(self: &Arc<Self>) {
        let total = {
            let mut owners = self.owners.lock();
            owners.shut = true;
            owners.total
        };
        for cell in (0..total as u32).filter_map(|index| self.cell(index)) {
            drop(self.take(cell));
        }
        self.wait_idle();
    }
}

/// A guard: while it exists, [`Slots::shut`] does not return.
pub(crate) struct Busy<T>(Arc<Slots<T>>);

impl<T> Drop for Busy<T> {
    fn drop(&mut self) {
        if self.0.busy.fetch_sub(1, Full) == 1 {
            self.0.left.wake_all();
        }
    }
}

/// A value that was taken out of its slot.
pub(crate) struct Taken<T> {
    // In this order: the value is dropped before the guard.
    value: T,
    _busy: Busy<T>,
}

impl<T> Deref for Taken<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl Owners {
    /// Adds slot `index` to the end of the free ones.
    fn give(&mut self, index: u32) {
        let len = self.free.len().max(1);
        if let Some(place) = self.free.get_mut((self.head + self.count) % len) {
            *place = index;
            self.count += 1;
        }
    }
}

/// A slot that is owned. Dropping it revokes its value, which sleeps, and frees its index.
pub(crate) struct Slot<T> {
    slots: Arc<Slots<T>>,
    index: u32,
}

impl<T> Slot<T> {
    /// Returns the index of the slot, for [`Slots::find`].
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Puts `value` into the slot, which is closed and empty, and lets lookups find it. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the table is shut; `EBUSY` if the slot has a value. `value` is dropped then.
    pub(crate) fn open(&mut self, value: T) -> Result {
        let cell = self.slots.cell(self.index).ok_or(EINVAL)?;
        let owners = self.slots.owners.lock();
        if owners.shut {
            return Err(ENODEV);
        }
        if !cell.drain.is_drained() {
            return Err(EBUSY);
        }
        // SAFETY: Closed, there is no reference to the value, and the lock is held.
        let place = unsafe { &mut *cell.value.get() };
        if place.is_some() {
            return Err(EBUSY);
        }
        *place = Some(value);
        cell.drain.reopen();
        Ok(())
    }

    /// Closes the slot, and takes the value if there is no reference to it. Does not wait for
    /// references: `Pending` while there are some.
    pub(crate) fn try_take(&mut self) -> Poll<Option<Taken<T>>> {
        let Some(cell) = self.slots.cell(self.index) else {
            return Poll::Ready(None);
        };
        cell.drain.close();
        if !cell.drain.is_drained() {
            return Poll::Pending;
        }
        Poll::Ready(self.slots.extract(cell))
    }

    /// Closes the slot, waits until there is no reference to the value, and takes it. Sleeps.
    pub(crate) fn take(&mut self) -> Option<Taken<T>> {
        self.slots.take(self.slots.cell(self.index)?)
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.take());
        self.slots.owners.lock().give(self.index);
    }
}

/// A reference to a value that was looked up. The value stays until this is dropped.
///
/// # Invariants
///
/// `cell` is one of `slots` and counts this reference; `value` is its value.
pub(crate) struct Found<T> {
    slots: Arc<Slots<T>>,
    cell: NonNull<Cell<T>>,
    value: NonNull<T>,
}

// SAFETY: A shared reference to the value, and one to the table.
unsafe impl<T: Send + Sync> Send for Found<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for Found<T> {}

impl<T> Deref for Found<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the invariants the value does not change and does not move.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for Found<T> {
    fn drop(&mut self) {
        // SAFETY: By the invariants; cells live as long as the table and do not move.
        let drain = unsafe { &self.cell.as_ref().drain };
        if drain.leave() {
            self.slots.left.wake_all();
        }
    }
}
