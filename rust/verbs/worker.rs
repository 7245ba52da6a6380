// SPDX-License-Identifier: GPL-2.0

//! The engine's end of one link: what it has, and a run of it.
//!
//! Whoever has reason runs it, one at a time: a work item after a doorbell, or the user who calls
//! `WEFT_KICK`. A run takes what has come, then visits the queue pairs that have work, round robin,
//! so much each, and ends after a budget. While users run it no doorbell is asked for, and the work
//! item only looks now and then whether they still do. That is in `runners`; what begins and ends with a
//! session of the link in `session`; what outlasts one in `still`. What a queue pair is, and what comes
//! of its turn, this must not know.

use super::{
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
        hold::Hold,
        qp::{Deferred, Disconnect, Flow},
        trunk::{Fault, Layout},
    },
    sys::{clock, home::Home, work},
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
mod still;
mod watch;

use self::watch::Watch;

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
struct Core {
    /// Counts sessions.
    session: u64,
    own: Option<Layout>,
    trunk: Option<KBox<Trunk>>,
    spares: Spares,
    turns: Turns,
    /// Words to be said behind data that were moved, in order.
    deferred: KVec<Deferred>,
    /// Hardware id of the peer.
    peer: u64,
    members: Members,
    /// What the peer is to be told by GONE.
    gone: KVec<Disconnect>,
    /// It has failed, not the peer: what was under way is lost, and another is to begin.
    failed: bool,
    watch: Watch,
    /// Whether anything may be begun.
    hold: Hold,
    /// Until when queue pairs are kept without a session, and what becomes of them then.
    kept: Option<(u64, Status)>,
}

impl Core {
    /// Whether the mover has something to do.
    fn is_moving(&self) -> bool {
        self.trunk
            .as_ref()
            .is_some_and(|trunk| !trunk.moving.is_idle())
    }

    /// Whether a doorbell or an interrupt will tell of whatever comes.
    fn is_asleep(&self) -> bool {
        let told = |trunk: &KBox<Trunk>| trunk.moving.is_idle() || trunk.moving.is_reported();
        self.watch.asleep && self.trunk.as_ref().is_none_or(told)
    }
}

/// The engine's end of a link.
#[pin_data]
pub(super) struct Worker {
    home: Arc<Home>,
    link: usize,
    table: Arc<Table>,
    memory: Arc<Memory>,
    #[pin]
    node: Mutex<Option<Arc<Node>>>,
    #[pin]
    core: Mutex<Core>,
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
                waiting: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// The engine may run, with what `node` has.
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

    /// Whether queue pairs are connected by this session.
    pub(super) fn has_users(&self) -> bool {
        self.users.load(Relaxed) != 0
    }

    /// Excludes runs.
    pub(super) fn lock(&self) -> CoreGuard<'_> {
        CoreGuard(self.core.lock())
    }

    /// Gives a queue pair a turn.
    fn enqueue(core: &mut Core, qp: &Arc<Qp>, inner: &mut Inner) {
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

    /// The same, with the trunk at hand.
    fn work_off(&self, core: &mut Core, io: &Io<'_>, budget: usize) -> Result<Rest, Fault> {
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
        cx.flow = if hold.holds(clock::now_ms()) {
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
            if taken == 0 && !moved && !served.progress && !served.again {
                break if waits || !run.deferred.is_empty() {
                    Rest::Later
                } else {
                    Rest::Idle
                };
            }
        };
        cx.trunk.ring(io);
        watch.sent(cx.sent);
        Ok(rest)
    }
}

/// Runs of the engine are excluded.
pub(super) struct CoreGuard<'a>(Guard<'a, Core, MutexBackend>);
