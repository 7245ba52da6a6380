// SPDX-License-Identifier: GPL-2.0

//! What a port has while it has matching interfaces: the lists, the hosts, and what listens for them.

use super::{
    lists::{Cleared, Lists, Member, Needs, Peers, Source},
    peer::{is_for_envelopes, waiters, Above, Connected, Payload, Peer, SERVICE, TIMEOUT_MS},
    to::To,
    EAGER, PEERS,
};
use crate::{
    proto::{
        envelope::{Address, Body, Envelope},
        matching::{
            atomic::Change,
            request::{Message, Op},
            ENDPOINTS,
        },
    },
    sys::{
        client::{Channel, Listener, Port},
        errno::{ECONNABORTED, EHOSTUNREACH, EPROTO},
        ext::weft_destination,
        waitq::{Callback, Deadline, WaitQueue, Woken},
        work,
    },
};
use kernel::{
    bindings, impl_has_delayed_work, new_delayed_work, new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex, SetOnce,
    },
    workqueue::{DelayedWork, WorkItem},
};

/// No interface.
const NOWHERE: Address = Address {
    endpoint: 0,
    generation: 0,
};
/// Connections that wait to be accepted.
const BACKLOG: u32 = 64;
/// Hosts whose messages a task takes that looks for them; interrupts tell of those of others.
const POLLED: u32 = 16;

/// What exists while there are interfaces.
struct Life {
    matcher: Option<Arc<Matcher>>,
    interfaces: usize,
    /// The port is gone.
    over: bool,
}

/// The matching interfaces of a port.
#[pin_data]
pub(crate) struct Matching {
    /// Set when the port has started.
    port: SetOnce<Arc<dyn Port>>,
    #[pin]
    life: Mutex<Life>,
}

impl Matching {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let life = Life {
            matcher: None,
            interfaces: 0,
            over: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                port: SetOnce::new(),
                life <- new_mutex!(life, "weft matching life"),
            }),
            GFP_KERNEL,
        )
    }

    /// Lets interfaces be opened: `port` is there.
    pub(crate) fn serve(&self, port: Arc<dyn Port>) {
        self.port.populate(port);
    }

    /// Closes all connections: the port is about to go. Interfaces stay, and can send nothing. Sleeps.
    pub(crate) fn close(&self) {
        let mut life = self.life.lock();
        life.over = true;
        if let Some(matcher) = &life.matcher {
            matcher.stop();
        }
    }

    /// Counts one more interface, and returns what it is to be one of. `ENODEV`: the port is gone.
    pub(super) fn enter(&self) -> Result<Arc<Matcher>> {
        let mut life = self.life.lock();
        let port = self.port.as_ref().filter(|_| !life.over).ok_or(ENODEV)?;
        let matcher = match &life.matcher {
            Some(matcher) => matcher.clone(),
            None => Matcher::start(port.clone())?,
        };
        life.matcher = Some(matcher.clone());
        life.interfaces += 1;
        Ok(matcher)
    }

    /// Counts one interface less. With the last one all ends.
    pub(super) fn leave(&self) {
        let mut life = self.life.lock();
        life.interfaces -= 1;
        if life.interfaces == 0 {
            if let Some(matcher) = life.matcher.take() {
                matcher.stop();
            }
        }
    }
}

/// Has the work item that accepts run.
struct Hurry(Arc<Matcher>);

impl Woken for Hurry {
    fn woken(&self, _events: u32) {
        work::run_unbound_in(&self.0, 0);
    }
}

/// What listens. The callback goes first.
struct Listening {
    _callback: Callback<Hurry>,
    listener: KBox<dyn Listener>,
}

/// The lists and the hosts.
#[pin_data]
pub(super) struct Matcher {
    port: Arc<dyn Port>,
    #[pin]
    lists: Mutex<Lists>,
    #[pin]
    peers: Mutex<KVVec<Arc<Peer>>>,
    #[pin]
    listening: Mutex<Option<Listening>>,
    stopped: Atomic<bool>,
    #[pin]
    accepting: DelayedWork<Self>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Matcher { self.accepting }
}

impl WorkItem for Matcher {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.accept();
    }
}

impl Matcher {
    fn start(port: Arc<dyn Port>) -> Result<Arc<Self>> {
        let lists = Lists::new()?;
        let matcher = Arc::pin_init(
            pin_init!(Self {
                port,
                lists <- new_mutex!(lists, "weft matching lists"),
                peers <- new_mutex!(KVVec::new(), "weft matching peers"),
                listening <- new_mutex!(None, "weft matching listening"),
                stopped: Atomic::new(false),
                accepting <- new_delayed_work!("weft matching accept"),
            }),
            GFP_KERNEL,
        )?;
        let waiters = waiters()?;
        let callback = Callback::new(&waiters, Hurry(matcher.clone()))?;
        let listener = matcher.port.listen(SERVICE, BACKLOG, waiters)?;
        *matcher.listening.lock() = Some(Listening {
            _callback: callback,
            listener,
        });
        // What has come already has called nothing that finds it.
        work::run_unbound_in(&matcher, 0);
        Ok(matcher)
    }

    /// Closes all connections, for good. Sleeps.
    fn stop(self: &Arc<Self>) {
        self.stopped.store(true, Relaxed);
        let listening = self.listening.lock().take();
        drop(listening);
        work::cancel_delayed(self);
        // All at once, so that a host that does not end its session delays no other.
        let deadline = Deadline::new(TIMEOUT_MS);
        self.each(|peer| peer.finish());
        self.each(|peer| peer.close(&deadline));
        // They have references to this.
        let peers = core::mem::replace(&mut *self.peers.lock(), KVVec::new());
        drop(peers);
    }

    /// Calls `f` with each host, without a lock.
    fn each(&self, f: impl Fn(&Arc<Peer>)) {
        let mut n = 0;
        while let Some(peer) = self.peer(n) {
            f(&peer);
            n += 1;
        }
    }

    /// Accepts the connections that wait.
    fn accept(self: &Arc<Self>) {
        let listening = self.listening.lock();
        let Some(Listening { listener, .. }) = &*listening else {
            return;
        };
        loop {
            let made =
                waiters().and_then(|waiters| Ok((listener.accept(waiters.clone())?, waiters)));
            match made {
                // What is no channel for envelopes, or of no host, is closed.
                Ok((channel, waiters)) => {
                    let _ = self.admit(channel, &waiters);
                }
                Err(e) if e == ECONNABORTED => {}
                Err(_) => return,
            }
        }
    }

    fn admit(self: &Arc<Self>, channel: KBox<dyn Channel>, waiters: &Arc<WaitQueue>) -> Result {
        let attr = channel.attr();
        if !is_for_envelopes(&attr) {
            return Err(EPROTO.into());
        }
        let peer = self.peer_of(attr.peer)?;
        peer.accept(Connected::attach(&peer, waiters, channel)?)
    }

    /// Calls `f` with the hosts that tasks look at.
    pub(super) fn polled(&self, mut f: impl FnMut(&Arc<Peer>)) {
        for n in 0..POLLED {
            let Some(peer) = self.peer(n) else {
                return;
            };
            f(&peer);
        }
    }

    pub(super) fn hwid(&self) -> u64 {
        self.port.attr().hwid
    }

    fn known(&self, hwid: u64) -> Option<Arc<Peer>> {
        let peers = self.peers.lock();
        peers.iter().find(|peer| peer.hwid == hwid).cloned()
    }

    /// Returns a host. `ENOSPC`: there are as many as there can be.
    fn peer_of(self: &Arc<Self>, hwid: u64) -> Result<Arc<Peer>> {
        if let Some(peer) = self.known(hwid) {
            return Ok(peer);
        }
        let mut peers = self.peers.lock();
        // Another task may have been faster.
        if let Some(peer) = peers.iter().find(|peer| peer.hwid == hwid) {
            return Ok(peer.clone());
        }
        if peers.len() >= PEERS || self.stopped.load(Relaxed) {
            return Err(ENOSPC);
        }
        let peer = Peer::new(self.clone(), hwid, peers.len() as u32)?;
        peers.push(peer.clone(), GFP_KERNEL)?;
        Ok(peer)
    }

    /// Returns a host that a program has named. `EHOSTUNREACH`: no such host is known. So programs cannot use up
    /// the numbers of hosts.
    pub(super) fn named(self: &Arc<Self>, hwid: u64) -> Result<Arc<Peer>> {
        if let Some(peer) = self.known(hwid) {
            return Ok(peer);
        }
        if hwid == 0 {
            return Err(EHOSTUNREACH.into());
        }
        if hwid != self.hwid() {
            let mut hosts = KVVec::from_elem(0, PEERS, GFP_KERNEL)?;
            let found = self.port.hosts(&mut hosts);
            if !hosts.iter().take(found).any(|other| *other == hwid) {
                return Err(EHOSTUNREACH.into());
            }
        }
        self.peer_of(hwid)
    }

    /// Calls `f` with the lists.
    pub(super) fn with_lists<R>(&self, f: impl FnOnce(&mut Lists, &Self) -> R) -> R {
        f(&mut self.lists.lock(), self)
    }

    pub(super) fn reserve(&self, needs: &Needs) -> Result<u16> {
        self.lists.lock().reserve(needs)
    }

    /// Frees a number and the entries that go with it.
    pub(super) fn clear(&self, number: u16) {
        while let Cleared::Some(peer) = self.with_lists(|lists, this| lists.clear(this, number)) {
            if let Some(peer) = peer {
                peer.wait_for_room();
            }
        }
    }

    /// Tells all hosts that an interface is closed.
    pub(super) fn say_gone(&self, interface: Address) {
        self.each(|peer| {
            if peer.has_session() {
                peer.reply(&Envelope {
                    to: NOWHERE,
                    from: interface,
                    cookie: 0,
                    body: Body::Gone,
                });
            }
        });
    }

    /// Ends what interfaces have begun with one that is closed. One after the other: this takes as long as there are
    /// many.
    fn gone(&self, peer: &Arc<Peer>, interface: Address) {
        let is_closed = |to: &To| Arc::ptr_eq(&to.peer, peer) && to.address == interface;
        for number in 0..ENDPOINTS {
            let found = self.lists.lock().at(number);
            if let Some(other) = found {
                other.lost(&is_closed);
            }
        }
    }

    /// Takes a message for an interface.
    fn arrive(
        &self,
        peer: &Arc<Peer>,
        to: &dyn Member,
        what: &Envelope,
        payload: &Payload<'_>,
    ) -> Result {
        let source = Source::new(peer.number, what.from.endpoint).ok_or(EPROTO)?;
        let bytes = payload.bytes as u64;
        let (op, said, change) = match what.body {
            // All of it comes at once, or nothing.
            Body::Eager(said) => (Op::Put, said, None),
            Body::Put(said) if bytes == said.length || bytes == 0 => (Op::Put, said, None),
            Body::Get(said) if bytes == 0 => (Op::Get, said, None),
            Body::Atomic(said, how) => {
                let change = Change::of(how.operation, how.integer).ok_or(EPROTO)?;
                if change.operands(said.length) != Some(bytes) {
                    return Err(EPROTO.into());
                }
                let op = if how.fetches { Op::Fetch } else { Op::Atomic };
                (op, said, Some(change))
            }
            _ => return Err(EPROTO.into()),
        };
        if payload.bytes > EAGER {
            return Err(EPROTO.into());
        }
        // What integers were takes the place of the operands, of which there may be less.
        let room = match change {
            Some(_) => payload.bytes.max(usize::try_from(said.length)?),
            None => payload.bytes,
        };
        let stored = to.store(payload, room, change)?;
        let message = Message {
            op,
            source: source.0,
            bits: said.bits,
            length: said.length,
            eager: payload.bytes as u32,
            offset: said.offset,
            data: said.data,
            cookie: what.cookie,
            sequence: said.sequence,
            payload: stored.unwrap_or(u64::MAX),
        };
        let first = said.first;
        let has_memory = stored.is_some() || payload.bytes == 0 && change.is_none();
        let lacks = (!has_memory).then_some(room);
        let queued = self.with_lists(|lists, this| lists.message(this, to, message, first, lacks));
        if !queued {
            to.release(message.payload);
        }
        Ok(())
    }
}

impl Peers for Matcher {
    fn peer(&self, number: u32) -> Option<Arc<Peer>> {
        self.peers.lock().get(number as usize).cloned()
    }
}

impl Above for Matcher {
    fn connect(
        &self,
        to: &weft_destination,
        waiters: &Arc<WaitQueue>,
    ) -> Result<KBox<dyn Channel>> {
        self.port.connect(to, waiters.clone())
    }

    fn hear(&self, peer: &Arc<Peer>, what: &Envelope, payload: &Payload<'_>) -> Result {
        if what.body == Body::Gone {
            self.gone(peer, what.from);
            return Ok(());
        }
        let interface = self.lists.lock().find(&what.to);
        let unknown = || peer.reply(&what.unknown(bindings::ENXIO as u8));
        match (interface, what.body) {
            (found, Body::Eager(_) | Body::Put(_) | Body::Get(_) | Body::Atomic(..)) => {
                match found.filter(|_| what.to.generation != 0) {
                    Some(interface) => self.arrive(peer, &*interface, what, payload)?,
                    None => unknown(),
                }
            }
            (Some(interface), _) => interface.hear(peer, what, payload)?,
            (None, Body::Granted { grant: 0, .. }) => {}
            (None, Body::Pull { .. } | Body::Granted { .. }) => unknown(),
            (None, _) => {}
        }
        Ok(())
    }

    fn lost(&self, peer: &Peer) {
        let mut lists = self.lists.lock();
        lists.forget(peer);
        lists.ring_all();
    }

    fn ring_all(&self) {
        self.lists.lock().ring_all();
    }
}
