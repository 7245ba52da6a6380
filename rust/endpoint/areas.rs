// SPDX-License-Identifier: GPL-2.0

//! The areas of an open function: makes, looks up and frees them.
//!
//! The place of a freed area is not reused while work is under way that may name it: the endpoint
//! knows only addresses.

use super::{
    area::{Area, Backing, Left, LAST_ID, MAX_AREA},
    function::{Function, Inner},
    held::close,
    memory::Memory,
    Endpoints,
};
use crate::{
    fabric::Node,
    hw::endpoint_slots::INBOUND_MAPPINGS,
    proto::{
        endpoint::{part, FUNCTION_BYTES},
        mr::hierarchy::Given,
    },
    sys::vma::{Fault, NewVma, Outcome},
};
use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc, time::Instant};

impl Function {
    /// Makes an area of up to [`MAX_AREA`] bytes. `ENOSPC`: there are as many as there can be, or
    /// there is no room for it; `EBUSY`: work under way may name an earlier area in the free place;
    /// `ETIMEDOUT`: an endpoint still holds memory in the free place, after as much time as the start
    /// of a function may take. Sleeps.
    pub(crate) fn make_area(
        &self,
        endpoints: &Endpoints,
        node: &Node,
        bytes: u64,
        rights: (bool, bool),
    ) -> Result<Arc<Area>> {
        let mut made = Err(ETIMEDOUT);
        self.until(node, Instant::now(), ETIMEDOUT, || {
            made = self.place_area(endpoints, node, bytes, rights);
            !matches!(made, Err(ETIMEDOUT))
        })?;
        made
    }

    /// As [`Self::make_area`], without repeated attempts: waits for the hardware only.
    fn place_area(
        &self,
        endpoints: &Endpoints,
        node: &Node,
        bytes: u64,
        rights: (bool, bool),
    ) -> Result<Arc<Area>> {
        let bytes = bytes.clamp(1, MAX_AREA).next_multiple_of(PAGE_SIZE as u64);
        Self::check(&self.inner.lock())?;
        let port = node.port_at_work().ok_or(ENODEV)?;
        let slots = port.endpoint_slots().ok_or(ENODEV)?;
        let own = self.made.protocol.push_data;
        let memory = match own {
            true => None,
            false => Some(Memory::new(&endpoints.source, bytes as usize)?),
        };
        let mut inner = self.inner.lock();
        Self::check(&inner)?;
        let n = self.free_place(endpoints, &mut inner)?;
        let at = match own {
            true => self.own_place(&inner, bytes)?,
            false => self.part(n, bytes)?,
        };
        let id = self.new_id(endpoints)?;
        let backing = match memory {
            Some(memory) => Backing::Host(memory),
            None => {
                self.registers(slots)
                    .window()?
                    .zero(at as usize, bytes as usize)?;
                Backing::Function(at as usize / PAGE_SIZE)
            }
        };
        let area = Area::new((id, self.made.slot, n), at, bytes, rights, backing)?;
        if let Some(mapping) = area.mapping() {
            if let Err(e) = slots.open(self.made.slot, n, mapping) {
                let closed = slots.close(self.made.slot, n);
                drop(endpoints.let_go_of(self.made.slot, n, area.free(), closed));
                return Err(e);
            }
        }
        if let Some(place) = self.areas.lock().get_mut(n) {
            *place = Some(area.clone());
        }
        Ok(area)
    }

    fn new_id(&self, endpoints: &Endpoints) -> Result<u64> {
        loop {
            let id = endpoints.new_id();
            if id > LAST_ID {
                return Err(ENOSPC);
            }
            let areas = self.areas.lock();
            let taken = areas
                .iter()
                .flatten()
                .any(|area| area.handle() == id as u32);
            // 0 names nothing.
            if !taken && id as u32 != 0 {
                return Ok(id);
            }
        }
    }

    /// Returns a free place for an area that no endpoint can still reach. Place 0 is that of the
    /// queues.
    fn free_place(&self, endpoints: &Endpoints, inner: &mut Inner) -> Result<usize> {
        let areas = self.areas.lock();
        let slots = endpoints.slots.lock();
        let mut why = ENOSPC;
        let done = inner.ledger.done();
        for left in inner.left.iter_mut() {
            // The numbers wrap around; fewer than half of them are ever outstanding.
            let over = |left: &mut Left| (done.wrapping_sub(left.posted) as i32) >= 0;
            left.take_if(over);
        }
        for (n, area) in areas.iter().enumerate().skip(1) {
            if area.is_some() {
                continue;
            }
            if inner.left.get(n).is_some_and(Option::is_some) {
                why = EBUSY;
            } else if slots.holds(self.made.slot, n) {
                why = ETIMEDOUT;
            } else {
                return Ok(n);
            }
        }
        Err(why)
    }

    /// Returns the offset of mapping `n` in the host's aperture space. `ENOSPC`: `bytes` do not fit
    /// there.
    pub(super) fn part(&self, n: usize, bytes: u64) -> Result<u64> {
        let Given { base, limit, .. } = self.made.given;
        let function = (self.made.wanted.function, self.made.functions);
        match part((base, limit), function, (n, INBOUND_MAPPINGS)) {
            Some((at, room)) if bytes <= room => Ok(at),
            _ => Err(ENOSPC),
        }
    }

    /// Returns an offset for an area in the function's own memory. `ENOSPC`: there is no room.
    fn own_place(&self, inner: &Inner, bytes: u64) -> Result<u64> {
        let areas = self.areas.lock();
        let now = areas.iter().flatten().map(|area| (area.at, area.bytes()));
        let before = inner
            .left
            .iter()
            .flatten()
            .map(|left| (left.at, left.bytes));
        let taken = Iterator::chain(now, before);
        let ends = taken.clone().map(|(at, bytes)| at + bytes);
        let fits = |at: &u64| {
            let end = *at + bytes;
            let mut taken = taken.clone();
            end <= FUNCTION_BYTES && !taken.any(|(other, bytes)| *at < other + bytes && other < end)
        };
        let places = Iterator::chain(ends, Some(self.made.places.free));
        places.filter(fits).min().ok_or(ENOSPC)
    }

    /// Frees an area: closes it to the endpoint at once, whatever is under way, and zaps the
    /// program's mappings. `ENOENT`: there is none.
    pub(crate) fn free_area(&self, endpoints: &Endpoints, node: &Node, handle: u32) -> Result {
        let port = node.port_at_work();
        let slots = port.as_ref().and_then(|port| port.endpoint_slots());
        let mut inner = self.inner.lock();
        let mut areas = self.areas.lock();
        let its =
            |area: &&mut Option<Arc<Area>>| matches!(area, Some(area) if area.handle() == handle);
        let area = areas.iter_mut().find(its).and_then(Option::take);
        drop(areas);
        let area = area.ok_or(ENOENT)?;
        let memory = area.free();
        endpoints.zap(&area);
        let closed = match (inner.has_slot, &memory) {
            (true, Backing::Host(_)) => close(slots, self.made.slot, area.n),
            // Its inbound mapping is closed already, and may be in use for another area, or it has
            // none.
            _ => Ok(()),
        };
        drop(endpoints.let_go_of(self.made.slot, area.n, memory, closed));
        let posted = inner.ledger.posted();
        if let Some(left) = inner.left.get_mut(area.n) {
            *left = Some(Left {
                posted,
                at: area.at,
                bytes: area.bytes(),
            });
        }
        Ok(())
    }

    /// Returns all areas, for work that must not hold the lock of the areas.
    pub(super) fn all_areas(&self) -> [Option<Arc<Area>>; INBOUND_MAPPINGS] {
        self.areas.lock().clone()
    }

    fn area_of(&self, page: u64) -> Option<Arc<Area>> {
        let areas = self.areas.lock();
        let area = areas.iter().flatten().find(|area| area.has(page));
        area.cloned()
    }

    pub(crate) fn mmap(&self, vma: &NewVma<'_>) -> Result {
        self.area_of(vma.first()).ok_or(EINVAL)?.mmap(vma)
    }

    pub(crate) fn fault(&self, node: &Node, fault: &Fault<'_>) -> Outcome {
        match self.area_of(fault.page()) {
            Some(area) => area.fault(node, fault),
            None => fault.refuse(),
        }
    }
}
