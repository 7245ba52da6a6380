// SPDX-License-Identifier: GPL-2.0

//! The endpoint slots of a port: which function has each, and the memory that is still held there.

use super::{function::Function, held::Held, wanted::Wanted};
use crate::hw::endpoint_slots::{INBOUND_MAPPINGS, MAX_ENDPOINT_SLOTS};
use kernel::{prelude::*, sync::Arc};

struct Slot {
    /// The function that has the slot, or is being opened on it.
    wanted: Option<Wanted>,
    user: Option<Arc<Function>>,
    held: [Option<Held>; INBOUND_MAPPINGS],
}

impl Slot {
    fn holds_any(&self) -> bool {
        self.held.iter().any(Option::is_some)
    }
}

/// The slots of a port.
pub(super) struct Table {
    slots: [Slot; MAX_ENDPOINT_SLOTS],
    /// Functions that are broken, and keep memory of the device for their programs to read.
    ended: KVec<Arc<Function>>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            slots: core::array::from_fn(|_| Slot {
                wanted: None,
                user: None,
                held: [const { None }; INBOUND_MAPPINGS],
            }),
            ended: KVec::new(),
        }
    }

    /// Takes one of the first `count` slots. `EBUSY`: another file uses the function; `ENOSPC`: no
    /// slot is free.
    pub(super) fn reserve(&mut self, count: usize, wanted: Wanted) -> Result<usize> {
        if self.slots.iter().any(|slot| slot.wanted == Some(wanted)) {
            return Err(EBUSY);
        }
        let slots = self.slots.iter_mut().take(count).enumerate();
        for (n, slot) in slots {
            if slot.wanted.is_none() && !slot.holds_any() {
                slot.wanted = Some(wanted);
                return Ok(n);
            }
        }
        Err(ENOSPC)
    }

    pub(super) fn occupy(&mut self, slot: usize, user: Arc<Function>) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.user = Some(user);
        }
    }

    /// Frees a slot. The caller drops the result without the lock.
    pub(super) fn free(&mut self, slot: usize) -> Option<Arc<Function>> {
        let slot = self.slots.get_mut(slot)?;
        slot.wanted = None;
        slot.user.take()
    }

    pub(super) fn users(&self) -> [Option<Arc<Function>>; MAX_ENDPOINT_SLOTS] {
        core::array::from_fn(|n| self.slots.get(n).and_then(|slot| slot.user.clone()))
    }

    /// Keeps memory that an endpoint may still access. The caller drops the result, which was there
    /// before, without the lock.
    pub(super) fn hold(&mut self, slot: usize, n: usize, held: Held) -> Option<Held> {
        self.slots.get_mut(slot)?.held.get_mut(n)?.replace(held)
    }

    /// Returns whether the memory of inbound mapping `n` is held.
    pub(super) fn holds(&self, slot: usize, n: usize) -> bool {
        let held = self.slots.get(slot).and_then(|slot| slot.held.get(n));
        held.is_some_and(Option::is_some)
    }

    pub(super) fn holds_any(&self) -> bool {
        self.slots.iter().any(Slot::holds_any)
    }

    /// Notes another attempt to close a mapping. Returns the memory that was held there if it has
    /// succeeded, to be dropped without the lock.
    pub(super) fn settle_held(&mut self, slot: usize, n: usize, closed: Result) -> Option<Held> {
        let held = self.slots.get_mut(slot)?.held.get_mut(n)?;
        match closed {
            Ok(()) => held.take(),
            Err(why) => {
                if let Some(held) = held {
                    held.retried(why);
                }
                None
            }
        }
    }

    /// Takes the memory that is held at a mapping.
    pub(super) fn take_held(&mut self, slot: usize, n: usize) -> Option<Held> {
        self.slots.get_mut(slot)?.held.get_mut(n)?.take()
    }

    /// Adds the function of a slot to the list of ended functions.
    pub(super) fn remember(&mut self, slot: usize) -> Result {
        let user = self.slots.get(slot).and_then(|slot| slot.user.clone());
        Ok(self.ended.push(user.ok_or(EINVAL)?, GFP_KERNEL)?)
    }

    /// Removes `function`, or any one, from the list of ended functions. The caller drops it without
    /// the lock.
    pub(super) fn recall(&mut self, function: Option<&Arc<Function>>) -> Option<Arc<Function>> {
        let its = |ended: &Arc<Function>| function.is_none_or(|f| Arc::ptr_eq(f, ended));
        let at = self.ended.iter().position(its)?;
        self.ended.remove(at).ok()
    }
}
