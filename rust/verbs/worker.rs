// SPDX-License-Identifier: GPL-2.0

//! The engine's end of one link: its state, and a run of it.
//!
//! One thread runs it at a time: a work item after a doorbell, or a user that calls `WEFT_KICK` or
//! `WEFT_CQ_WAIT`. A run takes what has arrived, then services the queue pairs in the run queue, each
//! for a quantum, and ends when its budget of requests or bytes is exhausted; the work item does the
//! rest. While users run it no doorbell is requested, and the work item only checks now and then that
//! they still do. That is in `runners`; users that sleep between two runs are in `sleepers`; what begins
//! and ends with a session of the link in `session`; what outlasts a session in `still`. This file must
//! not know what a queue pair is, nor how it is serviced.

use super::{
    control::Control,
    cq::Next,
    cx::Cx,
    members::Members,
    qp::{Inner, Qp},
    run::Run,
    spares::Spares,
    table::Table,
    trunk::{Io, Trunk},
    turns::Turns,
};
use crate::{
    fabric::Node,
    hw::Port,
    mem::Memory,
    proto::{
        cqe::Status,
        fifo,
        hold::Hold,
        qp::{Deferred, Disconnect, Flow},
        trunk::{Fault, Layout},
        watch::Watch,
    },
    sys::{
        clock,
        home::Home,
        irqlock::{new_spinlock_irq, SpinLockIrq},
        task, work,
    },
};
use kernel::{
    impl_has_delayed_work, new_delayed_work, new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        lock::{mutex::MutexBackend, Guard},
        Arc, Mutex,
    },
    workqueue::DelayedWork,
};

mod runners;
mod session;
mod sleepers;
mod still;

pub(super) use self::sleepers::Runner;
use self::sleepers::Sleepers;

/// How a run ended.
enum Rest {
    /// The budget was exhausted, or work comes all the time: run again at once.
    More,
    /// Something waits: for room, for a receive request, or for a load to repeat. Look again soon.
    Later,
    /// The link is loaded: poll it, and do not ask the peer to ring.
    Hold,
    /// Another thread waits for the core; it handles what is left.
    Yield,
    Idle,
}

/// The state of a session of the link.
struct Core {
    /// Counts sessions.
    session: u64,
    own: Option<Layout>,
    trunk: Option<KBox<Trunk>>,
    spares: Spares,
    turns: Turns,
    /// Control words to be sent behind data that were moved, in order.
    deferred: KVec<Deferred>,
    /// Hardware id of the peer.
    peer: u64,
    members: Members,
    /// The GONE messages to be sent.
    gone: KVec<Disconnect>,
    /// The link has failed, not the peer: transfers are lost, and a new session is needed.
    failed: bool,
    watch: Watch,
    /// Decides whether requests may be begun.
    hold: Hold,
    /// Until when queue pairs are kept without a session, and the status that they end with after
    /// that.
    kept: Option<(u64, Status)>,
}

impl Core {
    /// Returns whether transfers are under way.
    fn is_moving(&self) -> bool {
        self.trunk
            .as_ref()
            .is_some_and(|trunk| !trunk.moving.is_idle())
    }

    /// Returns whether a doorbell or an interrupt announces all that comes, and nothing is to be announced
    /// to the peer.
    fn is_asleep(&self) -> bool {
        let told = |trunk: &KBox<Trunk>| trunk.moving.is_idle() || trunk.moving.is_reported();
        self.watch.is_asleep() && self.trunk.as_ref().is_none_or(told)
    }
}

/// The engine's end of a link.
#[pin_data]
pub(super) struct Worker {
    home: Arc<Home>,
    link: usize,
    table: Arc<Table>,
    memory: Arc<Memory>,
    control: Arc<dyn Control>,
    #[pin]
    node: Mutex<Option<Arc<Node>>>,
    #[pin]
    core: Mutex<Core>,
    #[pin]
    work: DelayedWork<Worker>,
    /// How many queue pairs this session connects. Read in hard interrupts.
    users: Atomic<u32>,
    /// Queue pairs are kept until there is another session.
    keeping: Atomic<bool>,
    /// How many threads wait for `core` in [`Worker::hurry`].
    waiting: Atomic<u32>,
    /// Bytes that runs have stored at the peer since [`Worker::take_stored`].
    stored: Atomic<u64>,
    /// Where the next message of [`Control`] shows, while no run takes place and no queue pair is connected.
    #[pin]
    next: SpinLockIrq<Option<fifo::Next>>,
    #[pin]
    sleepers: Sleepers,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Worker { self.work }
}

impl Worker {
    pub(super) fn new(
        home: &Arc<Home>,
        link: usize,
        table: Arc<Table>,
        memory: Arc<Memory>,
        control: Arc<dyn Control>,
    ) -> Result<Arc<Self>> {
        let spares = Spares::new()?;
        Arc::pin_init(
            pin_init!(Self {
                home: home.clone(),
                link,
                table,
                memory,
                control,
                node <- new_mutex!(None, "weft engine node"),
                core <- new_mutex!(
                    Core {
                        session: 0,
                        peer: 0,
                        own: None,
                        trunk: None,
                        spares,
                        turns: Turns::new(),
                        deferred: KVec::new(),
                        members: Members::new(),
                        gone: KVec::new(),
                        failed: false,
                        watch: Watch::new(),
                        hold: Hold::new(),
                        kept: None,
                    },
                    "weft engine"
                ),
                work <- new_delayed_work!("weft engine"),
                users: Atomic::new(0),
                keeping: Atomic::new(false),
                waiting: Atomic::new(0),
                stored: Atomic::new(0),
                next <- new_spinlock_irq!(None, c"weft engine next"),
                sleepers <- Sleepers::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Lets the engine run on `node`.
    pub(super) fn serve(&self, node: Arc<Node>) {
        *self.node.lock() = Some(node);
    }

    /// Stops the work item: it neither runs nor is queued when this returns, until [`Worker::serve`].
    /// Sleeps.
    pub(super) fn rest(self: &Arc<Self>) {
        let node = self.node.lock().take();
        work::cancel_delayed(self);
        drop(node);
    }

    /// As [`Worker::rest`], for good: queue pairs that were kept end.
    pub(super) fn retire(self: &Arc<Self>) {
        self.rest();
        self.keep_no_longer(&mut self.core.lock());
    }

    /// Returns whether this session connects queue pairs.
    pub(super) fn has_users(&self) -> bool {
        self.connected() != 0
    }

    /// Returns how many.
    pub(super) fn connected(&self) -> u32 {
        self.users.load(Relaxed)
    }

    /// Returns how many bytes runs have stored at the peer since the last call.
    pub(super) fn take_stored(&self) -> u64 {
        self.stored.xchg(0, Relaxed)
    }

    /// Returns whether what the peer sends is waited for.
    fn is_awaited(&self) -> bool {
        self.has_users() || self.control.listens()
    }

    /// Returns whether queue pairs are kept until there is another session.
    pub(super) fn keeps(&self) -> bool {
        self.keeping.load(Relaxed)
    }

    /// Locks the core: no run takes place meanwhile.
    pub(super) fn lock(&self) -> CoreGuard<'_> {
        CoreGuard(self.core.lock())
    }

    /// Adds a connected queue pair to the run queue, unless it is there.
    fn enqueue(core: &mut Core, qp: &Arc<Qp>, inner: &mut Inner) {
        if !inner.queued && inner.path.is_some() {
            // Room was reserved when the queue pair was connected.
            inner.queued = core.turns.push(qp.clone());
        }
    }

    /// Calls `f` with the way to the peer. `None`: there is none, without a session.
    fn with_io<R>(&self, node: &Node, port: &dyn Port, f: impl FnOnce(&Io<'_>) -> R) -> Option<R> {
        let arena = port.arena(self.link).ok()?;
        let io = Io::new(node, port, self.link, &arena).ok()?;
        Some(f(&io))
    }

    /// Runs the engine once, for up to `budget` cells, control words and requests, or until the calling
    /// thread is killed. If the peer breaks the protocol, or cannot be reached, its queue pairs end.
    fn turn(&self, core: &mut Core, node: &Node, port: &dyn Port, budget: usize) -> Rest {
        self.turn_for(core, node, port, budget, None)
    }

    /// As [`Worker::turn`]. If it leaves a user `next`, control words of a queue pair that completes there
    /// are not announced to the peer unless something else is: another run soon is to do that.
    fn turn_for(
        &self,
        core: &mut Core,
        node: &Node,
        port: &dyn Port,
        budget: usize,
        next: Option<&Next>,
    ) -> Rest {
        let Ok(arena) = port.arena(self.link) else {
            return Rest::Idle;
        };
        let Ok(io) = Io::new(node, port, self.link, &arena) else {
            return Rest::Idle;
        };
        let alone = !self.has_users() && self.control.listens();
        if alone {
            *self.next.lock() = None;
        }
        let worked = self.work_off(core, &io, budget, next);
        if alone {
            *self.next.lock() = core.trunk.as_ref().map(|trunk| trunk.inbound.next());
        }
        match worked {
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

    /// As [`Worker::turn_for`], without the handling of faults.
    fn work_off(
        &self,
        core: &mut Core,
        io: &Io<'_>,
        budget: usize,
        next: Option<&Next>,
    ) -> Result<Rest, Fault> {
        let Core {
            own: Some(own),
            trunk: Some(trunk),
            spares,
            turns,
            deferred,
            gone,
            watch,
            members,
            hold,
            ..
        } = core
        else {
            return Ok(Rest::Idle);
        };
        let dev = self.home.get();
        let mut cx = Cx::new(*io, *own, trunk, spares, &self.memory, &dev);
        cx.flow = if hold.holds(clock::now_ms) {
            Flow::Quiesced
        } else if self.table.is_paused() {
            Flow::Paused
        } else {
            Flow::Open
        };
        let mut run = Run {
            table: &self.table,
            turns,
            deferred,
            gone,
            members,
            control: &*self.control,
            link: self.link,
        };
        let mut left = budget;
        let rest = loop {
            let moved = run.moved(&mut cx)?;
            let taken = run.take(&mut cx, left)?;
            left -= taken.min(left);
            let served = run.visit(&mut cx, &mut left)?;
            let waits = served.blocked || served.starved || cx.trunk.unread;
            cx.trunk.unread = false;
            watch.took(taken);
            if left == 0 || cx.is_tired() {
                break Rest::More;
            }
            // What comes from here on is found by the next run, as after a run without work.
            if taken == 0 && !moved && !served.again {
                break if waits || !run.deferred.is_empty() {
                    Rest::Later
                } else {
                    Rest::Idle
                };
            }
            if task::is_killed() {
                break Rest::More;
            }
        };
        watch.sent(cx.sent, cx.asked);
        let stored = cx.stored();
        if stored != 0 {
            self.stored.fetch_add(stored, Relaxed);
        }
        let is_own = |next: &&Next| {
            let qp = cx.said.and_then(|qpn| members.find(qpn));
            qp.is_some_and(|qp| qp.completes_in(&next.cq)) && next.has_ended()
        };
        let words = cx.sent == 0 && cx.trunk.moving.is_idle();
        watch.owes = if words && next.as_ref().is_some_and(is_own) {
            cx.trunk.ring_later(io)
        } else {
            cx.trunk.ring(io);
            false
        };
        Ok(rest)
    }
}

/// The locked core: no run takes place meanwhile.
pub(super) struct CoreGuard<'a>(Guard<'a, Core, MutexBackend>);
