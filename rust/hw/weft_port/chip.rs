// SPDX-License-Identifier: GPL-2.0

//! The registers of a Weft port, and its interrupt masks.
//!
//! The port and the handlers share them. This file must not know arenas and windows.

use super::{
    capabilities::Capabilities,
    layout::{endpoint_bell, kick},
};
use crate::{
    hw::Events,
    sys::{ext, iomap::Regs},
};
use kernel::{
    pci,
    prelude::*,
    sync::{aref::ARef, Arc},
};

/// The events that are handled.
const EVENTS: u32 = ext::WEFT_EVENT_LINK
    | ext::WEFT_EVENT_ROUTE
    | ext::WEFT_EVENT_MBOX
    | ext::WEFT_EVENT_FUNCTION
    | ext::WEFT_EVENT_PLUG
    | ext::WEFT_EVENT_ERROR;

/// Those of them that stand for messages of others.
const MESSAGES: u32 = ext::WEFT_EVENT_MBOX | ext::WEFT_EVENT_FUNCTION;

/// The state that the port and its handlers share.
pub(super) struct Chip {
    pub(super) regs: Regs,
    pub(super) pdev: ARef<pci::Device>,
    pub(super) caps: Capabilities,
    pub(super) events: Arc<dyn Events>,
}

impl Chip {
    /// Reads the capabilities. `ENODEV` if this is not a port that the driver supports.
    pub(super) fn new(
        regs: Regs,
        pdev: ARef<pci::Device>,
        events: Arc<dyn Events>,
    ) -> Result<Self> {
        let caps = Capabilities::read(&regs, &pdev)?;
        Ok(Self {
            regs,
            pdev,
            caps,
            events,
        })
    }

    pub(super) fn read(&self, reg: u32) -> u32 {
        self.regs.read32(reg as usize)
    }

    pub(super) fn write(&self, reg: u32, value: u32) {
        self.regs.write32(reg as usize, value);
    }

    pub(super) fn is_present(&self) -> bool {
        self.read(ext::WEFT_R_ID) == ext::WEFT_ID
    }

    /// Returns the mask of all doorbells that are used.
    pub(super) fn doorbells(&self) -> u32 {
        let links = self.caps.links + self.caps.far;
        ((1u64 << (2 * links + usize::from(self.caps.has_kick) + self.caps.endpoint_slots)) - 1)
            as u32
    }

    /// Returns the mask of the doorbells of endpoint slots.
    pub(super) fn endpoint_bells(&self) -> u32 {
        let links = self.caps.links + self.caps.far;
        (0..self.caps.endpoint_slots).fold(0, |all, slot| all | 1 << endpoint_bell(links, slot))
    }

    /// Unmasks the interrupts of all events, doorbells and channels that have a handler.
    pub(super) fn unmask(&self) {
        if self.caps.channels != 0 {
            self.write(ext::WEFT_R_DMA_MASK, 0);
        }
        self.unmask_events();
        self.write(ext::WEFT_R_DB_MASK, !self.doorbells());
    }

    /// Unmasks the interrupts of all events that have a handler; what has come meanwhile raises its own.
    pub(super) fn unmask_events(&self) {
        self.write(ext::WEFT_R_EVENT_MASK, !EVENTS);
    }

    /// Masks those of messages.
    pub(super) fn mask_messages(&self) {
        self.write(ext::WEFT_R_EVENT_MASK, !EVENTS | MESSAGES);
    }

    /// Raises the interrupts of all pending events once more, by masking and unmasking them.
    ///
    /// An interrupt message is lost while the function does not master the bus. The port does not repeat
    /// it, as the pending bit is set already. A handler that runs once too often finds nothing to do.
    pub(super) fn remind(&self) {
        if self.caps.channels != 0 {
            self.write(ext::WEFT_R_DMA_MASK, u32::MAX);
        }
        self.write(ext::WEFT_R_EVENT_MASK, u32::MAX);
        self.write(ext::WEFT_R_DB_MASK, u32::MAX);
        self.unmask();
    }

    /// Lets the doorbell of this host's users raise an interrupt, when it is rung after this call.
    pub(super) fn hear_kicks(&self) {
        if self.caps.has_kick {
            self.write(ext::WEFT_R_DB_PENDING, 1 << kick(self.caps.links));
            self.write(ext::WEFT_R_DB_MASK, !self.doorbells());
            // The read flushes the writes: a doorbell that is rung from here on raises an interrupt.
            let _ = self.read(ext::WEFT_R_DB_MASK);
        }
    }
}
