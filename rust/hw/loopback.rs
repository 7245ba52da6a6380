// SPDX-License-Identifier: GPL-2.0

//! The loopback links of a port: programs of one host reach each other over them as they reach those of other
//! hosts.
//!
//! A port of any kind gets two, by [`join`], and each leads to the other. The window of one is the arena of the
//! other, a doorbell is a flag, a mailbox is a queue, and a work item reports both: see [`wire`]. No
//! hardware takes part. Both ends are this driver's, so a withdrawal is an agreement, as between friends.
//!
//! The links do not exist before [`LoopbackLinks::open`], which allocates their memory; it stays until the port
//! goes. They are down while the function is reset, as all links are. This file must not know what opens
//! them, nor what goes over them.

mod wire;

use self::wire::{Bell, Wire, BELLS};
use super::{
    arena::{new_arena, MAX_ARENA, MIN_ARENA},
    Arena, Counter, Doorbells, EndpointSlots, Events, FarLinks, Grant, Identity, LinkStatus,
    Losses, Mover, Owner, Port, Rates, Router, Source, UserDoorbells, VirtualFunctions,
    LOOPBACK_LINKS, MBOX_BYTES,
};
use crate::sys::{
    area::Area,
    dma::DmaSource,
    errno::{ENOLINK, ENOTCONN},
};
use core::ops::Range;
use kernel::{
    device::{Bound, Device},
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, SetOnce,
    },
};

/// Opens the loopback links of a port.
pub(crate) trait LoopbackLinks: Send + Sync {
    /// Makes the links exist, if they do not. `ENOMEM`: there is no memory for their arenas. Sleeps.
    fn open(&self) -> Result;
}

/// A port with its loopback links. What concerns those is done here, all else by the port itself.
struct Joined {
    port: KBox<dyn Port>,
    dev: ARef<Device>,
    source: DmaSource,
    /// The number of the first loopback link.
    first: usize,
    /// The arenas, once the links exist.
    arenas: SetOnce<[Area; LOOPBACK_LINKS]>,
    /// How often the links came up.
    trained: Atomic<u32>,
    wire: Arc<Wire>,
}

/// Returns `port` with loopback links, whose events go to `events` as those of `port` do.
pub(crate) fn join(
    dev: &Device<Bound>,
    events: Arc<dyn Events>,
    port: KBox<dyn Port>,
) -> Result<KBox<dyn Port>> {
    let first = port.far_links().end;
    let joined = Joined {
        port,
        dev: dev.into(),
        source: DmaSource::new(dev),
        first,
        arenas: SetOnce::new(),
        trained: Atomic::new(0),
        wire: Wire::new(events, first)?,
    };
    Ok(KBox::new(joined, GFP_KERNEL)?)
}

impl Joined {
    /// Returns which end of the loopback `link` is; `None`: it is a link of the port.
    fn end(&self, link: usize) -> Option<usize> {
        link.checked_sub(self.first)
            .filter(|end| *end < LOOPBACK_LINKS)
    }

    /// Returns the arena of an end. `ENOTCONN`: it does not exist yet.
    fn arena_of(&self, end: usize) -> Result<&Area> {
        let arenas = self.arenas.as_ref().ok_or(ENOTCONN)?;
        arenas.get(end).ok_or(EINVAL)
    }

    /// Returns the size of an arena: that of others of this port, as a power of two, since it is halved if there is
    /// no memory.
    fn wanted(&self) -> usize {
        let wanted = self.port.arena_wanted(0).max(MIN_ARENA as u64);
        (1usize << wanted.ilog2()).min(MAX_ARENA)
    }

    fn new_area(&self, end: usize, bytes: usize) -> Result<Area> {
        Ok(new_arena(&self.dev, &self.source, self.first + end, bytes)?.area)
    }

    fn come_up(&self) {
        self.trained.fetch_add(1, Relaxed);
        self.wire.plug();
    }
}

fn other(end: usize) -> usize {
    end ^ 1
}

/// Returns the grant of an end. The other end knows all of it.
fn grant_of(end: usize, arena: &Area) -> Grant {
    Grant {
        offset: (end as u64) << 32,
        bytes: arena.bytes() as u64,
    }
}

impl LoopbackLinks for Joined {
    fn open(&self) -> Result {
        if self.arenas.as_ref().is_some() {
            return Ok(());
        }
        let bytes = self.wanted();
        let arenas = [self.new_area(0, bytes)?, self.new_area(1, bytes)?];
        // Another thread may have been as fast: its arenas stay.
        self.arenas.populate(arenas);
        Ok(())
    }
}

impl Losses for Joined {
    fn intact(&self, link: usize) -> Result<(), &'static str> {
        let losses = self.port.losses().filter(|_| self.end(link).is_none());
        losses.map_or(Ok(()), |losses| losses.intact(link))
    }

    fn is_sound(&self, link: usize) -> bool {
        let losses = self.port.losses().filter(|_| self.end(link).is_none());
        losses.is_none_or(|losses| losses.is_sound(link))
    }

    fn failed_loads(&self) -> Option<u32> {
        self.port.losses()?.failed_loads()
    }
}

impl Port for Joined {
    fn identity(&self) -> Identity {
        self.port.identity()
    }

    fn is_present(&self) -> bool {
        self.port.is_present()
    }

    fn fabric(&self) -> Option<bool> {
        self.port.fabric()
    }

    fn links(&self) -> usize {
        self.port.links()
    }

    fn has_link(&self, link: usize) -> bool {
        match self.end(link) {
            Some(end) => self.arena_of(end).is_ok(),
            None => self.port.has_link(link),
        }
    }

    fn loopback_links(&self) -> Range<usize> {
        self.first..self.first + LOOPBACK_LINKS
    }

    fn loopback(&self) -> Option<&dyn LoopbackLinks> {
        Some(self)
    }

    fn link_status(&self, link: usize) -> LinkStatus {
        if self.end(link).is_none() {
            return self.port.link_status(link);
        }
        let up = self.has_link(link) && self.wire.is_plugged();
        LinkStatus {
            up,
            present: up,
            trained: self.trained.load(Relaxed),
            ..LinkStatus::default()
        }
    }

    fn arena(&self, link: usize) -> Result<Arena<'_>> {
        match self.end(link) {
            Some(end) => Ok(Arena::Fixed(self.arena_of(end)?)),
            None => self.port.arena(link),
        }
    }

    fn arena_wanted(&self, link: usize) -> u64 {
        match self.end(link) {
            Some(_) => self.wanted() as u64,
            None => self.port.arena_wanted(link),
        }
    }

    fn grant(&self, link: usize) -> Result<Grant> {
        match self.end(link) {
            Some(end) => Ok(grant_of(end, self.arena_of(end)?)),
            None => self.port.grant(link),
        }
    }

    fn withdraw(&self, link: usize) -> Result {
        match self.end(link) {
            // See the top of the file.
            Some(_) => Ok(()),
            None => self.port.withdraw(link),
        }
    }

    fn attach(&self, link: usize, grant: Grant, bells: Doorbells) -> Result {
        let Some(end) = self.end(link) else {
            return self.port.attach(link, grant, bells);
        };
        let there = grant_of(other(end), self.arena_of(other(end))?);
        match grant == there && bells == self.doorbells(link) {
            true => Ok(()),
            false => Err(EINVAL),
        }
    }

    fn detach(&self, link: usize) {
        if self.end(link).is_none() {
            self.port.detach(link);
        }
    }

    fn window(&self, link: usize) -> Result<&Area> {
        match self.end(link) {
            Some(end) => self.arena_of(other(end)),
            None => self.port.window(link),
        }
    }

    fn doorbells(&self, link: usize) -> Doorbells {
        match self.end(link) {
            Some(_) => Doorbells {
                wake: Bell::Wake as u32,
                echo: Bell::Echo as u32,
            },
            None => self.port.doorbells(link),
        }
    }

    fn ring(&self, link: usize, doorbell: u32) {
        let Some(end) = self.end(link) else {
            return self.port.ring(link, doorbell);
        };
        if let Some(bell) = BELLS.into_iter().find(|bell| *bell as u32 == doorbell) {
            self.wire.ring(other(end), bell);
        }
    }

    fn expect(&self, link: usize) {
        if self.end(link).is_none() {
            self.port.expect(link);
        }
    }

    fn send(&self, link: usize, msg: &[u8]) -> Result {
        match self.end(link) {
            Some(end) if self.has_link(link) => self.wire.send(other(end), msg),
            Some(_) => Err(ENOLINK.into()),
            None => self.port.send(link, msg),
        }
    }

    fn recv(&self, buf: &mut [u8; MBOX_BYTES]) -> Option<(Source, usize)> {
        // First: only programs of this host cause messages here, and not many wait at a time, whereas a
        // neighbour may send without end.
        if let Some((end, bytes)) = self.wire.recv(buf) {
            return Some((Source::Link(self.first + end), bytes));
        }
        self.port.recv(buf)
    }

    fn mask_messages(&self) {
        self.port.mask_messages();
    }

    fn unmask_messages(&self) {
        self.port.unmask_messages();
    }

    fn counter(&self, n: usize) -> Option<Counter> {
        self.port.counter(n)
    }

    fn start(&self) -> Result {
        self.port.start().inspect(|()| self.come_up())
    }

    fn stop(&self) {
        self.port.stop();
        self.wire.unplug();
    }

    fn suspend(&self) {
        self.port.suspend();
        self.wire.unplug();
    }

    fn resume(&self) -> Result {
        self.port.resume().inspect(|()| self.come_up())
    }

    fn restart(&self) -> Result {
        self.port.restart().inspect(|()| self.come_up())
    }

    fn mover(&self, link: usize) -> Option<&dyn Mover> {
        // The CPU moves data of loopback links: it would do half of it in any case.
        match self.end(link) {
            Some(_) => None,
            None => self.port.mover(link),
        }
    }

    fn user_doorbells(&self) -> Option<&dyn UserDoorbells> {
        self.port.user_doorbells()
    }

    fn losses(&self) -> Option<&dyn Losses> {
        let losses: &dyn Losses = self;
        self.port.losses().map(|_| losses)
    }

    fn rates(&self) -> Option<&dyn Rates> {
        self.port.rates()
    }

    fn far(&self) -> Option<&dyn FarLinks> {
        self.port.far()
    }

    fn router(&self) -> Option<&dyn Router> {
        self.port.router()
    }

    fn endpoint_slots(&self) -> Option<&dyn EndpointSlots> {
        self.port.endpoint_slots()
    }

    fn vfs(&self) -> Option<&dyn VirtualFunctions> {
        self.port.vfs()
    }

    fn owner(&self) -> Option<&dyn Owner> {
        self.port.owner()
    }

    fn function(&self) -> u8 {
        self.port.function()
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        // Nothing rings any more: the work item does not come back.
        self.wire.unplug();
    }
}
