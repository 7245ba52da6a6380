// SPDX-License-Identifier: GPL-2.0

//! How a function is opened: it is looked up in the hierarchy and gets a slot; it is set up; a no-op
//! shows that work reaches it and completions come back.

use super::{
    function::{Function, Inner, Making, State},
    memory::Memory,
    reason::Why,
    registers::Registers,
    wanted::{find, Wanted},
    Endpoints,
};
use crate::{
    fabric::Node,
    hw::endpoint_slots::{EndpointSlots, InboundMapping, RemoteFunction},
    proto::{
        bytes::flag,
        endpoint::{Entry, Op, Places, Protocol, Reroute, Work, PAGE, WQE_BYTES},
        mr::hierarchy::Gate,
    },
    sys::{
        area::wmb,
        errno::{EHOSTUNREACH, EOPNOTSUPP},
        ext,
        waitq::WaitQueue,
    },
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{Delta, Instant, Monotonic, Msecs},
};

/// How long all of it may take. A function that was just assigned to a host may become reachable
/// later.
const START_TIME: Delta = Delta::from_millis(3000);
/// Milliseconds between two checks meanwhile.
const LOOK_MS: Msecs = 2;

/// The number of elements of the queues, and which side moves what.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) entries: u32,
    pub(crate) protocol: Protocol,
}

impl Endpoints {
    /// Opens a function. `EOPNOTSUPP`, `ENOENT`: as of [`find`]; `EBUSY`: another file uses it;
    /// `ENOSPC`: the port has no slot for it, or its queues do not fit; `EHOSTUNREACH`: the function
    /// cannot be reached, or does not reach this host; `EIO`: it does not work; `EINTR`: a signal
    /// came. Sleeps.
    pub(crate) fn open(
        &self,
        node: &Node,
        wanted: Wanted,
        shape: Shape,
        waiters: Arc<WaitQueue>,
    ) -> Result<Arc<Function>> {
        let there = find(node, &wanted)?;
        let port = node.port_at_work().ok_or(ENODEV)?;
        let slots = port.endpoint_slots().ok_or(EOPNOTSUPP)?;
        let places = Places::new(shape.entries, shape.protocol).ok_or(ENOSPC)?;
        if slots.count() == 0 {
            node.complain(fmt!(
                "has no {} left for functions of endpoints: these need a port with 16 slots (slots=16)",
                slots.lacks()
            ));
            return Err(ENOSPC);
        }
        let slot = self.slots.lock().reserve(slots.count(), wanted)?;
        let making = Making {
            wanted,
            slot,
            lid: there.lid,
            given: there.given,
            functions: there.functions,
            protocol: shape.protocol,
            places,
            entries: shape.entries,
            waiters,
        };
        let made = self.new_function(making).inspect_err(|_| {
            drop(self.slots.lock().free(slot));
        });
        let function = made?;
        self.slots.lock().occupy(slot, function.clone());
        // A loss or removal before the function was in the table is not reported to it.
        let lost = node.port_at_work().is_none().then_some(Why::Reset);
        let started = match lost.or_else(|| function.follow_hierarchy(node)) {
            None => function.start(self, node, slots),
            Some(why) => Err(why.errno()),
        };
        match started {
            Ok(()) => Ok(function),
            Err(e) => {
                function.end(self, Some(&**port), Why::Closed);
                Err(e)
            }
        }
    }

    fn new_function(&self, making: Making) -> Result<Arc<Function>> {
        // A function that holds reads there to show that it reaches this host.
        let least = if making.protocol.push_data { 0 } else { PAGE };
        let queues = match making.places.host.max(least) {
            0 => None,
            bytes => Some(Memory::new(&self.source, bytes as usize)?),
        };
        Function::new(making, queues)
    }
}

impl Function {
    /// Waits until `done` returns true, with the port entered by the caller. Fails with the error of
    /// a function that was ended meanwhile, with `EINTR` on a signal, `ENODEV` if the port is gone,
    /// or with `late` when [`START_TIME`] since `since` is over.
    pub(super) fn until(
        &self,
        node: &Node,
        since: Instant<Monotonic>,
        late: Error,
        mut done: impl FnMut() -> bool,
    ) -> Result {
        loop {
            Self::check(&self.inner.lock())?;
            // A removal waits until the port is left, and ends functions only then.
            if node.is_closed() {
                return Err(ENODEV);
            }
            match self.made.waiters.wait_ms(&mut done, LOOK_MS) {
                Ok(()) => return Ok(()),
                Err(e) if e == ETIMEDOUT => {}
                Err(_) => return Err(EINTR),
            }
            if since.elapsed() >= START_TIME {
                return Err(late);
            }
        }
    }

    fn start(&self, endpoints: &Endpoints, node: &Node, slots: &dyn EndpointSlots) -> Result {
        let since = Instant::<Monotonic>::now();
        let unreached = Error::from(EHOSTUNREACH);
        let (slot, registers) = (self.made.slot, self.registers(slots));
        // The slot is touched only while the function certainly has it: with the lock held, and
        // checked.
        let mut inner = self.inner.lock();
        Self::check(&inner)?;
        endpoints.set_bell(slot, Some(self.made.waiters.clone()));
        slots.take(slot, self.remote(inner.into))?;
        drop(inner);
        let mut said = [u32::MAX; 3];
        self.until(node, since, unreached, || {
            if slots.route(slot).is_some() && slots.is_open(slot) {
                let wanted = [ext::WEFT_EP_ID, ext::WEFT_EP_VERSION, ext::WEFT_EP_CAP];
                said = wanted.map(|register| registers.get(register));
            }
            // The route may be lost meanwhile.
            !said.contains(&u32::MAX)
        })?;
        let [id, version, cap] = said;
        if id != ext::WEFT_EP_ID_VALUE || version >> 16 != 1 {
            node.complain(fmt!(
                "endpoint {:#x}: is none that this driver knows: id {:#010x}, version {:#010x}",
                self.made.wanted.endpoint,
                id,
                version
            ));
            return Err(EIO);
        }
        // A program's own accesses to the function's memory would get lost with a route.
        let holds = !self.made.protocol.push_data && cap & ext::WEFT_EP_CAP_HOLDS != 0;
        if holds && self.made.places.wq.own {
            let wqes = KVVec::from_elem(
                [0; WQE_BYTES],
                self.made.entries as usize,
                GFP_KERNEL_ACCOUNT,
            )?;
            self.inner.lock().wqes = wqes;
        }
        let theirs = loop {
            inner = self.inner.lock();
            Self::check(&inner)?;
            // Also ends what an earlier user of the function has left.
            registers.set(ext::WEFT_EP_CTRL, 0)?;
            registers.ring();
            drop(inner);
            let status = || registers.get(ext::WEFT_EP_STATUS);
            self.until(node, since, unreached, || status() == 0)?;
            // Before the queues are opened: what is open is open by this route.
            let mut theirs = None;
            self.until(node, since, unreached, || {
                theirs = registers.their_route();
                theirs.is_some() || !holds
            })?;
            // An endpoint may still hold, for a while, what was opened before.
            let mut opened = Err(ETIMEDOUT);
            self.until(node, since, ETIMEDOUT, || {
                opened = self.open_queues(slots);
                opened != Err(ETIMEDOUT)
            })?;
            let theirs = theirs.filter(|_| holds);
            self.enable(&registers, slots, opened?, theirs)?;
            self.until(node, since, EIO, || status() != 0)?;
            if self.goes_round(&registers, node, since, theirs)? {
                break theirs;
            }
            // The route back may be set up a moment after the route there.
            if since.elapsed() >= START_TIME {
                return Err(unreached);
            }
        };
        inner = self.inner.lock();
        Self::check(&inner)?;
        // If there is none, the route was lost just now, and no check would notice.
        let ours = slots.route(slot).ok_or(unreached)?;
        inner.route = Some(ours);
        inner.reroute = theirs.map(|theirs| Reroute::new(self.ctrl(slots, true), ours, theirs));
        inner.forget_start();
        inner.state = State::Open;
        Ok(())
    }

    /// Opens the memory of the queues, if they are in the host; returns the endpoint's address of it.
    fn open_queues(&self, slots: &dyn EndpointSlots) -> Result<u64> {
        let inner = self.inner.lock();
        Self::check(&inner)?;
        let Some(mapping) = self.queue_mapping(&inner)? else {
            return Ok(0);
        };
        slots.open(self.made.slot, 0, mapping)?;
        Ok(mapping.offset)
    }

    /// Returns how the memory of the queues is opened, if they are in the host.
    pub(super) fn queue_mapping(&self, inner: &Inner) -> Result<Option<InboundMapping>> {
        let Some(queues) = &inner.queues else {
            return Ok(None);
        };
        let bytes = queues.area.bytes() as u64;
        Ok(Some(InboundMapping {
            offset: self.part(0, bytes)?,
            addr: queues.addr,
            bytes,
            read: true,
            write: true,
        }))
    }

    /// Returns what CTRL says while the function is enabled.
    fn ctrl(&self, slots: &dyn EndpointSlots, holds: bool) -> u32 {
        let protocol = self.made.protocol;
        let doorbell = slots.doorbell(self.made.slot) << ext::WEFT_EP_DOORBELL.trailing_zeros();
        ext::WEFT_EP_ENABLE
            | flag(protocol.push_wqe, ext::WEFT_EP_WQE_PUSH)
            | flag(protocol.push_data, ext::WEFT_EP_DATA_PUSH)
            | flag(protocol.pull_cqe, ext::WEFT_EP_CQE_PULL)
            | flag(holds, ext::WEFT_EP_HOLD)
            | ext::WEFT_EP_RING
            | doorbell
    }

    /// Enables the function. `theirs`: it holds, and may work by this route.
    fn enable(
        &self,
        registers: &Registers<'_>,
        slots: &dyn EndpointSlots,
        host: u64,
        theirs: Option<u32>,
    ) -> Result {
        let Places { wq, cq, .. } = self.made.places;
        let mut inner = self.inner.lock();
        Self::check(&inner)?;
        inner.ledger.begin();
        inner.expected = 0;
        // Completions of an earlier user must not be taken for those of this one.
        match (cq.own, &inner.queues) {
            (false, Some(queues)) => queues.area.zero(cq.at as usize, cq.bytes as usize)?,
            _ => registers
                .window()?
                .zero(cq.at as usize, cq.bytes as usize)?,
        }
        for (group, place) in [(ext::WEFT_EP_WQ, wq), (ext::WEFT_EP_CQ, cq)] {
            let base = if place.own { place.at } else { host + place.at };
            registers.set_queue(group, place, base)?;
        }
        if let Some(theirs) = theirs {
            registers.set(ext::WEFT_EP_PROBE, host as u32)?;
            registers.set(ext::WEFT_EP_PROBE + 4, (host >> 32) as u32)?;
            registers.set(ext::WEFT_EP_GO, theirs)?;
        }
        let ctrl = self.ctrl(slots, theirs.is_some());
        wmb();
        registers.set(ext::WEFT_EP_CTRL, ctrl)?;
        registers.ring();
        Ok(())
    }

    /// Posts a no-op and waits for its completion. Returns false if the endpoint reports a failure, or that it
    /// has another route than `theirs`.
    fn goes_round(
        &self,
        registers: &Registers<'_>,
        node: &Node,
        since: Instant<Monotonic>,
        theirs: Option<u32>,
    ) -> Result<bool> {
        let nothing = Work {
            op: Op::Nop,
            segments: &[],
            sources: 0,
        };
        let mut inner = self.inner.lock();
        Self::check(&inner)?;
        self.put(registers, &mut inner, Entry::default(), &nothing)?;
        self.pass(registers, &mut inner)?;
        drop(inner);
        let failed = || {
            registers.get(ext::WEFT_EP_STATUS) & ext::WEFT_EP_FAILED != 0
                || theirs.is_some() && registers.their_route() != theirs
        };
        self.until(node, since, EHOSTUNREACH.into(), || {
            self.is_ready(Some(registers), &self.inner.lock()) || failed()
        })?;
        let mut inner = self.inner.lock();
        Self::check(&inner)?;
        let done = self.take(Some(registers), &mut inner)?;
        if done {
            registers.taken(inner.ledger.done())?;
        }
        Ok(done)
    }

    /// Returns the function as a slot has it, with accesses that come in by `into`.
    pub(super) fn remote(&self, into: Gate) -> RemoteFunction {
        let given = &self.made.given;
        let function = u64::from(given.ve) * u64::from(self.made.functions)
            + u64::from(self.made.wanted.function);
        RemoteFunction {
            lid: self.made.lid,
            at: function * u64::from(ext::WEFT_EP_FUNCTION_BYTES),
            link: into.link.into(),
            vp: into.vp.into(),
        }
    }
}
