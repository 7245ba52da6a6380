// SPDX-License-Identifier: GPL-2.0

//! The registers of a Weft port, and what its interrupts do.
//!
//! Shared by the port and the handlers. It must not know arenas and windows.

use super::{dma, far, seats};
use crate::{
    hw::{Events, MAX_FAR, MAX_NEIGHBOURS, MBOX_BYTES},
    sys::{
        ext,
        iomap::Regs,
        irq::{Handler, Next},
        trace,
    },
};
use kernel::{
    pci,
    prelude::*,
    sync::{aref::ARef, Arc},
    time::{delay::fsleep, Delta},
};

/// Vectors of the purposes; those of the doorbells follow from [`DOORBELL_VECTOR`].
pub(super) const LINK_VECTOR: u32 = 0;
pub(super) const MBOX_VECTOR: u32 = 1;
pub(super) const ERROR_VECTOR: u32 = 2;
pub(super) const DOORBELL_VECTOR: u32 = 4;

// Of `links`, how many links to neighbours there are: what is theirs comes first, then what users of this
// host ring by, then what is for far links.

/// Doorbells of a link: to look at the rings, and to be rung back.
pub(super) const fn wake(links: usize, link: usize) -> u32 {
    2 * link as u32 + if link < links { 0 } else { 1 }
}
pub(super) const fn echo(links: usize, link: usize) -> u32 {
    wake(links, link) + 1
}
pub(super) const fn bells(links: usize, link: usize) -> u32 {
    1 << wake(links, link) | 1 << echo(links, link)
}

/// Number of the doorbell page by which users ring, and of that of the kernel.
pub(super) const fn user_page(links: usize, link: usize) -> usize {
    if link < links {
        link
    } else {
        2 * link + 1
    }
}
pub(super) const fn kernel_page(links: usize, link: usize) -> usize {
    if link < links {
        links + link
    } else {
        2 * link + 2
    }
}

/// Doorbell by which users of this host ring for the driver, and its page.
pub(super) const fn kick(links: usize) -> u32 {
    2 * links as u32
}
pub(super) const fn kick_page(links: usize) -> usize {
    2 * links
}

/// Vector of the DMA engine, behind those of the doorbells.
pub(super) const fn dma_vector(links: usize) -> u32 {
    DOORBELL_VECTOR + kick(links) + 1
}

/// Vector of all doorbells of far links.
pub(super) const fn far_vector(links: usize) -> u32 {
    dma_vector(links) + 1
}

// Of `all` links, what seats have is behind what those have.

/// Doorbell by which the guest on a seat rings; its number is also that of the page by which it is rung.
pub(super) const fn seat_bell(all: usize, seat: usize) -> u32 {
    (2 * all + 1 + seat) as u32
}

/// Vector of the doorbells of all seats.
pub(super) const fn seat_vector(links: usize) -> u32 {
    far_vector(links) + 1
}

/// The events that are handled.
const EVENTS: u32 = ext::WEFT_EVENT_LINK
    | ext::WEFT_EVENT_ROUTE
    | ext::WEFT_EVENT_MBOX
    | ext::WEFT_EVENT_FUNCTION
    | ext::WEFT_EVENT_PLUG
    | ext::WEFT_EVENT_ERROR;

/// What an error is, by its bit.
const ERRORS: [(u32, &CStr); 12] = [
    (ext::WEFT_ERR_OUT_WRITE, c"own write dropped"),
    (ext::WEFT_ERR_OUT_READ, c"own read answered by all ones"),
    (ext::WEFT_ERR_IN_DENIED, c"a neighbour's access refused"),
    (ext::WEFT_ERR_IN_INVALID, c"aperture not in memory"),
    (ext::WEFT_ERR_DB_DENIED, c"doorbell refused"),
    (ext::WEFT_ERR_MSG_DROPPED, c"mailbox full, message dropped"),
    (ext::WEFT_ERR_FABRIC_LOST, c"fabric lost"),
    (ext::WEFT_ERR_UNMAP_LATE, c"unmapped while in use"),
    (ext::WEFT_ERR_DMA, c"DMA transfer failed"),
    (ext::WEFT_ERR_ROUTE_DENIED, c"a route ended here"),
    (ext::WEFT_ERR_POISONED, c"data came poisoned"),
    (ext::WEFT_ERR_TIMEOUT, c"own read without an answer"),
];

/// A register of group `n` of those at `base`.
fn group(base: u32, stride: u32, n: usize, reg: u32) -> usize {
    base as usize + stride as usize * n + reg as usize
}

pub(super) fn link_reg(n: usize, reg: u32) -> usize {
    group(ext::WEFT_R_LINK, ext::WEFT_LINK_STRIDE, n, reg)
}

pub(super) fn slot_reg(n: usize, reg: u32) -> usize {
    group(ext::WEFT_R_SLOT, ext::WEFT_SLOT_STRIDE, n, reg)
}

pub(super) fn inbound_reg(n: usize, reg: u32) -> usize {
    group(ext::WEFT_R_INBOUND, ext::WEFT_INBOUND_STRIDE, n, reg)
}

pub(super) fn page_reg(n: usize, reg: u32) -> usize {
    group(ext::WEFT_R_DB_PAGE, ext::WEFT_DB_PAGE_STRIDE, n, reg)
}

pub(super) fn vf_reg(n: usize, reg: u32) -> usize {
    group(ext::WEFT_R_VF, ext::WEFT_VF_STRIDE, n, reg)
}

pub(super) fn route_reg(n: usize, reg: u32) -> usize {
    group(ext::WEFT_R_ROUTE, ext::WEFT_ROUTE_STRIDE, n, reg)
}

/// A field of a register, shifted down.
pub(super) fn field(value: u32, mask: u32) -> u32 {
    (value & mask) >> mask.trailing_zeros()
}

/// How long the port is left alone after an error. It reports nothing meanwhile, so that a
/// neighbour cannot keep this host busy with its mistakes.
const ERROR_PAUSE: Delta = Delta::from_millis(10);

pub(super) struct Chip {
    pub(super) regs: Regs,
    pub(super) pdev: ARef<pci::Device>,
    pub(super) links: usize,
    /// Far ones.
    pub(super) far: usize,
    /// Seats for functions of shared endpoints.
    pub(super) seats: usize,
    /// Channels of the DMA engine, if they do.
    pub(super) channels: usize,
    /// Users of this host can ring.
    pub(super) has_kick: bool,
    /// This is a virtual function.
    pub(super) is_vf: bool,
    events: Arc<dyn Events>,
}

impl Chip {
    /// Checks what port this is.
    pub(super) fn new(
        regs: Regs,
        pdev: ARef<pci::Device>,
        events: Arc<dyn Events>,
    ) -> Result<Self> {
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
        let is_vf = regs.read32(ext::WEFT_R_FUNCTION as usize) & ext::WEFT_FUNCTION_VF != 0;
        let has_kick = !is_vf
            && field(cap0, ext::WEFT_CAP0_DOORBELLS) > kick(links)
            && field(cap0, ext::WEFT_CAP0_DB_PAGES) > kick(links);
        let mut channels = 0;
        if cap1 & ext::WEFT_CAP1_DMA != 0 {
            let cap = regs.read32(ext::WEFT_R_DMA_CAP as usize);
            let does = field(cap, ext::WEFT_DMA_CAP_ORDER) >= dma::ORDER
                && field(cap, ext::WEFT_DMA_CAP_ELEMENTS) as usize >= dma::PIECES;
            if does {
                channels = field(cap, ext::WEFT_DMA_CAP_CHANNELS) as usize;
            }
        }
        let mut chip = Self {
            regs,
            pdev,
            links,
            far: 0,
            seats: 0,
            channels,
            has_kick,
            is_vf,
            events,
        };
        chip.check()?;
        let needed = ext::WEFT_CAP1_ROUTES | ext::WEFT_CAP1_MBOX_LID;
        if cap1 & needed == needed && links == MAX_NEIGHBOURS && chip.has_kick && chip.is_first() {
            let (far, what) = far::capacity(&chip);
            chip.far = far;
            if far < MAX_FAR {
                dev_info!(
                    chip.pdev,
                    "can have links to {} hosts that are no neighbours: there are no more {}\n",
                    far,
                    what
                );
            }
            chip.seats = seats::capacity(&chip).0;
        }
        Ok(chip)
    }

    /// Whether it is the function of its endpoint that has the routes.
    pub(super) fn is_first(&self) -> bool {
        self.read(ext::WEFT_R_FUNCTION) & ext::WEFT_FUNCTION_NUMBER == 0
    }

    /// Whether there is as much of everything as the links need.
    fn check(&self) -> Result {
        let cap0 = self.read(ext::WEFT_R_CAP0);
        let cap1 = self.read(ext::WEFT_R_CAP1);
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
            dev_err!(
                self.pdev,
                "has {} links, not 1 to {}\n",
                links,
                MAX_NEIGHBOURS
            );
            return Err(ENODEV);
        }
        for (what, has, needed) in needs {
            if has < needed {
                dev_err!(
                    self.pdev,
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

    pub(super) fn read(&self, reg: u32) -> u32 {
        self.regs.read32(reg as usize)
    }

    pub(super) fn write(&self, reg: u32, value: u32) {
        self.regs.write32(reg as usize, value);
    }

    pub(super) fn is_present(&self) -> bool {
        self.read(ext::WEFT_R_ID) == ext::WEFT_ID
    }

    /// All bits of the doorbells that are used.
    pub(super) fn doorbells(&self) -> u32 {
        let links = self.links + self.far;
        ((1u64 << (2 * links + usize::from(self.has_kick) + self.seats)) - 1) as u32
    }

    /// Those of the seats.
    pub(super) fn seat_bells(&self) -> u32 {
        let links = self.links + self.far;
        (0..self.seats).fold(0, |all, seat| all | 1 << seat_bell(links, seat))
    }

    fn seats_rung(&self) {
        let pending = self.read(ext::WEFT_R_DB_PENDING);
        if pending == u32::MAX {
            return;
        }
        // Before the queues are looked at: who rings from here on raises another interrupt.
        self.write(ext::WEFT_R_DB_PENDING, pending & self.seat_bells());
        let links = self.links + self.far;
        for seat in (0..self.seats).filter(|seat| pending & 1 << seat_bell(links, *seat) != 0) {
            self.events.called(seat);
        }
    }

    /// Lets everything raise interrupts that has a handler.
    pub(super) fn unmask(&self) {
        if self.channels != 0 {
            self.write(ext::WEFT_R_DMA_MASK, 0);
        }
        self.write(ext::WEFT_R_EVENT_MASK, !EVENTS);
        self.write(ext::WEFT_R_DB_MASK, !self.doorbells());
    }

    /// Has the interrupts of all that is pending raised once more. One whose message was lost, as the
    /// function did not master the bus then, is not raised again by itself: its bit is set already. A
    /// handler that runs once too often finds nothing.
    pub(super) fn remind(&self) {
        if self.channels != 0 {
            self.write(ext::WEFT_R_DMA_MASK, u32::MAX);
        }
        self.write(ext::WEFT_R_EVENT_MASK, u32::MAX);
        self.write(ext::WEFT_R_DB_MASK, u32::MAX);
        self.unmask();
    }

    /// Those of far links have a vector together.
    fn far_rung(&self) {
        let near = (1 << (kick(self.links) + 1)) - 1;
        let pending = self.read(ext::WEFT_R_DB_PENDING);
        if pending == u32::MAX {
            return;
        }
        // Before the rings are looked at: who rings from here on raises another interrupt.
        self.write(ext::WEFT_R_DB_PENDING, pending & !near & !self.seat_bells());
        for link in self.links..self.links + self.far {
            if pending & 1 << wake(self.links, link) != 0 {
                self.rung(link, true);
            }
            if pending & 1 << echo(self.links, link) != 0 {
                self.rung(link, false);
            }
        }
    }

    fn rung(&self, link: usize, wake: bool) {
        if wake {
            trace::port_event(&self.pdev, trace::Port::Wake, link as u64);
            self.events.wake(link);
        } else {
            trace::port_event(&self.pdev, trace::Port::Echo, link as u64);
            self.events.echo(link);
        }
    }

    /// Lets the doorbell of users raise an interrupt, when it is rung after this.
    pub(super) fn hear_kicks(&self) {
        if self.has_kick {
            self.write(ext::WEFT_R_DB_PENDING, 1 << kick(self.links));
            self.write(ext::WEFT_R_DB_MASK, !self.doorbells());
            // They have arrived when this has returned: who rings from here on is heard.
            let _ = self.read(ext::WEFT_R_DB_MASK);
        }
    }

    /// The DMA engine reports.
    fn moved(&self) {
        let bits = self.read(ext::WEFT_R_DMA_PENDING);
        if bits == u32::MAX {
            return;
        }
        // Before the rings are looked at: what is done from here on is another interrupt.
        self.write(ext::WEFT_R_DMA_PENDING, bits);
        for link in (0..self.links + self.far).filter(|link| bits & 1 << link != 0) {
            self.events.moved(link);
        }
    }

    fn link_event(&self) {
        let bits = self.read(ext::WEFT_R_EVENT);
        if bits == u32::MAX {
            trace::port_event(&self.pdev, trace::Port::Gone, 0);
        } else {
            // Before the status is looked at: what changes from here on is another event.
            self.write(
                ext::WEFT_R_EVENT,
                bits & (ext::WEFT_EVENT_LINK | ext::WEFT_EVENT_ROUTE),
            );
        }
        self.events.links_changed();
    }

    fn mbox_event(&self) {
        let own = ext::WEFT_EVENT_MBOX | ext::WEFT_EVENT_FUNCTION | ext::WEFT_EVENT_PLUG;
        let bits = self.read(ext::WEFT_R_EVENT);
        if bits != u32::MAX {
            // Before anything is looked at, and only what was seen: all else is another event.
            self.write(ext::WEFT_R_EVENT, bits & own);
            if bits & ext::WEFT_EVENT_PLUG != 0 {
                self.events.plugged();
            }
        }
        self.events.message();
    }

    fn error_event(&self) {
        self.write(ext::WEFT_R_EVENT, ext::WEFT_EVENT_ERROR);
        let status = self.read(ext::WEFT_R_ERR_STATUS);
        if status == 0 || status == u32::MAX {
            return;
        }
        // Info and address are those of the first, whose bit is cleared last of all.
        let info = self.read(ext::WEFT_R_ERR_INFO);
        let addr = self.regs.read64(ext::WEFT_R_ERR_ADDR as usize);
        trace::port_error(&self.pdev, status, info, addr);
        for (bit, what) in ERRORS {
            if status & bit == 0 {
                continue;
            }
            let first = 1u32.checked_shl(info & 0xff) == Some(bit);
            let addr = if first { addr } else { 0 };
            self.events.error(what, addr);
        }
        fsleep(ERROR_PAUSE);
        self.write(ext::WEFT_R_ERR_STATUS, status);
    }
}

impl Handler for Chip {
    fn hard(&self, vector: u32) -> Next {
        let Some(doorbell) = vector.checked_sub(DOORBELL_VECTOR) else {
            return Next::Thread;
        };
        if vector == dma_vector(self.links) {
            self.moved();
            return Next::Done;
        }
        if vector == far_vector(self.links) {
            self.far_rung();
            return Next::Done;
        }
        if vector == seat_vector(self.links) {
            self.seats_rung();
            return Next::Done;
        }
        if doorbell == kick(self.links) {
            self.write(ext::WEFT_R_DB_MASK, !self.doorbells() | 1 << doorbell);
            self.events.kicked();
            return Next::Done;
        }
        // Before the rings are looked at: who rings from here on raises another interrupt.
        self.write(ext::WEFT_R_DB_PENDING, 1 << doorbell);
        let link = (doorbell / 2) as usize;
        self.rung(link, doorbell == wake(self.links, link));
        Next::Done
    }

    fn thread(&self, vector: u32) {
        match vector {
            LINK_VECTOR => self.link_event(),
            MBOX_VECTOR => self.mbox_event(),
            ERROR_VECTOR => self.error_event(),
            _ => {}
        }
    }
}
