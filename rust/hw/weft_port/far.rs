// SPDX-License-Identifier: GPL-2.0

//! Routed links: to ports that are not neighbours, by their local ids.
//!
//! A routed link has all resources of a link, with these differences: it needs a destination, its arena
//! is allocated with the first one, and it is up while its slot has a route. For that the slot stays
//! enabled, with length 0 while nothing is attached. This file must not know which code sets the
//! destination, nor why.

use super::{
    arena,
    layout::{self, slot_reg, GATES},
    Arena, WeftPort,
};
use crate::{
    hw::{Aim, FarLinks, LinkStatus},
    sys::ext,
};
use kernel::{
    prelude::*,
    sync::atomic::{Acquire, Atomic, Relaxed, Release},
};

const ALL_GATES: u64 = u64::MAX;
const _: () = assert!(GATES as u32 == u64::BITS);

/// The destination of a link. Changed with `Locks::tables` held.
pub(super) struct Far {
    /// 0: no destination.
    lid: Atomic<u32>,
    hops: Atomic<u32>,
    speed: Atomic<u32>,
    width: Atomic<u32>,
    /// The port there may ring doorbells here.
    admitted: Atomic<bool>,
    /// The number of the route that was seen last, and how many routes were seen.
    taken: Atomic<u32>,
    trained: Atomic<u32>,
}

impl Far {
    pub(super) fn new() -> Self {
        Self {
            lid: Atomic::new(0),
            hops: Atomic::new(0),
            speed: Atomic::new(0),
            width: Atomic::new(0),
            admitted: Atomic::new(false),
            taken: Atomic::new(0),
            trained: Atomic::new(0),
        }
    }

    /// Returns the local id of the destination, 0 without one.
    pub(super) fn lid(&self) -> u32 {
        self.lid.load(Acquire)
    }

    pub(super) fn aim(&self) -> Option<Aim> {
        let lid = self.lid();
        (lid != 0).then(|| Aim {
            lid,
            hops: self.hops.load(Relaxed),
            speed: self.speed.load(Relaxed),
            width: self.width.load(Relaxed),
        })
    }

    fn set(&self, aim: Option<Aim>) {
        let Aim {
            lid,
            hops,
            speed,
            width,
        } = aim.unwrap_or_default();
        self.hops.store(hops, Relaxed);
        self.speed.store(speed, Relaxed);
        self.width.store(width, Relaxed);
        self.lid.store(lid, Release);
    }

    /// Counts routes: `taken` is the number of the current one, or 0. Returns how many there were.
    fn count(&self, taken: u32) -> u32 {
        if taken != 0 && self.taken.xchg(taken, Relaxed) != taken {
            self.trained.fetch_add(1, Relaxed);
        }
        self.trained.load(Relaxed)
    }
}

impl WeftPort {
    pub(super) fn far_link(&self, link: usize) -> Option<&Far> {
        self.links.get(link)?.far.as_ref()
    }

    /// Returns the routed link with destination `lid`.
    pub(super) fn link_to(&self, lid: u32) -> Option<usize> {
        let is_it = |link: usize| self.far_link(link).is_some_and(|far| far.lid() == lid);
        (self.chip.caps.links..self.links.len()).find(|&link| lid != 0 && is_it(link))
    }

    /// Returns the destination for the slot and the doorbell pages of `link`, as registers have it.
    pub(super) fn dest(&self, link: usize) -> u32 {
        match self.far_link(link) {
            // To the function that has the routes, there as here.
            Some(far) => ext::WEFT_DEST_LID | far.lid(),
            None => ext::WEFT_DEST_LINK | link as u32,
        }
    }

    /// Empties the slot of `link`: disables it, but enables it with length 0 for a routed link that has
    /// a destination, so that `SLOT_TAKEN` shows the route. `Locks::tables` is held.
    pub(super) fn rest(&self, link: usize) {
        let regs = &self.chip.regs;
        let aimed = self.far_link(link).is_some_and(|far| far.lid() != 0);
        if aimed {
            regs.write32(slot_reg(link, ext::WEFT_SLOT_DEST), self.dest(link));
            regs.write64(slot_reg(link, ext::WEFT_SLOT_OFFSET), 0);
            regs.write64(slot_reg(link, ext::WEFT_SLOT_LEN), 0);
        }
        let ctrl = if aimed { ext::WEFT_SLOT_ENABLE } else { 0 };
        regs.write32(slot_reg(link, ext::WEFT_SLOT_CTRL), ctrl);
    }

    /// Programs the slot, the doorbell pages and the mailbox of a routed link for its destination, or
    /// for none. `Locks::tables` is held.
    fn point(&self, link: usize) {
        let aimed = self.far_link(link).is_some_and(|far| far.lid() != 0);
        let bells = if aimed { u32::MAX } else { 0 };
        self.rest(link);
        self.set_page(layout::user_page(self.chip.caps.links, link), link, 0);
        self.set_page(layout::kernel_page(self.chip.caps.links, link), link, bells);
        let any = (self.chip.caps.links..self.links.len())
            .any(|link| self.far_link(link).is_some_and(|far| far.lid() != 0));
        let gates = if any { ALL_GATES } else { 0 };
        self.chip.regs.write64(ext::WEFT_R_MBOX_VPS as usize, gates);
    }

    /// Programs all routed links that have a destination, after a reset.
    pub(super) fn point_all(&self) {
        let _tables = self.locks.tables.lock();
        for link in self.chip.caps.links..self.links.len() {
            if self.far_link(link).is_some_and(|far| far.lid() != 0) {
                self.point(link);
            }
        }
    }

    /// Allows or forbids the destination of a routed link to ring doorbells. `Locks::tables` is held.
    pub(super) fn admit(&self, link: usize, admitted: bool) {
        let Some(far) = self.far_link(link) else {
            return;
        };
        if far.admitted.xchg(admitted, Relaxed) == admitted {
            return;
        }
        self.admit_all();
    }

    /// Programs, for each gate (link and virtual plane), the doorbells that may be rung through it.
    /// `Locks::tables` is held.
    pub(super) fn admit_all(&self) {
        let bells = |link: usize| {
            let far = self.far_link(link).filter(|far| far.admitted.load(Relaxed));
            far.map_or(0, |_| layout::bells(self.chip.caps.links, link))
        };
        let all = (self.chip.caps.links..self.links.len()).fold(0, |all, link| all | bells(link));
        // The registers do not check the source: any port with a route to this one may ring them.
        for gate in 0..GATES {
            let reg = ext::WEFT_R_DB_ALLOW_VP as usize + 4 * gate;
            self.chip.regs.write32(reg, all | self.slots.bells(gate));
        }
    }

    /// Forgets, after a reset, which ports and remote functions may ring doorbells.
    pub(super) fn admit_nobody(&self) {
        for link in self.chip.caps.links..self.links.len() {
            if let Some(far) = self.far_link(link) {
                far.admitted.store(false, Relaxed);
            }
        }
        self.slots.forget();
    }

    /// Returns the status of a routed link: it is up while its slot has a route.
    pub(super) fn far_status(&self, link: usize, far: &Far) -> LinkStatus {
        let Some(aim) = far.aim() else {
            return LinkStatus::default();
        };
        let taken = self.chip.regs.read32(slot_reg(link, ext::WEFT_SLOT_TAKEN));
        if taken == u32::MAX || self.suspended.load(Acquire) {
            return LinkStatus::default();
        }
        LinkStatus {
            up: taken != 0,
            present: taken != 0,
            endpoint: false,
            speed: if taken != 0 { aim.speed } else { 0 },
            width: if taken != 0 { aim.width } else { 0 },
            max_speed: aim.speed,
            max_width: aim.width,
            trained: far.count(taken),
            is_switch: false,
        }
    }

    fn new_far_arena(&self, link: usize) -> Result<Arena> {
        let wanted = self.arena_wanted as usize;
        arena::new_arena(&self.chip.pdev, &self.memory, link, wanted)
    }
}

impl FarLinks for WeftPort {
    fn count(&self) -> usize {
        self.links.len() - self.chip.caps.links
    }

    fn aimed(&self, link: usize) -> Option<Aim> {
        self.far_link(link)?.aim()
    }

    fn aim(&self, link: usize, aim: Option<Aim>) -> Result {
        let l = self.link(link)?;
        let far = l.far.as_ref().ok_or(EINVAL)?;
        if let Some(aim) = aim {
            if aim.lid == 0 || aim.lid > ext::WEFT_DEST_WHERE {
                return Err(EINVAL);
            }
            if l.arena.as_ref().is_none() {
                let memory = self.new_far_arena(link)?;
                // No effect if another caller has set an arena meanwhile.
                l.arena.populate(memory);
            }
        }
        let _tables = self.locks.tables.lock();
        if let Some(aim) = aim {
            if self.link_to(aim.lid).is_some_and(|other| other != link) {
                return Err(EEXIST);
            }
        }
        let before = far.lid();
        far.set(aim);
        if far.lid() != before {
            self.point(link);
        }
        Ok(())
    }
}
