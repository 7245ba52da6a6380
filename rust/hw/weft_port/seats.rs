// SPDX-License-Identifier: GPL-2.0

//! Seats of a Weft port for functions of shared endpoints: [`Seats`].
//!
//! Seat n uses the nth slot, doorbell page and doorbell behind those of the links, and five inbound
//! entries behind theirs. It must not know what a function does, nor who uses it.

use super::{
    layout::{inbound_reg, page_reg, seat_bell, slot_reg, GATES},
    WeftPort, WITHDRAW_TIME,
};
use crate::{
    hw::{
        seats::{Guest, Opening, Seats, OPENINGS, WINDOW_BYTES},
        MAX_NEIGHBOURS,
    },
    sys::{area::Area, ext},
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{Atomic, Relaxed},
};

/// Of a seat that nobody has.
const EMPTY: u32 = u32::MAX;

/// A seat. Changed with `Locks::tables` held.
struct Stall {
    window: Area,
    /// The gate by which its guest comes in, or [`EMPTY`].
    gate: Atomic<u32>,
    /// Its local id.
    lid: Atomic<u32>,
}

/// The seats of a port.
pub(super) struct Stalls {
    stalls: KVec<Stall>,
    /// Of the first one.
    first_bell: u32,
}

impl Stalls {
    /// With the windows of all of them, behind so many links.
    pub(super) fn new(windows: KVec<Area>, links: usize) -> Result<Self> {
        let mut stalls = KVec::with_capacity(windows.len(), GFP_KERNEL)?;
        for window in windows {
            let stall = Stall {
                window,
                gate: Atomic::new(EMPTY),
                lid: Atomic::new(0),
            };
            stalls.push(stall, GFP_KERNEL)?;
        }
        Ok(Self {
            stalls,
            first_bell: seat_bell(links, 0),
        })
    }

    /// Doorbells that guests may ring who come in by `gate`.
    pub(super) fn bells(&self, gate: usize) -> u32 {
        let stalls = self.stalls.iter().enumerate();
        stalls
            .filter(|(_, stall)| stall.gate.load(Relaxed) == gate as u32)
            .fold(0, |all, (n, _)| all | 1 << (self.first_bell + n as u32))
    }

    /// After a reset nobody has one.
    pub(super) fn forget(&self) {
        for stall in &self.stalls {
            stall.gate.store(EMPTY, Relaxed);
        }
    }
}

impl WeftPort {
    fn stall(&self, seat: usize) -> Result<&Stall> {
        self.seats.stalls.get(seat).ok_or(EINVAL)
    }

    fn seat_slot(&self, seat: usize, reg: u32) -> usize {
        slot_reg(self.links.len() + seat, reg)
    }

    fn seat_page(&self, seat: usize) -> usize {
        seat_bell(self.links.len(), seat) as usize
    }

    /// The inbound entry of an opening.
    fn entry(&self, seat: usize, n: usize) -> Result<usize> {
        if seat >= self.seats.stalls.len() || n >= OPENINGS {
            return Err(EINVAL);
        }
        Ok(self.links.len() + seat * OPENINGS + n)
    }

    /// Waits until nobody holds on to what an entry was before. `ENODEV`: the function does not answer.
    fn let_go(&self, entry: usize) -> Result {
        match self.settle_entry(entry, WITHDRAW_TIME)? {
            u32::MAX => Err(ENODEV),
            _ => Ok(()),
        }
    }

    fn set_seat_page(&self, seat: usize, lid: u32, doorbells: u32) {
        let regs = &self.chip.regs;
        let page = self.seat_page(seat);
        let dest = ext::WEFT_DEST_LID | lid;
        regs.write32(page_reg(page, ext::WEFT_DB_PAGE_DEST), dest);
        regs.write32(page_reg(page, ext::WEFT_DB_PAGE_ALLOW), doorbells);
    }

    /// Points all seats nowhere, and closes what is open: whoever uses them has gone.
    pub(super) fn close_seats(&self) {
        for seat in 0..self.seats.stalls.len() {
            for n in 0..OPENINGS {
                // Whose memory it is has closed it, or knows that it could not.
                let _ = self.close_entry(seat, n);
            }
            self.leave(seat);
        }
    }

    fn close_entry(&self, seat: usize, n: usize) -> Result<usize> {
        let entry = self.entry(seat, n)?;
        let _tables = self.locks.tables.lock();
        self.chip
            .regs
            .write32(inbound_reg(entry, ext::WEFT_INBOUND_CTRL), 0);
        Ok(entry)
    }
}

impl Seats for WeftPort {
    fn count(&self) -> usize {
        self.seats.stalls.len()
    }

    fn lacks(&self) -> &'static CStr {
        self.chip.caps.scarce
    }

    fn take(&self, seat: usize, guest: Guest) -> Result {
        let stall = self.stall(seat)?;
        let good = guest.lid != 0
            && guest.lid <= ext::WEFT_DEST_WHERE
            && guest.at % PAGE_SIZE as u64 == 0
            && guest.link < self.chip.caps.links.min(MAX_NEIGHBOURS)
            && guest.vp < ext::WEFT_VPS;
        if !good {
            return Err(EINVAL);
        }
        let regs = &self.chip.regs;
        let reg = |reg| self.seat_slot(seat, reg);
        let _tables = self.locks.tables.lock();
        regs.write32(reg(ext::WEFT_SLOT_DEST), ext::WEFT_DEST_LID | guest.lid);
        regs.write64(reg(ext::WEFT_SLOT_OFFSET), guest.at);
        regs.write64(reg(ext::WEFT_SLOT_LEN), WINDOW_BYTES as u64);
        regs.write32(reg(ext::WEFT_SLOT_CTRL), ext::WEFT_SLOT_ENABLE);
        // Any doorbell has an endpoint look.
        self.set_seat_page(seat, guest.lid, 1);
        let gate = ext::WEFT_VPS * guest.link as u32 + guest.vp;
        stall.gate.store(gate, Relaxed);
        stall.lid.store(guest.lid, Relaxed);
        self.admit_all();
        match self.chip.is_present() {
            true => Ok(()),
            false => Err(ENODEV),
        }
    }

    fn leave(&self, seat: usize) {
        let Ok(stall) = self.stall(seat) else {
            return;
        };
        let _tables = self.locks.tables.lock();
        self.chip
            .regs
            .write32(self.seat_slot(seat, ext::WEFT_SLOT_CTRL), 0);
        self.set_seat_page(seat, 0, 0);
        if stall.gate.xchg(EMPTY, Relaxed) != EMPTY {
            self.admit_all();
        }
    }

    fn route(&self, seat: usize) -> Option<u32> {
        self.stall(seat).ok()?;
        let taken = self
            .chip
            .regs
            .read32(self.seat_slot(seat, ext::WEFT_SLOT_TAKEN));
        (taken != 0 && taken != u32::MAX).then_some(taken)
    }

    fn is_open(&self, seat: usize) -> bool {
        let status = self
            .chip
            .regs
            .read32(self.seat_slot(seat, ext::WEFT_SLOT_STATUS));
        self.stall(seat).is_ok() && status != u32::MAX && status & ext::WEFT_SLOT_LIVE != 0
    }

    fn window(&self, seat: usize) -> Result<&Area> {
        Ok(&self.stall(seat)?.window)
    }

    fn doorbell(&self, seat: usize) -> u32 {
        seat_bell(self.links.len(), seat)
    }

    fn ring(&self, seat: usize) {
        if self.stall(seat).is_ok() {
            let page = self.seat_page(seat);
            self.chip.regs.write32(Self::page_offset(page), 0);
        }
    }

    fn open(&self, seat: usize, n: usize, opening: Opening) -> Result {
        let entry = self.entry(seat, n)?;
        let stall = self.stall(seat)?;
        let gate = stall.gate.load(Relaxed);
        if gate as usize >= GATES {
            return Err(EINVAL);
        }
        self.let_go(entry)?;
        let regs = &self.chip.regs;
        let reg = |reg| inbound_reg(entry, reg);
        let right = |has: bool, right: u32| if has { right } else { 0 };
        let rights =
            right(opening.read, ext::WEFT_RIGHT_READ) | right(opening.write, ext::WEFT_RIGHT_WRITE);
        let tables = self.locks.tables.lock();
        regs.write64(reg(ext::WEFT_INBOUND_OFFSET), opening.offset);
        regs.write64(reg(ext::WEFT_INBOUND_LEN), opening.bytes);
        regs.write64(reg(ext::WEFT_INBOUND_BASE), opening.addr);
        regs.write32(reg(ext::WEFT_INBOUND_RIGHTS), rights);
        regs.write32(reg(ext::WEFT_INBOUND_ALLOW), 0);
        regs.write64(reg(ext::WEFT_INBOUND_VPS), 1 << gate);
        regs.write32(reg(ext::WEFT_INBOUND_FROM), stall.lid.load(Relaxed));
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
            let _ = self.close_entry(seat, n);
        })
    }

    fn close(&self, seat: usize, n: usize) -> Result {
        let entry = self.close_entry(seat, n)?;
        self.let_go(entry)
    }
}
