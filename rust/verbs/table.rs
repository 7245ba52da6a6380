// SPDX-License-Identifier: GPL-2.0

//! The queue pairs of a port, by number.
//!
//! A QPN is an index and, above it, a generation, so that what is on its way to a queue pair that was
//! destroyed does not meet another. Finding one takes the same time however many there are.

use super::qp::Qp;
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
    /// Of a free one: the next free one.
    next: u32,
    qp: Option<Arc<Qp>>,
}

struct Slots {
    slots: KVVec<Slot>,
    /// The first free one, or as many as there are.
    free: u32,
    used: u32,
}

impl Slots {
    /// Nobody has this one any more.
    fn release(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.next = self.free;
            self.free = index as u32;
            self.used = self.used.saturating_sub(1);
        }
    }
}

/// Where in a table of all queue pairs the one with this number is; 0 is the number of none.
pub(super) fn index(qpn: u32) -> Option<usize> {
    (qpn & ((1 << INDEX_BITS) - 1))
        .checked_sub(1)
        .map(|index| index as usize)
}

#[pin_data]
pub(super) struct Table {
    #[pin]
    slots: Mutex<Slots>,
    /// No request of any is begun.
    paused: Atomic<bool>,
}

impl Table {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            slots <- new_mutex!(
                Slots {
                    slots: KVVec::new(),
                    free: 0,
                    used: 0,
                },
                "weft qp table"
            ),
            paused: Atomic::new(false),
        })
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Acquire)
    }

    /// False: it was so already. Runs that have begun do not know yet.
    pub(super) fn pause(&self, paused: bool) -> bool {
        self.paused.xchg(paused, Full) != paused
    }

    /// A number of its own for the queue pair that `make` makes of it.
    pub(super) fn add(&self, make: impl FnOnce(u32) -> Result<Arc<Qp>>) -> Result<Arc<Qp>> {
        let (index, qpn) = self.reserve()?;
        // It takes memory, and maybe long: the engine looks for others meanwhile.
        let made = make(qpn);
        let mut table = self.slots.lock();
        match (&made, table.slots.get_mut(index)) {
            (Ok(qp), Some(slot)) => slot.qp = Some(qp.clone()),
            _ => table.release(index),
        }
        made
    }

    /// A slot that nobody has, and the number that goes with it.
    fn reserve(&self) -> Result<(usize, u32)> {
        let mut table = self.slots.lock();
        let table = &mut *table;
        if table.used >= MAX_QPS {
            return Err(ENOSPC);
        }
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
        table.used += 1;
        Ok((index, qpn))
    }

    pub(super) fn find(&self, qpn: u32) -> Option<Arc<Qp>> {
        let table = self.slots.lock();
        let slot = table.slots.get(index(qpn)?)?;
        let qp = slot.qp.as_ref()?;
        (qp.number() == qpn).then(|| qp.clone())
    }

    /// All queue pairs, one after the other: who comes or goes meanwhile may be among them or not. The
    /// table is not locked while one is looked at.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Qp>> + '_ {
        let mut at = 0;
        core::iter::from_fn(move || {
            let (qp, next) = self.next(at)?;
            at = next;
            Some(qp)
        })
    }

    /// The first queue pair from index `from` on, and the index behind it.
    fn next(&self, from: usize) -> Option<(Arc<Qp>, usize)> {
        let table = self.slots.lock();
        let rest = table.slots.get(from..)?;
        rest.iter()
            .enumerate()
            .find_map(|(n, slot)| Some((slot.qp.clone()?, from + n + 1)))
    }

    pub(super) fn remove(&self, qp: &Qp) {
        let mut table = self.slots.lock();
        let table = &mut *table;
        let Some(at) = index(qp.number()) else {
            return;
        };
        let Some(slot) = table.slots.get_mut(at) else {
            return;
        };
        let gone = slot.qp.take_if(|there| core::ptr::eq(&**there, qp));
        if gone.is_some() {
            slot.generation = slot.generation.wrapping_add(1);
            table.release(at);
        }
        // Not the last reference: the caller has one.
        drop(gone);
    }
}
