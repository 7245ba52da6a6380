// SPDX-License-Identifier: GPL-2.0

//! One end of a channel: its state, its sleepers and its memory.
//!
//! The area is written by the peer, the page of `struct weft_chan_user` by the user: words of either
//! are copied once, and a wrong one does no harm but to who wrote it.

use super::place::Region;
use crate::{
    fabric::Node,
    hw::Port,
    proto::{
        cell::{Head, Seen, Shape, CREDIT_AT, RECV_EVENT_AT, SEND_EVENT_AT},
        fence::Fence,
        pages::Run,
        wire::Incarnation,
    },
    sys::{
        area,
        errno::ECONNRESET,
        ext::{self, weft_chan_status, weft_chan_user},
        file::events,
        iomap::Cache,
        irqlock::{new_spinlock_irq, SpinLockIrq},
        trace,
        vma::{Fault, Mapping, NewVma, Outcome, SharedPage},
        waitq::WaitQueue,
    },
};
use core::mem::offset_of;
use kernel::{
    new_mutex,
    page::{PAGE_SHIFT, PAGE_SIZE},
    pci,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Acquire, Atomic, Full, Release},
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

/// Where a channel is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not made yet.
    Pending,
    Open,
    PeerClosed,
    /// For one of `WEFT_REASON_*`.
    Broken(u32),
    /// It will not be made: for one of `proto::wire::REJECT_*`.
    Refused(u32),
}

impl State {
    /// State and reason as the user interface has them; 0 while there is no channel.
    pub(crate) fn numbers(self) -> (u32, u32) {
        match self {
            Self::Pending | Self::Refused(_) => (0, 0),
            Self::Open => (ext::WEFT_CHAN_OPEN, 0),
            Self::PeerClosed => (ext::WEFT_CHAN_PEER_CLOSED, 0),
            Self::Broken(reason) => (ext::WEFT_CHAN_BROKEN, reason),
        }
    }
}

/// What the other end has told of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Remote {
    /// Its id of the channel.
    pub(super) conn: u32,
    /// Where its area is in the window.
    pub(super) area_at: usize,
}

/// What is known of a sleeper whom the peer is to wake.
mod sleep {
    /// There is none, or the peer has rung.
    pub(super) const NO: u32 = 0;
    pub(super) const YES: u32 = 1;
    /// What it sleeps for has come, but no doorbell yet.
    pub(super) const DUE: u32 = 2;
}

/// What has to be decided together with a store to the peer's area.
struct Wakeup {
    state: State,
    /// The event indices that the peer was told.
    recv_event: Option<u64>,
    send_event: Option<u64>,
    /// It is not to be told anything for now.
    rests: bool,
}

/// What faults put into mappings.
struct Maps {
    /// Window and doorbell are there,
    window: bool,
    /// but are not to be touched for now.
    rests: bool,
    area: AreaPages,
}

enum AreaPages {
    /// The arena.
    Live,
    /// What was in it when the peer went. Where memory was short: less of it, or nothing.
    Kept(KVec<SharedPage>),
}

/// What a channel is made of.
pub(super) struct Making {
    pub(super) dev: ARef<pci::Device>,
    pub(super) id: u32,
    pub(super) link: usize,
    pub(super) service: u32,
    pub(super) shape: Shape,
    pub(super) peer: Incarnation,
    /// Its pages of the arena.
    pub(super) run: Run,
    /// Where the peer's doorbell is, and which one it is.
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
    status: SharedPage,
    user: SharedPage,
    /// In place of pages that were taken away.
    blank: SharedPage,
    /// Of the file that the channel has become, or will.
    waiters: SetOnce<Arc<WaitQueue>>,
    /// Somebody sleeps, or did: wake-ups are for this channel.
    armed: Atomic<bool>,
    /// The peer is to ring when there is something to receive: one of `sleep`.
    awaits_data: Atomic<u32>,
    /// Or when there is room to send.
    awaits_room: Atomic<u32>,
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
                status: SharedPage::new()?,
                user: SharedPage::new()?,
                blank: SharedPage::new()?,
                waiters: SetOnce::new(),
                armed: Atomic::new(false),
                awaits_data: Atomic::new(sleep::NO),
                awaits_room: Atomic::new(sleep::NO),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn state(&self) -> State {
        self.wakeup.lock().state
    }

    /// Where this end's area is in the arena.
    pub(super) fn area_at(&self) -> usize {
        self.made.run.first * PAGE_SIZE
    }

    /// Says whom to wake, once.
    pub(super) fn set_waiters(&self, waiters: Arc<WaitQueue>) {
        self.waiters.populate(waiters);
    }

    /// Wakes those who wait for the state, or sleep.
    pub(super) fn wake_all(&self) {
        if let Some(waiters) = self.waiters.as_ref() {
            waiters.wake_all();
        }
    }

    /// The peer's doorbell was rung. Called in hard interrupts.
    pub(super) fn rung(&self) {
        if self.armed.load(Acquire) {
            self.awaits_data.store(sleep::NO, Release);
            self.awaits_room.store(sleep::NO, Release);
            self.wake_all();
        }
    }

    /// Wakes who sleeps although what it sleeps for was there the last time already: the doorbell was
    /// lost. One that is on its way takes less time than from one call to the next. True if so.
    pub(super) fn recheck(&self, port: &dyn Port) -> bool {
        let Ok(area) = port.arena(self.made.link) else {
            return false;
        };
        if self.state() != State::Open {
            return false;
        }
        let mut lost = false;
        for (awaits, recv) in [(&self.awaits_data, true), (&self.awaits_room, false)] {
            let slept = awaits.load(Acquire);
            if slept == sleep::NO || self.missing(area, recv).is_some() {
                continue;
            }
            let again = slept == sleep::DUE;
            let next = if again { sleep::NO } else { sleep::DUE };
            // A doorbell in between has the last word.
            lost |= awaits.cmpxchg(slept, next, Full).is_ok() && again;
        }
        if lost {
            self.wake_all();
        }
        lost
    }

    /// Moves to `to` if `from` says so, tells the user and returns what the state was before.
    fn change(&self, from: impl FnOnce(State) -> bool, to: State) -> Option<State> {
        let mut wakeup = self.wakeup.lock();
        let old = wakeup.state;
        if !from(old) {
            return None;
        }
        wakeup.state = to;
        drop(wakeup);
        let (state, reason) = to.numbers();
        // In one store: who sees the state finds the reason.
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

    /// The file is closed.
    pub(super) fn trace_release(&self) {
        self.trace(self.state(), State::Pending);
    }

    /// The other end is known, and the channel open, though it may rest. To be followed by
    /// [`Channel::wake_all`].
    pub(super) fn open(&self, rests: bool) -> bool {
        self.wakeup.lock().rests = rests;
        let mut maps = self.maps.lock();
        maps.window = true;
        maps.rests = rests;
        drop(maps);
        self.change(|old| old == State::Pending, State::Open)
            .is_some()
    }

    /// There will be no channel.
    pub(super) fn refuse(&self, code: u32) {
        self.change(|old| old == State::Pending, State::Refused(code));
        self.wake_all();
    }

    /// The peer has closed its end. When this returns, nobody here writes into its area.
    pub(super) fn close_by_peer(&self, mapping: &Mapping) -> bool {
        let was_open = self.change(|old| old == State::Open, State::PeerClosed);
        self.zap_window(mapping);
        self.wake_all();
        was_open.is_some()
    }

    /// The channel is broken. When this returns, nobody here writes into the peer's area. True if it
    /// was in use.
    pub(super) fn break_off(&self, mapping: &Mapping, reason: u32) -> bool {
        let not_yet = |old| !matches!(old, State::Broken(_) | State::Refused(_));
        let old = self.change(not_yet, State::Broken(reason));
        self.zap_window(mapping);
        self.wake_all();
        matches!(old, Some(State::Open | State::PeerClosed))
    }

    /// When this returns nobody here writes into the peer's area, until [`Self::go_on`]: whoever wants to
    /// waits.
    pub(super) fn rest(&self, mapping: &Mapping) {
        self.wakeup.lock().rests = true;
        self.maps.lock().rests = true;
        self.zap(mapping);
    }

    /// Whoever waited goes on.
    pub(super) fn go_on(&self) {
        self.maps.lock().rests = false;
        self.wakeup.lock().rests = false;
        // Who came to sleep meanwhile has not told the peer.
        self.wake_all();
    }

    fn zap_window(&self, mapping: &Mapping) {
        self.maps.lock().window = false;
        // Whoever faults now gets a blank page.
        self.zap(mapping);
    }

    fn zap(&self, mapping: &Mapping) {
        mapping.zap(Region::Window.first(self.made.id), self.area_pages() as u64);
        mapping.zap(Region::Kick.first(self.made.id), 1);
    }

    /// The arena is going to be used for something else: keeps a copy of the area for the user.
    pub(super) fn bury(&self, mapping: &Mapping, arena: Option<&area::Area>) {
        let mut maps = self.maps.lock();
        if !matches!(maps.area, AreaPages::Live) {
            return;
        }
        let mut kept = KVec::new();
        if let Some(arena) = arena {
            // As far as memory goes: the rest is blank, and no cell is valid there.
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

    /// Rings for those who sleep at the other end.
    pub(crate) fn kick(&self, node: &Node) -> Result {
        let port = node.port()?;
        match self.state() {
            State::Open => node.ring_wake(&**port, self.made.link),
            State::PeerClosed => return Err(EPIPE),
            _ => return Err(ECONNRESET.into()),
        }
        Ok(())
    }

    /// The events that there are. For those that `want` names and that are not there, the peer is
    /// told where to ring.
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
            match self.missing(area, recv) {
                None => got |= bit,
                Some(event) if want & bit != 0 => {
                    // It may have come meanwhile. If it comes later, somebody rings.
                    if self.arm(node, &**port, recv, event_at, event)
                        && self.missing(area, recv).is_none()
                    {
                        got |= bit;
                    }
                }
                Some(_) => {}
            }
        }
        got
    }

    /// `None` if there is something to receive, or room to send; otherwise the event index to sleep
    /// with. What makes no sense counts as there: it is for the user to find out.
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

    /// Tells the peer that this end sleeps until `event` is passed, unless it knows. False if there
    /// is no point in waiting.
    fn arm(&self, node: &Node, port: &dyn Port, recv: bool, event_at: usize, event: u64) -> bool {
        let (Some(remote), Ok(window)) = (self.remote.as_ref(), port.window(self.made.link)) else {
            return false;
        };
        self.armed.store(true, Release);
        let awaits = if recv {
            &self.awaits_data
        } else {
            &self.awaits_room
        };
        awaits.store(sleep::YES, Release);
        // The state cannot change meanwhile: nothing is written after the peer was told that.
        let mut wakeup = self.wakeup.lock();
        if wakeup.state != State::Open {
            return false;
        }
        if wakeup.rests {
            // He is woken when it goes on.
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

    /// Gives a page to who has touched it.
    pub(crate) fn fault(&self, node: &Node, fault: &Fault<'_>) -> Outcome {
        let Some((region, page)) = Region::find(self.made.id, fault.page()) else {
            return fault.refuse();
        };
        // Held until the page is in: who takes pages away first takes this, then zaps.
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

    /// What `WEFT_CHAN_INFO` tells.
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
