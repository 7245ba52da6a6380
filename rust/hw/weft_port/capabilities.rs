// SPDX-License-Identifier: GPL-2.0

//! The capabilities of a Weft port, read from its registers by the probe: numbers of links, slots,
//! channels.

use super::layout::{field, kick, DMA_ORDER, DMA_PIECES};
use crate::{
    hw::{
        endpoint_slots::{INBOUND_MAPPINGS, MAX_ENDPOINT_SLOTS},
        MAX_FAR, MAX_NEIGHBOURS, MBOX_BYTES,
    },
    sys::{ext, iomap::Regs},
};
use kernel::{device::Device, prelude::*};

/// The capabilities of a port, as far as the driver uses them.
pub(super) struct Capabilities {
    /// The number of links to neighbours.
    pub(super) links: usize,
    /// The number of routed links.
    pub(super) far: usize,
    /// The number of endpoint slots for functions of shared endpoints.
    pub(super) endpoint_slots: usize,
    /// The resource that limits the number of endpoint slots, for the log.
    pub(super) scarce: &'static CStr,
    /// The number of channels of the DMA engine; 0 if they are too small for this driver.
    pub(super) channels: usize,
    /// There are a doorbell and a page for users of this host.
    pub(super) has_kick: bool,
    /// The port counts what CPUs store by slots only if it is told.
    pub(super) is_told: bool,
    /// This is a virtual function.
    pub(super) is_vf: bool,
    /// The number of the function when the port was bound.
    pub(super) function: u8,
}

impl Capabilities {
    /// This is the first function of its endpoint, which alone has the routes.
    pub(super) fn is_first(&self) -> bool {
        self.function == 0
    }

    /// Reads the capabilities. `ENODEV` if this is not a port that the driver supports, which is logged.
    pub(super) fn read(regs: &Regs, dev: &Device) -> Result<Self> {
        let id = regs.read32(ext::WEFT_R_ID as usize);
        if id != ext::WEFT_ID {
            dev_err!(dev, "is no Weft port: id {:#010x}\n", id);
            return Err(ENODEV);
        }
        let version = regs.read32(ext::WEFT_R_VERSION as usize);
        if version >> 16 != ext::WEFT_VERSION >> 16 {
            dev_err!(
                dev,
                "has registers of version {}.{}, this driver knows {}.x\n",
                version >> 16,
                version & 0xffff,
                ext::WEFT_VERSION >> 16
            );
            return Err(ENODEV);
        }
        let cap0 = regs.read32(ext::WEFT_R_CAP0 as usize);
        let cap1 = regs.read32(ext::WEFT_R_CAP1 as usize);
        let links = (cap1 & ext::WEFT_CAP1_LINKS) as usize;
        // Not for a virtual function: its PF sets how many doorbells it may use, and changes that.
        let function = regs.read32(ext::WEFT_R_FUNCTION as usize);
        let is_vf = function & ext::WEFT_FUNCTION_VF != 0;
        let has_kick = !is_vf
            && field(cap0, ext::WEFT_CAP0_DOORBELLS) > kick(links)
            && field(cap0, ext::WEFT_CAP0_DB_PAGES) > kick(links);
        let mut channels = 0;
        if cap1 & ext::WEFT_CAP1_DMA != 0 {
            let cap = regs.read32(ext::WEFT_R_DMA_CAP as usize);
            let does = field(cap, ext::WEFT_DMA_CAP_ORDER) >= DMA_ORDER
                && field(cap, ext::WEFT_DMA_CAP_ELEMENTS) as usize >= DMA_PIECES;
            if does {
                channels = field(cap, ext::WEFT_DMA_CAP_CHANNELS) as usize;
            }
        }
        let mut caps = Self {
            links,
            far: 0,
            endpoint_slots: 0,
            scarce: c"",
            channels,
            has_kick,
            is_told: cap1 & ext::WEFT_CAP1_STORED != 0,
            is_vf,
            function: (function & ext::WEFT_FUNCTION_NUMBER) as u8,
        };
        caps.check(cap0, cap1, dev)?;
        let mailbox = if is_vf { 0 } else { ext::WEFT_CAP1_MBOX_LID };
        let needed = ext::WEFT_CAP1_ROUTES | mailbox;
        // Of the number of a VF the PF decides: it says what it gives.
        let routes = cap1 & needed == needed && links == MAX_NEIGHBOURS && (has_kick || is_vf);
        if routes {
            let (far, what) = far_links(cap0, links);
            caps.far = far;
            if far < MAX_FAR && !is_vf {
                dev_info!(
                    dev,
                    "can have links to {} hosts that are no neighbours: there are no more {}\n",
                    far,
                    what
                );
            }
        }
        let (count, scarce) = endpoint_slots(cap0, links + caps.far);
        caps.endpoint_slots = if routes && caps.is_first() { count } else { 0 };
        caps.scarce = scarce;
        Ok(caps)
    }

    /// Checks that there are enough resources for the links. `ENODEV` if not, which is logged.
    fn check(&self, cap0: u32, cap1: u32, dev: &Device) -> Result {
        let links = self.links as u32;
        let needs = [
            ("slots", field(cap0, ext::WEFT_CAP0_SLOTS), links),
            ("apertures", field(cap0, ext::WEFT_CAP0_INBOUND), links),
            (
                "doorbells",
                field(cap0, ext::WEFT_CAP0_DOORBELLS),
                2 * links,
            ),
            ("pages", field(cap0, ext::WEFT_CAP0_DB_PAGES), 2 * links),
            (
                "bytes",
                field(cap1, ext::WEFT_CAP1_MBOX_BYTES),
                // A VF uses the mailbox of its PF.
                if self.is_vf { 0 } else { MBOX_BYTES as u32 },
            ),
        ];
        if self.links == 0 || self.links > MAX_NEIGHBOURS {
            dev_err!(dev, "has {} links, not 1 to {}\n", links, MAX_NEIGHBOURS);
            return Err(ENODEV);
        }
        for (what, has, needed) in needs {
            if has < needed {
                dev_err!(
                    dev,
                    "capabilities: {} {}, {} are needed\n",
                    has,
                    what,
                    needed
                );
                return Err(ENODEV);
            }
        }
        Ok(())
    }
}

/// Returns how many objects a port can have that take `each` units of the resource that field `mask` of
/// `cap0` counts, if `taken` units are in use.
fn left(cap0: u32, mask: u32, taken: usize, each: usize) -> usize {
    (field(cap0, mask) as usize).saturating_sub(taken) / each
}

/// Returns how many routed links a port can have beside `n` links to neighbours, and the resource that
/// limits their number.
fn far_links(cap0: u32, n: usize) -> (usize, &'static CStr) {
    let left = |mask, taken, each| left(cap0, mask, taken, each);
    // The links to neighbours, and the doorbell of users of this host, come first.
    [
        (MAX_FAR, c"driver"),
        (left(ext::WEFT_CAP0_SLOTS, n, 1), c"slots"),
        (left(ext::WEFT_CAP0_INBOUND, n, 1), c"apertures"),
        (left(ext::WEFT_CAP0_DOORBELLS, 2 * n + 1, 2), c"doorbells"),
        (
            left(ext::WEFT_CAP0_DB_PAGES, 2 * n + 1, 2),
            c"doorbell pages",
        ),
    ]
    .into_iter()
    .min_by_key(|(count, _)| *count)
    .unwrap_or((0, c"driver"))
}

/// Returns how many endpoint slots a port can have beside `links` links, and the resource that limits
/// their number.
fn endpoint_slots(cap0: u32, links: usize) -> (usize, &'static CStr) {
    let left = |mask, taken, each| left(cap0, mask, taken, each);
    [
        (MAX_ENDPOINT_SLOTS, c"endpoint slots in the driver"),
        (left(ext::WEFT_CAP0_SLOTS, links, 1), c"slots"),
        (
            left(ext::WEFT_CAP0_INBOUND, links, INBOUND_MAPPINGS),
            c"apertures",
        ),
        (
            left(ext::WEFT_CAP0_DOORBELLS, 2 * links + 1, 1),
            c"doorbells",
        ),
        (
            left(ext::WEFT_CAP0_DB_PAGES, 2 * links + 1, 1),
            c"doorbell pages",
        ),
    ]
    .into_iter()
    .min_by_key(|(count, _)| *count)
    .unwrap_or((0, c"endpoint slots in the driver"))
}
