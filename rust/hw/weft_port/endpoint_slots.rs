// SPDX-License-Identifier: GPL-2.0

//! Endpoint slots of a Weft port for functions of shared endpoints: [`EndpointSlots`].
//!
//! Endpoint slot n uses the nth outbound slot, doorbell page and doorbell after those of the links, and
//! five inbound entries after theirs. This file must not know what a function does, nor which code uses
//! it.

use super::{
    layout::{endpoint_bell, inbound_reg, page_reg, slot_reg, GATES},
    WeftPort, WITHDRAW_TIME,
};
use crate::{
    hw::{
        endpoint_slots::{
            EndpointSlots, InboundMapping, RemoteFunction, INBOUND_MAPPINGS, WINDOW_BYTES,
        },
        MAX_NEIGHBOURS,
    },
    sys::{area::Area, ext},
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{Atomic, Relaxed},
};

/// The gate of a free slot.
const EMPTY: u32 = u32::MAX;

/// An endpoint slot. Changed with `Locks::tables` held.
struct SlotState {
    window: Area,
    /// The gate (link and virtual plane) by which accesses of the remote function arrive, or [`EMPTY`].
    gate: Atomic<u32>,
    /// The local id of the remote function's endpoint.
    lid: Atomic<u32>,
}

/// The endpoint slots of a port.
pub(super) struct SlotTable {
    states: KVec<SlotState>,
    /// The doorbell of the first slot.
    first_bell: u32,
}

impl SlotTable {
    /// Makes one free slot for each of `windows`, for a port with `links` links.
    pub(super) fn new(windows: KVec<Area>, links: usize) -> Result<Self> {
        let mut states = KVec::with_capacity(windows.len(), GFP_KERNEL)?;
        for window in windows {
            let state = SlotState {
                window,
                gate: Atomic::new(EMPTY),
                lid: Atomic::new(0),
            };
            states.push(state, GFP_KERNEL)?;
        }
        Ok(Self {
            states,
            first_bell: endpoint_bell(links, 0),
        })
    }

    /// Returns the mask of the doorbells that remote functions may ring through `gate`.
    pub(super) fn bells(&self, gate: usize) -> u32 {
        let states = self.states.iter().enumerate();
        states
            .filter(|(_, state)| state.gate.load(Relaxed) == gate as u32)
            .fold(0, |all, (n, _)| all | 1 << (self.first_bell + n as u32))
    }

    /// Marks all slots free, after a reset.
    pub(super) fn forget(&self) {
        for state in &self.states {
            state.gate.store(EMPTY, Relaxed);
        }
    }
}

impl WeftPort {
    fn slot_state(&self, slot: usize) -> Result<&SlotState> {
        self.slots.states.get(slot).ok_or(EINVAL)
    }

    fn outbound(&self, slot: usize, reg: u32) -> usize {
        slot_reg(self.links.len() + slot, reg)
    }

    fn endpoint_page(&self, slot: usize) -> usize {
        endpoint_bell(self.links.len(), slot) as usize
    }

    /// Returns the number of the inbound entry of mapping `n` of `slot`.
    fn entry(&self, slot: usize, n: usize) -> Result<usize> {
        if slot >= self.slots.states.len() || n >= INBOUND_MAPPINGS {
            return Err(EINVAL);
        }
        Ok(self.links.len() + slot * INBOUND_MAPPINGS + n)
    }

    /// Waits for accesses through the previous inbound entry to drain. `ETIMEDOUT` after 100 ms;
    /// `ENODEV` if the port does not answer. Sleeps.
    fn let_go(&self, entry: usize) -> Result {
        match self.settle_entry(entry, WITHDRAW_TIME)? {
            u32::MAX => Err(ENODEV),
            _ => Ok(()),
        }
    }

    fn set_endpoint_page(&self, slot: usize, lid: u32, doorbells: u32) {
        let regs = &self.chip.regs;
        let page = self.endpoint_page(slot);
        let dest = ext::WEFT_DEST_LID | lid;
        regs.write32(page_reg(page, ext::WEFT_DB_PAGE_DEST), dest);
        regs.write32(page_reg(page, ext::WEFT_DB_PAGE_ALLOW), doorbells);
    }

    /// Closes all inbound mappings and disconnects all slots, which have no users any more.
    pub(super) fn close_endpoint_slots(&self) {
        for slot in 0..self.slots.states.len() {
            for n in 0..INBOUND_MAPPINGS {
                // The owner of the memory has closed the mapping, or has got an error.
                let _ = self.close_entry(slot, n);
            }
            self.leave(slot);
        }
    }

    /// Closes mapping `n` of `slot`, and returns its inbound entry. Does not wait.
    fn close_entry(&self, slot: usize, n: usize) -> Result<usize> {
        let entry = self.entry(slot, n)?;
        let _tables = self.locks.tables.lock();
        self.chip
            .regs
            .write32(inbound_reg(entry, ext::WEFT_INBOUND_CTRL), 0);
        Ok(entry)
    }
}

impl EndpointSlots for WeftPort {
    fn count(&self) -> usize {
        self.slots.states.len()
    }

    fn lacks(&self) -> &'static CStr {
        self.chip.caps.scarce
    }

    fn take(&self, slot: usize, remote: RemoteFunction) -> Result {
        let state = self.slot_state(slot)?;
        let good = remote.lid != 0
            && remote.lid <= ext::WEFT_DEST_WHERE
            && remote.at % PAGE_SIZE as u64 == 0
            && remote.link < self.chip.caps.links.min(MAX_NEIGHBOURS)
            && remote.vp < ext::WEFT_VPS;
        if !good {
            return Err(EINVAL);
        }
        let regs = &self.chip.regs;
        let reg = |reg| self.outbound(slot, reg);
        let _tables = self.locks.tables.lock();
        regs.write32(reg(ext::WEFT_SLOT_DEST), ext::WEFT_DEST_LID | remote.lid);
        regs.write64(reg(ext::WEFT_SLOT_OFFSET), remote.at);
        regs.write64(reg(ext::WEFT_SLOT_LEN), WINDOW_BYTES as u64);
        regs.write32(reg(ext::WEFT_SLOT_CTRL), ext::WEFT_SLOT_ENABLE);
        // Doorbell 0: an endpoint looks at its queues for any doorbell.
        self.set_endpoint_page(slot, remote.lid, 1);
        let gate = ext::WEFT_VPS * remote.link as u32 + remote.vp;
        state.gate.store(gate, Relaxed);
        state.lid.store(remote.lid, Relaxed);
        self.admit_all();
        match self.chip.is_present() {
            true => Ok(()),
            false => Err(ENODEV),
        }
    }

    fn leave(&self, slot: usize) {
        let Ok(state) = self.slot_state(slot) else {
            return;
        };
        let _tables = self.locks.tables.lock();
        self.chip
            .regs
            .write32(self.outbound(slot, ext::WEFT_SLOT_CTRL), 0);
        self.set_endpoint_page(slot, 0, 0);
        if state.gate.xchg(EMPTY, Relaxed) != EMPTY {
            self.admit_all();
        }
    }

    fn route(&self, slot: usize) -> Option<u32> {
        self.slot_state(slot).ok()?;
        let taken = self
            .chip
            .regs
            .read32(self.outbound(slot, ext::WEFT_SLOT_TAKEN));
        (taken != 0 && taken != u32::MAX).then_some(taken)
    }

    fn is_open(&self, slot: usize) -> bool {
        let status = self
            .chip
            .regs
            .read32(self.outbound(slot, ext::WEFT_SLOT_STATUS));
        self.slot_state(slot).is_ok() && status != u32::MAX && status & ext::WEFT_SLOT_LIVE != 0
    }

    fn window(&self, slot: usize) -> Result<&Area> {
        Ok(&self.slot_state(slot)?.window)
    }

    fn doorbell(&self, slot: usize) -> u32 {
        endpoint_bell(self.links.len(), slot)
    }

    fn ring(&self, slot: usize) {
        if self.slot_state(slot).is_ok() {
            let page = self.endpoint_page(slot);
            self.chip.regs.write32(Self::page_offset(page), 0);
        }
    }

    fn expect(&self, slot: usize, rings: usize) {
        if self.slot_state(slot).is_ok() {
            let doorbell = self.doorbell(slot);
            self.chip.limits.expect_from_slot(doorbell, rings);
        }
    }

    fn open(&self, slot: usize, n: usize, mapping: InboundMapping) -> Result {
        let entry = self.entry(slot, n)?;
        let state = self.slot_state(slot)?;
        let gate = state.gate.load(Relaxed);
        if gate as usize >= GATES {
            return Err(EINVAL);
        }
        self.let_go(entry)?;
        let regs = &self.chip.regs;
        let reg = |reg| inbound_reg(entry, reg);
        let right = |has: bool, right: u32| if has { right } else { 0 };
        let rights =
            right(mapping.read, ext::WEFT_RIGHT_READ) | right(mapping.write, ext::WEFT_RIGHT_WRITE);
        let tables = self.locks.tables.lock();
        regs.write64(reg(ext::WEFT_INBOUND_OFFSET), mapping.offset);
        regs.write64(reg(ext::WEFT_INBOUND_LEN), mapping.bytes);
        regs.write64(reg(ext::WEFT_INBOUND_BASE), mapping.addr);
        regs.write32(reg(ext::WEFT_INBOUND_RIGHTS), rights);
        regs.write32(reg(ext::WEFT_INBOUND_ALLOW), 0);
        regs.write64(reg(ext::WEFT_INBOUND_VPS), 1 << gate);
        regs.write32(reg(ext::WEFT_INBOUND_FROM), state.lid.load(Relaxed));
        regs.write32(reg(ext::WEFT_INBOUND_CTRL), ext::WEFT_INBOUND_ENABLE);
        drop(tables);
        let status = self.inbound_status(entry);
        let opened = if status == u32::MAX {
            Err(ENODEV)
        } else if status & ext::WEFT_INBOUND_LIVE == 0 {
            Err(EIO)
        } else {
            self.let_go(entry)
        };
        opened.inspect_err(|_| {
            let _ = self.close_entry(slot, n);
        })
    }

    fn close(&self, slot: usize, n: usize) -> Result {
        let entry = self.close_entry(slot, n)?;
        self.let_go(entry)
    }
}
