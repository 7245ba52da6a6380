// SPDX-License-Identifier: GPL-2.0

//! The connections of a port's links: what the peers' kernels say to each other about channels.
//!
//! Messages get lost and come twice. Who waits for an answer repeats its request; who gets a request
//! again answers again. An area is in use until the peer has said that nobody there writes into it,
//! or until the arena was withdrawn from it.

use super::{
    channel::{Making, Remote},
    Channel, Listener, State,
};
use crate::{
    fabric::{Client, Reason, Session, Usage},
    hw::{Port, MAX_LINKS},
    proto::{
        cell::Shape,
        link::Peer,
        pages::{Pages, Run},
        wire::{self, Body, End},
    },
    sys::{
        clock,
        errno::{ENOTCONN, EPROTO},
        ext,
        irqlock::{new_spinlock_irq, SpinLockIrq},
        vma::Mapping,
    },
};
use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    pci,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// Requests are repeated after this many milliseconds, then after twice as long, and so on.
const REPEAT_MIN_MS: u64 = 200;
const REPEAT_MAX_MS: u64 = 1000;
/// How many connections that were closed are remembered, lest a late copy of their request is taken
/// for another one.
const REMEMBERED: usize = 32;

/// How far a connection is.
pub(super) enum Phase {
    /// Asked for here; the peer has not answered.
    Connecting,
    /// Asked for there; nobody has accepted.
    Waiting(Arc<Listener>),
    Open,
    /// Closed here for one of `wire::CLOSE_*`; the peer has not said yet that it knows.
    Closing(u32),
}

pub(super) struct Conn {
    pub(super) channel: Arc<Channel>,
    pub(super) phase: Phase,
    sent: u64,
    interval: u64,
}

impl Conn {
    pub(super) fn new(channel: Arc<Channel>, phase: Phase) -> Self {
        Self {
            channel,
            phase,
            sent: clock::now_ms(),
            interval: REPEAT_MIN_MS,
        }
    }

    /// What this end says of itself.
    fn end(&self) -> End {
        End {
            conn: self.channel.made.id,
            shape: self.channel.made.shape,
            area_offset: self.channel.area_at() as u64,
        }
    }

    /// The peer's id, 0 if it has not told.
    fn peer_conn(&self) -> u32 {
        self.channel.remote.as_ref().map_or(0, |remote| remote.conn)
    }

    /// What is said, again and again, until the peer answers.
    pub(super) fn request(&self) -> Option<Body> {
        match &self.phase {
            Phase::Connecting => Some(Body::Connect {
                end: self.end(),
                service: self.channel.made.service,
            }),
            Phase::Closing(reason) => Some(Body::Close {
                conn: self.channel.made.id,
                peer_conn: self.peer_conn(),
                reason: *reason,
            }),
            Phase::Waiting(_) | Phase::Open => None,
        }
    }

    pub(super) fn acceptance(&self) -> Body {
        Body::Accept {
            end: self.end(),
            peer_conn: self.peer_conn(),
        }
    }

    pub(super) fn close(&mut self, reason: u32) {
        self.phase = Phase::Closing(reason);
        self.sent = clock::now_ms();
        self.interval = REPEAT_MIN_MS;
    }
}

/// The connections of a link.
pub(super) struct Conns {
    pub(super) table: KVec<Conn>,
    /// Of a link that broke, until the arena is withdrawn.
    wreck: KVec<Conn>,
    pub(super) pages: Pages,
    /// The peer's ids of connections that it has closed.
    closed: [u32; REMEMBERED],
    oldest: usize,
    /// Page of the peer's doorbell, and its number.
    kick: (Option<u64>, u32),
    opened: u64,
    broken: u64,
}

impl Conns {
    fn new() -> Self {
        Self {
            table: KVec::new(),
            wreck: KVec::new(),
            pages: Pages::new(0),
            closed: [0; REMEMBERED],
            oldest: 0,
            kick: (None, 0),
            opened: 0,
            broken: 0,
        }
    }

    pub(super) fn find(&self, channel: &Channel) -> Option<usize> {
        self.table
            .iter()
            .position(|conn| core::ptr::eq(&*conn.channel, channel))
    }

    /// By this end's id.
    fn find_own(&self, id: u32) -> Option<usize> {
        self.table
            .iter()
            .position(|conn| conn.channel.made.id == id)
    }

    /// By the peer's id.
    fn find_peer(&self, id: u32) -> Option<usize> {
        self.table.iter().position(|conn| conn.peer_conn() == id)
    }

    /// Forgets connection number `at`; its area may be used again.
    pub(super) fn remove(&mut self, at: usize) -> Option<Conn> {
        let conn = self.table.remove(at).ok()?;
        self.give(conn.channel.made.run);
        Some(conn)
    }

    pub(super) fn give(&mut self, run: Run) {
        // Taken when the channel was made, and given back once.
        if !self.pages.give(run) {
            pr_warn!("pages {} of {} were free already\n", run.first, run.count);
        }
    }

    /// Nobody wants what is left of a channel of a link that broke.
    pub(super) fn forget_wreck(&mut self, channel: &Channel) {
        self.wreck
            .retain(|conn| !core::ptr::eq(&*conn.channel, channel));
    }

    fn remember(&mut self, peer_conn: u32) {
        if let Some(slot) = self.closed.get_mut(self.oldest % REMEMBERED) {
            *slot = peer_conn;
        }
        self.oldest = self.oldest.wrapping_add(1);
    }
}

/// What a link has of channels.
#[pin_data]
pub(super) struct PerLink {
    #[pin]
    pub(super) conns: Mutex<Conns>,
    /// Those that are open, for the interrupt.
    #[pin]
    awake: SpinLockIrq<KVec<Arc<Channel>>>,
}

impl PerLink {
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            conns <- new_mutex!(Conns::new(), "weft conns"),
            awake <- new_spinlock_irq!(KVec::new(), c"weft awake"),
        })
    }

    /// Has the interrupt wake what is open in `conns` and, soon, `channel`.
    fn listen_to(&self, conns: &Conns, channel: &Arc<Channel>) -> Result {
        let mut fresh = KVec::with_capacity(conns.table.len() + 1, GFP_KERNEL)?;
        let open = conns
            .table
            .iter()
            .filter(|conn| matches!(conn.phase, Phase::Open));
        for conn in open {
            fresh.push(conn.channel.clone(), GFP_KERNEL)?;
        }
        fresh.push(channel.clone(), GFP_KERNEL)?;
        self.replace_awake(fresh);
        Ok(())
    }

    fn replace_awake(&self, list: KVec<Arc<Channel>>) {
        let old = core::mem::replace(&mut *self.awake.lock(), list);
        // With the lock given back: these may be the last references.
        drop(old);
    }

    pub(super) fn ignore(&self, channel: &Channel) {
        let mut awake = self.awake.lock();
        let at = awake.iter().position(|c| core::ptr::eq(&**c, channel));
        let gone = at.and_then(|at| awake.remove(at).ok());
        drop(awake);
        drop(gone);
    }

    /// Connection number `at` is open from now on.
    pub(super) fn open(&self, conns: &mut Conns, at: usize) -> Result {
        let channel = conns.table.get(at).ok_or(ENOENT)?.channel.clone();
        self.listen_to(conns, &channel)?;
        if let Some(conn) = conns.table.get_mut(at) {
            conn.phase = Phase::Open;
        }
        conns.opened += 1;
        channel.open();
        channel.wake_all();
        Ok(())
    }
}

/// The channels of a port.
#[pin_data]
pub(crate) struct Channels {
    dev: ARef<pci::Device>,
    mapping: Mapping,
    #[pin]
    pub(super) links: [PerLink; MAX_LINKS],
    #[pin]
    pub(super) listeners: Mutex<KVec<Arc<Listener>>>,
    last_id: Atomic<u32>,
}

impl Channels {
    pub(crate) fn new(dev: &pci::Device) -> Result<Arc<Self>> {
        let mapping = Mapping::new()?;
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.into(),
                mapping,
                links <- pin_init::pin_init_array_from_fn(|_| PerLink::new()),
                listeners <- new_mutex!(KVec::new(), "weft listeners"),
                last_id: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// The address space of all mappings of channels.
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// An id that no connection of the link has.
    fn new_id(&self, conns: &Conns) -> u32 {
        loop {
            let id = self.last_id.fetch_add(1, Relaxed).wrapping_add(1);
            if id != 0 && conns.find_own(id).is_none() {
                return id;
            }
        }
    }

    /// Makes a channel with an area that holds nothing. `ENOSPC`: the arena has no room for it.
    pub(super) fn make(
        &self,
        session: &Session<'_>,
        conns: &mut Conns,
        service: u32,
        shape: Shape,
    ) -> Result<Arc<Channel>> {
        let link = session.link();
        let peer = session.peer().ok_or(ENOTCONN)?.id;
        let run = conns
            .pages
            .take(shape.area_bytes() / PAGE_SIZE)
            .ok_or(ENOSPC)?;
        let channel = session
            .port()
            .arena(link)
            .and_then(|arena| arena.zero(run.first * PAGE_SIZE, shape.area_bytes()))
            .and_then(|()| {
                Channel::new(Making {
                    dev: self.dev.clone(),
                    id: self.new_id(conns),
                    link,
                    service,
                    shape,
                    peer,
                    run,
                    kick: conns.kick,
                })
            });
        if channel.is_err() {
            conns.give(run);
        }
        channel
    }

    /// Adds a connection; on failure its channel's area is given back.
    pub(super) fn add(&self, conns: &mut Conns, conn: Conn) -> Result {
        let run = conn.channel.made.run;
        conns
            .table
            .push(conn, GFP_KERNEL)
            .inspect_err(|_| conns.give(run))?;
        Ok(())
    }

    fn listener(&self, service: u32) -> Option<Arc<Listener>> {
        self.listeners
            .lock()
            .iter()
            .find(|listener| listener.service() == service)
            .cloned()
    }

    pub(super) fn per_link(&self, link: usize) -> Result<&PerLink> {
        self.links.get(link).ok_or(EINVAL)
    }

    /// The peer asks for a channel.
    fn on_connect(&self, session: &mut Session<'_>, end: &End, service: u32) -> Result {
        let per_link = self.per_link(session.link())?;
        let mut conns = per_link.conns.lock();
        if let Some(conn) = conns.find_peer(end.conn).and_then(|at| conns.table.get(at)) {
            // Again: the answer was lost, or there is none yet.
            if matches!(conn.phase, Phase::Open) {
                session.send(conn.acceptance());
            }
            return Ok(());
        }
        let refusal = self.queue(session, &mut conns, end, service);
        if let Err(code) = refusal {
            session.send(Body::Reject {
                peer_conn: end.conn,
                code,
            });
        }
        Ok(())
    }

    /// Has the connection wait for somebody to accept it. Else: why it is rejected.
    fn queue(
        &self,
        session: &Session<'_>,
        conns: &mut Conns,
        end: &End,
        service: u32,
    ) -> Result<(), u32> {
        if conns.closed.contains(&end.conn) {
            return Err(wire::REJECT_CLOSED);
        }
        let offer = session.peer().ok_or(wire::REJECT_INVALID)?.offer;
        if !end.inside(offer.bytes) {
            return Err(wire::REJECT_INVALID);
        }
        let listener = self.listener(service).ok_or(wire::REJECT_REFUSED)?;
        let channel = self
            .make(session, conns, service, end.shape)
            .map_err(|_| wire::REJECT_NO_ROOM)?;
        channel.remote.populate(Remote {
            conn: end.conn,
            area_at: end.area_offset as usize,
        });
        let conn = Conn::new(channel.clone(), Phase::Waiting(listener.clone()));
        self.add(conns, conn).map_err(|_| wire::REJECT_NO_ROOM)?;
        if !listener.push(channel.clone()) {
            if let Some(at) = conns.find(&channel) {
                conns.remove(at);
            }
            return Err(wire::REJECT_REFUSED);
        }
        Ok(())
    }

    /// The peer has accepted what was asked for here.
    fn on_accept(&self, session: &mut Session<'_>, end: &End, peer_conn: u32) -> Result {
        let per_link = self.per_link(session.link())?;
        let mut conns = per_link.conns.lock();
        let Some(at) = conns.find_own(peer_conn) else {
            session.send(Body::Close {
                conn: peer_conn,
                peer_conn: end.conn,
                reason: wire::CLOSE_UNKNOWN,
            });
            return Ok(());
        };
        let conn = conns.table.get(at).ok_or(ENOENT)?;
        // Otherwise it is open already, or the peer is being told that it is not wanted any more.
        if !matches!(conn.phase, Phase::Connecting) {
            return Ok(());
        }
        let channel = conn.channel.clone();
        let offer = session.peer().ok_or(ENOTCONN)?.offer;
        let opened = if end.shape == channel.made.shape && end.inside(offer.bytes) {
            channel.remote.populate(Remote {
                conn: end.conn,
                area_at: end.area_offset as usize,
            });
            per_link.open(&mut conns, at)
        } else {
            Err(EPROTO.into())
        };
        if opened.is_err() {
            channel.refuse(wire::REJECT_INVALID);
            if let Some(conn) = conns.table.get_mut(at) {
                conn.close(wire::CLOSE_PROTOCOL);
                if let Some(body) = conn.request() {
                    session.send(body);
                }
            }
        }
        Ok(())
    }

    fn on_reject(&self, session: &Session<'_>, peer_conn: u32, code: u32) -> Result {
        let mut conns = self.per_link(session.link())?.conns.lock();
        let at = conns.find_own(peer_conn).ok_or(ENOENT)?;
        let conn = conns.table.get(at).ok_or(ENOENT)?;
        if matches!(conn.phase, Phase::Connecting) {
            conn.channel.refuse(code);
            // The peer was told of the area and has not taken it.
            conns.remove(at);
        }
        Ok(())
    }

    /// The peer has closed its end, and does not write here any more.
    fn on_close(&self, session: &mut Session<'_>, conn: u32, own: u32) -> Result {
        let per_link = self.per_link(session.link())?;
        let mut conns = per_link.conns.lock();
        let at = match own {
            0 => conns.find_peer(conn),
            own => conns.find_own(own),
        };
        if let Some(at) = at {
            let found = conns.table.get(at).ok_or(ENOENT)?;
            let channel = found.channel.clone();
            if found.peer_conn() != 0 && found.peer_conn() != conn {
                return Ok(());
            }
            match &found.phase {
                Phase::Open => {
                    channel.close_by_peer(&self.mapping);
                }
                Phase::Waiting(listener) => {
                    listener.remove(&channel);
                    channel.refuse(wire::REJECT_CLOSED);
                    conns.remove(at);
                }
                Phase::Connecting => {
                    channel.refuse(wire::REJECT_CLOSED);
                    conns.remove(at);
                }
                Phase::Closing(_) => {
                    conns.remove(at);
                }
            }
            conns.remember(conn);
        }
        session.send(Body::CloseAck { peer_conn: conn });
        Ok(())
    }

    fn on_close_ack(&self, session: &Session<'_>, own: u32) -> Result {
        let mut conns = self.per_link(session.link())?.conns.lock();
        let at = conns.find_own(own).ok_or(ENOENT)?;
        if matches!(conns.table.get(at).ok_or(ENOENT)?.phase, Phase::Closing(_)) {
            conns.remove(at);
        }
        Ok(())
    }
}

impl Client for Channels {
    fn ready(&self, port: &dyn Port, link: usize, peer: &Peer) {
        let Ok(per_link) = self.per_link(link) else {
            return;
        };
        let mut conns = per_link.conns.lock();
        let bytes = port.arena(link).map_or(0, |arena| arena.bytes());
        conns.pages.reset(bytes / PAGE_SIZE);
        conns.closed = [0; REMEMBERED];
        let wake = peer.offer.wake;
        conns.kick = (port.doorbell_page(link, wake), wake);
    }

    fn broken(&self, link: usize, reason: Reason) {
        let Ok(per_link) = self.per_link(link) else {
            return;
        };
        let reason = match reason {
            Reason::Link => ext::WEFT_REASON_LINK,
            Reason::Peer => ext::WEFT_REASON_PEER,
            Reason::Removed => ext::WEFT_REASON_REMOVED,
        };
        let mut conns = per_link.conns.lock();
        per_link.replace_awake(KVec::new());
        let table = core::mem::replace(&mut conns.table, KVec::new());
        for conn in &table {
            if let Phase::Waiting(listener) = &conn.phase {
                listener.remove(&conn.channel);
            }
            if conn.channel.break_off(&self.mapping, reason) {
                conns.broken += 1;
            }
        }
        // The link was READY before, hence an older wreck is buried.
        conns.wreck = table;
    }

    fn bury(&self, port: &dyn Port, link: usize) {
        let Ok(per_link) = self.per_link(link) else {
            return;
        };
        let mut conns = per_link.conns.lock();
        let wreck = core::mem::replace(&mut conns.wreck, KVec::new());
        for conn in &wreck {
            if matches!(conn.phase, Phase::Open) {
                conn.channel.bury(&self.mapping, port.arena(link).ok());
            }
        }
        conns.pages.reset(0);
    }

    fn message(&self, session: &mut Session<'_>, body: Body) {
        // What fails is for a connection that there is not, or not any more.
        let _ = match body {
            Body::Connect { end, service } => self.on_connect(session, &end, service),
            Body::Accept { end, peer_conn } => self.on_accept(session, &end, peer_conn),
            Body::Reject { peer_conn, code } => self.on_reject(session, peer_conn, code),
            Body::Close {
                conn, peer_conn, ..
            } => self.on_close(session, conn, peer_conn),
            Body::CloseAck { peer_conn } => self.on_close_ack(session, peer_conn),
            Body::Hello(_) | Body::HelloAck { .. } | Body::Heartbeat | Body::Bye => Ok(()),
        };
    }

    fn tick(&self, session: &mut Session<'_>, now: u64) {
        let Ok(per_link) = self.per_link(session.link()) else {
            return;
        };
        for conn in &mut per_link.conns.lock().table {
            if now.saturating_sub(conn.sent) < conn.interval {
                continue;
            }
            if let Some(body) = conn.request() {
                conn.sent = now;
                conn.interval = (conn.interval * 2).min(REPEAT_MAX_MS);
                session.send(body);
            }
        }
    }

    fn wake(&self, link: usize) {
        if let Some(per_link) = self.links.get(link) {
            for channel in &*per_link.awake.lock() {
                channel.rung();
            }
        }
    }

    fn closed(&self) {
        for listener in &*self.listeners.lock() {
            listener.wake_all();
        }
        for per_link in &self.links {
            for conn in &per_link.conns.lock().table {
                conn.channel.wake_all();
            }
        }
    }

    fn usage(&self, link: usize) -> Usage {
        let Some(per_link) = self.links.get(link) else {
            return Usage::default();
        };
        let conns = per_link.conns.lock();
        let open = conns.table.iter().filter(|conn| {
            matches!(conn.phase, Phase::Open) && conn.channel.state() == State::Open
        });
        Usage {
            open: open.count() as u64,
            opened: conns.opened,
            broken: conns.broken,
            pages: (conns.pages.total() - conns.pages.free_pages()) as u64,
        }
    }
}
