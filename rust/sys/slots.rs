// SPDX-License-Identifier: GPL-2.0

//! A table of values that are found by index without a lock, and can be taken away from those who
//! have found them.
//!
//! Finding is a look at two arrays and one atomic; it never waits. Taking away first closes the slot,
//! so that the value is not found any more, then waits for those that have it. A slot goes through
//! this many times, with another value each time, so a [`super::gate::Gate`], which opens once, would
//! not do.
//!
//! The whole table can be shut: when that has returned, no value of it is left anywhere.
//!
//! The memory of slots is given back with the table only: an index that names nothing is looked at
//! safely at any time.

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

/// Slots that are allocated at a time.
const CHUNK: usize = 128;

struct Cell<T> {
    /// Closed while it is empty. Counts those who have its value.
    drain: Drain,
    /// Changed only with [`Slots::owners`] locked, while closed, and counting none.
    value: UnsafeCell<Option<T>>,
}

/// What owners agree on.
struct Owners {
    /// Slots without an owner, the one that was longest free first: an index comes again as late as
    /// can be. A ring with room for all slots that are allocated.
    free: KVVec<u32>,
    head: usize,
    count: usize,
    /// Slots that are allocated.
    total: usize,
    /// Nothing is opened any more.
    shut: bool,
}

/// The table.
#[pin_data]
pub(crate) struct Slots<T> {
    chunks: KVVec<SetOnce<KVVec<Cell<T>>>>,
    #[pin]
    owners: Mutex<Owners>,
    /// How many [`Busy`] there are. Grows only with `owners` locked, and the table not shut, or
    /// with one being there.
    busy: Atomic<u32>,
    /// Here owners wait for those who have a value, and `shut` for those who are busy.
    #[pin]
    left: WaitQueue,
}

// SAFETY: Values are handed out by shared reference, and moved in and out while there is no reference.
unsafe impl<T: Send + Sync> Sync for Slots<T> {}
// SAFETY: As above.
unsafe impl<T: Send> Send for Slots<T> {}

impl<T> Slots<T> {
    /// A table for `limit` values or a few less; index 0 is not used.
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

    /// The value of slot `index`, if it is open.
    pub(crate) fn find(self: &Arc<Self>, index: u32) -> Option<Found<T>> {
        let cell = self.cell(index)?;
        cell.drain.enter().ok()?;
        // SAFETY: Counted as a holder of the value: it is not changed. An open slot has one, see
        // `Slot::open`.
        let value = unsafe { (*cell.value.get()).as_ref().unwrap_unchecked() };
        // INVARIANT: Counted above.
        Some(Found {
            slots: self.clone(),
            cell: NonNull::from(cell),
            value: NonNull::from(value),
        })
    }

    /// Keeps the table from being shut while values are made for it, or dropped. `ENODEV`: it was shut.
    pub(crate) fn busy(self: &Arc<Self>) -> Result<Busy<T>> {
        let owners = self.owners.lock();
        if owners.shut {
            return Err(ENODEV);
        }
        self.busy.fetch_add(1, Relaxed);
        drop(owners);
        Ok(Busy(self.clone()))
    }

    /// Takes a slot without an owner. `ENOSPC`: there is none; `ENODEV`: the table was shut.
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

    /// Allocates the next chunk, when no slot is free.
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
            // 0 is not used: what is zero by mistake names nothing.
            if index != 0 {
                owners.give(index as u32);
            }
        }
        owners.total += CHUNK;
        Ok(())
    }

    /// Takes the value of a closed slot, if it has one that is not held.
    fn extract(self: &Arc<Self>, cell: &Cell<T>) -> Option<Taken<T>> {
        let owners = self.owners.lock();
        if !cell.drain.is_drained() {
            return None;
        }
        // SAFETY: The value has no holder, is not found, and is changed with the lock held.
        let value = unsafe { (*cell.value.get()).take() }?;
        // Before the slot is seen to be empty by `shut`.
        self.busy.fetch_add(1, Relaxed);
        drop(owners);
        Some(Taken {
            value,
            _busy: Busy(self.clone()),
        })
    }

    fn take(self: &Arc<Self>, cell: &Cell<T>) -> Option<Taken<T>> {
        cell.drain.close();
        self.left.wait_through(|| cell.drain.is_drained());
        self.extract(cell)
    }

    /// Takes all values, and lets no slot be opened any more. When this returns, all
    /// values were dropped, those too that were taken or not yet put in by others. Sleeps.
    pub(crate) fn shut(self: &Arc<Self>) {
        let total = {
            let mut owners = self.owners.lock();
            owners.shut = true;
            owners.total
        };
        for cell in (0..total as u32).filter_map(|index| self.cell(index)) {
            drop(self.take(cell));
        }
        self.left.wait_through(|| self.busy.load(Acquire) == 0);
    }
}

/// While there is one, [`Slots::shut`] does not return.
pub(crate) struct Busy<T>(Arc<Slots<T>>);

impl<T> Drop for Busy<T> {
    fn drop(&mut self) {
        if self.0.busy.fetch_sub(1, Full) == 1 {
            self.0.left.wake_all();
        }
    }
}

/// A value that was taken.
pub(crate) struct Taken<T> {
    // In this order: the value is dropped first.
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
    fn give(&mut self, index: u32) {
        let len = self.free.len().max(1);
        if let Some(place) = self.free.get_mut((self.head + self.count) % len) {
            *place = index;
            self.count += 1;
        }
    }
}

/// A slot that is owned. Its index is free again when this is dropped.
pub(crate) struct Slot<T> {
    slots: Arc<Slots<T>>,
    index: u32,
}

impl<T> Slot<T> {
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Gives the slot, which is closed and empty, a value that can be found. `ENODEV`: the table was
    /// shut; `EBUSY`: it has a value.
    pub(crate) fn open(&mut self, value: T) -> Result {
        let cell = self.slots.cell(self.index).ok_or(EINVAL)?;
        let owners = self.slots.owners.lock();
        if owners.shut {
            return Err(ENODEV);
        }
        if !cell.drain.is_drained() {
            return Err(EBUSY);
        }
        // SAFETY: Closed and drained, and the lock is held.
        let place = unsafe { &mut *cell.value.get() };
        if place.is_some() {
            return Err(EBUSY);
        }
        *place = Some(value);
        cell.drain.reopen();
        Ok(())
    }

    /// From now on the value is not found; if it has no holder either, it is taken. Does not wait.
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

    /// As [`Slot::try_take`]; waits until the value has no holder.
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

/// A value that was found. It is not taken before this is dropped.
///
/// # Invariants
///
/// `cell` is one of `slots`, which counts this as one who has its value; `value` is that value.
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
        // SAFETY: By the invariants the value is not changed, and it does not move.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for Found<T> {
    fn drop(&mut self) {
        // SAFETY: By the invariants; cells live, and stay where they are, as long as the table.
        let drain = unsafe { &self.cell.as_ref().drain };
        if drain.leave() {
            self.slots.left.wake_all();
        }
    }
}
