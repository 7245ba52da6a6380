// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The order in which match requests are executed: Fig. 4a, and Fig. 5 up to step 518.
//!
//! Each endpoint has a match request queue for commands and one for messages. Arbitration takes turns between
//! the two kinds, among endpoints, and between the two queues of an endpoint. A request that is taken blocks
//! its endpoint until it is done, so that one is executed at a time; it goes to the queue of its engine
//! and traffic class. There engines take turns, and traffic classes by weight. A message that finds its entry in
//! the persistent list entry cache goes to no engine and blocks nothing. The dispatcher is independent of lists.

use super::{
    cache::{Cache, Line},
    endpoint_queues::{EndpointQueues, Kind},
    outcome::{CacheHint, Order, Outcome, Resume},
    queue::{Queue, Slot, Slots},
    request::{Request, Work},
    step::{Step, Trace},
    storage::{Storage, NONE},
    ENGINES, TRAFFIC_CLASSES,
};

/// A request that is to be executed: it ends with [`Dispatch::done`] or [`Dispatch::defer`].
#[derive(Debug)]
pub struct Job {
    /// The engine that executes it.
    pub engine: u8,
    /// What is to be done.
    pub request: Request,
    /// What has come of it, if the cache had its entry: no engine executes it.
    pub hit: Option<Outcome>,
    slot: u32,
}

/// Why a request is not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// The endpoint is not open, or there is no such traffic class.
    Invalid,
    /// As many requests of this kind wait as may, or there is no slot. A source is told NO_SPACE, and RESUME when
    /// a [`Dispatch::done`] says so.
    Full,
}

/// Endpoints that wait for their turn.
#[derive(Clone, Copy)]
struct Ring {
    first: u32,
    last: u32,
}

/// The queues of an engine.
#[derive(Clone, Copy)]
struct Lane {
    queues: [Queue; TRAFFIC_CLASSES],
    /// The traffic class whose turn it is, and how many requests it may still have.
    class: usize,
    left: u8,
}

/// Requests that are moved to the queues of engines at once.
const BATCH: usize = 64;

/// The dispatcher of a port.
pub struct Dispatch<P, R, C, T> {
    endpoints: P,
    slots: Slots<R>,
    cache: Cache<C>,
    rings: [Ring; 2],
    /// The kind that was selected last.
    kind: Kind,
    lanes: [Lane; ENGINES],
    /// The engine that was selected last.
    engine: usize,
    weights: [u8; TRAFFIC_CLASSES],
    limit: u32,
    /// A hit was put out last: it is an engine's turn.
    bubble: bool,
    /// A message found no slot.
    starved: bool,
    trace: T,
}

impl<P: Storage<EndpointQueues>, R: Storage<Slot>, C: Storage<Line>, T: Trace>
    Dispatch<P, R, C, T>
{
    /// Makes a dispatcher. `endpoints` are [`EndpointQueues::CLOSED`], one for each endpoint there may be; `slots` are
    /// [`Slot::FREE`], for the requests of all endpoints; `lines` are [`Line::EMPTY`]. A traffic class is given
    /// as many requests in a round as it weighs, one at least. No more than `limit` requests of one kind wait for
    /// an endpoint, and no second one while less than half of the slots are free: so what some endpoints leave waiting
    /// leaves all others a slot.
    pub const fn new(
        endpoints: P,
        slots: R,
        lines: C,
        weights: [u8; TRAFFIC_CLASSES],
        limit: u32,
        trace: T,
    ) -> Self {
        Self {
            endpoints,
            slots: Slots::new(slots),
            cache: Cache::new(lines),
            rings: [Ring {
                first: NONE,
                last: NONE,
            }; 2],
            kind: Kind::Message,
            lanes: [Lane {
                queues: [Queue::EMPTY; TRAFFIC_CLASSES],
                class: TRAFFIC_CLASSES - 1,
                left: 0,
            }; ENGINES],
            engine: ENGINES - 1,
            weights,
            limit,
            bubble: false,
            starved: false,
            trace,
        }
    }

    /// Opens an endpoint, and assigns it to an engine. Returns false if it is open already, or there is no such
    /// engine.
    pub fn open(&mut self, endpoint: u16, engine: u8) -> bool {
        match self.endpoints.at_mut(u32::from(endpoint)) {
            Some(own) if !own.open && usize::from(engine) < ENGINES => {
                // It may wait for its turn still from before.
                *own = EndpointQueues {
                    engine,
                    open: true,
                    next: own.next,
                    waits: own.waits,
                    ..EndpointQueues::CLOSED
                };
                true
            }
            _ => false,
        }
    }

    /// Takes out the next request of an endpoint that is being closed; with `None` it is closed, if none of its
    /// requests is being executed. The caller submits none meanwhile.
    pub fn close(&mut self, endpoint: u16) -> Option<Request> {
        let own = self.endpoints.at_mut(u32::from(endpoint))?;
        for kind in [Kind::Command, Kind::Message] {
            if let Some(at) = self.slots.pop(own.queue_mut(kind)) {
                let request = self.slots.request(at);
                self.slots.put(at);
                return request;
            }
        }
        if !own.blocked && own.hits == 0 {
            own.open = false;
            let line = core::mem::replace(&mut own.line, NONE);
            self.cache.deallocate(line);
        }
        None
    }

    /// Returns whether an endpoint is open.
    #[cfg_attr(MODULE, expect(dead_code, reason = "ahead of its user"))]
    pub fn is_open(&self, endpoint: u16) -> bool {
        self.endpoints
            .at(u32::from(endpoint))
            .is_some_and(|own| own.open)
    }

    /// Returns whether nothing of an endpoint waits or is being executed: a request that its engine executes now is in its
    /// order.
    pub fn is_idle(&self, endpoint: u16) -> bool {
        self.endpoints.at(u32::from(endpoint)).is_some_and(|own| {
            let waits = own.waiting(Kind::Command) + own.waiting(Kind::Message) > 0;
            let held = own.blocked || own.deferred || own.held;
            own.open && !waits && !held && own.hits == 0
        })
    }

    /// Queues a request.
    pub fn submit(&mut self, request: Request) -> Result<(), SubmitError> {
        let kind = Kind::of(&request);
        let endpoint = request.endpoint;
        let own = self.endpoints.at_mut(u32::from(endpoint));
        let Some(own) = own.filter(|own| own.open) else {
            return Err(SubmitError::Invalid);
        };
        if usize::from(request.class) >= TRAFFIC_CLASSES {
            return Err(SubmitError::Invalid);
        }
        self.trace.step(Step::Receive, endpoint);
        let most = match self.slots.has_half() {
            true => self.limit,
            false => 1,
        };
        if own.waiting(kind) >= most {
            own.refused |= kind == Kind::Message;
            return Err(SubmitError::Full);
        }
        let Some(slot) = self.slots.take(request) else {
            self.starved |= kind == Kind::Message;
            return Err(SubmitError::Full);
        };
        self.slots.push(own.queue_mut(kind), slot);
        self.trace.step(Step::Queue, endpoint);
        self.wake(endpoint);
        Ok(())
    }

    /// Returns the next request that is to be executed, by one of the engines whose bits are set in `engines`, or
    /// by none as the cache had its entry.
    pub fn next(&mut self, engines: u8) -> Option<Job> {
        if core::mem::take(&mut self.bubble) {
            if let Some(job) = self.dequeue(engines) {
                return Some(job);
            }
        }
        if let Some(job) = self.advance() {
            // While the entry is put out no request is sent to an engine.
            self.bubble = true;
            return Some(job);
        }
        self.dequeue(engines)
    }

    /// Ends a request, as its reply has ordered. Returns which sources that found no place can be told RESUME.
    pub fn done(&mut self, job: Job, order: Order) -> Resume {
        let endpoint = job.request.endpoint;
        self.apply(endpoint, order);
        let Some(own) = self.endpoints.at_mut(u32::from(endpoint)) else {
            return Resume::None;
        };
        if job.hit.is_some() {
            own.hits = own.hits.saturating_sub(1);
        } else {
            own.blocked = false;
        }
        if order.again {
            let kind = Kind::of(&job.request);
            self.slots.push_front(own.queue_mut(kind), job.slot);
            // It has not had its turn.
            own.last = kind.other();
        } else {
            self.slots.put(job.slot);
        }
        let has_room = !own.held && own.waiting(Kind::Message) <= self.limit / 2;
        let resume = if self.starved && !order.again {
            self.starved = false;
            Resume::All
        } else if own.refused && has_room {
            own.refused = false;
            Resume::Endpoint
        } else {
            Resume::None
        };
        self.wake(endpoint);
        resume
    }

    /// Puts a request back that cannot be executed now: its endpoint waits for [`Self::resume`], and no other.
    pub fn defer(&mut self, job: Job) {
        if let Some(own) = self.endpoints.at_mut(u32::from(job.request.endpoint)) {
            own.deferred = true;
        }
        self.done(
            job,
            Order {
                again: true,
                ..Order::DONE
            },
        );
    }

    /// Goes on with an endpoint that was deferred.
    pub fn resume(&mut self, endpoint: u16) {
        if let Some(own) = self.endpoints.at_mut(u32::from(endpoint)) {
            own.deferred = false;
        }
        self.wake(endpoint);
    }

    /// Does what the engine has ordered for an endpoint apart from a request: when all is given in a hand-over.
    pub fn apply(&mut self, endpoint: u16, order: Order) {
        let Some(own) = self.endpoints.at_mut(u32::from(endpoint)) else {
            return;
        };
        if let Some(hold) = order.hold {
            own.held = hold;
        }
        match order.cache {
            CacheHint::Allocate(entry) if own.line == NONE => {
                if let Some((line, evicted)) = self.cache.allocate(endpoint, entry) {
                    own.line = line;
                    if let Some(evicted) = evicted {
                        if let Some(own) = self.endpoints.at_mut(u32::from(evicted)) {
                            own.line = NONE;
                        }
                    }
                }
            }
            CacheHint::Deallocate => {
                let line = core::mem::replace(&mut own.line, NONE);
                self.cache.deallocate(line);
            }
            _ => {}
        }
        self.wake(endpoint);
    }

    /// Lets an endpoint wait for its turn, if it has something to do.
    fn wake(&mut self, endpoint: u16) {
        let at = u32::from(endpoint);
        let Some(own) = self.endpoints.at_mut(at) else {
            return;
        };
        let Some(kind) = own.turn().filter(|_| own.waits.is_none()) else {
            return;
        };
        own.waits = Some(kind);
        own.next = NONE;
        let [commands, messages] = &mut self.rings;
        let ring = match kind {
            Kind::Command => commands,
            Kind::Message => messages,
        };
        match self.endpoints.at_mut(ring.last) {
            Some(last) => last.next = at,
            None => ring.first = at,
        }
        ring.last = at;
    }

    /// Takes the first endpoint of those that wait for a kind.
    fn first(&mut self, kind: Kind) -> Option<u16> {
        let [commands, messages] = &mut self.rings;
        let ring = match kind {
            Kind::Command => commands,
            Kind::Message => messages,
        };
        let at = ring.first;
        let own = self.endpoints.at_mut(at)?;
        own.waits = None;
        ring.first = own.next;
        if ring.first == NONE {
            ring.last = NONE;
        }
        u16::try_from(at).ok()
    }

    /// Selects match request queues, and moves their first requests to the queues of engines, until a message
    /// finds its entry in the cache.
    fn advance(&mut self) -> Option<Job> {
        for _ in 0..BATCH {
            let (turn, other) = (self.kind.other(), self.kind);
            let (kind, endpoint) = match self.first(turn) {
                Some(endpoint) => (turn, endpoint),
                None => (other, self.first(other)?),
            };
            let Some(own) = self.endpoints.at_mut(u32::from(endpoint)) else {
                continue;
            };
            if own.turn() != Some(kind) {
                // It was closed, or messages are held.
                self.wake(endpoint);
                continue;
            }
            let Some(slot) = self.slots.pop(own.queue_mut(kind)) else {
                continue;
            };
            self.kind = kind;
            own.last = kind;
            self.trace.step(Step::Select, endpoint);
            let Some(request) = self.slots.request(slot) else {
                continue;
            };
            self.trace.step(Step::Map, endpoint);
            let engine = own.engine;
            self.trace.step(Step::Probe, endpoint);
            self.trace.step(Step::Match, endpoint);
            let entry = match &request.work {
                Work::Message(message) => {
                    let line = self.cache.line(own.line);
                    line.map(|entry| entry.receive(message))
                }
                Work::Command(_) => None,
            };
            if entry.is_some() {
                own.hits += 1;
                self.trace.step(Step::Hit, endpoint);
                self.wake(endpoint);
                return Some(Job {
                    engine,
                    request,
                    hit: entry,
                    slot,
                });
            }
            own.blocked = true;
            if let Some(lane) = self.lanes.get_mut(usize::from(engine)) {
                if let Some(queue) = lane.queues.get_mut(usize::from(request.class)) {
                    self.slots.push(queue, slot);
                    self.trace.step(Step::Enqueue, endpoint);
                }
            }
        }
        None
    }

    /// Selects an engine in turn, and a traffic class of it by weight.
    fn dequeue(&mut self, engines: u8) -> Option<Job> {
        for after in 1..=ENGINES {
            let number = (self.engine + after) % ENGINES;
            if engines & (1 << number) == 0 {
                continue;
            }
            let Some(lane) = self.lanes.get_mut(number) else {
                continue;
            };
            // Once around, to the class that has used its weight up.
            for _ in 0..=TRAFFIC_CLASSES {
                let found = match lane.queues.get_mut(lane.class) {
                    Some(queue) if lane.left > 0 => self.slots.pop(queue),
                    _ => None,
                };
                let Some(slot) = found else {
                    lane.class = (lane.class + 1) % TRAFFIC_CLASSES;
                    lane.left = self.weights.get(lane.class).copied().unwrap_or(0).max(1);
                    continue;
                };
                lane.left -= 1;
                self.engine = number;
                let request = self.slots.request(slot)?;
                self.trace.step(Step::Dequeue, request.endpoint);
                self.trace.step(Step::Search, request.endpoint);
                return Some(Job {
                    engine: number as u8,
                    request,
                    hit: None,
                    slot,
                });
            }
        }
        None
    }

    /// Returns the trace.
    #[cfg_attr(MODULE, expect(dead_code, reason = "ahead of its user"))]
    pub fn trace_mut(&mut self) -> &mut T {
        &mut self.trace
    }
}
