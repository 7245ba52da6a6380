// SPDX-License-Identifier: GPL-2.0

//! Limits how often doorbells interrupt this host. Owns the register `DB_MASK`.
//!
//! Each doorbell has credit, and a ring takes one. Credit comes with time, one in each [`PERIOD_MS`], and
//! when this end does what the neighbour answers by rings. A doorbell without credit is masked. A work item
//! of the port then looks at it once in each period, at normal priority, until it is quiet or has credit
//! again. So a ring is never lost, only late, and a neighbour that rings all the time costs this host one
//! look in a period.
//!
//! This file must not know what a ring means.

use crate::sys::{
    clock, ext,
    iomap::Regs,
    irqlock::{new_spinlock_irq, SpinLockIrq},
};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed},
    time::Msecs,
};

/// The time in which each doorbell gets one credit, and after which a masked doorbell is looked at.
pub(super) const PERIOD_MS: Msecs = 10;
/// The most credit that a doorbell of a link has: so many rings in a row are handled at once.
const BURST: i32 = 64;
/// The most credit of the doorbell of an endpoint slot, which rings for each request: more than there can
/// be under way.
const BURST_SLOT: i32 = 4096;
/// The number of rings that a neighbour may answer by when it is asked to ring: one for the echo, and one
/// for what this end waits for.
const ANSWERS: i32 = 2;

const DOORBELLS: usize = ext::WEFT_DOORBELLS as usize;

/// What `DB_MASK` is made of, a bit for each doorbell.
struct Masks {
    /// The doorbells that may interrupt; none while the port is silent.
    used: u32,
    /// Those that wait for [`Limits::unmask`].
    masked: u32,
    /// Those without credit.
    limited: u32,
    /// When each got credit for time last, in milliseconds.
    since: [u64; DOORBELLS],
}

impl Masks {
    fn value(&self) -> u32 {
        !self.used | self.masked | self.limited
    }

    fn write(&self, regs: &Regs) {
        regs.write32(ext::WEFT_R_DB_MASK as usize, self.value());
    }
}

/// The masks and the credit of the doorbells of a port.
#[pin_data]
pub(super) struct Limits {
    #[pin]
    masks: SpinLockIrq<Masks>,
    /// May be below 0 for a moment.
    credit: [Atomic<i32>; DOORBELLS],
    /// How often a doorbell had no credit.
    times: Atomic<u64>,
}

impl Limits {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            masks <- new_spinlock_irq!(
                Masks {
                    used: 0,
                    masked: 0,
                    limited: 0,
                    since: [0; DOORBELLS],
                },
                c"weft doorbells"
            ),
            credit: [const { Atomic::new(0) }; DOORBELLS],
            times: Atomic::new(0),
        })
    }

    /// Returns how often a doorbell was masked because it was rung too often.
    pub(super) fn times(&self) -> u64 {
        self.times.load(Relaxed)
    }

    /// Returns the doorbells that are masked for want of credit.
    pub(super) fn limited(&self) -> u32 {
        self.masks.lock().limited
    }

    /// Lets the doorbells `used` interrupt, and no others, with full credit.
    pub(super) fn start(&self, regs: &Regs, used: u32) {
        let now = clock::now_ms();
        let mut masks = self.masks.lock();
        (masks.used, masks.masked, masks.limited) = (used, 0, 0);
        masks.since = [now; DOORBELLS];
        for credit in &self.credit {
            credit.store(BURST, Relaxed);
        }
        masks.write(regs);
    }

    /// Lets no doorbell interrupt: [`Limits::charge`] and [`Limits::look_again`] return false from now on.
    pub(super) fn stop(&self, regs: &Regs) {
        let mut masks = self.masks.lock();
        (masks.used, masks.limited) = (0, 0);
        masks.write(regs);
    }

    /// Raises the interrupts of rung doorbells once more.
    pub(super) fn remind(&self, regs: &Regs) {
        let masks = self.masks.lock();
        regs.write32(ext::WEFT_R_DB_MASK as usize, u32::MAX);
        masks.write(regs);
    }

    /// Masks `doorbell` until [`Limits::unmask`].
    pub(super) fn mask(&self, regs: &Regs, doorbell: u32) {
        let mut masks = self.masks.lock();
        masks.masked |= 1 << doorbell;
        masks.write(regs);
    }

    /// Undoes [`Limits::mask`], in force when this returns.
    pub(super) fn unmask(&self, regs: &Regs, doorbell: u32) {
        let mut masks = self.masks.lock();
        masks.masked &= !(1 << doorbell);
        masks.write(regs);
        // The read flushes the write.
        let _ = regs.read32(ext::WEFT_R_DB_MASK as usize);
    }

    fn give(&self, doorbell: u32, rings: i32, most: i32) {
        if let Some(credit) = self.credit.get(doorbell as usize) {
            // Two threads at a time may give a little too much.
            if credit.load(Relaxed) < most {
                credit.fetch_add(rings, Relaxed);
            }
        }
    }

    /// Gives a link's `doorbell` credit for the rings by which the neighbour answers. Any context.
    pub(super) fn expect(&self, doorbell: u32) {
        self.give(doorbell, ANSWERS, BURST);
    }

    /// Gives the `doorbell` of an endpoint slot credit for `rings`. Any context.
    pub(super) fn expect_from_slot(&self, doorbell: u32, rings: usize) {
        let rings = rings.min(BURST_SLOT as usize) as i32;
        self.give(doorbell, rings, BURST_SLOT);
    }

    /// Takes credit for a ring. Masks the doorbell if that was the last, and returns true: it is to be
    /// looked at in [`PERIOD_MS`], see [`Limits::look_again`]. Any context.
    pub(super) fn charge(&self, regs: &Regs, doorbell: u32) -> bool {
        let Some(credit) = self.credit.get(doorbell as usize) else {
            return false;
        };
        if credit.fetch_sub(1, Relaxed) > 1 {
            return false;
        }
        let now = clock::now_ms();
        let mut masks = self.masks.lock();
        let bit = 1 << doorbell;
        if masks.used & bit == 0 || masks.limited & bit != 0 {
            return false;
        }
        if let Some(since) = masks.since.get_mut(doorbell as usize) {
            let waited = now.saturating_sub(*since);
            let periods = waited / u64::from(PERIOD_MS);
            let due = periods.min(BURST as u64) as i32 - credit.load(Relaxed).min(0);
            credit.fetch_add(due, Relaxed);
            *since = now - waited % u64::from(PERIOD_MS);
        }
        if credit.load(Relaxed) > 0 {
            return false;
        }
        masks.limited |= bit;
        masks.write(regs);
        self.times.fetch_add(1, Relaxed);
        true
    }

    /// The caller has looked at the doorbells `limited` after a period, and has charged those that were
    /// rung. Unmasks those that have credit again. Returns true if some are left, to be looked at in
    /// another period.
    pub(super) fn look_again(&self, regs: &Regs, limited: u32) -> bool {
        let now = clock::now_ms();
        let mut masks = self.masks.lock();
        let looked = limited & masks.limited;
        for doorbell in (0..u32::BITS).filter(|doorbell| looked & 1 << doorbell != 0) {
            // A ring, if there was one, takes the credit of the period.
            self.give(doorbell, 1, BURST);
            let (Some(credit), Some(since)) = (
                self.credit.get(doorbell as usize),
                masks.since.get_mut(doorbell as usize),
            ) else {
                continue;
            };
            *since = now;
            if credit.load(Relaxed) > 0 {
                masks.limited &= !(1 << doorbell);
            }
        }
        // A doorbell that was rung since it was looked at interrupts when it is unmasked.
        masks.write(regs);
        masks.limited != 0
    }
}
