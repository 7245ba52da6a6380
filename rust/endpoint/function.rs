// SPDX-License-Identifier: GPL-2.0

//! An open function: posts work to it, and takes its completions.

use super::{
    area::{Area, Left},
    memory::Memory,
    reason::Why,
    registers::Registers,
    wanted::Wanted,
    Endpoints,
};
use crate::{
    fabric::Node,
    hw::endpoint_slots::{EndpointSlots, INBOUND_MAPPINGS},
    proto::{
        endpoint::{
            Completion, Cqe, Entry, Ledger, Op, Places, Protocol, Reroute, Segment, Slot, Work,
            CQE_BYTES, CQE_NUMBER, SEGMENTS, WQE_BYTES,
        },
        mr::hierarchy::{Gate, Given},
    },
    sys::{
        area::{self, rmb, wmb},
        clock,
        errno::EPROTO,
        ext,
        file::events,
        waitq::WaitQueue,
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

/// The most elements of a queue.
pub(crate) const MAX_ENTRIES: u32 = 1024;

/// An element of a work queue.
pub(super) type Wqe = [u8; WQE_BYTES];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Starting,
    Open,
    Broken(Why),
}

pub(super) struct Inner {
    pub(super) state: State,
    /// It has its slot, and all that belongs to the slot.
    pub(super) has_slot: bool,
    /// The queues, if they are in the host's memory.
    pub(super) queues: Option<Memory>,
    pub(super) ledger: Ledger<KVec<Slot>>,
    /// The number of the route to the endpoint.
    pub(super) route: Option<u32>,
    /// Where accesses of the function come in. After a change of the hierarchy `moves` is where they do from
    /// now on.
    pub(super) into: Gate,
    pub(super) moves: Option<Gate>,
    /// Of a function that holds: what carries it over changes of its route.
    pub(super) reroute: Option<Reroute>,
    /// Of such a function with its work queue in its own memory: the elements there.
    pub(super) wqes: KVVec<Wqe>,
    /// For how many requests the endpoint may ring, or has rung.
    pub(super) expected: u32,
    /// The places of freed areas.
    pub(super) left: [Option<Left>; INBOUND_MAPPINGS],
    submitted: u64,
    completed: u64,
    bytes: u64,
}

impl Inner {
    /// Returns whether the function is broken, and has not given back what it has.
    pub(super) fn holds_on(&self) -> bool {
        self.has_slot && matches!(self.state, State::Broken(_))
    }

    /// Returns whether the function is held: it works again when there is a route.
    pub(super) fn is_held(&self) -> bool {
        self.reroute.is_some_and(|reroute| !reroute.works())
    }

    /// Returns [`Reroute::is_filled`].
    pub(super) fn is_filled(&self) -> bool {
        self.reroute.is_some_and(|reroute| reroute.is_filled())
    }

    /// Discards the counts and completions of the work that opened it.
    pub(super) fn forget_start(&mut self) {
        (self.completed, self.bytes) = (0, 0);
        let ledger = &mut self.ledger;
        ledger.tell(ledger.told(), ledger.waiting());
    }
}

/// The result of `WEFT_EP_QUERY`.
#[derive(Default)]
pub(crate) struct Info {
    /// `None`: it works; else the error that calls fail with.
    pub(crate) broken: Option<Error>,
    /// `WEFT_EP_FAIL_*`, if it has failed.
    pub(crate) failed: u32,
    pub(crate) outstanding: u32,
    pub(crate) areas: u32,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) bytes: u64,
}

/// A segment, as a program names it: handle of an area, offset in it, bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Range {
    pub(crate) area: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Work that a program requests.
pub(crate) struct Request {
    pub(crate) cookie: u64,
    pub(crate) op: Op,
    /// How many of the segments, from the first on, are sources.
    pub(crate) sources: usize,
    pub(crate) count: usize,
    pub(crate) segments: [Range; SEGMENTS],
}

/// The result of posting requests: how many were posted; or an error, and the index of the request
/// that caused it.
pub(crate) type Post = Result<usize, (usize, Error)>;

/// The fixed parameters of a function.
pub(super) struct Making {
    pub(super) wanted: Wanted,
    pub(super) slot: usize,
    pub(super) lid: u32,
    pub(super) given: Given,
    /// The number of functions of its virtual endpoint.
    pub(super) functions: u32,
    pub(super) protocol: Protocol,
    pub(super) places: Places,
    pub(super) entries: u32,
    pub(super) waiters: Arc<WaitQueue>,
}

/// A function of a shared endpoint, which a file has opened.
#[pin_data]
pub(crate) struct Function {
    pub(super) made: Making,
    #[pin]
    pub(super) inner: Mutex<Inner>,
    #[pin]
    pub(super) areas: Mutex<[Option<Arc<Area>>; INBOUND_MAPPINGS]>,
}

fn ledger(entries: u32) -> Result<Ledger<KVec<Slot>>> {
    let slots = KVec::from_elem(Slot::default(), entries as usize, GFP_KERNEL_ACCOUNT)?;
    Ok(Ledger::new(slots))
}

impl Function {
    pub(super) fn new(made: Making, queues: Option<Memory>) -> Result<Arc<Self>> {
        let ledger = ledger(made.entries)?;
        let into = made.given.into;
        Arc::pin_init(
            pin_init!(Self {
                made,
                inner <- new_mutex!(
                    Inner {
                        state: State::Starting,
                        has_slot: true,
                        queues,
                        ledger,
                        route: None,
                        into,
                        moves: None,
                        reroute: None,
                        wqes: KVVec::new(),
                        expected: 0,
                        left: [None; INBOUND_MAPPINGS],
                        submitted: 0,
                        completed: 0,
                        bytes: 0,
                    },
                    "weft function"
                ),
                areas <- new_mutex!([const { None }; INBOUND_MAPPINGS], "weft areas"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(super) fn registers<'a>(&self, slots: &'a dyn EndpointSlots) -> Registers<'a> {
        Registers::new(slots, self.made.slot)
    }

    pub(super) fn wake(&self) {
        self.made.waiters.wake_all();
    }

    /// Returns the state, or the error of a broken function.
    pub(super) fn check(inner: &Inner) -> Result<State> {
        match inner.state {
            State::Broken(why) => Err(why.errno()),
            state => Ok(state),
        }
    }

    /// Writes work to the end of the work queue; [`Self::pass`] passes it on. The caller has checked
    /// that there is room.
    pub(super) fn put(
        &self,
        registers: &Registers<'_>,
        inner: &mut Inner,
        entry: Entry,
        work: &Work<'_>,
    ) -> Result {
        let number = inner.ledger.post(entry).ok_or(EAGAIN)?;
        let wqe = work.encode(number.into(), self.made.protocol.push_data);
        let wq = self.made.places.wq;
        let element = inner.ledger.element(number);
        let at = wq.at as usize + element * WQE_BYTES;
        if let Some(kept) = inner.wqes.get_mut(element) {
            *kept = wqe;
        }
        match (wq.own, &inner.queues) {
            (true, _) => registers.window()?.copy_out(at, &wqe),
            (false, Some(queues)) => queues.area.copy_out(at, &wqe),
            (false, None) => Err(EIO),
        }
    }

    /// Tells the endpoint of all requests that were posted; while it is held it is told later.
    pub(super) fn pass(&self, registers: &Registers<'_>, inner: &mut Inner) -> Result {
        if inner.is_held() {
            return Ok(());
        }
        self.expect(registers, inner);
        wmb();
        let register = ext::WEFT_EP_WQ + ext::WEFT_EP_Q_DOORBELL;
        registers.set(register, inner.ledger.posted())?;
        registers.ring();
        Ok(())
    }

    /// Allows for one ring of each request, also if the endpoint is told of it several times: an endpoint
    /// must not get more by routes that come and go.
    pub(super) fn expect(&self, registers: &Registers<'_>, inner: &mut Inner) {
        let posted = inner.ledger.posted();
        let more = posted.wrapping_sub(core::mem::replace(&mut inner.expected, posted));
        registers.expect(more as usize);
    }

    /// Returns the memory that the completion queue is in.
    fn cq_area<'a>(
        &self,
        registers: Option<&Registers<'a>>,
        inner: &'a Inner,
    ) -> Result<&'a area::Area> {
        match (self.made.places.cq.own, &inner.queues, registers) {
            (true, _, Some(registers)) => registers.window(),
            (false, Some(queues), _) => Ok(&queues.area),
            _ => Err(EIO),
        }
    }

    /// Returns whether the next completion is there.
    pub(super) fn is_ready(&self, registers: Option<&Registers<'_>>, inner: &Inner) -> bool {
        if self.made.places.cq.own && inner.is_held() {
            return false;
        }
        let at = inner.ledger.element(inner.ledger.done()) * CQE_BYTES + CQE_NUMBER;
        let number = self
            .cq_area(registers, inner)
            .and_then(|area| area.read32(self.made.places.cq.at as usize + at));
        inner.ledger.outstanding() != 0
            && number.is_ok_and(|number| inner.ledger.is_next(u32::from_le(number)))
    }

    /// Takes the next completion into the ledger. Returns false if there is none yet. `EPROTO`: it is
    /// invalid.
    pub(super) fn take(
        &self,
        registers: Option<&Registers<'_>>,
        inner: &mut Inner,
    ) -> Result<bool> {
        if !self.is_ready(registers, inner) {
            return Ok(false);
        }
        // The number, which the endpoint writes last, was read before the rest.
        rmb();
        let at = inner.ledger.element(inner.ledger.done()) * CQE_BYTES;
        let mut bytes = [0; CQE_BYTES];
        self.cq_area(registers, inner)?
            .copy_in(self.made.places.cq.at as usize + at, &mut bytes)?;
        let lost = |registers: &Registers<'_>| registers.route() != inner.route;
        if self.made.places.cq.own && inner.route.is_some() && registers.is_some_and(lost) {
            // Not all of it may have been read.
            return Ok(false);
        }
        let done = inner.ledger.complete(&Cqe::parse(&bytes));
        let done = done.map_err(|_| Error::from(EPROTO))?;
        inner.completed += 1;
        inner.bytes = inner.bytes.saturating_add(done.bytes);
        Ok(true)
    }

    /// Posts work. All requests are checked before any is posted; then as many are posted as there is
    /// room for. `EAGAIN`: there is no room.
    pub(crate) fn submit(&self, node: &Node, requests: &[Request]) -> Post {
        Self::check(&self.inner.lock()).map_err(|e| (0, e))?;
        let port = node.port_at_work().ok_or((0, ENODEV))?;
        let slots = port.endpoint_slots().ok_or((0, ENODEV))?;
        let registers = self.registers(slots);
        let mut inner = self.inner.lock();
        Self::check(&inner).map_err(|e| (0, e))?;
        for (n, request) in requests.iter().enumerate() {
            let found = self.find_segments(request);
            let segments = found.map_err(|e| (n, e))?;
            let work = request.work(&segments);
            work.check().map_err(|_| (n, EINVAL))?;
        }
        let room = inner.ledger.room() as usize;
        if room == 0 && !requests.is_empty() {
            return Err((0, EAGAIN));
        }
        let mut posted = 0;
        for request in requests.iter().take(room) {
            let put = self.find_segments(request).and_then(|segments| {
                let work = request.work(&segments);
                let entry = Entry {
                    cookie: request.cookie,
                    bytes: work.check().map_err(|_| EINVAL)?,
                    sums: request.op.sums(),
                };
                self.put(&registers, &mut inner, entry, &work)
            });
            put.map_err(|e| (posted, e))?;
            posted += 1;
        }
        inner.submitted += posted as u64;
        self.arrived(&registers, &mut inner);
        self.pass(&registers, &mut inner).map_err(|e| (0, e))?;
        Ok(posted)
    }

    /// Checks whether work that was written to the memory of the function has arrived: a new route may take
    /// up what follows, when the last one has lost that. If it is not known the function is held.
    fn arrived(&self, registers: &Registers<'_>, inner: &mut Inner) {
        if !self.made.places.wq.own || inner.is_held() {
            return;
        }
        let Some(reroute) = &mut inner.reroute else {
            return;
        };
        // A read, in front of which all arrives that was written.
        registers.get(ext::WEFT_EP_STATUS);
        if registers.route() != inner.route {
            reroute.lost(clock::now_ms());
        }
    }

    /// Returns the segments of a request as the endpoint addresses them. The caller has `inner`
    /// locked, hence no area is made or freed meanwhile.
    fn find_segments(&self, request: &Request) -> Result<[Segment; SEGMENTS]> {
        let mut found = [Segment::default(); SEGMENTS];
        let areas = self.areas.lock();
        let ranges = request.segments.iter().take(request.count);
        for (range, place) in ranges.zip(&mut found) {
            let mut all = areas.iter().flatten();
            let area = all.find(|area| area.handle() == range.area);
            let area = area.ok_or(ENOENT)?;
            let end = range.offset.checked_add(range.bytes).ok_or(EINVAL)?;
            if end > area.bytes() {
                return Err(EINVAL);
            }
            *place = Segment {
                base: area.at + range.offset,
                bytes: range.bytes,
            };
        }
        Ok(found)
    }

    /// Calls `f` with up to `most` completions that were not reported yet, the oldest first. They
    /// stay until [`Self::told`], which takes the returned number. Outstanding work of a broken
    /// function is `WEFT_EP_DONE_FLUSHED`; after all completions, the error of the function is
    /// returned.
    pub(crate) fn reap(
        &self,
        endpoints: &Endpoints,
        node: &Node,
        most: u32,
        mut f: impl FnMut(&Completion),
    ) -> Result<u32> {
        let port = node.port_at_work();
        let slots = port.as_ref().and_then(|port| port.endpoint_slots());
        let registers = slots.map(|slots| self.registers(slots));
        let mut inner = self.inner.lock();
        if inner.holds_on() {
            // Completions that have come are reported as they are, all of them before the error.
            drop(inner);
            self.end(endpoints, port.as_ref().map(|port| &***port), Why::Closed);
            inner = self.inner.lock();
        }
        let mut lied = false;
        if inner.state == State::Open {
            let before = inner.ledger.done();
            while inner.ledger.waiting() < most && !lied {
                match self.take(registers.as_ref(), &mut inner) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(_) => lied = true,
                }
            }
            let done = inner.ledger.done();
            if let Some(registers) = registers.filter(|_| done != before && !inner.is_held()) {
                // Before anything else is posted, so that the endpoint sees it in time. The register
                // is inside the window.
                let _ = registers.taken(done);
            }
        }
        let ledger = &inner.ledger;
        (0..most)
            .map_while(|n| ledger.next(n))
            .for_each(|done| f(&done));
        let told = match inner.state {
            State::Broken(why) if ledger.waiting() == 0 => Err(why.errno()),
            _ => Ok(ledger.told()),
        };
        drop(inner);
        if lied {
            self.end(endpoints, port.as_ref().map(|port| &***port), Why::Lied);
        }
        told
    }

    /// Removes `count` completions that the program has got from [`Self::reap`], which returned
    /// `told`. Returns false if another thread has got some of them first.
    pub(crate) fn told(&self, told: u32, count: u32) -> bool {
        let its = self.inner.lock().ledger.tell(told, count);
        if its {
            // There is room again.
            self.wake();
        }
        its
    }

    /// Returns whether [`Self::reap`] has anything to report.
    pub(crate) fn has_news(&self, node: &Node) -> bool {
        self.poll(node) & (events::IN | events::ERR) != 0
    }

    pub(crate) fn poll(&self, node: &Node) -> u32 {
        let port = node.port_at_work();
        let slots = port.as_ref().and_then(|port| port.endpoint_slots());
        let registers = slots.map(|slots| self.registers(slots));
        let inner = self.inner.lock();
        if let State::Broken(_) = inner.state {
            return events::IN | events::HUP | events::ERR;
        }
        let waits = inner.ledger.waiting() != 0 || self.is_ready(registers.as_ref(), &inner);
        let ready = if waits { events::IN } else { 0 };
        let room = match inner.ledger.room() {
            0 => 0,
            _ => events::OUT,
        };
        ready | room
    }

    pub(crate) fn info(&self) -> Info {
        let inner = self.inner.lock();
        let (broken, failed) = match inner.state {
            State::Broken(Why::Failed(code)) => (Some(EIO), code),
            State::Broken(why) => (Some(why.errno()), 0),
            State::Starting | State::Open => (None, 0),
        };
        Info {
            broken,
            failed,
            outstanding: inner.ledger.outstanding(),
            areas: self.areas.lock().iter().flatten().count() as u32,
            submitted: inner.submitted,
            completed: inner.completed,
            bytes: inner.bytes,
        }
    }
}

impl Request {
    fn work<'a>(&self, segments: &'a [Segment; SEGMENTS]) -> Work<'a> {
        Work {
            op: self.op,
            segments: segments.get(..self.count).unwrap_or_default(),
            sources: self.sources,
        }
    }
}
