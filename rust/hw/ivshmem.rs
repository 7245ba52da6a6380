// SPDX-License-Identifier: GPL-2.0

//! QEMU's `ivshmem-doorbell` as a port: memory that up to four guests share, and doorbells.
//!
//! It has no links that go up and down, no mailbox and no protection. Link k leads to the k-th
//! other node, in the order of their ids, and is up whether or not there is a peer: the layers
//! above find out by hello and heartbeat. Every node can write all of the memory; a withdrawal is
//! an agreement among friends. See [`layout`] for how the memory is shared.

mod layout;

use crate::{
    hw::{
        Arena, Counter, Doorbells, Events, Grant, Identity, LinkStatus, Port, Source, MBOX_BYTES,
    },
    sys::{
        area::{Area, Cache},
        errno::ENOLINK,
        ext,
        iomap::{IoMap, Region, Regs},
        irq::{Handler, IrqSet, Line, Next},
        pci::Enabled,
        random,
        steps::Steps,
        trace,
    },
};
use kernel::{
    device::{Bound, Core, Device},
    new_mutex, pci,
    prelude::*,
    str::CString,
    sync::{
        aref::ARef,
        atomic::{Acquire, Atomic, Relaxed, Release},
        Arc, Mutex,
    },
};
use layout::{Head, Mailbox, Receiver, Sender, ARENA_AT, NODES};

/// The device, of QEMU's.
pub(crate) const VENDOR_ID: u32 = 0x1af4;
pub(crate) const DEVICE_ID: u32 = 0x1110;

const BAR_REGS: u32 = 0;
const BAR_MEMORY: u32 = 2;
const REGS_BYTES: usize = 0x100;
const R_POSITION: usize = 8;
const R_DOORBELL: usize = 12;

/// Vectors, the same at every node: a doorbell's number is its vector.
const MBOX_VECTOR: u32 = 0;
const WAKE_VECTOR: u32 = 1;
const ECHO_VECTOR: u32 = 2;
const VECTORS: u32 = 3;

/// What the port counts, since the device does not.
#[derive(Clone, Copy)]
enum Count {
    TxDoorbells,
    TxMessages,
    RxDoorbells,
    RxMessages,
    MessagesDropped,
    Interrupts,
}

const COUNTERS: [&CStr; 6] = [
    c"tx_doorbells",
    c"tx_messages",
    c"rx_doorbells",
    c"rx_messages",
    c"messages_dropped",
    c"interrupts",
];

/// What the handlers need.
struct Shared {
    dev: ARef<Device>,
    links: usize,
    events: Arc<dyn Events>,
    counts: [Atomic<u64>; COUNTERS.len()],
}

impl Shared {
    fn count(&self, what: Count) {
        if let Some(count) = self.counts.get(what as usize) {
            count.fetch_add(1, Relaxed);
        }
    }
}

impl Handler for Shared {
    fn hard(self: &Arc<Self>, vector: u32) -> Next {
        self.count(Count::Interrupts);
        if vector == MBOX_VECTOR {
            return Next::Thread;
        }
        self.count(Count::RxDoorbells);
        // The hardware does not say which node rang.
        for link in 0..self.links {
            if vector == WAKE_VECTOR {
                trace::port_event(&self.dev, trace::Port::Wake, link as u64);
                self.events.wake(link);
            } else {
                trace::port_event(&self.dev, trace::Port::Echo, link as u64);
                self.events.echo(link);
            }
        }
        Next::Done
    }

    fn thread(&self, _vector: u32) {
        self.events.message();
    }
}

/// Both halves of a link's mailbox.
#[pin_data]
struct Mail {
    inbox: Mailbox,
    #[pin]
    receiver: Mutex<Receiver>,
    outbox: Mailbox,
    #[pin]
    sender: Mutex<Sender>,
}

struct Link {
    /// Id of the node at the other end.
    peer: usize,
    mail: Pin<KBox<Mail>>,
    arena: Area,
    arena_at: u64,
    window: Area,
    window_at: u64,
}

/// Dropped in this order: handlers before what they use, mappings before the BARs, all before the
/// function is disabled.
pub(crate) struct Ivshmem {
    irqs: IrqSet<Shared>,
    links: KVec<Link>,
    shared: Arc<Shared>,
    id: usize,
    generation: Atomic<u32>,
    /// Counts the resets, after each of which the links are others.
    trained: Atomic<u32>,
    suspended: Atomic<bool>,
    regs: Regs,
    _memory: Region,
    _control: Region,
    _enabled: Enabled,
}

/// The id that the server gave this node.
fn position(dev: &Device<Bound>, regs: &Regs) -> Result<usize> {
    let id = regs.read32(R_POSITION);
    if (id as usize) < NODES {
        return Ok(id as usize);
    }
    if id == u32::MAX {
        dev_err!(dev, "has no id: is it ivshmem-doorbell, with its server?\n");
    } else {
        dev_err!(
            dev,
            "has id {}, ids above {} have no place in the memory: restart ivshmem-server, which counts on with every node that comes back\n",
            id,
            NODES - 1
        );
    }
    Err(ENODEV)
}

fn new_link(map: &Arc<IoMap>, bytes: u64, own: usize, peer: usize) -> Result<Link> {
    let area = |owner, source| -> Result<(Mailbox, Area, u64)> {
        let (at, len) = layout::block(bytes, owner, source);
        let first = Area::from_map(map.clone(), at, ARENA_AT)?;
        let arena = Area::from_map(map.clone(), at + ARENA_AT, len - ARENA_AT)?;
        Ok((Mailbox(first), arena, (at + ARENA_AT) as u64))
    };
    let (inbox, arena, arena_at) = area(own, peer)?;
    let (outbox, window, window_at) = area(peer, own)?;
    let mail = KBox::pin_init(
        pin_init!(Mail {
            inbox,
            receiver <- new_mutex!(Receiver::new(), "ivshmem::receiver"),
            outbox,
            sender <- new_mutex!(Sender::new(), "ivshmem::sender"),
        }),
        GFP_KERNEL,
    )?;
    Ok(Link {
        peer,
        mail,
        arena,
        arena_at,
        window,
        window_at,
    })
}

impl Ivshmem {
    /// Brings the port up, up to the point where [`Port::start`] has only to let it go. Whatever
    /// was done is undone on failure.
    pub(crate) fn probe(
        dev: &pci::Device<Core<'_>>,
        events: Arc<dyn Events>,
        steps: &mut Steps<'_>,
    ) -> Result<KBox<dyn Port>> {
        let bound: &Device<Bound> = dev.as_ref();
        let enabled = steps.step("enable", || Enabled::new(dev))?;
        let (control, regs, id) = steps.step("registers", || {
            let control = Region::new(dev, BAR_REGS, REGS_BYTES as u64)?;
            let regs = Regs::new(&control, REGS_BYTES)?;
            let id = position(bound, &regs)?;
            Ok((control, regs, id))
        })?;
        let (memory, links) = steps.step("shared memory", || {
            let memory = Region::new(dev, BAR_MEMORY, layout::MIN_BYTES)?;
            let bytes = memory.bytes();
            let map = IoMap::new(&memory, 0, bytes.try_into()?, Cache::Normal)?;
            let map = Arc::new(map, GFP_KERNEL)?;
            let mut links = KVec::with_capacity(NODES - 1, GFP_KERNEL)?;
            for peer in (0..NODES).filter(|&peer| peer != id) {
                links.push(new_link(&map, bytes, id, peer)?, GFP_KERNEL)?;
            }
            Ok((memory, links))
        })?;
        steps.step("owner of the memory", || {
            for link in &links {
                if link.mail.inbox.head()? == Head::Foreign
                    || link.mail.outbox.head()? == Head::Foreign
                {
                    dev_err!(
                        bound,
                        "the shared memory is used by something else: fill it with zeroes first\n"
                    );
                    return Err(EBUSY);
                }
            }
            Ok(())
        })?;
        let shared = Arc::new(
            Shared {
                dev: bound.into(),
                links: links.len(),
                events,
                counts: [const { Atomic::new(0) }; COUNTERS.len()],
            },
            GFP_KERNEL,
        )?;
        let irqs = steps.step("interrupts", || {
            dev.set_master();
            let mut lines = KVec::new();
            for (vector, name) in [
                (MBOX_VECTOR, "mailbox"),
                (WAKE_VECTOR, "wake"),
                (ECHO_VECTOR, "echo"),
            ] {
                let name = CString::try_from_fmt(fmt!("{}", name))?;
                lines.push(Line { vector, name }, GFP_KERNEL)?;
            }
            IrqSet::new(dev, &shared, VECTORS, lines)
        })?;
        let port = KBox::new(
            Self {
                irqs,
                links,
                shared,
                id,
                generation: Atomic::new(random::nonzero32()),
                trained: Atomic::new(1),
                suspended: Atomic::new(false),
                regs,
                _memory: memory,
                _control: control,
                _enabled: enabled,
            },
            GFP_KERNEL,
        )?;
        Ok(port)
    }

    fn link(&self, link: usize) -> Result<&Link> {
        self.links.get(link).ok_or(EINVAL)
    }

    fn interrupt(&self, link: usize, vector: u32) {
        if let Some(link) = self.links.get(link) {
            self.shared.count(Count::TxDoorbells);
            self.regs
                .write32(R_DOORBELL, (link.peer as u32) << 16 | vector);
        }
    }

    /// Forgets what was in the mailboxes and takes them for this generation.
    fn claim(&self) -> Result {
        for link in &self.links {
            *link.mail.receiver.lock() = Receiver::new();
            *link.mail.sender.lock() = Sender::new();
            link.mail.inbox.claim(self.generation.load(Relaxed))?;
        }
        Ok(())
    }
}

impl Port for Ivshmem {
    fn identity(&self) -> Identity {
        let kind = u64::from(VENDOR_ID) << 48 | u64::from(DEVICE_ID) << 32;
        Identity {
            kind: ext::WEFT_PORT_IVSHMEM,
            hwid: kind | (self.id as u64 + 1),
            generation: self.generation.load(Relaxed),
            arenas: 0,
            doorbells: 0,
        }
    }

    fn restart(&self) -> Result {
        self.resume()
    }

    fn is_present(&self) -> bool {
        self.regs.read32(R_POSITION) == self.id as u32
    }

    fn fabric(&self) -> Option<bool> {
        // Its server is not seen from here.
        None
    }

    fn links(&self) -> usize {
        self.links.len()
    }

    fn link_status(&self, link: usize) -> LinkStatus {
        let Ok(l) = self.link(link) else {
            return LinkStatus::default();
        };
        if self.suspended.load(Acquire) || !self.is_present() {
            return LinkStatus::default();
        }
        LinkStatus {
            up: true,
            present: matches!(l.mail.outbox.head(), Ok(Head::Weft(_))),
            endpoint: self.id > l.peer,
            speed: 0,
            width: 0,
            max_speed: 0,
            max_width: 0,
            trained: self.trained.load(Relaxed),
            is_switch: false,
        }
    }

    fn arena(&self, link: usize) -> Result<Arena<'_>> {
        Ok(Arena::Fixed(&self.link(link)?.arena))
    }

    fn arena_wanted(&self, link: usize) -> u64 {
        self.link(link).map_or(0, |l| l.arena.bytes() as u64)
    }

    fn grant(&self, link: usize) -> Result<Grant> {
        let l = self.link(link)?;
        Ok(Grant {
            offset: l.arena_at,
            bytes: l.arena.bytes() as u64,
        })
    }

    fn withdraw(&self, link: usize) -> Result {
        // No node is kept out: see the module's documentation.
        self.link(link).map(|_| ())
    }

    fn attach(&self, link: usize, grant: Grant, bells: Doorbells) -> Result {
        let l = self.link(link)?;
        // Where the peer's arena lies is not for the peer to say, nor what its doorbells are.
        if grant.offset != l.window_at || grant.bytes == 0 || bells != self.doorbells(link) {
            return Err(EINVAL);
        }
        if grant.bytes > l.window.bytes() as u64 {
            return Err(E2BIG);
        }
        Ok(())
    }

    fn detach(&self, _link: usize) {}

    fn window(&self, link: usize) -> Result<&Area> {
        Ok(&self.link(link)?.window)
    }

    fn doorbells(&self, _link: usize) -> Doorbells {
        Doorbells {
            wake: WAKE_VECTOR,
            echo: ECHO_VECTOR,
        }
    }

    fn ring(&self, link: usize, doorbell: u32) {
        if doorbell == WAKE_VECTOR || doorbell == ECHO_VECTOR {
            self.interrupt(link, doorbell);
        }
    }

    fn send(&self, link: usize, msg: &[u8]) -> Result {
        let l = self.link(link)?;
        if self.suspended.load(Acquire) {
            return Err(ENOLINK.into());
        }
        let result = l.mail.sender.lock().send(&l.mail.outbox, msg);
        match result {
            Ok(()) => {
                self.shared.count(Count::TxMessages);
                self.interrupt(link, MBOX_VECTOR);
            }
            Err(error) => {
                self.shared.count(Count::MessagesDropped);
                // The count of what the owner has taken may be another node's: the owner is to look.
                if error == EAGAIN {
                    self.interrupt(link, MBOX_VECTOR);
                }
            }
        }
        result
    }

    fn recv(&self, buf: &mut [u8; MBOX_BYTES]) -> Option<(Source, usize)> {
        for (n, link) in self.links.iter().enumerate() {
            // Behind messages that are dropped there may be others: not more than there is room for, as
            // nodes may write all the time.
            for _ in 0..layout::SLOTS {
                let result = link.mail.receiver.lock().recv(&link.mail.inbox, buf);
                match result {
                    Ok(Some(len)) => {
                        self.shared.count(Count::RxMessages);
                        return Some((Source::Link(n), len));
                    }
                    Ok(None) => break,
                    Err(_) => self.shared.count(Count::MessagesDropped),
                }
            }
        }
        None
    }

    fn counter(&self, n: usize) -> Option<Counter> {
        let name = COUNTERS.get(n)?;
        let value = self.shared.counts.get(n)?.load(Relaxed);
        Some(Counter { name, value })
    }

    fn start(&self) -> Result {
        trace::port_event(&self.shared.dev, trace::Port::Start, 0);
        if !self.is_present() {
            return Err(ENODEV);
        }
        self.claim()?;
        self.irqs.enable();
        Ok(())
    }

    fn stop(&self) {
        self.irqs.disable();
        trace::port_event(&self.shared.dev, trace::Port::Stop, 0);
    }

    fn suspend(&self) {
        trace::port_event(&self.shared.dev, trace::Port::Reset, 0);
        self.irqs.disable();
        self.suspended.store(true, Release);
    }

    fn resume(&self) -> Result {
        trace::port_event(&self.shared.dev, trace::Port::Reset, 1);
        self.generation.store(random::nonzero32(), Relaxed);
        self.trained.fetch_add(1, Relaxed);
        self.suspended.store(false, Release);
        self.start()
    }
}

impl Drop for Ivshmem {
    fn drop(&mut self) {
        self.irqs.disable();
        if self.is_present() {
            for link in &self.links {
                // The area has this word: nothing can go wrong.
                let _ = link.mail.inbox.release();
            }
        }
    }
}
