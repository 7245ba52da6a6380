// SPDX-License-Identifier: GPL-2.0

//! Who has which slot of the port, and what is held there yet.

use super::{function::Function, held::Held, wanted::Wanted};
use crate::hw::endpoint_slots::{INBOUND_MAPPINGS, MAX_ENDPOINT_SLOTS};
use kernel::{prelude::*, sync::Arc};

struct Slot {
    /// Somebody is about to have it, or has.
    wanted: Option<Wanted>,
    user: Option<Arc<Function>>,
    held: [Option<Held>; INBOUND_MAPPINGS],
}

impl Slot {
    fn holds_any(&self) -> bool {
        self.held.iter().any(Option::is_some)
    }
}

/// All of them.
pub(super) struct Table {
    slots: [Slot; MAX_ENDPOINT_SLOTS],
    /// Functions that work no more, and have memory of the device's for their programs to look at.
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

    /// Takes one of the first `count` slots. `EBUSY`: somebody has that function; `ENOSPC`: there
    /// is no slot left.
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

    /// Gives a slot back. To be dropped without the lock.
    pub(super) fn free(&mut self, slot: usize) -> Option<Arc<Function>> {
        let slot = self.slots.get_mut(slot)?;
        slot.wanted = None;
        slot.user.take()
    }

    pub(super) fn users(&self) -> [Option<Arc<Function>>; MAX_ENDPOINT_SLOTS] {
        core::array::from_fn(|n| self.slots.get(n).and_then(|slot| slot.user.clone()))
    }

    /// Keeps memory that is not let go; what was there, to be dropped without the lock.
    pub(super) fn hold(&mut self, slot: usize, n: usize, held: Held) -> Option<Held> {
        self.slots.get_mut(slot)?.held.get_mut(n)?.replace(held)
    }

    /// Whether a mapping is held.
    pub(super) fn holds(&self, slot: usize, n: usize) -> bool {
        let held = self.slots.get(slot).and_then(|slot| slot.held.get(n));
        held.is_some_and(Option::is_some)
    }

    pub(super) fn holds_any(&self) -> bool {
        self.slots.iter().any(Slot::holds_any)
    }

    /// After another attempt to close a mapping: what was held there, if that went well. To be
    /// dropped without the lock.
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

    /// What is held at a mapping.
    pub(super) fn take_held(&mut self, slot: usize, n: usize) -> Option<Held> {
        self.slots.get_mut(slot)?.held.get_mut(n)?.take()
    }

    /// Notes that the one on a slot has ended.
    pub(super) fn remember(&mut self, slot: usize) -> Result {
        let user = self.slots.get(slot).and_then(|slot| slot.user.clone());
        Ok(self.ended.push(user.ok_or(EINVAL)?, GFP_KERNEL)?)
    }

    /// Forgets one that has ended, or any. To be dropped without the lock.
    pub(super) fn recall(&mut self, function: Option<&Arc<Function>>) -> Option<Arc<Function>> {
        let its = |ended: &Arc<Function>| function.is_none_or(|f| Arc::ptr_eq(f, ended));
        let at = self.ended.iter().position(its)?;
        self.ended.remove(at).ok()
    }
}
