// SPDX-License-Identifier: GPL-2.0

//! One end of a channel: its state, its sleepers and its memory.
//!
//! The peer writes the area, the user the page of `struct weft_chan_user`. The kernel copies words of
//! either once; a wrong value harms only the side that wrote it.

use super::{place::Region, sleeper::Sleeper};
use crate::{
    fabric::Node,
    hw::Port,
    proto::{
        cell::{Head, Seen, Shape, CELL_BYTES, CREDIT_AT, RECV_EVENT_AT, SEND_EVENT_AT},
        fence::Fence,
        pages::Run,
        wire::Incarnation,
    },
    sys::{
        area,
        errno::ECONNRESET,
        ext::{self, weft_chan_status, weft_chan_user},
        file::events,
        gate::Gate,
        iomap::Cache,
        irqlock::{new_spinlock_irq, SpinLockIrq},
        trace,
        vma::{Fault, Mapping, NewVma, Outcome, SharedPage},
        waitq::WaitQueue,
    },
};
use core::mem::offset_of;
use kernel::{
    device::Device,
    new_mutex,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, Mutex, SetOnce,
    },
};

/// All of `struct weft_chan_status` as one word.
fn status_word(state: u32, reason: u32) -> u64 {
    const { assert!(size_of::<weft_chan_status>() == 8) };
    let mut bytes = [0; 8];
    for (at, value) in [
        (offset_of!(weft_chan_status, state), state),
        (offset_of!(weft_chan_status, reason), reason),
    ] {
        for (to, from) in bytes.iter_mut().skip(at).zip(value.to_ne_bytes()) {
            *to = from;
        }
    }
    u64::from_ne_bytes(bytes)
}

/// The state of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not made yet.
    Pending,
    Open,
    PeerClosed,
    /// With one of `WEFT_REASON_*`.
    Broken(u32),
    /// It will not be made, with one of `proto::wire::REJECT_*`.
    Refused(u32),
}

impl State {
    /// Returns state and reason as the user interface has them; 0 while there is no channel.
    pub(crate) fn numbers(self) -> (u32, u32) {
        match self {
            Self::Pending | Self::Refused(_) => (0, 0),
            Self::Open => (ext::WEFT_CHAN_OPEN, 0),
            Self::PeerClosed => (ext::WEFT_CHAN_PEER_CLOSED, 0),
            Self::Broken(reason) => (ext::WEFT_CHAN_BROKEN, reason),
        }
    }
}

/// What the other end has announced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Remote {
    /// Its id of the channel.
    pub(super) conn: u32,
    /// Where its area is in the window.
    pub(super) area_at: usize,
}

/// The state that is locked for a store to the peer's area.
struct Wakeup {
    state: State,
    /// The event indices that the peer was told.
    recv_event: Option<u64>,
    send_event: Option<u64>,
    /// Quiesced: nothing is written to the peer for now.
    rests: bool,
}

/// The state that page faults are resolved by.
struct Maps {
    /// Window and doorbell may be mapped,
    window: bool,
    /// but faults on them wait for now.
    rests: bool,
    area: AreaPages,
}

enum AreaPages {
    /// The arena.
    Live,
    /// Copies of its pages, made before the arena is reused; fewer, or none, if memory was short.
    Kept(KVec<SharedPage>),
}

/// The fixed parameters of a channel.
pub(super) struct Making {
    pub(super) dev: ARef<Device>,
    pub(super) id: u32,
    pub(super) link: usize,
    pub(super) service: u32,
    pub(super) shape: Shape,
    pub(super) peer: Incarnation,
    /// Its pages of the arena.
    pub(super) run: Run,
    /// The physical address of the page of the peer's doorbell, if there is one, and the number of
    /// the doorbell.
    pub(super) kick: (Option<u64>, u32),
}

/// One end of a channel.
#[pin_data]
pub(crate) struct Channel {
    pub(super) made: Making,
    pub(super) remote: SetOnce<Remote>,
    #[pin]
    wakeup: SpinLockIrq<Wakeup>,
    #[pin]
    maps: Mutex<Maps>,
    /// Entered for accesses of the kernel's own end. Closed while the channel is not open, or quiesced.
    #[pin]
    pub(super) accesses: Gate<()>,
    status: SharedPage,
    user: SharedPage,
    /// Mapped in place of pages that were taken away.
    blank: SharedPage,
    /// The waiters of the file that the channel belongs to.
    waiters: SetOnce<Arc<WaitQueue>>,
    /// Sleeps until there is something to receive,
    awaits_data: Sleeper,
    /// and until there is room to send.
    awaits_room: Sleeper,
    /// What [`Self::take_stored`] has counted so far.
    counted: Atomic<u64>,
}

impl Channel {
    pub(super) fn new(made: Making) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                made,
                remote: SetOnce::new(),
                wakeup <- new_spinlock_irq!(
                    Wakeup {
                        state: State::Pending,
                        recv_event: None,
                        send_event: None,
                        rests: false,
                    },
                    c"weft wakeup"
                ),
                maps <- new_mutex!(
                    Maps {
                        window: false,
                        rests: false,
                        area: AreaPages::Live,
                    },
                    "weft maps"
                ),
                accesses <- Gate::new(),
                status: SharedPage::new()?,
                user: SharedPage::new()?,
                blank: SharedPage::new()?,
                waiters: SetOnce::new(),
                awaits_data: Sleeper::new(),
                awaits_room: Sleeper::new(),
                counted: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(crate) fn state(&self) -> State {
        self.wakeup.lock().state
    }

    /// Returns the offset of this end's area in the arena.
    pub(super) fn area_at(&self) -> usize {
        self.made.run.first * PAGE_SIZE
    }

    /// Writes a count of `struct weft_chan_user` at byte `at`, for the kernel's own end.
    pub(super) fn note(&self, at: usize, count: u64) {
        // Inside the page.
        let _ = self.user.write64(at, count);
    }

    /// Returns how many bytes this end has stored at the peer since the last call. No call of the driver
    /// sees a store: it is what the user counts. If the user counts no cells, it is those that the peer has
    /// consumed, by the area in `arena`. A count that goes back is none.
    pub(super) fn take_stored(&self, arena: Option<&area::Area>) -> u64 {
        let user = |at| self.user.read64(at).unwrap_or_default();
        let consumed = || arena?.read64(self.area_at() + CREDIT_AT).ok();
        let cells = match user(offset_of!(weft_chan_user, produced)) {
            0 => consumed().unwrap_or_default(),
            produced => produced,
        };
        let bulk = user(offset_of!(weft_chan_user, bulk));
        let all = cells.saturating_mul(CELL_BYTES as u64).saturating_add(bulk);
        all.saturating_sub(self.counted.xchg(all, Relaxed))
    }

    /// Sets the wait queue, once.
    pub(super) fn set_waiters(&self, waiters: Arc<WaitQueue>) {
        self.waiters.populate(waiters);
    }

    /// Wakes all waiters: for the state, for data or for room.
    pub(super) fn wake_all(&self) {
        if let Some(waiters) = self.waiters.as_ref() {
            waiters.wake_all();
        }
    }

    /// Wakes sleepers if what they sleep for has come: the peer has rung. Called in hard interrupts.
    pub(super) fn rung(&self, arena: &area::Area) {
        let mut woken = false;
        for (awaits, recv) in [(&self.awaits_data, true), (&self.awaits_room, false)] {
            woken |= awaits.rung(|| self.missing(arena, recv).is_none());
        }
        if woken {
            self.wake_all();
        }
    }

    /// Wakes sleepers whose doorbell was lost, see [`Sleeper::recheck`]. Returns whether one was.
    pub(super) fn recheck(&self, port: &dyn Port) -> bool {
        let Ok(area) = port.arena(self.made.link) else {
            return false;
        };
        if self.state() != State::Open {
            return false;
        }
        let mut lost = false;
        for (awaits, recv) in [(&self.awaits_data, true), (&self.awaits_room, false)] {
            lost |= awaits.recheck(|| self.missing(&area, recv).is_none());
        }
        if lost {
            self.wake_all();
        }
        lost
    }

    /// Moves to state `to` if `from` returns true for the old state, publishes it to the user and
    /// returns the old state.
    fn change(&self, from: impl FnOnce(State) -> bool, to: State) -> Option<State> {
        let mut wakeup = self.wakeup.lock();
        let old = wakeup.state;
        if !from(old) {
            return None;
        }
        wakeup.state = to;
        drop(wakeup);
        let (state, reason) = to.numbers();
        // In one store: a user that sees the state also sees the reason.
        let _ = self.status.write64(0, status_word(state, reason));
        self.trace(old, to);
        Some(old)
    }

    fn trace(&self, from: State, to: State) {
        let (state, reason) = to.numbers();
        trace::chan_state(
            &self.made.dev,
            u64::from(self.made.id),
            from.numbers().0,
            state,
            reason,
        );
    }

    /// Traces that the file is closed.
    pub(super) fn trace_release(&self) {
        self.trace(self.state(), State::Pending);
    }

    /// Opens the channel: the other end is known. With `rests` it starts quiesced. The caller calls
    /// [`Channel::wake_all`] next. Returns false if it was not pending.
    pub(super) fn open(&self, rests: bool) -> bool {
        self.wakeup.lock().rests = rests;
        let mut maps = self.maps.lock();
        maps.window = true;
        maps.rests = rests;
        drop(maps);
        if !rests {
            self.admit();
        }
        self.change(|old| old == State::Pending, State::Open)
            .is_some()
    }

    /// Lets the kernel's own end access the memory.
    fn admit(&self) {
        self.accesses.renew();
        // It was not open: the callers exclude each other, by the lock of the connections.
        let _ = self.accesses.open(());
    }

    /// Refuses the channel, with one of `REJECT_*`.
    pub(super) fn refuse(&self, code: u32) {
        self.change(|old| old == State::Pending, State::Refused(code));
        self.wake_all();
    }

    /// Handles that the peer has closed its end. When this returns, this host no longer writes to the
    /// peer's area.
    pub(super) fn close_by_peer(&self, mapping: &Mapping) -> bool {
        let was_open = self.change(|old| old == State::Open, State::PeerClosed);
        self.zap_window(mapping);
        // What enters from now on finds the new state, and writes nothing to the peer. If the channel is
        // quiesced, nothing enters until it is unquiesced.
        if self.accesses.revoke(|| ()).is_some() {
            self.admit();
        }
        self.wake_all();
        was_open.is_some()
    }

    /// Breaks the channel. When this returns, this host no longer writes to the peer's area. Returns
    /// whether the channel was in use.
    pub(super) fn break_off(&self, mapping: &Mapping, reason: u32) -> bool {
        let not_yet = |old| !matches!(old, State::Broken(_) | State::Refused(_));
        let old = self.change(not_yet, State::Broken(reason));
        self.zap_window(mapping);
        self.accesses.revoke(|| ());
        self.wake_all();
        matches!(old, Some(State::Open | State::PeerClosed))
    }

    /// Quiesces the channel: when this returns, this host writes nothing to the peer's area until
    /// [`Self::go_on`]. Users that try to write wait.
    pub(super) fn rest(&self, mapping: &Mapping) {
        self.wakeup.lock().rests = true;
        self.maps.lock().rests = true;
        self.zap(mapping);
        self.accesses.revoke(|| ());
    }

    /// Unquiesces the channel: writers continue.
    pub(super) fn go_on(&self) {
        self.maps.lock().rests = false;
        self.wakeup.lock().rests = false;
        if matches!(self.state(), State::Open | State::PeerClosed) {
            self.admit();
        }
        // Users that began to sleep meanwhile have not announced it to the peer: they do so when they
        // are woken.
        self.wake_all();
    }

    fn zap_window(&self, mapping: &Mapping) {
        self.maps.lock().window = false;
        // A page fault from now on maps a blank page.
        self.zap(mapping);
    }

    fn zap(&self, mapping: &Mapping) {
        mapping.zap(Region::Window.first(self.made.id), self.area_pages() as u64);
        mapping.zap(Region::Kick.first(self.made.id), 1);
    }

    /// Keeps a copy of the area for the user: the arena is going to be used for something else.
    /// Without `arena`, the pages are blank.
    pub(super) fn bury(&self, mapping: &Mapping, arena: Option<&area::Area>) {
        let mut maps = self.maps.lock();
        if !matches!(maps.area, AreaPages::Live) {
            return;
        }
        let mut kept = KVec::new();
        if let Some(arena) = arena {
            // As much as memory allows: the rest is blank, and contains no valid cell.
            let _ = self.copy_area(arena, &mut kept);
        }
        maps.area = AreaPages::Kept(kept);
        drop(maps);
        mapping.zap(Region::Area.first(self.made.id), self.area_pages() as u64);
    }

    fn copy_area(&self, arena: &area::Area, kept: &mut KVec<SharedPage>) -> Result {
        for n in 0..self.area_pages() {
            let mut page = SharedPage::new()?;
            arena.copy_in(self.area_at() + n * PAGE_SIZE, page.bytes_mut())?;
            kept.push(page, GFP_KERNEL)?;
        }
        Ok(())
    }

    fn area_pages(&self) -> usize {
        self.made.shape.area_bytes() / PAGE_SIZE
    }

    /// Rings for sleepers at the other end. `EPIPE`: the peer has closed; `ECONNRESET`: the channel
    /// is broken.
    pub(crate) fn kick(&self, node: &Node) -> Result {
        let port = node.port()?;
        match self.state() {
            State::Open => node.ring_wake(&**port, self.made.link),
            State::PeerClosed => return Err(EPIPE),
            _ => return Err(ECONNRESET.into()),
        }
        Ok(())
    }

    /// Returns the events that are ready. For those in `want` that are not ready, arms a doorbell of
    /// the peer.
    pub(crate) fn poll(&self, node: &Node, want: u32) -> u32 {
        let ended = events::IN | events::RDHUP | events::HUP;
        let Ok(port) = node.port() else {
            return ended | events::ERR;
        };
        match self.state() {
            State::Open => {}
            State::PeerClosed => return ended,
            _ => return ended | events::ERR,
        }
        let Ok(area) = port.arena(self.made.link) else {
            return ended | events::ERR;
        };
        let mut got = 0;
        for (bit, event_at) in [(events::IN, RECV_EVENT_AT), (events::OUT, SEND_EVENT_AT)] {
            let recv = bit == events::IN;
            match self.missing(&area, recv) {
                None => got |= bit,
                Some(event) if want & bit != 0 => {
                    // The event may have come meanwhile. If it comes later, the peer rings.
                    if self.arm(node, &**port, recv, event_at, event)
                        && self.missing(&area, recv).is_none()
                    {
                        got |= bit;
                    }
                }
                Some(_) => {}
            }
        }
        got
    }

    /// Returns `None` if there is something to receive, or room to send; otherwise the event index to
    /// sleep with. Inconsistent values count as ready: the user finds out.
    fn missing(&self, area: &area::Area, recv: bool) -> Option<u64> {
        let user = |at| self.user.read64(at).unwrap_or_default();
        if recv {
            let consumed = user(offset_of!(weft_chan_user, consumed));
            let at = self.area_at() + self.made.shape.cell_at(consumed);
            let head = area.read64(at).ok()?;
            let empty = Head::decode(head, consumed, self.made.shape) == Seen::Empty;
            return empty.then_some(consumed);
        }
        let produced = user(offset_of!(weft_chan_user, produced));
        let wanted = user(offset_of!(weft_chan_user, credit_wanted));
        let credit = area.read64(self.area_at() + CREDIT_AT).ok()?;
        let cells = u64::from(self.made.shape.cells());
        let on_the_way = produced.wrapping_sub(credit);
        if on_the_way > cells {
            None
        } else if wanted == 0 {
            (on_the_way == cells).then_some(produced.wrapping_sub(cells))
        } else {
            // Counts of cells do not get near to 2^63.
            ((credit.wrapping_sub(wanted) as i64) < 0).then_some(wanted.wrapping_sub(1))
        }
    }

    /// Tells the peer that this end sleeps until `event` is passed, unless the peer knows. Returns
    /// false if there is no point in waiting.
    fn arm(&self, node: &Node, port: &dyn Port, recv: bool, event_at: usize, event: u64) -> bool {
        let (Some(remote), Ok(window)) = (self.remote.as_ref(), port.window(self.made.link)) else {
            return false;
        };
        let awaits = if recv {
            &self.awaits_data
        } else {
            &self.awaits_room
        };
        awaits.sleeps();
        // The state cannot change while the lock is held: nothing is written to the peer after it was
        // told of the change.
        let mut wakeup = self.wakeup.lock();
        if wakeup.state != State::Open {
            return false;
        }
        if wakeup.rests {
            // The sleeper is woken by `go_on`.
            return true;
        }
        let told = if recv {
            &mut wakeup.recv_event
        } else {
            &mut wakeup.send_event
        };
        if *told != Some(event) {
            *told = Some(event);
            if window.write64(remote.area_at + event_at, event).is_err() {
                return false;
            }
            if Fence::Sleep.is_there() {
                area::wmb();
            }
            node.ring_echo(port, self.made.link);
        }
        true
    }

    /// Maps a part of the channel. `EINVAL`: there is no such part.
    pub(crate) fn mmap(&self, node: &Node, vma: &NewVma<'_>) -> Result {
        let (region, first) = Region::find(self.made.id, vma.first()).ok_or(EINVAL)?;
        let count = match region {
            Region::Area | Region::Window => self.area_pages(),
            Region::Kick if self.made.kick.0.is_none() => return Err(EINVAL),
            Region::Kick | Region::Status | Region::User => 1,
        } as u64;
        let end = (first as u64).checked_add(vma.count()).ok_or(EINVAL)?;
        if end > count {
            return Err(EINVAL);
        }
        let port = node.port()?;
        let (writable, cache) = match region {
            Region::Area => (false, port.arena(self.made.link)?.cache()),
            Region::Window => (true, port.window(self.made.link)?.cache()),
            Region::Status => (false, Cache::Normal),
            Region::User => (true, Cache::Normal),
            Region::Kick => (true, Cache::Uncached),
        };
        vma.accept(writable, cache)
    }

    /// Handles a page fault: maps the page, or a blank one if it was taken away.
    pub(crate) fn fault(&self, node: &Node, fault: &Fault<'_>) -> Outcome {
        let Some((region, page)) = Region::find(self.made.id, fault.page()) else {
            return fault.refuse();
        };
        // Held until the page is mapped: to take pages away, this state is changed first, then they
        // are zapped.
        let maps = self.maps.lock();
        if maps.window && maps.rests && matches!(region, Region::Window | Region::Kick) {
            drop(maps);
            return fault.later();
        }
        let port = node.port();
        let pfn = match region {
            Region::Status => Some(self.status.pfn()),
            Region::User => Some(self.user.pfn()),
            Region::Area => match &maps.area {
                AreaPages::Kept(kept) => kept.get(page).map(SharedPage::pfn),
                AreaPages::Live => port.as_ref().ok().and_then(|port| {
                    let arena = port.arena(self.made.link).ok()?;
                    arena.pfn(self.made.run.first + page).ok()
                }),
            },
            Region::Window if maps.window => port.as_ref().ok().and_then(|port| {
                let remote = self.remote.as_ref()?;
                let window = port.window(self.made.link).ok()?;
                window.pfn(remote.area_at / PAGE_SIZE + page).ok()
            }),
            Region::Kick if maps.window && port.is_ok() => {
                self.made.kick.0.map(|phys| (phys >> PAGE_SHIFT) as usize)
            }
            Region::Window | Region::Kick => None,
        };
        let outcome = fault.insert(pfn.unwrap_or_else(|| self.blank.pfn()));
        drop(maps);
        outcome
    }

    /// Returns the result of `WEFT_CHAN_INFO`.
    pub(crate) fn info(&self) -> ext::weft_chan_info {
        let (made, id) = (&self.made, self.made.id);
        let (state, reason) = self.state().numbers();
        ext::weft_chan_info {
            state,
            reason,
            peer_hwid: made.peer.hwid,
            peer_generation: made.peer.generation,
            link: made.link as u32,
            service: made.service,
            cells: made.shape.cells(),
            bulk: made.shape.bulk(),
            kick_value: made.kick.1,
            area_offset: Region::Area.offset(id),
            window_offset: Region::Window.offset(id),
            area_bytes: made.shape.area_bytes() as u64,
            status_offset: Region::Status.offset(id),
            user_offset: Region::User.offset(id),
            kick_offset: made.kick.0.map_or(0, |_| Region::Kick.offset(id)),
            ..Default::default()
        }
    }
}
