// SPDX-License-Identifier: GPL-2.0

//! The engine's end of one link: who runs it, for how long, and when it sleeps.
//!
//! Whoever has reason runs it, one at a time: a work item after a doorbell, or the user who calls
//! `WEFT_KICK`. A run takes what has come, then visits the queue pairs that have work, round robin,
//! so much each, and ends after a budget. While users run it no doorbell is asked for, and the work
//! item only looks now and then whether they still do.

use super::{
    cx::{Cx, Farewell},
    lent::Lent,
    moving::Owed,
    qp::{Ask, Inner, Path, Qp},
    run::Run,
    spares::Spares,
    table::{Table, MAX_QPS},
    trunk::{Io, Trunk},
    turns::Turns,
};
use crate::{
    fabric::{Node, Reason},
    hw::Port,
    mem::Memory,
    proto::{
        cqe::Status,
        hold::{Hold, PATIENCE_MS},
        link::Peer,
        trunk::{Fault, Layout},
    },
    sys::{clock, errno::EHOSTUNREACH, home::Home, work},
};
use kernel::{
    impl_has_delayed_work, new_delayed_work, new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        lock::{mutex::MutexBackend, Guard},
        Arc, Mutex,
    },
    time::{delay::fsleep, Delta},
    workqueue::{DelayedWork, WorkItem},
};

/// What a run of the work item handles.
const BUDGET: usize = 256;
/// Jiffies until what found no room, or no receive request, is looked at again, and until it is looked
/// whether users still run the engine.
const SOON: usize = 1;
/// How often it is looked whether the mover has done with the memory of one that goes.
const SETTLE_POLL: Delta = Delta::from_micros(20);
/// How long the work item looks on when nothing comes, in microseconds, before it sleeps.
const LINGER_US: u64 = 50;
/// How long it does so at most, if something comes all the time, before it lets others run.
const SHIFT_US: u64 = 1000;
/// Where so much has come and gone between two looks that found nothing there will be more: the peer is
/// not asked to ring, but looked after. Ends that wait for an answer to each message have less to do.
const LOADED: usize = 8;
/// How long until the next look then,
const HOLD: Delta = Delta::from_micros(200);
/// so many looks long, after which so much has to have come and gone for another so many.
const HOLD_OFF: u32 = 16;
const STILL_LOADED: usize = 32;
/// A user who has run the engine so often is going to do so again.
const POLLER: u32 = 8;
/// How often it is looked whether he does, before that is given up.
const PATIENCE: u32 = 12;

/// How a run ended.
enum Rest {
    /// There is more to do.
    More,
    /// Something waits for room, or for a user.
    Later,
    /// There will be more soon: to be looked after, and not asked to ring.
    Hold,
    /// Somebody waits for the core, and sees to what is left.
    Yield,
    Idle,
}

/// What belongs to a session of the link.
pub(super) struct Core {
    /// Counts sessions.
    pub(super) session: u64,
    own: Option<Layout>,
    trunk: Option<KBox<Trunk>>,
    lent: Lent,
    spares: Spares,
    turns: Turns,
    /// Words to be said behind data that were moved, in order.
    owed: KVec<Owed>,
    /// Hardware id of the peer.
    peer: u64,
    /// Queue pairs of this session.
    bound: usize,
    /// Who is to be told GONE.
    gone: KVec<Farewell>,
    /// It has failed, not the peer: what was under way is lost, and another is to begin.
    failed: bool,
    /// The peer is to ring when something comes.
    asleep: bool,
    /// Cells and words that have come, and cells that have gone, since he was asked to, or since it was
    /// looked after him.
    came: usize,
    /// So many times yet it is looked after him, whatever comes.
    hold_off: u32,
    /// The work item is going to run.
    timer: bool,
    /// A user has run the engine since it did,
    polled: bool,
    /// and so often since nobody slept.
    polls: u32,
    /// So many times yet it is looked whether a user runs the engine, before the peer is asked to ring.
    patience: u32,
    /// Whether anything may be begun.
    pub(super) hold: Hold,
    /// Until when queue pairs are kept without a session, and what becomes of them then.
    pub(super) kept: Option<(u64, Status)>,
}

impl Core {
    /// Whether the mover has something to do.
    fn is_moving(&self) -> bool {
        self.trunk
            .as_ref()
            .is_some_and(|trunk| !trunk.moving.is_idle())
    }

    /// Nothing has come for a while. Whether the peer is looked after once more, and not asked to ring.
    fn holds_off(&mut self) -> bool {
        let enough = match self.hold_off.checked_sub(1) {
            None => LOADED,
            Some(left) => {
                self.hold_off = left;
                if left != 0 {
                    return true;
                }
                STILL_LOADED
            }
        };
        if core::mem::take(&mut self.came) >= enough {
            self.hold_off = HOLD_OFF;
        }
        self.hold_off != 0
    }

    /// Whether a doorbell or an interrupt will tell of whatever comes.
    fn is_asleep(&self) -> bool {
        let told = |trunk: &KBox<Trunk>| trunk.moving.is_idle() || trunk.moving.is_reported();
        self.asleep && self.trunk.as_ref().is_none_or(told)
    }
}

/// The engine's end of a link.
#[pin_data]
pub(super) struct Worker {
    home: Arc<Home>,
    pub(super) link: usize,
    pub(super) table: Arc<Table>,
    memory: Arc<Memory>,
    #[pin]
    node: Mutex<Option<Arc<Node>>>,
    #[pin]
    pub(super) core: Mutex<Core>,
    #[pin]
    work: DelayedWork<Worker>,
    /// Queue pairs of this session, for the interrupt.
    users: Atomic<u32>,
    /// Who waits for the core to do something.
    waiting: Atomic<u32>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Worker { self.work }
}

impl WorkItem for Worker {
    type Pointer = Arc<Worker>;

    fn run(this: Arc<Worker>) {
        let Some(node) = this.node.lock().clone() else {
            return;
        };
        let Ok(port) = node.port() else {
            return;
        };
        let mut core = this.core.lock();
        core.timer = false;
        if core::mem::replace(&mut core.polled, false) {
            core.patience = if core.polls >= POLLER { PATIENCE } else { 0 };
        } else {
            core.patience = core.patience.saturating_sub(1);
        }
        let mut rest = this.turn(&mut core, &node, &**port, BUDGET);
        let awake = !core.asleep || core.is_moving();
        if let (Rest::Idle | Rest::Later, 0, true) = (&rest, core.patience, awake) {
            core.polls = 0;
            rest = this.linger(&mut core, &node, &**port);
        }
        let delay = match rest {
            Rest::More | Rest::Hold => 0,
            Rest::Yield => return,
            Rest::Idle if core.is_asleep() || core.trunk.is_none() => return,
            Rest::Later | Rest::Idle => SOON,
        };
        core.timer = true;
        if let Rest::Hold = rest {
            // Users run the engine meanwhile.
            drop(core);
            fsleep(HOLD);
        }
        // With the port entered: whoever retires this cancels it when all have left.
        work::again_unbound_in(&this, delay);
    }
}

impl Worker {
    pub(super) fn new(
        home: &Arc<Home>,
        link: usize,
        table: Arc<Table>,
        memory: Arc<Memory>,
    ) -> Result<Arc<Self>> {
        let spares = Spares::new()?;
        Arc::pin_init(
            pin_init!(Self {
                home: home.clone(),
                link,
                table,
                memory,
                node <- new_mutex!(None, "weft engine node"),
                core <- new_mutex!(
                    Core {
                        session: 0,
                        peer: 0,
                        own: None,
                        trunk: None,
                        lent: Lent::new(),
                        spares,
                        turns: Turns::new(),
                        owed: KVec::new(),
                        bound: 0,
                        gone: KVec::new(),
                        failed: false,
                        asleep: false,
                        came: 0,
                        hold_off: 0,
                        timer: false,
                        polled: false,
                        polls: 0,
                        patience: 0,
                        hold: Hold::new(),
                        kept: None,
                    },
                    "weft engine"
                ),
                work <- new_delayed_work!("weft engine"),
                users: Atomic::new(0),
                waiting: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn serve(&self, node: Arc<Node>) {
        *self.node.lock() = Some(node);
    }

    /// No work runs, or comes, when this returns, until [`Worker::serve`].
    pub(super) fn rest(self: &Arc<Self>) {
        let node = self.node.lock().take();
        work::cancel_delayed(self);
        drop(node);
    }

    /// The same, for good.
    pub(super) fn retire(self: &Arc<Self>) {
        self.rest();
        self.keep_no_longer(&mut self.core.lock());
    }

    /// Something may have come, or be there to be done. Any context, with the port there.
    pub(super) fn rung(self: &Arc<Self>) {
        if self.users.load(Relaxed) != 0 {
            work::run_unbound_in(self, 0);
        }
    }

    /// Some time has passed: what a doorbell should have told of is found now. False: the session is
    /// good for no queue pair any more, and another is needed.
    pub(super) fn tick(self: &Arc<Self>, port: &dyn Port) -> bool {
        // Who has it finds out himself; the link must not wait for him.
        let Some(mut core) = self.core.try_lock() else {
            return true;
        };
        let Some(trunk) = &core.trunk else {
            return !core.failed;
        };
        if port
            .mover(self.link)
            .is_some_and(|mover| !trunk.moving.is_well(mover))
        {
            dev_warn!(
                self.home.get(),
                "link {}: the DMA engine has stopped: queue pairs over it end\n",
                self.link
            );
            self.end(port, &mut core, Status::Link);
            return false;
        }
        drop(core);
        work::run_unbound_in(self, 0);
        true
    }

    pub(super) fn ready(&self, port: &dyn Port, peer: &Peer) {
        let own = port
            .arena(self.link)
            .ok()
            .and_then(|arena| Layout::of_arena(arena.bytes() as u64));
        let mut core = self.core.lock();
        core.session += 1;
        core.peer = peer.id.hwid;
        core.own = own;
        core.failed = false;
        core.trunk = None;
        if let (Some(own), Some(peer)) = (own, Layout::of_arena(peer.offer.bytes)) {
            match Trunk::new(own, peer) {
                Ok(trunk) => core.trunk = Some(trunk),
                Err(_) => dev_warn!(
                    self.home.get(),
                    "link {}: no memory for a trunk: no queue pairs over it\n",
                    self.link
                ),
            }
        }
        // A trunk that is zero asks to be rung at the first message.
        core.asleep = true;
        // Of another session.
        core.came = 0;
        core.hold_off = 0;
        core.timer = false;
        core.polls = 0;
        core.patience = 0;
        core.hold = Hold::new();
        self.resume(&mut core);
    }

    /// Nothing here touches the window when this returns, until the next session.
    pub(super) fn broken(&self, port: &dyn Port, reason: Reason) {
        let status = match reason {
            Reason::Link | Reason::Removed => Status::Link,
            Reason::Silence | Reason::Bye | Reason::Restart => Status::Peer,
        };
        let mut core = self.core.lock();
        let now = clock::now_ms();
        let keeps = core.hold.over(now) && reason != Reason::Removed;
        core.kept = keeps.then_some((now + PATIENCE_MS, status));
        self.end(port, &mut core, status);
    }

    /// Ends the trunk and all queue pairs that use it, but those that are to be kept.
    fn end(&self, port: &dyn Port, core: &mut Core, status: Status) {
        // Before it gives back what it kept in its place.
        if let Some(mover) = port.mover(self.link).filter(|_| core.is_moving()) {
            mover.stop();
        }
        core.trunk = None;
        core.owed.clear();
        core.lent.clear();
        core.gone.clear();
        core.bound = 0;
        self.users.store(0, Relaxed);
        while core.turns.pop().is_some() {}
        for qp in self.table.all() {
            let mut inner = qp.inner.lock();
            if inner.path.is_some_and(|path| path.link == self.link) {
                inner.queued = false;
                if core.kept.is_some() && inner.is_of(self.link, core.session) && inner.keep() {
                    continue;
                }
                qp.fail(&mut inner, status, status, status);
                inner.owes_gone = false;
            }
        }
    }

    /// Connects a queue pair. `EHOSTUNREACH`: the link has no trunk, or leads to another peer.
    pub(super) fn bind(
        &self,
        inner: &mut Inner,
        core: &mut CoreGuard<'_>,
        peer: u64,
        peer_qpn: u32,
    ) -> Result {
        self.connect(inner, &mut core.0, peer, peer_qpn)
    }

    /// The same, and that it goes on in another session.
    pub(super) fn connect(
        &self,
        inner: &mut Inner,
        core: &mut Core,
        peer: u64,
        peer_qpn: u32,
    ) -> Result {
        // Another may have come to the link since it was looked up.
        if core.trunk.is_none() || core.peer != peer {
            return Err(EHOSTUNREACH.into());
        }
        let most = core.turns.len() + core.bound + 1;
        core.turns.reserve(most)?;
        core.bound += 1;
        self.users.store(core.bound as u32, Relaxed);
        inner.path = Some(Path {
            link: self.link,
            peer,
            peer_qpn,
            session: core.session,
        });
        inner.owes_join = Some(Ask::Yes);
        Ok(())
    }

    /// Disconnects a queue pair that is going to be reset or destroyed. The peer is told, as far as
    /// that is possible now; otherwise it hears of it when it asks.
    pub(super) fn leave(&self, qpn: u32, inner: &mut Inner, core: &mut CoreGuard<'_>) {
        let core = &mut *core.0;
        let Some(path) = inner.path.take() else {
            return;
        };
        // Its turn here may still come, and finds it gone.
        inner.queued = false;
        if path.session != core.session || core.trunk.is_none() {
            return;
        }
        self.settle(core, qpn);
        core.bound = core.bound.saturating_sub(1);
        self.users.store(core.bound as u32, Relaxed);
        if inner.joined && inner.state.hears() || inner.owes_gone {
            let word = Farewell {
                to: path.peer_qpn,
                qpn,
                // Who has asked, and got no answer, is told as well.
                refuses: inner.owes_join.is_some(),
            };
            // A peer that hears nothing meets with users here who come and go.
            if core.gone.len() < MAX_QPS as usize {
                let _ = core.gone.push(word, GFP_KERNEL);
            }
        }
        inner.owes_gone = false;
    }

    /// Waits until nothing is moved any more that requests of a queue pair have named.
    fn settle(&self, core: &Core, qpn: u32) {
        let Some(trunk) = core.trunk.as_ref().filter(|trunk| trunk.moving.has(qpn)) else {
            return;
        };
        let Some(node) = self.node.lock().clone() else {
            return;
        };
        let Ok(port) = node.port() else {
            return;
        };
        let Some(mover) = port.mover(self.link) else {
            return;
        };
        while trunk.moving.reads_for(qpn, mover) {
            if !trunk.moving.is_well(mover) {
                // Found out by the next tick.
                mover.stop();
                return;
            }
            fsleep(SETTLE_POLL);
        }
    }

    pub(super) fn has_users(&self) -> bool {
        self.users.load(Relaxed) != 0
    }

    /// Excludes runs.
    pub(super) fn lock(&self) -> CoreGuard<'_> {
        CoreGuard(self.core.lock())
    }

    /// A user has posted to `qp`: it gets a turn.
    pub(super) fn posted(&self, qp: &Arc<Qp>) {
        let mut core = self.hurry();
        Self::enqueue(&mut core, qp, &mut qp.inner.lock());
    }

    /// Has those run that were [`Worker::posted`] to, in a thread of the driver's.
    pub(super) fn serve_posted(self: &Arc<Self>, node: &Node, port: &dyn Port) {
        let mut core = self.hurry();
        let rest = self.turn(&mut core, node, port, BUDGET);
        self.go_on(&mut core, &rest, 0);
    }

    /// The core; who only looks whether something comes gives it up.
    pub(super) fn hurry(&self) -> Guard<'_, Core, MutexBackend> {
        self.waiting.fetch_add(1, Relaxed);
        let core = self.core.lock();
        self.waiting.fetch_sub(1, Relaxed);
        core
    }

    /// Sees to it that what is left is done, in `delay` jiffies, and that somebody looks for what is to
    /// come.
    fn go_on(self: &Arc<Self>, core: &mut Core, rest: &Rest, delay: usize) {
        let idle = matches!(rest, Rest::Idle) && core.is_asleep();
        if !idle && !core.timer && core.trunk.is_some() {
            core.timer = true;
            work::again_unbound_in(self, delay);
        }
    }

    /// A user runs the engine: `qp` has work, if there is one.
    pub(super) fn kick(
        self: &Arc<Self>,
        node: &Node,
        port: &dyn Port,
        qp: Option<&Arc<Qp>>,
        budget: usize,
    ) {
        let mut core = self.hurry();
        if let Some(qp) = qp {
            Self::enqueue(&mut core, qp, &mut qp.inner.lock());
        }
        let rest = self.turn(&mut core, node, port, budget);
        core.polled = true;
        core.polls = core.polls.saturating_add(1);
        // Who does not come back soon is woken by a doorbell as early as can be.
        let delay = if core.polls >= POLLER { SOON } else { 0 };
        self.go_on(&mut core, &rest, delay);
    }

    /// A user who may have run the engine is going to sleep: a doorbell is to tell of what comes.
    pub(super) fn user_sleeps(self: &Arc<Self>) {
        let mut core = self.hurry();
        core.polled = false;
        core.polls = 0;
        core.patience = 0;
        if !core.is_asleep() && core.trunk.is_some() {
            core.timer = true;
            work::run_unbound_in(self, 0);
        }
    }

    /// Gives a queue pair a turn.
    pub(super) fn enqueue(core: &mut Core, qp: &Arc<Qp>, inner: &mut Inner) {
        if !inner.queued && inner.path.is_some() {
            // There is room, since it was connected.
            inner.queued = core.turns.push(qp.clone());
        }
    }

    /// Handles what has come and what is to be done, up to `budget`.
    fn turn(&self, core: &mut Core, node: &Node, port: &dyn Port, budget: usize) -> Rest {
        let Ok(io) = Io::new(node, port, self.link) else {
            return Rest::Idle;
        };
        match self.work_off(core, &io, budget) {
            Ok(rest) => rest,
            Err(fault) => {
                node.complain(fmt!(
                    "link {}: the peer {}: its queue pairs end",
                    self.link,
                    fault.as_str()
                ));
                let status = match fault {
                    Fault::Reach => {
                        core.failed = true;
                        Status::Link
                    }
                    _ => Status::Protocol,
                };
                self.end(port, core, status);
                Rest::Idle
            }
        }
    }

    fn work_off(&self, core: &mut Core, io: &Io<'_>, budget: usize) -> Result<Rest, Fault> {
        let Core {
            own: Some(own),
            trunk: Some(trunk),
            lent,
            spares,
            turns,
            owed,
            gone,
            asleep,
            came,
            session,
            hold,
            ..
        } = core
        else {
            return Ok(Rest::Idle);
        };
        let dev = self.home.get();
        let mut cx = Cx::new(*io, *own, trunk, lent, spares, &self.memory, &dev);
        cx.paused = self.table.is_paused();
        cx.holds = hold.holds(clock::now_ms());
        let mut run = Run {
            table: &self.table,
            turns,
            owed,
            gone,
            link: self.link,
            session: *session,
        };
        let mut left = budget;
        let rest = loop {
            let moved = run.moved(&mut cx)?;
            let taken = run.take(&mut cx, left)?;
            left -= taken.min(left);
            let served = run.visit(&mut cx, &mut left)?;
            let waits = served.blocked || served.starved || cx.trunk.unread;
            cx.trunk.unread = false;
            if taken > 0 {
                *asleep = false;
                *came = came.saturating_add(taken);
            }
            if left == 0 || cx.is_tired() {
                break Rest::More;
            }
            if taken == 0 && !moved && !served.progress && !served.again {
                break if waits || !run.owed.is_empty() {
                    Rest::Later
                } else {
                    Rest::Idle
                };
            }
        };
        cx.trunk.ring(io);
        *came = came.saturating_add(cx.sent);
        Ok(rest)
    }

    /// Looks on for a while, then asks to be rung for.
    fn linger(&self, core: &mut Core, node: &Node, port: &dyn Port) -> Rest {
        let Ok(io) = Io::new(node, port, self.link) else {
            return Rest::Idle;
        };
        let begin = clock::now_us();
        let mut since = begin;
        let mut was_asleep = core.asleep;
        let mut moves = 0;
        // What comes meanwhile clears it.
        core.asleep = true;
        let rest = loop {
            let rest = self.turn(core, node, port, BUDGET);
            if !matches!(rest, Rest::Idle | Rest::Later) {
                break rest;
            }
            if !core.asleep {
                // Something came, and who was asked to ring has done so: as long again.
                (was_asleep, core.asleep, since) = (false, true, clock::now_us());
                if core.hold_off == 0 && core.came < LOADED {
                    core.came = 0;
                }
                if since.saturating_sub(begin) >= SHIFT_US {
                    break Rest::More;
                }
            }
            if self.waiting.load(Relaxed) != 0 {
                // He goes on, and needs a processor for it.
                break Rest::Yield;
            }
            let Some(trunk) = &mut core.trunk else {
                break Rest::Idle;
            };
            let now = trunk.moving.begun_and_done();
            if now != moves {
                (moves, since) = (now, clock::now_us());
            }
            if clock::now_us().saturating_sub(since) >= LINGER_US {
                if let Some(mover) = io.mover().filter(|_| !trunk.moving.is_idle()) {
                    trunk.moving.report(mover);
                }
                if core.holds_off() {
                    core.asleep = false;
                    return Rest::Hold;
                }
                if let Some(trunk) = core.trunk.as_mut().filter(|_| !was_asleep) {
                    trunk.sleep(&io);
                }
                return rest;
            }
            core::hint::spin_loop();
        };
        // Nobody has asked him now.
        core.asleep &= was_asleep;
        rest
    }
}

/// Runs of the engine are excluded.
pub(super) struct CoreGuard<'a>(Guard<'a, Core, MutexBackend>);
