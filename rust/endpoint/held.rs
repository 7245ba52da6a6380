// SPDX-License-Identifier: GPL-2.0

//! Memory of the host that an endpoint reaches, and what becomes of it when that cannot be taken
//! back: somebody's machine stands still, and holds on to it. It is nobody else's until it was let
//! go.

use super::{area::Backing, memory::Memory, Endpoints};
use crate::hw::{
    endpoint_slots::{EndpointSlots, INBOUND_MAPPINGS, MAX_ENDPOINT_SLOTS},
    Port,
};
use kernel::{pci, prelude::*};

/// Memory that was not let go.
pub(super) struct Held {
    memory: Memory,
    /// The port does not answer, so nobody reaches anything by it.
    silent: bool,
}

impl Held {
    /// It could not be let go once more.
    pub(super) fn retried(&mut self, why: Error) {
        self.silent = why == ENODEV;
    }
}

/// Closes a mapping. `ENODEV` without a port.
pub(super) fn close(slots: Option<&dyn EndpointSlots>, slot: usize, n: usize) -> Result {
    slots.ok_or(ENODEV)?.close(slot, n)
}

impl Endpoints {
    /// Gives memory back whose mapping was closed, or had none; it is in no mapping any more, for from
    /// here on it may be another's. If the mapping could not be closed it is kept.
    pub(super) fn let_go_of(
        &self,
        slot: usize,
        n: usize,
        memory: Backing,
        closed: Result,
    ) -> Option<Memory> {
        let memory = memory.into_host()?;
        let Err(why) = closed else {
            return Some(memory);
        };
        let silent = why == ENODEV;
        let before = self.slots.lock().hold(slot, n, Held { memory, silent });
        // There is none: a mapping that is held is not opened.
        drop(before);
        None
    }

    /// Lets go of what can be let go of now.
    pub(super) fn release_held_by(&self, port: &dyn Port) {
        let Some(slots) = port.endpoint_slots() else {
            return;
        };
        for slot in 0..slots.count() {
            for n in 0..INBOUND_MAPPINGS {
                // It stays there meanwhile: a mapping that is held is not opened anew.
                if !self.slots.lock().holds(slot, n) {
                    continue;
                }
                let closed = slots.close(slot, n);
                let over = self.slots.lock().settle_held(slot, n, closed);
                drop(over);
            }
        }
    }

    /// The port is gone: what was not let go is lost, rather than written by a stranger.
    pub(super) fn give_up_held(&self, dev: &pci::Device) {
        for place in 0..MAX_ENDPOINT_SLOTS * INBOUND_MAPPINGS {
            let held = self
                .slots
                .lock()
                .take_held(place / INBOUND_MAPPINGS, place % INBOUND_MAPPINGS);
            if let Some(held) = held.filter(|held| !held.silent) {
                dev_err!(
                    dev,
                    "an endpoint still holds on to memory: {} KiB are given up for good\n",
                    held.memory.area.bytes() >> 10
                );
                core::mem::forget(held.memory);
            }
        }
    }
}
