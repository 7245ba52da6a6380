// SPDX-License-Identifier: GPL-2.0

//! The lists of all interfaces of a port: the dispatcher, the engines and the refusals of `proto::matching`.
//!
//! Executed under one lock, in steps that take the same time with one entry as with all. What is to be copied or posted
//! goes to the interface, whose thread carries it out and then says so. What only concerns the source of a message is
//! answered here.

use super::{
    carry::Carry,
    peer::{Payload, Peer},
    to::To,
    PEERS, WAITING,
};
use crate::{
    proto::{
        envelope::{Address, Body, Envelope},
        matching::{
            atomic::Change,
            cache::Line,
            dispatch::{Dispatch, Job, SubmitError},
            endpoint::{Config, Endpoint},
            endpoint_queues::EndpointQueues,
            engine::{hand_over::Given, Engine},
            entry::Entry,
            flow::{Refusal, Refusals, Stage},
            outcome::{Order, Outcome, Reason, Receipt, Reply, Resume},
            queue::Slot,
            request::{Buffer, Command, List, Message, Request, Work},
            storage::NONE,
            ENDPOINTS, ENGINES, ENTRIES, HEADS, LINES, TRAFFIC_CLASSES,
        },
    },
    sys::{clock, memory::Memory, random},
};
use kernel::{bindings, prelude::*, sync::Arc};

/// Requests that wait, of all interfaces.
const SLOTS: usize = 8192;
/// Pairs of a source and an interface that had no space for it.
const REFUSALS: usize = 4096;
/// How many requests of a traffic class are executed in a round.
const WEIGHTS: [u8; TRAFFIC_CLASSES] = [1, 2, 4, 8];
/// All engines.
const ALL: u8 = (1 << ENGINES) - 1;
/// Entries that are cleared at once.
const BATCH: usize = 256;

const _: () = assert!(ENDPOINTS.is_power_of_two());
// Those that are kept for interfaces that have nothing waiting: a command and a message of each.
const _: () = assert!(SLOTS / 2 >= 2 * ENDPOINTS as usize);
const _: () = assert!(PEERS * ENDPOINTS as usize <= u32::MAX as usize);

/// A source, as the lists number them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Source(pub(super) u32);

impl Source {
    /// `None`: there is no such interface.
    pub(super) fn new(peer: u32, endpoint: u16) -> Option<Self> {
        let source = peer * u32::from(ENDPOINTS) + u32::from(endpoint);
        (endpoint < ENDPOINTS).then_some(Self(source))
    }

    pub(super) fn peer(self) -> u32 {
        self.0 / u32::from(ENDPOINTS)
    }

    pub(super) fn address(self) -> Address {
        Address {
            endpoint: (self.0 % u32::from(ENDPOINTS)) as u16,
            generation: 0,
        }
    }
}

/// An interface, as the lists and the hosts know it.
pub(super) trait Member: Send + Sync {
    fn address(&self) -> Address;

    /// Returns its traffic class.
    fn class(&self) -> u8;

    /// Has its thread look at everything. Any context.
    fn ring(&self);

    /// Returns whether another hit can be carried out.
    fn has_place(&self) -> bool;

    /// Adds what its thread is to carry out.
    fn carry(&self, carry: Carry);

    /// Takes out the next of that: when its thread has ended.
    fn next_carry(&self) -> Option<Carry>;

    /// Keeps the bytes of a message that has come, in memory with room for so many bytes, and what it does to integers,
    /// if it does; returns by which number. `None`: there is nothing to keep, or no memory.
    fn store(
        &self,
        payload: &Payload<'_>,
        room: usize,
        change: Option<Change>,
    ) -> Result<Option<u64>>;

    /// Frees the memory of a message that has come.
    fn release(&self, payload: u64);

    /// Notes that a source was told NO_SPACE as there was no memory for so many bytes: it is told RESUME when there is.
    fn refused(&self, bytes: usize);

    /// Ends what was begun with interfaces that are closed.
    fn lost(&self, to: &dyn Fn(&To) -> bool);

    /// Takes what a host says of a message that was sent, or is being pulled.
    fn hear(&self, peer: &Arc<Peer>, what: &Envelope, payload: &Payload<'_>) -> Result;
}

/// The hosts of a port.
pub(super) trait Peers {
    /// Returns the host with a number.
    fn peer(&self, number: u32) -> Option<Arc<Peer>>;
}

type Unit = Engine<Memory<Entry>, Memory<u32>>;

/// An engine, and how many entries its interfaces may have in all.
struct Part {
    engine: Unit,
    promised: u32,
}

/// A number of an interface.
struct Place {
    endpoint: Endpoint,
    engine: usize,
    /// `None`: it is being closed.
    interface: Option<Arc<dyn Member>>,
    entries: u32,
}

/// Whether the entries of an interface are free.
pub(super) enum Cleared {
    All,
    /// There are more; the host, if any, has no room for more answers.
    Some(Option<Arc<Peer>>),
}

/// What becomes of a command.
pub(super) enum Commanded {
    /// It is executed, with this outcome.
    Done(Outcome),
    /// It is queued; the interface is told of its outcome.
    Queued,
    /// There is no place for it now.
    NoPlace,
}

/// What an interface is to be.
pub(super) struct Needs {
    pub(super) matching: bool,
    pub(super) hands_over: bool,
    pub(super) entries: u32,
}

/// The lists of a port.
pub(super) struct Lists {
    dispatch: Dispatch<Memory<EndpointQueues>, Memory<Slot>, Memory<Line>, ()>,
    parts: [Option<KBox<Part>>; ENGINES],
    places: KVVec<Option<KBox<Place>>>,
    refusals: Refusals<Memory<Refusal>>,
    /// Where to look for a number that is free.
    next: u16,
}

impl Lists {
    pub(super) fn new() -> Result<Self> {
        let dispatch = Dispatch::new(
            Memory::new(EndpointQueues::CLOSED, ENDPOINTS.into())?,
            Memory::new(Slot::FREE, SLOTS)?,
            Memory::new(Line::EMPTY, LINES as usize)?,
            WEIGHTS,
            WAITING,
            (),
        );
        let mut places = KVVec::with_capacity(ENDPOINTS.into(), GFP_KERNEL)?;
        for _ in 0..ENDPOINTS {
            places.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            dispatch,
            parts: [const { None }; ENGINES],
            places,
            refusals: Refusals::new(Memory::new(Refusal::FREE, REFUSALS)?, seed()),
            next: 0,
        })
    }

    /// Finds a number for an interface, and an engine with room for its entries. `ENOSPC`.
    pub(super) fn reserve(&mut self, needs: &Needs) -> Result<u16> {
        let mut numbers = (0..ENDPOINTS).map(|n| (self.next + n) % ENDPOINTS);
        let number = numbers.find(|n| {
            self.places
                .get(usize::from(*n))
                .is_some_and(Option::is_none)
        });
        let number = number.ok_or(ENOSPC)?;
        let promised = |part: &Option<KBox<Part>>| part.as_ref().map_or(0, |part| part.promised);
        let parts = self.parts.iter_mut().enumerate();
        let (engine, place) = parts.min_by_key(|(_, part)| promised(part)).ok_or(ENOSPC)?;
        if needs.entries > ENTRIES - promised(place) {
            return Err(ENOSPC);
        }
        if place.is_none() {
            let entries = Memory::new(Entry::FREE, ENTRIES as usize)?;
            let heads = Memory::new(NONE, HEADS as usize)?;
            let part = Part {
                engine: Engine::new(entries, heads, seed(), 0),
                promised: 0,
            };
            *place = Some(KBox::new(part, GFP_KERNEL)?);
        }
        let config = Config {
            matching: needs.matching,
            // An interface carries nothing out before there is room for its events.
            space_check: false,
            hand_over: needs.hands_over,
            limit: needs.entries,
        };
        let made = Place {
            endpoint: Endpoint::new(number, config),
            engine,
            interface: None,
            entries: needs.entries,
        };
        let made = KBox::new(made, GFP_KERNEL)?;
        if let Some(part) = place {
            part.promised += needs.entries;
        }
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            *place = Some(made);
        }
        self.next = (number + 1) % ENDPOINTS;
        Ok(number)
    }

    fn place(&mut self, number: u16) -> Option<&mut Place> {
        let place = self.places.get_mut(usize::from(number))?;
        place.as_deref_mut()
    }

    /// Returns the engine of an interface, and the endpoint that it is there.
    fn engine_of(&mut self, number: u16) -> Option<(&mut Unit, &mut Endpoint)> {
        let place = self.places.get_mut(usize::from(number))?.as_mut()?;
        let part = self.parts.get_mut(place.engine)?.as_mut()?;
        Some((&mut part.engine, &mut place.endpoint))
    }

    /// Lets an interface have the number that was reserved for it.
    pub(super) fn open(&mut self, interface: &Arc<dyn Member>) {
        let number = interface.address().endpoint;
        if let Some(place) = self.place(number) {
            place.interface = Some(interface.clone());
            let engine = place.engine as u8;
            self.dispatch.open(number, engine);
        }
    }

    /// Returns the interface with an address.
    pub(super) fn find(&self, address: &Address) -> Option<Arc<dyn Member>> {
        let place = self.places.get(usize::from(address.endpoint))?;
        let interface = place.as_ref()?.interface.as_ref()?;
        let wanted = [0, interface.address().generation];
        wanted
            .contains(&address.generation)
            .then(|| interface.clone())
    }

    /// Returns the interface with a number.
    pub(super) fn at(&self, number: u16) -> Option<Arc<dyn Member>> {
        let place = self.places.get(usize::from(number))?;
        place.as_ref()?.interface.clone()
    }

    /// Rings all interfaces.
    pub(super) fn ring_all(&self) {
        for place in self.places.iter().flatten() {
            if let Some(interface) = &place.interface {
                interface.ring();
            }
        }
    }

    /// Stops to find an interface, whose thread has ended: what waits for it is answered.
    pub(super) fn close(&mut self, peers: &dyn Peers, interface: &dyn Member) {
        let number = interface.address().endpoint;
        if let Some(place) = self.place(number) {
            place.interface = None;
        }
        while let Some(carry) = interface.next_carry() {
            if let Work::Message(message) = &carry.job.request.work {
                interface.release(message.payload);
                self.answer_drop(peers, number, message, bindings::ENXIO);
            }
            self.dispatch.done(carry.job, Order::DONE);
        }
        while let Some(request) = self.dispatch.close(number) {
            if let Work::Message(message) = &request.work {
                self.answer_drop(peers, number, message, bindings::ENXIO);
            }
        }
        // Sources that wait hear why they need not.
        self.tell(peers, Resume::Endpoint, number);
        self.refusals.forget(|_, endpoint| endpoint == number);
        // Jobs that were in the queues of engines find it closed.
        self.run(peers);
    }

    /// Frees some of the entries of an interface that is being closed. If there are no more, its number is free, and
    /// with it the most that it could have had.
    pub(super) fn clear(&mut self, peers: &dyn Peers, number: u16) -> Cleared {
        let Some(place) = self.places.get_mut(usize::from(number)) else {
            return Cleared::All;
        };
        let Some(own) = place else {
            return Cleared::All;
        };
        let Some(Some(part)) = self.parts.get_mut(own.engine) else {
            return Cleared::All;
        };
        for _ in 0..BATCH {
            let given = part.engine.clear(&mut own.endpoint);
            if let Some(Given::Header(header, _)) = &given {
                // Its initiator waits for a receive that does not come.
                let waits = u64::from(header.eager) < header.length;
                let source = Source(header.source);
                if let Some(peer) = peers.peer(source.peer()).filter(|_| waits) {
                    let body = dropped(bindings::ENXIO);
                    peer.reply(&answer(number, source, header.cookie, body));
                    if !peer.has_room() {
                        return Cleared::Some(Some(peer));
                    }
                }
            }
            if given.is_none() {
                part.promised = part.promised.saturating_sub(own.entries);
                let relieved = part.engine.relieve();
                *place = None;
                // A request that was executed when it was closed, if any, is done now.
                while self.dispatch.close(number).is_some() {}
                if relieved {
                    self.tell(peers, Resume::All, number);
                }
                return Cleared::All;
            }
        }
        Cleared::Some(None)
    }

    /// Executes a command at once, or queues it. Only what leads to nothing else is executed at once, and only if nothing
    /// of the interface waits.
    pub(super) fn command(
        &mut self,
        peers: &dyn Peers,
        by: &dyn Member,
        command: Command,
    ) -> Commanded {
        let number = by.address().endpoint;
        if let Command::Append(list, buffer) = &command {
            if let Some(outcome) = self.append_now(peers, number, *list, buffer) {
                return Commanded::Done(outcome);
            }
        }
        let request = Request {
            endpoint: number,
            class: by.class(),
            work: Work::Command(command),
        };
        let queued = self.dispatch.submit(request).is_ok();
        self.run(peers);
        match queued {
            true => Commanded::Queued,
            false => Commanded::NoPlace,
        }
    }

    /// Appends a buffer, if nothing of the interface waits and nothing else comes of it.
    fn append_now(
        &mut self,
        peers: &dyn Peers,
        number: u16,
        list: List,
        buffer: &Buffer,
    ) -> Option<Outcome> {
        if !self.dispatch.is_idle(number) {
            return None;
        }
        let (engine, endpoint) = self.engine_of(number)?;
        let reply = engine.append_only(endpoint, list, buffer)?;
        self.tell(peers, reply.resume, number);
        Some(reply.outcome)
    }

    /// Queues a message, or refuses it. `lacks`: there is no memory for it, of so many bytes. Returns false if it was not
    /// queued.
    pub(super) fn message(
        &mut self,
        peers: &dyn Peers,
        to: &dyn Member,
        message: Message,
        first: bool,
        lacks: Option<usize>,
    ) -> bool {
        let number = to.address().endpoint;
        let (source, sequence) = (message.source, message.sequence);
        let interface = self
            .place(number)
            .and_then(|place| place.interface.as_ref());
        if !interface.is_some_and(|interface| core::ptr::addr_eq(&raw const **interface, to)) {
            // It was closed since it was found.
            self.answer_drop(peers, number, &message, bindings::ENXIO);
            return false;
        }
        if !self.refusals.admit(source, number, sequence, Stage::Queue) {
            if !first {
                return false;
            }
            // The source has none that was refused: it is not what it was then.
            self.refusals
                .forget(|other, endpoint| (other, endpoint) == (source, number));
        }
        let request = Request {
            endpoint: number,
            class: to.class(),
            work: Work::Message(message),
        };
        let submitted = match lacks {
            None => self.dispatch.submit(request),
            Some(_) => Err(SubmitError::Full),
        };
        match submitted {
            Ok(()) => {}
            Err(SubmitError::Full) => {
                self.refuse(peers, number, &message, Stage::Queue);
                if let Some(bytes) = lacks {
                    // Not before: RESUME is told to those that were refused.
                    to.refused(bytes);
                }
            }
            Err(SubmitError::Invalid) => {
                self.answer_drop(peers, number, &message, bindings::ENXIO);
            }
        }
        self.run(peers);
        submitted.is_ok()
    }

    /// Matches messages of an interface that are stored at once, as long as nothing of it waits and `next` has one; `found`
    /// is told what they have met, and whether that was overflow memory. Returns how many were dealt with.
    pub(super) fn match_now(
        &mut self,
        peers: &dyn Peers,
        number: u16,
        mut next: impl FnMut() -> Option<Message>,
        mut found: impl FnMut(&Receipt, bool),
    ) -> usize {
        let mut count = 0;
        while self.dispatch.is_idle(number) && !self.refusals.any() {
            let own = self.engine_of(number);
            let Some((engine, endpoint)) = own.filter(|(_, endpoint)| endpoint.matches_now())
            else {
                break;
            };
            let Some(message) = next() else {
                break;
            };
            let work = Work::Message(message);
            let reply = engine.execute(endpoint, &work, 0);
            count += 1;
            match &reply.outcome {
                Outcome::Receive(receipt) => found(receipt, false),
                Outcome::Unexpected(receipt) => found(receipt, true),
                Outcome::NoSpace => self.refuse(peers, number, &message, Stage::Engine),
                Outcome::Drop(reason) => {
                    self.answer_drop(peers, number, &message, errno_of(*reason));
                }
                // Of messages others have no other outcome.
                _ => {}
            }
            if reply.resume != Resume::None {
                self.tell(peers, reply.resume, number);
            }
        }
        count
    }

    /// Says NO_SPACE to a source.
    fn refuse(&mut self, peers: &dyn Peers, number: u16, message: &Message, stage: Stage) {
        let (source, sequence) = (message.source, message.sequence);
        let from = Source(source);
        let Some(peer) = peers.peer(from.peer()) else {
            return;
        };
        if !self.refusals.refuse(source, number, sequence, stage) {
            return peer.end();
        }
        let body = Body::NoSpace { sequence };
        peer.reply(&answer(number, from, message.cookie, body));
    }

    /// Says that a message was dropped.
    fn answer_drop(&self, peers: &dyn Peers, number: u16, message: &Message, errno: u32) {
        let source = Source(message.source);
        if let Some(peer) = peers.peer(source.peer()) {
            peer.reply(&answer(number, source, message.cookie, dropped(errno)));
        }
    }

    /// Ends a request that was carried out, and goes on.
    pub(super) fn done(&mut self, peers: &dyn Peers, job: Job, order: Order) {
        let number = job.request.endpoint;
        let resume = self.dispatch.done(job, order);
        self.tell(peers, resume, number);
        self.run(peers);
    }

    /// Does the next step of a command.
    pub(super) fn go_on(&mut self, peers: &dyn Peers, number: u16) -> Option<Reply> {
        let (engine, endpoint) = self.engine_of(number)?;
        let reply = engine.go_on(endpoint);
        self.tell(peers, reply.resume, number);
        Some(reply)
    }

    /// Takes the next entry of an interface whose lists are handed over; `None`: they are not, any more. With the end
    /// messages go on.
    pub(super) fn give(&mut self, peers: &dyn Peers, number: u16) -> Option<Given> {
        let (engine, endpoint) = self.engine_of(number)?;
        let given = engine.give(endpoint)?;
        if let Given::End(order, resume) = given {
            self.dispatch.apply(number, order);
            self.tell(peers, resume, number);
            self.run(peers);
        }
        Some(given)
    }

    /// Goes on with an interface that had more to carry out than there can be.
    pub(super) fn undefer(&mut self, peers: &dyn Peers, number: u16) {
        self.dispatch.resume(number);
        self.run(peers);
    }

    /// Says RESUME to the sources that an interface had no memory for.
    pub(super) fn resume(&mut self, peers: &dyn Peers, number: u16) {
        self.tell(peers, Resume::Endpoint, number);
    }

    /// Says RESUME to sources.
    fn tell(&mut self, peers: &dyn Peers, resume: Resume, number: u16) {
        let only = match resume {
            Resume::None => return,
            Resume::Endpoint => Some(number),
            Resume::All => None,
        };
        let mut from = 0;
        while let Some((source, endpoint, next)) = self.refusals.resume(only, from) {
            from = next;
            let source = Source(source);
            let envelope = answer(endpoint, source, 0, Body::Resume);
            if let Some(peer) = peers.peer(source.peer()) {
                peer.reply(&envelope);
            }
        }
    }

    /// Forgets what was refused to a host, whose session is over.
    pub(super) fn forget(&mut self, peer: &Peer) {
        self.refusals
            .forget(|source, _| Source(source).peer() == peer.number);
    }

    /// Executes what can be: one request at most of each interface that matches.
    fn run(&mut self, peers: &dyn Peers) {
        while let Some(job) = self.dispatch.next(ALL) {
            let number = job.request.endpoint;
            let Some(place) = self
                .places
                .get_mut(usize::from(number))
                .and_then(Option::as_mut)
            else {
                self.dispatch.done(job, Order::DONE);
                continue;
            };
            let Some(interface) = place.interface.clone() else {
                if let Work::Message(message) = job.request.work {
                    self.answer_drop(peers, number, &message, bindings::ENXIO);
                }
                self.dispatch.done(job, Order::DONE);
                continue;
            };
            if let Work::Message(message) = &job.request.work {
                let (source, sequence) = (message.source, message.sequence);
                if !self.refusals.admit(source, number, sequence, Stage::Engine) {
                    interface.release(message.payload);
                    let resume = self.dispatch.done(job, Order::DONE);
                    self.tell(peers, resume, number);
                    continue;
                }
            }
            let Some(Some(part)) = self.parts.get_mut(usize::from(job.engine)) else {
                self.dispatch.done(job, Order::DONE);
                continue;
            };
            if job.hit.is_some() && !interface.has_place() {
                // Until its thread has taken some.
                self.dispatch.defer(job);
                continue;
            }
            let reply = match job.hit {
                Some(outcome) => Reply {
                    outcome,
                    more: false,
                    freed: None,
                    order: Order::DONE,
                    resume: Resume::None,
                },
                None => {
                    let now = match job.request.work {
                        Work::Command(_) => now_ns(),
                        // Nothing that a message does depends on it.
                        Work::Message(_) => 0,
                    };
                    part.engine
                        .execute(&mut place.endpoint, &job.request.work, now)
                }
            };
            self.tell(peers, reply.resume, number);
            let message = match job.request.work {
                Work::Message(message) => message,
                Work::Command(_) => {
                    interface.carry(Carry { job, reply });
                    continue;
                }
            };
            match reply.outcome {
                Outcome::Held => {
                    // It comes again, with what it has brought.
                    let resume = self.dispatch.done(job, reply.order);
                    self.tell(peers, resume, number);
                    continue;
                }
                Outcome::NoSpace => self.refuse(peers, number, &message, Stage::Engine),
                Outcome::Drop(reason) => {
                    self.answer_drop(peers, number, &message, errno_of(reason));
                }
                _ => {
                    interface.carry(Carry { job, reply });
                    continue;
                }
            }
            interface.release(message.payload);
            let resume = self.dispatch.done(job, reply.order);
            self.tell(peers, resume, number);
        }
    }
}

/// Makes what interface `number` says to a source, about the message that it knows by a cookie.
pub(super) fn answer(number: u16, source: Source, cookie: u64, body: Body) -> Envelope {
    Envelope {
        to: source.address(),
        from: Address {
            endpoint: number,
            generation: 0,
        },
        cookie,
        body,
    }
}

/// Says that a message is over without having been stored.
const fn dropped(errno: u32) -> Body {
    Body::Done {
        status: errno as u8,
        length: 0,
    }
}

/// Returns the error that a program gets for a reason.
pub(super) const fn errno_of(reason: Reason) -> u32 {
    match reason {
        Reason::Disabled => bindings::ESHUTDOWN,
        Reason::NoBuffer => bindings::ENOENT,
        Reason::Denied => bindings::EPERM,
        Reason::Invalid => bindings::EINVAL,
        Reason::NoEntry => bindings::ENOSPC,
        Reason::Software | Reason::State => bindings::EBUSY,
    }
}

/// Returns the time, as the engine has it.
fn now_ns() -> u64 {
    clock::now_ms() * 1_000_000
}

fn seed() -> [u64; 2] {
    [random::nonzero64(), random::nonzero64()]
}
