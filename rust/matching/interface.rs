// SPDX-License-Identifier: GPL-2.0

//! A matching interface: what a file has, and how it is opened and closed.

use super::{
    bell::{Bell, Call},
    carry::Carry,
    held::{Direct, Stored},
    lists::{Member, Needs},
    matcher::{Matcher, Matching},
    peer::{Payload, Peer, TAKEN},
    rings::{Counts, Ring, Rings, Shape},
    state::{Arrival, State},
    to::{Asked, To},
    CHUNK, CHUNKS, EAGER,
};
use crate::{
    proto::{
        envelope::{Address, Body, Envelope},
        matching::{atomic::Change, ENDPOINTS, ENGINES, ENTRIES},
        slot::Event,
    },
    share::{Charge, Payer, Table},
    sys::{
        client::Short, errno::EPROTO, ext::weft_match_open, file::events, mm::Mm, random,
        thread::Thread, vma::NewVma, waitq::WaitQueue,
    },
};
use kernel::{
    bindings, new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

/// What an interface is to be.
pub(crate) struct Wanted {
    pub(crate) matching: bool,
    /// Its program takes its lists over when entries run out.
    pub(crate) hands_over: bool,
    pub(crate) entries: u32,
    pub(crate) class: u8,
    pub(crate) shape: Shape,
}

/// What only the one has that does the interface's work: the thread, or a task of the process.
pub(super) struct Worker {
    pub(super) counts: Counts,
    /// Memory for what is copied from one place of the process to another, or sent.
    pub(super) bounce: KVVec<u8>,
    /// What is being carried out.
    pub(super) now: Option<Carry>,
    /// The command that is being executed: its context, and whether success posts no event.
    pub(super) command: Option<(u64, bool)>,
    /// The flow whose turn it is.
    pub(super) flow: usize,
    /// The number of the host whose channel has had no room for bytes, in this round.
    pub(super) full: Option<u32>,
    /// A message of this interface was not sent, in this round.
    pub(super) blocked: bool,
    /// A command found no place, and is tried again soon.
    pub(super) starved: bool,
    /// The work is done in a task of the process,
    pub(super) called: bool,
    /// which has left some to the thread, as it may have to wait for pages.
    pub(super) left: bool,
    /// When an operation is begun again, in milliseconds.
    pub(super) later: Option<u64>,
    /// The lists are being handed over.
    pub(super) giving: bool,
    /// The program had messages whose initiators wait.
    pub(super) handed: bool,
    /// What is stored, and its source is to be told.
    pub(super) stored: Option<Stored>,
    /// What is matched, and is to be stored before anything else.
    pub(super) direct: Direct,
    /// The number and the hardware id of the host that was looked for last.
    pub(super) host: (u32, u64),
    /// The program is to be told of events.
    pub(super) posted: bool,
    /// Memory for messages that are sent at once.
    pub(super) shorts: KVVec<Short>,
}

/// A matching interface.
#[pin_data]
pub(super) struct Interface {
    pub(super) address: Address,
    pub(super) class: u8,
    pub(super) matcher: Arc<Matcher>,
    pub(super) mm: Mm,
    pub(super) rings: Rings,
    /// The waiters of the file.
    waiters: Arc<WaitQueue>,
    #[pin]
    pub(super) bell: Bell,
    #[pin]
    pub(super) state: Mutex<State>,
    #[pin]
    pub(super) worker: Mutex<Worker>,
    _charges: [Charge; 2],
}

impl Worker {
    /// Returns whether something is left to the thread, because of this error: a page is not there.
    pub(super) fn leaves(&mut self, error: Error) -> bool {
        let leaves = self.called && error == EAGAIN;
        self.left |= leaves;
        leaves
    }

    /// Returns whether the next round has something to do, whatever has happened since the last one: what was tried in
    /// vain, or what was posted and not told.
    pub(super) fn waits(&self) -> bool {
        let lists = self.now.is_some() || self.command.is_some() || !self.direct.is_empty();
        let hosts = self.full.is_some() || self.blocked || self.later.is_some();
        lists || hosts || self.giving || self.starved || self.posted
    }

    /// Notes that there was no room for bytes to a host.
    pub(super) fn find_full(&mut self, to: &To) {
        self.full = Some(to.peer.number);
    }

    /// Returns whether there was no room for bytes to this host in this round: what would be sent need not be read.
    pub(super) fn found_full(&self, to: &To) -> bool {
        self.full == Some(to.peer.number)
    }
}

impl Interface {
    /// Posts an event, for which there is room. The program is told at once, or, of what a call does without waiting for
    /// pages, when some is done.
    pub(super) fn post(&self, worker: &mut Worker, event: &Event) {
        self.rings.post(&mut worker.counts, event);
        worker.posted = true;
        if !worker.called {
            self.tell(worker);
        }
    }

    /// Counts what was received, or is over: the program is told as of events.
    pub(super) fn count(&self, worker: &mut Worker, sent: bool, failed: bool) {
        worker.counts.count(sent, failed);
        worker.posted = true;
    }

    /// Tells the program of events.
    pub(super) fn tell(&self, worker: &mut Worker) {
        if core::mem::take(&mut worker.posted) {
            self.rings.show(&worker.counts);
            self.waiters.wake_for(events::IN);
        }
    }

    /// Tells all that wait for the interface, whose thread has ended and that is found no more, that it is closed.
    pub(super) fn close(&self) {
        let mut worker = self.worker.lock();
        self.drop_now(&mut worker);
        let handed = worker.handed;
        drop(worker);
        // Which messages the program had, it alone knows.
        if handed {
            self.matcher.say_gone(self.address);
        }
        let status = bindings::ENXIO as u8;
        let mut state = self.state.lock();
        let say = |to: &To, cookie, body| to.reply(self.address, cookie, body);
        let done = Body::Done { status, length: 0 };
        while let Some(pull) = state.pulls.take_any() {
            // What is granted later finds no interface, and is answered then.
            if pull.granted && pull.cookie != 0 {
                say(&pull.from, pull.cookie, done);
            }
        }
        while let Some(grant) = state.grants.take_any() {
            // One that is told of asks, and hears that there is no interface.
            if !grant.told {
                say(&grant.to, grant.cookie, done);
            }
            for Asked { chunk, .. } in grant.asked.into_iter().flatten() {
                say(&grant.to, 0, Body::Data { chunk, status });
            }
        }
        while let Some(n) = state.operations.next(0) {
            let asks = state
                .asks
                .get_mut(n)
                .map(|asks| core::mem::replace(asks, [None; CHUNKS]));
            let to = state.operations.take(n).and_then(|operation| operation.to);
            let Some((to, asks)) = to.zip(asks) else {
                continue;
            };
            for Asked { chunk, .. } in asks.into_iter().flatten() {
                say(&to, 0, Body::Data { chunk, status });
            }
        }
        // They have references to hosts.
        state.flows.clear();
    }
}

impl Member for Interface {
    fn address(&self) -> Address {
        self.address
    }

    fn class(&self) -> u8 {
        self.class
    }

    fn ring(&self) {
        self.bell.ring();
    }

    fn carry(&self, carry: Carry) {
        self.state.lock().carry(carry);
        self.ring();
    }

    fn next_carry(&self) -> Option<Carry> {
        self.state.lock().next_carry()
    }

    fn has_place(&self) -> bool {
        self.state.lock().has_place()
    }

    fn release(&self, payload: u64) {
        let mut state = self.state.lock();
        if let Some(arrival) = state.take_arrival(payload) {
            state.put_spare(arrival.buffer);
        }
        let refused = state.has_refused();
        drop(state);
        if refused {
            self.ring();
        }
    }

    fn refused(&self, bytes: usize) {
        self.state.lock().refuse(bytes);
        self.ring();
    }

    fn store(
        &self,
        payload: &Payload<'_>,
        room: usize,
        change: Option<Change>,
    ) -> Result<Option<u64>> {
        let bytes = payload.bytes;
        if bytes == 0 && change.is_none() {
            return Ok(None);
        }
        let Some(mut buffer) = self.state.lock().take_spare(room) else {
            return Ok(None);
        };
        let read = payload.read(buffer.get_mut(..bytes).ok_or(EPROTO)?);
        let mut state = self.state.lock();
        if read.is_err() {
            state.put_spare(buffer);
            return read.map(|()| None);
        }
        Ok(state.keep(Arrival {
            buffer,
            bytes,
            change,
        }))
    }

    fn lost(&self, to: &dyn Fn(&To) -> bool) {
        let ended = self.state.lock().end_of(to);
        if ended {
            self.ring();
        }
    }

    fn hear(&self, peer: &Arc<Peer>, what: &Envelope, payload: &Payload<'_>) -> Result {
        self.heed(peer, what, payload)
    }
}

/// An interface, and its thread, until this is dropped.
pub(crate) struct Open {
    /// `None` while it is dropped.
    thread: Option<Thread<Interface>>,
    interface: Arc<Interface>,
    _entered: Entered,
}

impl Open {
    /// Opens an interface for the current process.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: the port has as many interfaces or entries as there can be; `EDQUOT`: `payer` has its share; `EINVAL`:
    /// `wanted` makes no sense; `ENODEV`: the port is gone; `ENOMEM`. Sleeps.
    pub(crate) fn new(
        matching: &Arc<Matching>,
        payer: &Payer,
        wanted: &Wanted,
        waiters: Arc<WaitQueue>,
    ) -> Result<Self> {
        wanted.shape.check()?;
        let charges = [
            payer.take(Table::Interfaces, ENDPOINTS.into(), 1)?,
            payer.take(Table::Entries, ENTRIES * ENGINES as u32, wanted.entries)?,
        ];
        let mm = Mm::current()?;
        let (rings, state) = (Rings::new(wanted.shape)?, State::new()?);
        let worker = Worker {
            counts: Counts::ZERO,
            bounce: KVVec::from_elem(0, CHUNK, GFP_KERNEL_ACCOUNT)?,
            now: None,
            command: None,
            flow: 0,
            full: None,
            blocked: false,
            starved: false,
            called: false,
            left: false,
            later: None,
            giving: false,
            handed: false,
            stored: None,
            direct: Direct::new()?,
            host: (u32::MAX, 0),
            posted: false,
            shorts: KVVec::from_elem(Short::EMPTY, TAKEN, GFP_KERNEL_ACCOUNT)?,
        };
        let entered = Entered::new(matching)?;
        let needs = Needs {
            matching: wanted.matching,
            hands_over: wanted.hands_over,
            entries: wanted.entries,
        };
        let endpoint = entered.1.reserve(&needs)?;
        let matcher = entered.1.clone();
        let reserved = Reserved(&matcher, endpoint);
        let own = matcher.clone();
        let interface = Arc::pin_init(
            pin_init!(Interface {
                address: Address {
                    endpoint,
                    generation: random::nonzero32(),
                },
                class: wanted.class,
                matcher: own,
                mm,
                rings,
                waiters,
                bell <- Bell::new(),
                state <- new_mutex!(state, "weft matching state"),
                worker <- new_mutex!(worker, "weft matching worker"),
                _charges: charges,
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let thread = Thread::start(c"weft/match", interface.clone())?;
        let member: Arc<dyn Member> = interface.clone();
        matcher.with_lists(|lists, _| lists.open(&member));
        core::mem::forget(reserved);
        Ok(Self {
            thread: Some(thread),
            interface,
            _entered: entered,
        })
    }

    /// Describes the interface.
    pub(crate) fn describe(&self, to: &mut weft_match_open) {
        let (interface, shape) = (&*self.interface, self.interface.rings.shape);
        to.endpoint = interface.address.endpoint.into();
        to.generation = interface.address.generation;
        to.hwid = interface.matcher.hwid();
        to.target_at = shape.commands_at(Ring::Target) as u64;
        to.initiator_at = shape.commands_at(Ring::Initiator) as u64;
        to.events_at = shape.events_at() as u64;
        to.bytes = shape.bytes() as u64;
    }

    pub(crate) fn mmap(&self, vma: &NewVma<'_>) -> Result {
        self.interface.rings.map(vma)
    }

    /// Looks at the rings, or has the thread do so.
    pub(crate) fn kick(&self, call: Call) {
        self.interface.called(call);
    }

    /// Returns whether there are events.
    pub(crate) fn is_ready(&self) -> bool {
        self.interface.rings.has_events()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.thread.take());
        let interface = &self.interface;
        let matcher = &interface.matcher;
        matcher.with_lists(|lists, peers| lists.close(peers, &**interface));
        interface.close();
        matcher.clear(interface.address.endpoint);
    }
}

/// One interface is counted until this is dropped.
struct Entered(Arc<Matching>, Arc<Matcher>);

impl Entered {
    fn new(matching: &Arc<Matching>) -> Result<Self> {
        let matcher = matching.enter()?;
        Ok(Self(matching.clone(), matcher))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A number is reserved until this is dropped.
struct Reserved<'a>(&'a Matcher, u16);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.clear(self.1);
    }
}

const _: () = assert!(CHUNK >= EAGER && CHUNKS <= 1 << 16);
