// SPDX-License-Identifier: GPL-2.0

//! What a Weft port has, as its registers say when it is probed: how many links, slots, channels.

use super::layout::{field, kick, DMA_ORDER, DMA_PIECES};
use crate::{
    hw::{
        endpoint_slots::{INBOUND_MAPPINGS, MAX_ENDPOINT_SLOTS},
        MAX_FAR, MAX_NEIGHBOURS, MBOX_BYTES,
    },
    sys::{ext, iomap::Regs},
};
use kernel::{pci, prelude::*};

/// What a port has.
pub(super) struct Capabilities {
    /// Links to neighbours.
    pub(super) links: usize,
    /// Far ones.
    pub(super) far: usize,
    /// Endpoint slots for functions of shared endpoints.
    pub(super) endpoint_slots: usize,
    /// What there is no more of, for one more slot.
    pub(super) scarce: &'static CStr,
    /// Channels of the DMA engine, if they do.
    pub(super) channels: usize,
    /// Users of this host can ring.
    pub(super) has_kick: bool,
    /// This is a virtual function.
    pub(super) is_vf: bool,
    /// It is the function of its endpoint that has the routes.
    pub(super) is_first: bool,
}

impl Capabilities {
    /// Reads them. `ENODEV`: this is no port that the driver knows.
    pub(super) fn read(regs: &Regs, pdev: &pci::Device) -> Result<Self> {
        let id = regs.read32(ext::WEFT_R_ID as usize);
        if id != ext::WEFT_ID {
            dev_err!(pdev, "is no Weft port: id {:#010x}\n", id);
            return Err(ENODEV);
        }
        let version = regs.read32(ext::WEFT_R_VERSION as usize);
        if version >> 16 != ext::WEFT_VERSION >> 16 {
            dev_err!(
                pdev,
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
        // How many doorbells a virtual function may use its PF says, and changes as it likes.
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
            is_vf,
            is_first: function & ext::WEFT_FUNCTION_NUMBER == 0,
        };
        caps.check(cap0, cap1, pdev)?;
        let needed = ext::WEFT_CAP1_ROUTES | ext::WEFT_CAP1_MBOX_LID;
        let routes =
            cap1 & needed == needed && links == MAX_NEIGHBOURS && has_kick && caps.is_first;
        if routes {
            let (far, what) = far_links(cap0, links);
            caps.far = far;
            if far < MAX_FAR {
                dev_info!(
                    pdev,
                    "can have links to {} hosts that are no neighbours: there are no more {}\n",
                    far,
                    what
                );
            }
        }
        let (count, scarce) = endpoint_slots(cap0, links + caps.far);
        caps.endpoint_slots = if routes { count } else { 0 };
        caps.scarce = scarce;
        Ok(caps)
    }

    /// Whether there is as much of everything as the links need.
    fn check(&self, cap0: u32, cap1: u32, pdev: &pci::Device) -> Result {
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
                // The mailbox of a VF is that of its PF.
                if self.is_vf { 0 } else { MBOX_BYTES as u32 },
            ),
        ];
        if self.links == 0 || self.links > MAX_NEIGHBOURS {
            dev_err!(pdev, "has {} links, not 1 to {}\n", links, MAX_NEIGHBOURS);
            return Err(ENODEV);
        }
        for (what, has, needed) in needs {
            if has < needed {
                dev_err!(
                    pdev,
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

/// How many things a port can have that take `each` of what field `mask` of `cap0` counts, behind those
/// that are `taken`.
fn left(cap0: u32, mask: u32, taken: usize, each: usize) -> usize {
    (field(cap0, mask) as usize).saturating_sub(taken) / each
}

/// How many links to ports that are no neighbours a port can have beside `n` to neighbours: what is left of
/// everything that a link needs, and of what there is no more.
fn far_links(cap0: u32, n: usize) -> (usize, &'static CStr) {
    let left = |mask, taken, each| left(cap0, mask, taken, each);
    // Behind those of the neighbours and the one of users of this host.
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

/// How many slots a port can have beside so many links, and of what there are no more.
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
