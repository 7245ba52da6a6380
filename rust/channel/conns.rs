// SPDX-License-Identifier: GPL-2.0

//! The connections of a link: which channels there are, the phase of each, and which pages of the
//! arena are in use.

use super::{Channel, Listener, State};
use crate::{
    fabric::Usage,
    proto::{
        pages::{Pages, Run},
        wire::{Body, End},
    },
    share::Charge,
    sys::{
        area::Area,
        clock,
        irqlock::{new_spinlock_irq, SpinLockIrq},
        vma::Mapping,
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// Requests are repeated after this many milliseconds, then after twice as long, and so on.
const REPEAT_MIN_MS: u64 = 200;
const REPEAT_MAX_MS: u64 = 1000;
/// After how many wake-ups in a row without a doorbell the log says so.
const LOST_TO_TELL: u64 = 2;
/// How many closed connections are remembered: a late copy of their request must not be taken for a
/// new one.
const REMEMBERED: usize = 32;

/// The phase of a connection.
pub(super) enum Phase {
    /// Requested here; the peer has not answered.
    Connecting,
    /// Requested by the peer; no user here has accepted.
    Waiting(Arc<Listener>),
    Open,
    /// Closed here, with one of `wire::CLOSE_*`; the peer has not acknowledged.
    Closing(u32),
}

pub(super) struct Conn {
    pub(super) channel: Arc<Channel>,
    pub(super) phase: Phase,
    sent: u64,
    interval: u64,
    _charges: Charges,
}

/// What counts for a user as long as there is a connection.
pub(super) struct Charges {
    /// Its pages of the arena.
    pub(super) _pages: Charge,
    /// The routed link.
    pub(super) _link: Option<Charge>,
}

impl Conn {
    pub(super) fn new(channel: Arc<Channel>, phase: Phase, charges: Charges) -> Self {
        Self {
            channel,
            phase,
            sent: clock::now_ms(),
            interval: REPEAT_MIN_MS,
            _charges: charges,
        }
    }

    /// Returns the description of this end, for messages.
    fn end(&self) -> End {
        End {
            conn: self.channel.made.id,
            shape: self.channel.made.shape,
            area_offset: self.channel.area_at() as u64,
        }
    }

    /// Returns the peer's id of the connection, 0 if it is not known.
    pub(super) fn peer_conn(&self) -> u32 {
        self.channel.remote.as_ref().map_or(0, |remote| remote.conn)
    }

    /// Returns the message to be repeated until the peer answers, if there is one.
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

    /// Returns the request if it is time to repeat it; `now` in milliseconds.
    pub(super) fn due(&mut self, now: u64) -> Option<Body> {
        if now.saturating_sub(self.sent) < self.interval {
            return None;
        }
        let body = self.request()?;
        self.sent = now;
        self.interval = (self.interval * 2).min(REPEAT_MAX_MS);
        Some(body)
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
    /// Connections of a link that broke, until the arena is withdrawn.
    wreck: KVec<Conn>,
    pub(super) pages: Pages,
    /// Pages of the arena that channels can have.
    room: u32,
    /// The peer's ids of connections that it has closed.
    closed: [u32; REMEMBERED],
    oldest: usize,
    /// The physical address of the page of the peer's doorbell, if there is one, and the number of
    /// the doorbell.
    pub(super) kick: (Option<u64>, u32),
    /// Quiesced: nothing is written to the peer for now.
    rests: bool,
    /// Counts sessions, and their ends.
    session: u64,
    opened: u64,
    broken: u64,
    /// Bytes that the users of removed connections had stored, until [`Self::take_stored`] returns them.
    stored: u64,
}

impl Conns {
    fn new() -> Self {
        Self {
            table: KVec::new(),
            wreck: KVec::new(),
            pages: Pages::new(0),
            room: 0,
            closed: [0; REMEMBERED],
            oldest: 0,
            kick: (None, 0),
            rests: false,
            session: 0,
            opened: 0,
            broken: 0,
            stored: 0,
        }
    }

    pub(super) fn find(&self, channel: &Channel) -> Option<usize> {
        self.table
            .iter()
            .position(|conn| core::ptr::eq(&*conn.channel, channel))
    }

    /// Finds a connection by this end's id.
    pub(super) fn find_own(&self, id: u32) -> Option<usize> {
        self.table
            .iter()
            .position(|conn| conn.channel.made.id == id)
    }

    /// Finds a connection by the peer's id.
    pub(super) fn find_peer(&self, id: u32) -> Option<usize> {
        self.table.iter().position(|conn| conn.peer_conn() == id)
    }

    /// Removes connection number `at`; its area may be used again.
    pub(super) fn remove(&mut self, at: usize) -> Option<Conn> {
        let conn = self.table.remove(at).ok()?;
        self.stored = self.stored.saturating_add(conn.channel.take_stored(None));
        self.give(conn.channel.made.run);
        Some(conn)
    }

    /// Returns how many bytes the users of all connections have stored at the peer since the last call.
    pub(super) fn take_stored(&mut self, arena: &Area) -> u64 {
        // The area of a connection that waits still has what was there before.
        let zeroed = |conn: &&Conn| !matches!(conn.phase, Phase::Waiting(_));
        let stored = self.table.iter().filter(zeroed);
        let stored = stored.map(|conn| conn.channel.take_stored(Some(arena)));
        stored.fold(core::mem::take(&mut self.stored), u64::saturating_add)
    }

    pub(super) fn give(&mut self, run: Run) {
        // They were taken when the channel was made, and are given back once.
        if !self.pages.give(run) {
            pr_warn!("pages {} of {} were free already\n", run.first, run.count);
        }
    }

    /// Returns the number of the session; pages are those of one session.
    pub(super) fn session(&self) -> u64 {
        self.session
    }

    /// Returns the number of pages of the arena that channels can have, all together.
    pub(super) fn room(&self) -> u32 {
        self.room
    }

    /// Forgets a channel of a link that broke: its file is closed, no copy of its area is needed.
    pub(super) fn forget_wreck(&mut self, channel: &Channel) {
        self.wreck
            .retain(|conn| !core::ptr::eq(&*conn.channel, channel));
    }

    /// Starts a session of the link. The arena has `pages` pages, of which the first `trunk` are
    /// those of the link queues; `kick` is the peer's doorbell.
    pub(super) fn begin(&mut self, (pages, trunk): (usize, usize), kick: (Option<u64>, u32)) {
        self.session += 1;
        self.pages.reset(pages);
        // All pages are free, hence these are the first ones. They stay taken for the whole session.
        let _ = self.pages.take(trunk);
        // At most `proto::pages::MAX_PAGES`.
        self.room = self.pages.free_pages() as u32;
        self.closed = [0; REMEMBERED];
        self.kick = kick;
        self.rests = false;
        self.stored = 0;
    }

    /// Quiesces all channels: nothing is written to the peer until [`Self::go_on`].
    pub(super) fn rest(&mut self, mapping: &Mapping) {
        if !core::mem::replace(&mut self.rests, true) {
            for conn in &self.table {
                conn.channel.rest(mapping);
            }
        }
    }

    pub(super) fn go_on(&mut self) {
        if core::mem::take(&mut self.rests) {
            for conn in &self.table {
                conn.channel.go_on();
            }
        }
    }

    /// Breaks all connections: the link is not READY any more, with one of `WEFT_REASON_*`.
    pub(super) fn break_off(&mut self, mapping: &Mapping, reason: u32) {
        let table = core::mem::replace(&mut self.table, KVec::new());
        for conn in &table {
            if let Phase::Waiting(listener) = &conn.phase {
                listener.remove(&conn.channel);
            }
            if conn.channel.break_off(mapping, reason) {
                self.broken += 1;
            }
        }
        // The link was READY before, hence the arena of an older wreck was withdrawn.
        self.wreck = table;
    }

    /// Copies the areas of open channels: the arena is withdrawn, and will be used for something
    /// else.
    pub(super) fn bury(&mut self, mapping: &Mapping, arena: Option<&Area>) {
        let wreck = core::mem::replace(&mut self.wreck, KVec::new());
        for conn in &wreck {
            if matches!(conn.phase, Phase::Open) {
                conn.channel.bury(mapping, arena);
            }
        }
        self.session += 1;
        self.pages.reset(0);
        self.room = 0;
    }

    pub(super) fn usage(&self) -> Usage {
        let open =
            |conn: &&Conn| matches!(conn.phase, Phase::Open) && conn.channel.state() == State::Open;
        Usage {
            open: self.table.iter().filter(open).count() as u64,
            opened: self.opened,
            broken: self.broken,
            pages: (self.pages.total() - self.pages.free_pages()) as u64,
            doorbells_lost: 0,
            ..Usage::default()
        }
    }

    /// Returns whether the peer has recently closed its connection of this id.
    pub(super) fn was_closed(&self, peer_conn: u32) -> bool {
        self.closed.contains(&peer_conn)
    }

    pub(super) fn remember(&mut self, peer_conn: u32) {
        if let Some(slot) = self.closed.get_mut(self.oldest % REMEMBERED) {
            *slot = peer_conn;
        }
        self.oldest = self.oldest.wrapping_add(1);
    }
}

/// The channels of a link.
#[pin_data]
pub(super) struct PerLink {
    #[pin]
    pub(super) conns: Mutex<Conns>,
    /// The open channels, for the interrupt.
    #[pin]
    awake: SpinLockIrq<KVec<Arc<Channel>>>,
    /// Wake-ups without a doorbell: in all, and since the last doorbell.
    lost: Atomic<u64>,
    lost_in_a_row: Atomic<u64>,
}

impl PerLink {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            conns <- new_mutex!(Conns::new(), "weft conns"),
            awake <- new_spinlock_irq!(KVec::new(), c"weft awake"),
            lost: Atomic::new(0),
            lost_in_a_row: Atomic::new(0),
        })
    }

    /// Has the interrupt wake the open channels of `conns` and `channel`, which is about to be open.
    fn listen_to(&self, conns: &Conns, channel: &Arc<Channel>) -> Result {
        let mut fresh = KVec::with_capacity(conns.table.len() + 1, GFP_KERNEL_ACCOUNT)?;
        let open = conns
            .table
            .iter()
            .filter(|conn| matches!(conn.phase, Phase::Open));
        for conn in open {
            fresh.push(conn.channel.clone(), GFP_KERNEL_ACCOUNT)?;
        }
        fresh.push(channel.clone(), GFP_KERNEL_ACCOUNT)?;
        self.replace_awake(fresh);
        Ok(())
    }

    /// Replaces the channels that the interrupt wakes.
    pub(super) fn replace_awake(&self, list: KVec<Arc<Channel>>) {
        let old = core::mem::replace(&mut *self.awake.lock(), list);
        // After the lock is released: these may be the last references.
        drop(old);
    }

    /// Wakes the sleepers whose event has come: the neighbour has rung. Called in hard interrupts.
    pub(super) fn wake(&self, arena: &Area) {
        self.lost_in_a_row.store(0, Relaxed);
        for channel in &*self.awake.lock() {
            channel.rung(arena);
        }
    }

    /// Counts `lost` wake-ups without a doorbell. Returns whether it is time to log that.
    pub(super) fn doorbells_lost(&self, lost: u64) -> bool {
        if lost == 0 {
            return false;
        }
        self.lost.fetch_add(lost, Relaxed);
        let before = self.lost_in_a_row.fetch_add(lost, Relaxed);
        // A single loss may be chance.
        (before..before + lost).contains(&LOST_TO_TELL)
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            doorbells_lost: self.lost.load(Relaxed),
            ..self.conns.lock().usage()
        }
    }

    pub(super) fn ignore(&self, channel: &Channel) {
        let mut awake = self.awake.lock();
        let at = awake.iter().position(|c| core::ptr::eq(&**c, channel));
        let gone = at.and_then(|at| awake.remove(at).ok());
        drop(awake);
        drop(gone);
    }

    /// Opens connection number `at`.
    pub(super) fn open(&self, conns: &mut Conns, at: usize) -> Result {
        let channel = conns.table.get(at).ok_or(ENOENT)?.channel.clone();
        self.listen_to(conns, &channel)?;
        if let Some(conn) = conns.table.get_mut(at) {
            conn.phase = Phase::Open;
        }
        conns.opened += 1;
        channel.open(conns.rests);
        channel.wake_all();
        Ok(())
    }
}
