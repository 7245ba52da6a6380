// SPDX-License-Identifier: GPL-2.0

//! The registers and the memory of a function, through the window of its slot.
//!
//! They are memory of the endpoint, little-endian. The endpoint acts on what was written when it is
//! rung. A read that nothing answers is all ones.

use crate::{
    hw::endpoint_slots::EndpointSlots,
    proto::endpoint::{Place, CQE_BYTES, FUNCTION_BYTES, MEMORY, SEGMENTS, WQE_BYTES},
    sys::{
        area::{mb, wmb, Area},
        ext,
    },
};
use kernel::prelude::*;

const _: () = {
    assert!(WQE_BYTES == ext::WEFT_EP_WQE_BYTES as usize);
    assert!(CQE_BYTES == ext::WEFT_EP_CQE_BYTES as usize);
    assert!(SEGMENTS == ext::WEFT_EP_SEGMENTS as usize);
    assert!(MEMORY == ext::WEFT_EP_MEMORY as u64);
    assert!(FUNCTION_BYTES == ext::WEFT_EP_FUNCTION_BYTES as u64);
};

/// The registers of a function.
pub(super) struct Registers<'a> {
    slots: &'a dyn EndpointSlots,
    slot: usize,
}

impl<'a> Registers<'a> {
    pub(super) fn new(slots: &'a dyn EndpointSlots, slot: usize) -> Self {
        Self { slots, slot }
    }

    pub(super) fn window(&self) -> Result<&'a Area> {
        self.slots.window(self.slot)
    }

    pub(super) fn get(&self, register: u32) -> u32 {
        let window = self.window();
        let value = window.and_then(|window| window.read32(register as usize));
        value.map_or(u32::MAX, u32::from_le)
    }

    pub(super) fn set(&self, register: u32, value: u32) -> Result {
        self.window()?.write32(register as usize, value.to_le())
    }

    /// Returns the number of the host's route to the endpoint, if there is one.
    pub(super) fn route(&self) -> Option<u32> {
        self.slots.route(self.slot)
    }

    /// Returns the number of the endpoint's route to the host, if it says that there is one.
    pub(super) fn their_route(&self) -> Option<u32> {
        let route = self.get(ext::WEFT_EP_ROUTE);
        (route != 0 && route <= ext::WEFT_EP_ROUTE_LAST).then_some(route)
    }

    /// Allows for the doorbells of so many completions, before their work is announced.
    pub(super) fn expect(&self, completions: usize) {
        self.slots.expect(self.slot, completions);
    }

    /// Rings the endpoint, behind all that was written.
    pub(super) fn ring(&self) {
        wmb();
        self.slots.ring(self.slot);
    }

    /// Tells the endpoint how many completions were taken. They must have been copied: the endpoint
    /// may overwrite them then.
    pub(super) fn taken(&self, count: u32) -> Result {
        mb();
        self.set(ext::WEFT_EP_CQ + ext::WEFT_EP_Q_TAKEN, count)
    }

    /// Tells the endpoint the place of a queue, which is empty.
    pub(super) fn set_queue(&self, group: u32, place: Place, base: u64) -> Result {
        let limit = base + place.bytes - 1;
        for (register, value) in [(ext::WEFT_EP_Q_BASE, base), (ext::WEFT_EP_Q_LIMIT, limit)] {
            self.set(group + register, value as u32)?;
            self.set(group + register + 4, (value >> 32) as u32)?;
        }
        self.set(group + ext::WEFT_EP_Q_DOORBELL, 0)?;
        self.set(group + ext::WEFT_EP_Q_TAKEN, 0)
    }
}
