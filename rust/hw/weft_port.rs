// SPDX-License-Identifier: GPL-2.0

//! The Weft port, with the registers of `qemu/weft/weft_regs.h`.
//!
//! Link n uses outbound slot n, inbound aperture n (at n << 32 of the aperture space), and channel n of
//! the DMA engine, if there is one. It has two doorbells, wake and echo, a doorbell page for users and
//! one for the kernel. One more doorbell, with a page, lets users of this host ring for the driver.
//! `layout` has the numbers. Functions of shared endpoints use the rest: `endpoint_slots`.

mod bring_up;
mod capabilities;
mod chip;
mod dma;
mod endpoint_slots;
mod far;
mod interrupts;
mod layout;
mod limit;
mod losses;
mod pair;
mod rates;
mod routes;
mod to_pf;
mod user_doorbells;
mod vfs;

use crate::{
    hw::{
        self, arena::Arena, endpoint_slots::EndpointSlots, Counter, Doorbells, FarLinks, Grant,
        Identity, LinkStatus, Losses, Mover, Owner, Port, Rates, Router, Source, UserDoorbells,
        VirtualFunctions, MAX_LINKS, MBOX_BYTES,
    },
    proto::pair::{unwrap, wrap, Address, Via},
    sys::{
        area::Area,
        clock,
        dma::DmaSource,
        errno::{ENOLINK, ENOTCONN},
        ext,
        gate::Gate,
        iomap::Region,
        irq::IrqSet,
        pci::Enabled,
        trace, work,
    },
};
pub(crate) use bring_up::without_vectors;
use chip::Chip;
use kernel::{
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Relaxed, Release},
        Arc, Mutex,
    },
    time::{delay::fsleep, Delta, Instant, Monotonic},
};
use layout::{
    field, inbound_reg, link_reg, page_reg, slot_reg, DOORBELL_VECTOR, ERROR_VECTOR, LINK_VECTOR,
    MBOX_VECTOR,
};

/// How long to wait for accesses of a neighbour to an arena that was withdrawn. Other links wait
/// meanwhile; a caller that needs the arena tries again.
const WITHDRAW_TIME: Delta = Delta::from_millis(100);
/// The same for callers that do not try again.
const LAST_TIME: Delta = Delta::from_secs(1);
/// When accesses have been in progress for so long, an error is logged.
const HELD_LONG_MS: u64 = 1000;
const WITHDRAW_POLL: Delta = Delta::from_micros(100);

const COUNTERS: [&CStr; ext::WEFT_COUNTERS as usize] = [
    c"tx_writes",
    c"tx_write_bytes",
    c"tx_reads",
    c"tx_read_bytes",
    c"tx_doorbells",
    c"tx_messages",
    c"rx_doorbells",
    c"rx_messages",
    c"out_dropped",
    c"out_ones",
    c"in_denied",
    c"doorbells_denied",
    c"messages_dropped",
    c"interrupts",
    c"remaps",
    c"in_faults",
    c"route_denied",
];

/// Counters of the DMA engine's channels.
const DMA_COUNTERS: [&CStr; 5] = [
    c"dma_transfers",
    c"dma_bytes",
    c"dma_errors",
    c"dma_writes",
    c"dma_reads",
];

/// How many interrupt vectors a VF takes, with routed links.
pub(crate) const VF_VECTORS: u32 = layout::far_vector(hw::MAX_NEIGHBOURS) + 1;

/// The resources of one link.
struct Link {
    /// The DMA channel for bulk data through the window.
    channel: Option<dma::Channel>,
    /// Of a routed link: closed unless it has a destination, or had one a moment ago.
    arena: Pin<KBox<Gate<Area>>>,
    /// The address of the arena for the port.
    arena_addr: Atomic<u64>,
    window: Area,
    /// The destination, for a routed link.
    far: Option<far::Far>,
    /// To be added to the port's own count of trainings, which a reset clears.
    trained_before: Atomic<u32>,
    /// The port's own count, as last read.
    trained_seen: Atomic<u32>,
    /// When accesses to the withdrawn arena were first found in progress, in milliseconds; 0: none are.
    held_since: Atomic<u64>,
    /// The error that accesses are in progress was logged.
    held: Atomic<bool>,
}

/// Locks of registers that take more than one access. Lock order: `recv`, that of the VFs, `send`.
#[pin_data]
struct Locks {
    /// For slots, apertures, doorbell pages.
    #[pin]
    tables: Mutex<()>,
    #[pin]
    send: Mutex<()>,
    #[pin]
    recv: Mutex<()>,
    /// Whether the events of messages are masked.
    #[pin]
    masked: Mutex<bool>,
}

/// Dropped in this order: handlers before what they use, mappings before the BARs, all before the
/// function is disabled.
pub(crate) struct WeftPort {
    irqs: IrqSet<Chip>,
    /// The links to neighbours, then the routed ones.
    links: KVec<Link>,
    /// How many routed links may be aimed; the others have slots, and no memory in the quota.
    far: usize,
    memory: DmaSource,
    /// The number of bytes that are requested for an arena.
    arena_wanted: u64,
    /// The function is being reset: links are down.
    suspended: Atomic<bool>,
    locks: Pin<KBox<Locks>>,
    slots: endpoint_slots::SlotTable,
    /// For a VF, which uses its PF's mailbox.
    to_pf: Option<Pin<KBox<to_pf::ToPf>>>,
    /// For the first function of an endpoint.
    routes: Option<Pin<KBox<routes::Routes>>>,
    /// For a PF that can have VFs.
    vfs: Option<Pin<KBox<vfs::Vfs>>>,
    chip: Arc<Chip>,
    _windows: Region,
    control: Region,
    _enabled: Enabled,
}

impl Link {
    /// Gives the link an arena. `EBUSY`: it has one.
    fn set_arena(&self, arena: Arena) -> Result {
        self.arena_addr.store(arena.addr, Release);
        self.arena.open(arena.area)
    }
}

impl WeftPort {
    fn link(&self, link: usize) -> Result<&Link> {
        self.links.get(link).ok_or(EINVAL)
    }

    fn set_page(&self, page: usize, link: usize, doorbells: u32) {
        let regs = &self.chip.regs;
        regs.write32(page_reg(page, ext::WEFT_DB_PAGE_DEST), self.dest(link));
        regs.write32(page_reg(page, ext::WEFT_DB_PAGE_ALLOW), doorbells);
    }

    fn page_offset(page: usize) -> usize {
        let first = ext::WEFT_DB_PAGES_AT_BASE as usize;
        let (base, n) = match page.checked_sub(first) {
            None => (ext::WEFT_DB_PAGE_BASE, page),
            Some(n) => (ext::WEFT_DB_PAGE_MORE, n),
        };
        base as usize + n * ext::WEFT_PAGE as usize
    }

    /// Masks all interrupts, and waits for the handlers and the work item. Sleeps.
    fn silence(&self) {
        self.chip.write(ext::WEFT_R_EVENT_MASK, u32::MAX);
        self.chip.limits.stop(&self.chip.regs);
        self.irqs.disable();
        // No handler runs that could queue it.
        work::cancel_delayed(&self.chip);
    }

    /// Programs all that does not depend on neighbours, and lets links come up.
    fn program(&self) -> Result {
        let chip = &self.chip;
        if !chip.is_present() {
            return Err(ENODEV);
        }
        chip.write(
            ext::WEFT_R_EVENT_VECTOR,
            LINK_VECTOR | MBOX_VECTOR << 8 | ERROR_VECTOR << 16 | 0xff << 24,
        );
        let near = chip.caps.links;
        for link in 0..self.links.len() {
            for doorbell in [layout::wake(near, link), layout::echo(near, link)] {
                let reg = ext::WEFT_R_DB_VECTOR as usize + 4 * doorbell as usize;
                let vector = match self.far_link(link) {
                    Some(_) => layout::far_vector(near),
                    None => DOORBELL_VECTOR + doorbell,
                };
                chip.regs.write32(reg, vector);
            }
        }
        for slot in 0..chip.caps.endpoint_slots {
            let doorbell = layout::endpoint_bell(self.links.len(), slot);
            let reg = ext::WEFT_R_DB_VECTOR as usize + 4 * doorbell as usize;
            chip.regs.write32(reg, layout::endpoint_vector(near));
        }
        for link in 0..near {
            self.set_page(layout::kernel_page(near, link), link, u32::MAX);
        }
        self.admit_none();
        self.point_all();
        if chip.caps.has_kick {
            let (page, kick) = (layout::kick_page(near), layout::kick(near));
            let reg = ext::WEFT_R_DB_VECTOR as usize + 4 * kick as usize;
            chip.regs.write32(reg, DOORBELL_VECTOR + kick);
            chip.regs
                .write32(page_reg(page, ext::WEFT_DB_PAGE_DEST), ext::WEFT_DEST_SELF);
            chip.regs
                .write32(page_reg(page, ext::WEFT_DB_PAGE_ALLOW), 1 << kick);
        }
        if let Some(vfs) = &self.vfs {
            vfs.restore();
        }
        if let Some(to_pf) = &self.to_pf {
            // The PF forgets a VF that was reset. The caller tells the PF whether there are users.
            to_pf.ask(chip);
        }
        self.irqs.enable();
        chip.unmask();
        chip.limits.start(&chip.regs, chip.doorbells());
        chip.write(ext::WEFT_R_CTRL, ext::WEFT_CTRL_ENABLE);
        Ok(())
    }

    /// Returns how often link `n` came up: the port's own count, and that from before the last reset.
    fn trained(&self, n: usize) -> u32 {
        let Some(link) = self.links.get(n) else {
            return 0;
        };
        let mut now = self.chip.regs.read32(link_reg(n, ext::WEFT_LINK_TRAINED));
        if now == u32::MAX {
            // The function does not answer.
            now = link.trained_seen.load(Relaxed);
        } else {
            link.trained_seen.store(now, Relaxed);
        }
        link.trained_before.load(Relaxed).wrapping_add(now)
    }

    /// Closes the aperture of `link`. It stays busy while accesses of the neighbour are in progress.
    fn close(&self, link: usize) {
        let regs = &self.chip.regs;
        let _tables = self.locks.tables.lock();
        match self.far_link(link) {
            Some(_) => self.admit(link, false),
            None => regs.write32(ext::WEFT_R_DB_ALLOW as usize + 4 * link, 0),
        }
        regs.write32(inbound_reg(link, ext::WEFT_INBOUND_CTRL), 0);
    }

    fn inbound_status(&self, link: usize) -> u32 {
        self.chip
            .regs
            .read32(inbound_reg(link, ext::WEFT_INBOUND_STATUS))
    }

    /// Waits for accesses through the previous inbound entry to drain, and returns the status of the
    /// entry; all ones if the port does not answer.
    ///
    /// `ETIMEDOUT` if accesses are still in progress after `patience`. Sleeps.
    fn settle_entry(&self, entry: usize, patience: Delta) -> Result<u32> {
        let since = Instant::<Monotonic>::now();
        loop {
            let status = self.inbound_status(entry);
            // There are no accesses through a port that is gone.
            if status == u32::MAX || status & ext::WEFT_INBOUND_BUSY == 0 {
                return Ok(status);
            }
            if since.elapsed() >= patience {
                return Err(ETIMEDOUT);
            }
            fsleep(WITHDRAW_POLL);
        }
    }

    /// Waits for accesses through the previous aperture of `link` to drain, and logs if that takes long.
    /// Errors as [`WeftPort::settle_entry`]. Sleeps.
    fn settle(&self, link: usize, patience: Delta) -> Result {
        let Link {
            held, held_since, ..
        } = self.link(link)?;
        let settled = self.settle_entry(link, patience);
        if settled.is_ok() {
            held_since.store(0, Relaxed);
            if held.xchg(false, Relaxed) {
                dev_info!(
                    self.chip.dev,
                    "link {}: the neighbour has let go of the arena\n",
                    link
                );
            }
        } else {
            let now = clock::now_ms().max(1);
            let first = held_since.load(Relaxed);
            if first == 0 {
                held_since.store(now, Relaxed);
            }
            // A neighbour may hang for days while callers try again: log once.
            let long =
                patience >= LAST_TIME || first != 0 && now.saturating_sub(first) >= HELD_LONG_MS;
            if long && !held.xchg(true, Relaxed) {
                dev_err!(
                    self.chip.dev,
                    "link {}: the neighbour still holds on to the arena: is its machine stopped?\n",
                    link
                );
            }
        }
        settled.map(|_| ())
    }

    /// Reads a 64-bit counter that may change meanwhile.
    fn counter64(&self, reg: usize) -> u64 {
        let regs = &self.chip.regs;
        // After a carry between the halves the upper one has changed.
        let high = regs.read32(reg + 4);
        let low = regs.read32(reg);
        let again = regs.read32(reg + 4);
        let low = if again == high { low } else { regs.read32(reg) };
        u64::from(again) << 32 | u64::from(low)
    }

    /// Where `link` leads. Not to be called for a routed link that has just been given back.
    fn via(&self, link: usize) -> Via {
        match self.far_link(link) {
            Some(far) => Via::Lid(far.lid()),
            None => Via::Link(link as u8),
        }
    }

    /// Sends a message through the mailbox, to the function with this function's number there. `ENOLINK` if the
    /// link is down.
    fn post(&self, via: Via, msg: &[u8]) -> Result {
        let chip = &self.chip;
        let _send = self.locks.send.lock();
        chip.regs
            .write_bytes(ext::WEFT_R_MBOX_TX_DATA as usize, msg);
        let to = match via {
            Via::Lid(lid) => {
                chip.write(ext::WEFT_R_MBOX_TX_LID, lid);
                ext::WEFT_MBOX_TX_ROUTED
            }
            Via::Link(link) => link.into(),
        };
        chip.write(ext::WEFT_R_MBOX_TX_CTRL, to | (msg.len() as u32) << 8);
        // All ones, too: a port that is gone has no links.
        if chip.read(ext::WEFT_R_MBOX_TX_STATUS) & ext::WEFT_MBOX_TX_FAILED != 0 {
            return Err(ENOLINK.into());
        }
        Ok(())
    }

    /// Forwards messages between VFs and neighbours.
    fn pump(&self) {
        if let Some(vfs) = &self.vfs {
            vfs.pump(&|via, address: Address, message| {
                let mut buf = [0; MBOX_BYTES];
                let Some(bytes) = wrap(address, message, &mut buf) else {
                    return;
                };
                // A message to a link that is down is lost.
                let _ = self.post(via, buf.get(..bytes).unwrap_or_default());
            });
        }
    }

    /// Returns the source of a message that has come so.
    fn source(&self, via: Via) -> Source {
        match via {
            Via::Link(link) => Source::Link(link.into()),
            Via::Lid(lid) => self.link_to(lid).map_or(Source::Lid(lid), Source::Link),
        }
    }

    /// Returns the head of the oldest message of the port, if there is one.
    fn rx_head(&self) -> Option<Head> {
        let status = self.chip.read(ext::WEFT_R_MBOX_RX_STATUS);
        if status == u32::MAX || status & ext::WEFT_MBOX_RX_VALID == 0 {
            return None;
        }
        let near = field(status, ext::WEFT_MBOX_LINK) as usize;
        let from = field(status, ext::WEFT_MBOX_FROM);
        let via = if status & ext::WEFT_MBOX_RX_ROUTED == 0 {
            Some(near)
                .filter(|link| *link < self.chip.caps.links)
                .map(|link| Via::Link(link as u8))
        } else {
            // Routed links lead to functions of the same number only.
            let lid = self.chip.read(ext::WEFT_R_MBOX_RX_LID);
            (from == self.chip.caps.function.into()).then_some(Via::Lid(lid))
        };
        Some(Head {
            via,
            bytes: field(status, ext::WEFT_MBOX_LEN) as usize,
            from,
        })
    }
}

/// The head of a message: its sender and length, before the data are read.
struct Head {
    /// `None`: it is for no function here.
    via: Option<Via>,
    bytes: usize,
    /// The function of the neighbour that has sent it.
    from: u32,
}

impl Port for WeftPort {
    fn identity(&self) -> Identity {
        // Read each time: the fabric gives the port a generation when it attaches.
        Identity {
            kind: ext::WEFT_PORT_WEFT,
            hwid: self.chip.regs.read64(ext::WEFT_R_HWID as usize),
            generation: self.chip.read(ext::WEFT_R_GENERATION),
            arenas: ext::WEFT_PROT_DEVICE | ext::WEFT_PROT_APERTURE,
            doorbells: ext::WEFT_PROT_DEVICE,
        }
    }

    fn is_present(&self) -> bool {
        self.chip.is_present()
    }

    fn fabric(&self) -> Option<bool> {
        let status = self.chip.read(ext::WEFT_R_STATUS);
        Some(status != u32::MAX && status & ext::WEFT_STATUS_FABRIC != 0)
    }

    fn function(&self) -> u8 {
        // Read each time: the PF may exchange the numbers of VFs.
        let number = self.chip.read(ext::WEFT_R_FUNCTION) & ext::WEFT_FUNCTION_NUMBER;
        number as u8
    }

    fn links(&self) -> usize {
        self.chip.caps.links
    }

    fn link_status(&self, link: usize) -> LinkStatus {
        if link >= self.links.len() {
            return LinkStatus::default();
        }
        if let Some(far) = self.far_link(link) {
            return self.far_status(link, far);
        }
        let status = self.chip.regs.read32(link_reg(link, ext::WEFT_LINK_STATUS));
        if status == u32::MAX || self.suspended.load(Acquire) {
            return LinkStatus::default();
        }
        let max = self.chip.regs.read32(link_reg(link, ext::WEFT_LINK_MAX));
        LinkStatus {
            up: status & ext::WEFT_LINK_UP != 0,
            present: status & ext::WEFT_LINK_PRESENT != 0,
            endpoint: status & ext::WEFT_LINK_ROLE_EP != 0,
            speed: field(status, ext::WEFT_LINK_SPEED),
            width: field(status, ext::WEFT_LINK_WIDTH),
            max_speed: field(max, ext::WEFT_LINK_SPEED),
            max_width: field(max, ext::WEFT_LINK_WIDTH),
            trained: self.trained(link),
            is_switch: status & ext::WEFT_LINK_SWITCH != 0,
        }
    }

    fn arena(&self, link: usize) -> Result<hw::Arena<'_>> {
        let arena = self.link(link)?.arena.enter();
        Ok(hw::Arena::Entered(arena.ok_or(ENOTCONN)?))
    }

    fn arena_wanted(&self, _link: usize) -> u64 {
        self.arena_wanted
    }

    fn grant(&self, link: usize) -> Result<Grant> {
        let regs = &self.chip.regs;
        let arena = self.arena(link)?;
        let addr = self.link(link)?.arena_addr.load(Acquire);
        let grant = Grant {
            offset: (link as u64) << 32,
            bytes: arena.bytes() as u64,
        };
        // Accesses from before a reset may be in progress.
        self.settle(link, WITHDRAW_TIME)?;
        let _tables = self.locks.tables.lock();
        let reg = |reg| inbound_reg(link, reg);
        regs.write64(reg(ext::WEFT_INBOUND_OFFSET), grant.offset);
        regs.write64(reg(ext::WEFT_INBOUND_LEN), grant.bytes);
        regs.write64(reg(ext::WEFT_INBOUND_BASE), addr);
        regs.write32(
            reg(ext::WEFT_INBOUND_RIGHTS),
            ext::WEFT_RIGHT_READ | ext::WEFT_RIGHT_WRITE,
        );
        if let Some(far) = self.far_link(link) {
            // On every virtual plane: the master of the fabric may change the route.
            regs.write32(reg(ext::WEFT_INBOUND_ALLOW), 0);
            regs.write64(reg(ext::WEFT_INBOUND_VPS), u64::MAX);
            regs.write32(reg(ext::WEFT_INBOUND_FROM), far.lid());
        } else {
            regs.write32(reg(ext::WEFT_INBOUND_ALLOW), 1 << link);
        }
        regs.write32(reg(ext::WEFT_INBOUND_CTRL), ext::WEFT_INBOUND_ENABLE);
        let status = self.inbound_status(link);
        if !self.is_present() {
            return Err(ENODEV);
        }
        if status & ext::WEFT_INBOUND_LIVE == 0 {
            regs.write32(reg(ext::WEFT_INBOUND_CTRL), 0);
            return Err(EIO);
        }
        match self.far_link(link) {
            Some(_) => self.admit(link, true),
            None => regs.write32(
                ext::WEFT_R_DB_ALLOW as usize + 4 * link,
                layout::bells(self.chip.caps.links, link),
            ),
        }
        self.chip.remind();
        Ok(grant)
    }

    fn withdraw(&self, link: usize) -> Result {
        self.link(link)?;
        self.close(link);
        self.settle(link, WITHDRAW_TIME)
    }

    fn attach(&self, link: usize, grant: Grant, bells: Doorbells) -> Result {
        let page = u64::from(ext::WEFT_PAGE);
        let l = self.link(link)?;
        if grant.bytes == 0 || grant.bytes % page != 0 || grant.offset % page != 0 {
            return Err(EINVAL);
        }
        grant.offset.checked_add(grant.bytes).ok_or(EINVAL)?;
        if bells.wake.max(bells.echo) >= ext::WEFT_DOORBELLS {
            return Err(EINVAL);
        }
        if grant.bytes > l.window.bytes() as u64 {
            return Err(E2BIG);
        }
        // The PF sets how many slots a VF may use, and may have changed the number.
        if link >= field(self.chip.read(ext::WEFT_R_CAP0), ext::WEFT_CAP0_SLOTS) as usize {
            return Err(ENOSPC);
        }
        let regs = &self.chip.regs;
        let reg = |reg| slot_reg(link, reg);
        let _tables = self.locks.tables.lock();
        regs.write32(reg(ext::WEFT_SLOT_DEST), self.dest(link));
        regs.write64(reg(ext::WEFT_SLOT_OFFSET), grant.offset);
        regs.write64(reg(ext::WEFT_SLOT_LEN), grant.bytes);
        regs.write32(reg(ext::WEFT_SLOT_CTRL), ext::WEFT_SLOT_ENABLE);
        if let Some(channel) = &l.channel {
            channel.start(layout::dma_vector(self.chip.caps.links));
        }
        Ok(())
    }

    fn detach(&self, link: usize) {
        if link >= self.links.len() {
            return;
        }
        let _tables = self.locks.tables.lock();
        if let Some(mover) = self.mover(link) {
            mover.stop();
        }
        self.rest(link);
        // The doorbell page of users rings nothing either.
        self.set_page(layout::user_page(self.chip.caps.links, link), link, 0);
    }

    fn window(&self, link: usize) -> Result<&Area> {
        Ok(&self.link(link)?.window)
    }

    fn doorbells(&self, link: usize) -> Doorbells {
        Doorbells {
            wake: layout::wake(self.chip.caps.links, link),
            echo: layout::echo(self.chip.caps.links, link),
        }
    }

    fn ring(&self, link: usize, doorbell: u32) {
        if link < self.links.len() && doorbell < ext::WEFT_DOORBELLS {
            let page = layout::kernel_page(self.chip.caps.links, link);
            self.chip.regs.write32(Self::page_offset(page), doorbell);
        }
    }

    fn expect(&self, link: usize) {
        let near = self.chip.caps.links;
        if link < self.links.len() {
            for doorbell in [layout::wake(near, link), layout::echo(near, link)] {
                self.chip.limits.expect(doorbell);
            }
        }
    }

    fn mover(&self, link: usize) -> Option<&dyn Mover> {
        let channel = self.links.get(link)?.channel.as_ref()?;
        Some(channel)
    }

    fn send(&self, link: usize, msg: &[u8]) -> Result {
        self.link(link)?;
        if msg.is_empty() || msg.len() > MBOX_BYTES {
            return Err(EINVAL);
        }
        let via = self.via(link);
        match &self.to_pf {
            Some(to_pf) if !to_pf.send(&self.chip, via, msg) => Err(ENOLINK.into()),
            Some(_) => Ok(()),
            None => self.post(via, msg),
        }
    }

    fn recv(&self, buf: &mut [u8; MBOX_BYTES]) -> Option<(Source, usize)> {
        let chip = &self.chip;
        if let Some(to_pf) = &self.to_pf {
            let (via, len) = to_pf.recv(chip, buf)?;
            return Some((self.source(via), len));
        }
        let _recv = self.locks.recv.lock();
        self.pump();
        for _ in 0..ext::WEFT_MBOX_DEPTH {
            let Head {
                via,
                bytes: len,
                from,
            } = self.rx_head()?;
            let via = via.filter(|_| (1..=MBOX_BYTES).contains(&len));
            if via.is_some() {
                let message = buf.get_mut(..len).unwrap_or_default();
                chip.regs
                    .read_bytes(ext::WEFT_R_MBOX_RX_DATA as usize, message);
            }
            chip.write(ext::WEFT_R_MBOX_RX_POP, 1);
            let Some(via) = via else {
                continue;
            };
            let Some(opened) = unwrap(buf.get(..len).unwrap_or_default()) else {
                return Some((self.source(via), len));
            };
            // A message for a VF, or a malformed one.
            if let (Some(vfs), Ok((address, message))) = (self.vfs.as_ref(), opened) {
                vfs.deliver(via, from, address, message);
                self.pump();
            }
        }
        None
    }

    fn mask_messages(&self) {
        let mut masked = self.locks.masked.lock();
        *masked = true;
        self.chip.mask_messages();
    }

    fn unmask_messages(&self) {
        let mut masked = self.locks.masked.lock();
        if core::mem::take(&mut *masked) {
            self.chip.unmask_events();
        }
    }

    fn counter(&self, n: usize) -> Option<Counter> {
        if let Some(name) = COUNTERS.get(n) {
            let value = self.counter64(ext::WEFT_R_COUNTERS as usize + 8 * n);
            return Some(Counter { name, value });
        }
        let n = n.checked_sub(COUNTERS.len())?;
        let Some(n) = n.checked_sub(1) else {
            return Some(Counter {
                name: c"doorbells_limited",
                value: self.chip.limits.times(),
            });
        };
        let name = DMA_COUNTERS.get(n)?;
        let channels = self.links.iter().filter_map(|link| link.channel.as_ref());
        // Each is all ones if the port does not answer.
        let value = channels.fold(0, |sum: u64, channel| {
            sum.saturating_add(self.counter64(channel.counter(n)))
        });
        self.chip.caps.channels.checked_sub(1)?;
        Some(Counter { name, value })
    }

    fn user_doorbells(&self) -> Option<&dyn UserDoorbells> {
        Some(self)
    }

    fn losses(&self) -> Option<&dyn Losses> {
        Some(self)
    }

    fn rates(&self) -> Option<&dyn Rates> {
        Some(self)
    }

    fn far(&self) -> Option<&dyn FarLinks> {
        Some(self)
    }

    fn owner(&self) -> Option<&dyn Owner> {
        self.to_pf.as_ref()?;
        Some(self)
    }

    fn router(&self) -> Option<&dyn Router> {
        let routes = self.routes.as_ref()?;
        Some(&**routes)
    }

    fn endpoint_slots(&self) -> Option<&dyn EndpointSlots> {
        // A port without routes cannot reach endpoints.
        self.routes.as_ref()?;
        Some(self)
    }

    fn vfs(&self) -> Option<&dyn VirtualFunctions> {
        let vfs = self.vfs.as_ref()?;
        Some(&**vfs)
    }

    fn start(&self) -> Result {
        trace::port_event(&self.chip.dev, trace::Port::Start, 0);
        self.program()
    }

    fn stop(&self) {
        self.silence();
        trace::port_event(&self.chip.dev, trace::Port::Stop, 0);
    }

    fn suspend(&self) {
        trace::port_event(&self.chip.dev, trace::Port::Reset, 0);
        self.silence();
        if self.suspended.load(Relaxed) {
            return;
        }
        for (n, link) in self.links.iter().enumerate().take(self.chip.caps.links) {
            let trained = self.trained(n);
            link.trained_before.store(trained, Relaxed);
        }
        self.suspended.store(true, Release);
    }

    fn resume(&self) -> Result {
        trace::port_event(&self.chip.dev, trace::Port::Reset, 1);
        if !self.suspended.load(Relaxed) {
            return Ok(());
        }
        for (n, link) in self.links.iter().enumerate().take(self.chip.caps.links) {
            // The port's count restarts at 0; if it was kept, this avoids counting twice.
            let kept = self.chip.regs.read32(link_reg(n, ext::WEFT_LINK_TRAINED));
            if kept == u32::MAX {
                return Err(ENODEV);
            }
            let before = link.trained_before.load(Relaxed).wrapping_sub(kept);
            link.trained_before.store(before, Relaxed);
        }
        // Before events are enabled: their handlers read the status.
        self.suspended.store(false, Release);
        self.program()
            .inspect_err(|_| self.suspended.store(true, Release))
    }

    fn restart(&self) -> Result {
        if !self.is_present() {
            return Err(ENODEV);
        }
        // Apertures that were withdrawn while the port did not answer are still open.
        self.chip.write(ext::WEFT_R_CTRL, ext::WEFT_CTRL_RESET);
        // Writes of neighbours through the old apertures must not arrive in a new session.
        for link in 0..self.links.len() {
            self.settle(link, LAST_TIME)?;
        }
        self.resume()
    }
}

impl Drop for WeftPort {
    fn drop(&mut self) {
        self.silence();
        for link in 0..self.links.len() {
            self.detach(link);
            self.close(link);
        }
        self.close_endpoint_slots();
        self.chip.write(ext::WEFT_R_CTRL, 0);
        let mut held = [false; MAX_LINKS];
        for (link, held) in held.iter_mut().enumerate().take(self.links.len()) {
            *held = self.settle(link, LAST_TIME).is_err();
        }
        if self.chip.caps.is_vf {
            // By the reset the PF learns that the VF has no driver any more.
            self.chip.write(ext::WEFT_R_CTRL, ext::WEFT_CTRL_RESET);
        }
        let links = core::mem::replace(&mut self.links, KVec::new());
        for (link, held) in links.into_iter().zip(held) {
            let arena = link.arena.revoke(|| ());
            if let (true, Some(arena)) = (held, arena) {
                // Leaked: a neighbour may still write to this memory, so it must not be allocated again.
                dev_err!(
                    self.chip.dev,
                    "{} KiB of memory are given up for good\n",
                    arena.bytes() >> 10
                );
                core::mem::forget(arena);
            }
        }
    }
}
