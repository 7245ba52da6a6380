// SPDX-License-Identifier: GPL-2.0

//! The registers of a Weft port, and its interrupt masks.
//!
//! The port and the handlers share them. This file must not know arenas and windows.

use super::{
    capabilities::Capabilities,
    layout::{bells, endpoint_bell},
    limit::Limits,
};
use crate::{
    hw::Events,
    sys::{ext, iomap::Regs},
};
use kernel::{
    device::Device,
    impl_has_delayed_work, new_delayed_work,
    prelude::*,
    sync::{aref::ARef, Arc},
    workqueue::DelayedWork,
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
#[pin_data]
pub(super) struct Chip {
    pub(super) regs: Regs,
    pub(super) dev: ARef<Device>,
    pub(super) caps: Capabilities,
    pub(super) events: Arc<dyn Events>,
    #[pin]
    pub(super) limits: Limits,
    /// Looks at doorbells that are rung too often.
    #[pin]
    looking: DelayedWork<Chip>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Chip { self.looking }
}

impl Chip {
    /// Reads the capabilities. `ENODEV` if this is not a port that the driver supports.
    pub(super) fn new(regs: Regs, dev: ARef<Device>, events: Arc<dyn Events>) -> Result<Arc<Self>> {
        let caps = Capabilities::read(&regs, &dev)?;
        Arc::pin_init(
            pin_init!(Self {
                regs,
                dev,
                caps,
                events,
                limits <- Limits::new(),
                looking <- new_delayed_work!("weft doorbells"),
            }),
            GFP_KERNEL,
        )
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
        // Those of routed links follow the one of users of this host, also if that is not used.
        let kick = self.caps.has_kick || self.caps.far != 0;
        ((1u64 << (2 * links + usize::from(kick) + self.caps.endpoint_slots)) - 1) as u32
    }

    /// Returns the mask of the doorbells of endpoint slots.
    pub(super) fn endpoint_bells(&self) -> u32 {
        let links = self.caps.links + self.caps.far;
        (0..self.caps.endpoint_slots).fold(0, |all, slot| all | 1 << endpoint_bell(links, slot))
    }

    /// Returns the mask of the doorbells of routed links.
    pub(super) fn far_bells(&self) -> u32 {
        let near = self.caps.links;
        (near..near + self.caps.far).fold(0, |all, link| all | bells(near, link))
    }

    /// Unmasks the interrupts of all events and channels that have a handler.
    pub(super) fn unmask(&self) {
        if self.caps.channels != 0 {
            self.write(ext::WEFT_R_DMA_MASK, 0);
        }
        self.unmask_events();
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
        self.unmask();
        self.limits.remind(&self.regs);
    }
}
