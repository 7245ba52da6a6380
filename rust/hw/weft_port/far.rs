// SPDX-License-Identifier: GPL-2.0

//! Links to ports that are no neighbours, reached by their local ids over routes.
//!
//! Such a link has what every link has; this is what differs: it leads nowhere until it is aimed, its
//! memory is allocated then and freed when it leads nowhere again, and whether it is up is said by the route of its slot, which stays
//! enabled for that, empty while nothing is attached. It must not know what aims it, nor why.

use super::{
    layout::{self, slot_reg, GATES},
    Arena, WeftPort,
};
use crate::{
    hw::{arena, Aim, FarLinks, LinkStatus},
    sys::ext,
};
use kernel::{
    prelude::*,
    sync::atomic::{Acquire, Atomic, Relaxed, Release},
};

const ALL_GATES: u64 = u64::MAX;
const _: () = assert!(GATES as u32 == u64::BITS);

/// Where a link leads. Changed with `Locks::tables` held.
pub(super) struct Far {
    /// 0: nowhere.
    lid: Atomic<u32>,
    hops: Atomic<u32>,
    speed: Atomic<u32>,
    width: Atomic<u32>,
    /// The port there may ring.
    admitted: Atomic<bool>,
    /// The number of the route that was seen last, and how many were.
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

    /// The local id of the port there, 0 without.
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

    /// Counts routes, by the number of the one that is there.
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

    /// The link that is aimed at `lid`.
    pub(super) fn link_to(&self, lid: u32) -> Option<usize> {
        let is_it = |link: usize| self.far_link(link).is_some_and(|far| far.lid() == lid);
        (self.chip.caps.links..self.links.len()).find(|&link| lid != 0 && is_it(link))
    }

    /// Where slots and doorbell pages of `link` lead.
    pub(super) fn dest(&self, link: usize) -> u32 {
        match self.far_link(link) {
            // To the function with the number that this one has.
            Some(far) => ext::WEFT_DEST_LID | far.lid(),
            None => ext::WEFT_DEST_LINK | link as u32,
        }
    }

    /// Enables the slot of a link with nothing in it: of a far one the route is known then. With the
    /// tables locked.
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

    /// Programs what a far link has while it is aimed. With the tables locked.
    fn point(&self, link: usize) {
        let aimed = self.far_link(link).is_some_and(|far| far.lid() != 0);
        let bells = if aimed { u32::MAX } else { 0 };
        self.rest(link);
        self.set_page(layout::user_page(self.chip.caps.links, link), link, 0);
        self.set_page(layout::kernel_page(self.chip.caps.links, link), link, bells);
    }

    /// The same for all of them, after a reset. Also lets messages in that come over routes: by them other
    /// hosts ask for a link, so they come while no link is aimed as well. A PF has those of its VFs.
    pub(super) fn point_all(&self) {
        let _tables = self.locks.tables.lock();
        if self.count() != 0 || self.vfs.is_some() {
            let gates = ext::WEFT_R_MBOX_VPS as usize;
            self.chip.regs.write64(gates, ALL_GATES);
        }
        for link in self.chip.caps.links..self.links.len() {
            if self.far_link(link).is_some_and(|far| far.lid() != 0) {
                self.point(link);
            }
        }
    }

    /// Lets the port at the end of a far link ring, or not. With the tables locked.
    pub(super) fn admit(&self, link: usize, admitted: bool) {
        let Some(far) = self.far_link(link) else {
            return;
        };
        if far.admitted.xchg(admitted, Relaxed) == admitted {
            return;
        }
        self.admit_all();
    }

    /// Tells each gate which ports may ring by it. With the tables locked.
    pub(super) fn admit_all(&self) {
        let bells = |link: usize| {
            let far = self.far_link(link).filter(|far| far.admitted.load(Relaxed));
            far.map_or(0, |_| layout::bells(self.chip.caps.links, link))
        };
        let all = (self.chip.caps.links..self.links.len()).fold(0, |all, link| all | bells(link));
        // They say nothing of the source: a port with a route to here may ring them for others.
        for gate in 0..GATES {
            let reg = ext::WEFT_R_DB_ALLOW_VP as usize + 4 * gate;
            self.chip.regs.write32(reg, all | self.slots.bells(gate));
        }
    }

    /// After a reset none is.
    pub(super) fn admit_none(&self) {
        for link in self.chip.caps.links..self.links.len() {
            if let Some(far) = self.far_link(link) {
                far.admitted.store(false, Relaxed);
            }
        }
        self.slots.forget();
    }

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
        arena::new_arena(&self.chip.dev, &self.memory, link, wanted)
    }
}

impl FarLinks for WeftPort {
    fn count(&self) -> usize {
        self.far
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
        }
        let memory = match aim {
            Some(_) if l.arena.is_closed() => Some(self.new_far_arena(link)?),
            _ => None,
        };
        let _tables = self.locks.tables.lock();
        // Or another thread was as fast.
        if let Some(memory) = memory.filter(|_| l.arena.is_closed()) {
            l.set_arena(memory)?;
        }
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

    fn forget(&self, link: usize) {
        let Some(l) = self.links.get(link) else {
            return;
        };
        let _tables = self.locks.tables.lock();
        let is_aimed = l.far.as_ref().is_none_or(|far| far.lid() != 0);
        if !is_aimed && !l.arena.is_closed() {
            drop(l.arena.revoke(|| ()));
            l.arena.renew();
        }
    }
}
