// SPDX-License-Identifier: GPL-2.0

//! Memory of the host that an endpoint can still reach: its inbound mapping could not be closed, as a
//! remote machine hangs and does not release it. The memory is not reused until the mapping is
//! closed.

use super::{area::Backing, memory::Memory, Endpoints};
use crate::hw::{
    endpoint_slots::{EndpointSlots, INBOUND_MAPPINGS, MAX_ENDPOINT_SLOTS},
    Port,
};
use kernel::{device::Device, prelude::*};

/// Memory that an endpoint may still access.
pub(super) struct Held {
    memory: Memory,
    /// The port does not answer, hence no endpoint reaches memory through it.
    silent: bool,
}

impl Held {
    /// Notes that another attempt has failed.
    pub(super) fn retried(&mut self, why: Error) {
        self.silent = why == ENODEV;
    }
}

/// Closes inbound mapping `n`. `ENODEV` without a port.
pub(super) fn close(slots: Option<&dyn EndpointSlots>, slot: usize, n: usize) -> Result {
    slots.ok_or(ENODEV)?.close(slot, n)
}

impl Endpoints {
    /// Returns the memory of inbound mapping `n`, for reuse, if `closed` says that the mapping was
    /// closed, or is none; otherwise keeps it in the table until the mapping can be closed. No
    /// program has it mapped any more.
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
        // Always `None`: a mapping that is held is not opened.
        drop(before);
        None
    }

    /// Tries to close the held mappings, and releases their memory.
    pub(super) fn release_held_by(&self, port: &dyn Port) {
        let Some(slots) = port.endpoint_slots() else {
            return;
        };
        for slot in 0..slots.count() {
            for n in 0..INBOUND_MAPPINGS {
                // It stays in the table meanwhile, hence the mapping is not opened anew.
                if !self.slots.lock().holds(slot, n) {
                    continue;
                }
                let closed = slots.close(slot, n);
                let over = self.slots.lock().settle_held(slot, n, closed);
                drop(over);
            }
        }
    }

    /// Gives up the memory that is still held, because the port is gone: it is leaked, rather than
    /// reused while an endpoint may write to it.
    pub(super) fn give_up_held(&self, dev: &Device) {
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
