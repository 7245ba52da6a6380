// SPDX-License-Identifier: GPL-2.0

//! The queue pairs of a port, by number.
//!
//! A QPN is an index and, above it, a generation, so that a message to a queue pair that was
//! destroyed does not reach a new one. A lookup takes the same time however many queue pairs there
//! are.

use super::qp::Qp;
use crate::share::{Charge, Payer, Table as Shared};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Full},
        Arc, Mutex,
    },
};

/// Queue pairs that a port can have.
pub(crate) const MAX_QPS: u32 = 16384;

const INDEX_BITS: u32 = 16;
const GENERATION: u32 = 0xff;

struct Slot {
    generation: u32,
    /// If the slot is free: the next free one.
    next: u32,
    /// It counts for a user until it is removed.
    qp: Option<(Arc<Qp>, Charge)>,
}

struct Slots {
    slots: KVVec<Slot>,
    /// The first free slot, or the number of slots if none is free.
    free: u32,
}

impl Slots {
    /// Adds a slot to the free ones.
    fn release(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.next = self.free;
            self.free = index as u32;
        }
    }
}

/// Returns the index of queue pair `qpn` in a table of all queue pairs. `None`: `qpn` names none.
pub(super) fn index(qpn: u32) -> Option<usize> {
    (qpn & ((1 << INDEX_BITS) - 1))
        .checked_sub(1)
        .map(|index| index as usize)
}

#[pin_data]
pub(super) struct Table {
    #[pin]
    slots: Mutex<Slots>,
    /// No queue pair begins requests.
    paused: Atomic<bool>,
}

impl Table {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            slots <- new_mutex!(
                Slots {
                    slots: KVVec::new(),
                    free: 0,
                },
                "weft qp table"
            ),
            paused: Atomic::new(false),
        })
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Acquire)
    }

    /// Pauses or unpauses all queue pairs. Returns false if they were so already. Runs that have
    /// begun do not see it.
    pub(super) fn pause(&self, paused: bool) -> bool {
        self.paused.xchg(paused, Full) != paused
    }

    /// Assigns a free QPN and adds the queue pair that `make` makes with it. `ENOSPC`: there are
    /// [`MAX_QPS`]; `EDQUOT`: `payer` has its share.
    pub(super) fn add(
        &self,
        payer: &Payer,
        make: impl FnOnce(u32) -> Result<Arc<Qp>>,
    ) -> Result<Arc<Qp>> {
        let charge = payer.take(Shared::Qps, MAX_QPS, 1)?;
        let (index, qpn) = self.reserve()?;
        // Without the lock: `make` allocates memory, and the engine looks up others meanwhile.
        let made = make(qpn);
        let mut table = self.slots.lock();
        match (&made, table.slots.get_mut(index)) {
            (Ok(qp), Some(slot)) => slot.qp = Some((qp.clone(), charge)),
            _ => table.release(index),
        }
        made
    }

    /// Takes a free slot; returns its index and the QPN that goes with it.
    fn reserve(&self) -> Result<(usize, u32)> {
        let mut table = self.slots.lock();
        let table = &mut *table;
        let index = table.free as usize;
        if index == table.slots.len() {
            let slot = Slot {
                generation: 0,
                next: table.free + 1,
                qp: None,
            };
            table.slots.push(slot, GFP_KERNEL_ACCOUNT)?;
        }
        let slot = table.slots.get_mut(index).ok_or(ENOSPC)?;
        let qpn = (slot.generation & GENERATION) << INDEX_BITS | (index as u32 + 1);
        table.free = slot.next;
        Ok((index, qpn))
    }

    pub(super) fn find(&self, qpn: u32) -> Option<Arc<Qp>> {
        let table = self.slots.lock();
        let slot = table.slots.get(index(qpn)?)?;
        let (qp, _) = slot.qp.as_ref()?;
        (qp.number() == qpn).then(|| qp.clone())
    }

    /// Iterates over all queue pairs. One that is added or removed meanwhile may be included or not.
    /// The table is not locked while the caller has an item.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Qp>> + '_ {
        let mut at = 0;
        core::iter::from_fn(move || {
            let (qp, next) = self.next(at)?;
            at = next;
            Some(qp)
        })
    }

    /// Returns the first queue pair from index `from` on, and the index behind it.
    fn next(&self, from: usize) -> Option<(Arc<Qp>, usize)> {
        let table = self.slots.lock();
        let rest = table.slots.get(from..)?;
        rest.iter()
            .enumerate()
            .find_map(|(n, slot)| Some((slot.qp.as_ref()?.0.clone(), from + n + 1)))
    }

    pub(super) fn remove(&self, qp: &Qp) {
        let mut table = self.slots.lock();
        let slots = &mut *table;
        let Some(at) = index(qp.number()) else {
            return;
        };
        let Some(slot) = slots.slots.get_mut(at) else {
            return;
        };
        let gone = slot.qp.take_if(|(there, _)| core::ptr::eq(&**there, qp));
        if gone.is_some() {
            slot.generation = slot.generation.wrapping_add(1);
            slots.release(at);
        }
        drop(table);
        // Not the last reference: the caller holds one. The slot is free before the charge ends: there are
        // never more slots than queue pairs that may be charged.
        drop(gone);
    }
}
