// SPDX-License-Identifier: GPL-2.0

//! The engine's end of one link: who runs it, for how long, and when it sleeps.
//!
//! Whoever has reason runs it, one at a time: a work item after a doorbell, or the user who calls
//! `WEFT_KICK`. A run takes what has come, then visits the queue pairs that have work, round robin,
//! so much each, and ends after a budget. While users run it no doorbell is asked for, and the work
//! item only looks now and then whether they still do.

use super::{
    data::{Refused, Sink},
    lent::{Lease, Lent},
    moving::{Owed, What},
    qp::{Ask, Inner, Path, Qp, State, FLUSH},
    spares::Spares,
    table::{Table, MAX_QPS},
    traced,
    trunk::{Io, Trunk},
    turns::Turns,
};
use crate::{
    fabric::{Node, Reason},
    hw::{Moved, Port},
    mem::{Binding, Denied, Memory, Pd},
    proto::{
        cqe::Status,
        fifo::Arrived,
        link::Peer,
        protocol::Protocol,
        request::{Address, Extents, Lane, Message, Role},
        trunk::{Fault, Layout},
        word::{Says, Word},
        wqe::{SendWqe, Sgl},
    },
    sys::{clock, errno::EHOSTUNREACH, work},
};
use core::{cell::Cell, task::Poll};
use kernel::{
    impl_has_delayed_work, new_delayed_work, new_mutex, pci,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        lock::{mutex::MutexBackend, Guard},
        Arc, Mutex,
    },
    time::{delay::fsleep, Delta},
    workqueue::{DelayedWork, WorkItem},
};

/// Requests that a queue pair sends in one turn.
const QUANTUM: usize = 16;
/// What a run of the work item handles.
const BUDGET: usize = 256;
/// Bytes of long messages that a run moves before it lets others run.
const MOST_MOVED: u64 = 1 << 20;
/// What a search for all queue pairs of a peer is worth, in bytes.
const SEARCH: u64 = 64 << 10;
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
/// Numbers of queue pairs that are not there, of which the peer is to be told.
const MOST_GONE: usize = 256;

/// What came of a visit.
#[derive(Clone, Copy, Default)]
pub(super) struct Served {
    pub(super) progress: bool,
    /// There is more that can be done at once.
    pub(super) again: bool,
    /// There was no room.
    pub(super) blocked: bool,
    /// A receive request is missing.
    pub(super) starved: bool,
}

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

/// What a run works with.
pub(super) struct Cx<'a> {
    pub(super) io: Io<'a>,
    pub(super) own: Layout,
    pub(super) trunk: &'a mut Trunk,
    pub(super) lent: &'a mut Lent,
    pub(super) spares: &'a mut Spares,
    pub(super) memory: &'a Memory,
    dev: &'a pci::Device,
    /// The queue pair that has its turn, or 0: for those who trace.
    own_qpn: Cell<u32>,
    /// Bytes that were moved in this run.
    moved: Cell<u64>,
    /// Cells that were sent in this run.
    sent: usize,
}

impl Cx<'_> {
    /// Sends a cell by the way of `protocol`. False: there is no room now.
    pub(super) fn send(
        &mut self,
        protocol: Protocol,
        to: Address,
        message: &Message,
    ) -> Result<bool, Fault> {
        let sent = self.trunk.send(&self.io, protocol, to, message)?;
        if sent {
            self.sent += 1;
            traced::cell(
                self.dev,
                self.io.link,
                true,
                self.own_qpn.get(),
                to,
                message,
            );
        }
        Ok(sent)
    }

    /// Says a word by the way of `protocol`. False: there is no room now.
    pub(super) fn word(&mut self, protocol: Protocol, word: Word) -> Result<bool, Fault> {
        let sent = self.trunk.word(&self.io, protocol, &word)?;
        if sent {
            traced::word(self.dev, self.io.link, true, self.own_qpn.get(), &word);
        }
        Ok(sent)
    }

    /// Says GONE, when nothing of queue pair `qpn`, if there is one, is under way. False: not now.
    pub(super) fn gone(
        &mut self,
        protocol: Protocol,
        qpn: Option<u32>,
        word: Farewell,
    ) -> Result<bool, Fault> {
        if qpn.is_some_and(|qpn| self.trunk.moving.has(qpn)) {
            return Ok(false);
        }
        // Data that have left may still be on their way: a word behind them, to nobody, is waited for.
        if self.trunk.moving.is_unfenced() && !self.word_behind(&NOTHING)? {
            return Ok(false);
        }
        let to = Address {
            qpn: word.to,
            psn: 0,
        };
        let Farewell { qpn, refuses, .. } = word;
        self.send(protocol, to, &Message::Gone { qpn, refuses })
    }

    /// Sends a word behind all data that are being moved. False: there is no room now.
    pub(super) fn word_behind(&mut self, word: &Word) -> Result<bool, Fault> {
        let Some(mover) = self.io.mover() else {
            return self.word(Protocol::PUSH, *word);
        };
        let sent = self.trunk.word_behind(&self.io, mover, self.memory, word)?;
        if sent {
            traced::word(self.dev, self.io.link, true, self.own_qpn.get(), word);
        }
        Ok(sent)
    }

    pub(super) fn has_room(&mut self, lane: Lane) -> Result<bool, Fault> {
        self.trunk.has_room(&self.io, lane, 1)
    }

    pub(super) fn has_word_room(&mut self) -> Result<bool, Fault> {
        self.trunk.has_word_room(&self.io)
    }

    pub(super) fn may_say(&mut self, protocol: Protocol) -> Result<bool, Fault> {
        self.trunk.may_say(&self.io, protocol)
    }

    /// Reads what the peer has put down in `extents`, and puts it at `offset`. False: it did not come
    /// over the bridge.
    pub(super) fn pull(
        &self,
        sink: &Sink<'_>,
        pd: &Pd,
        offset: u64,
        extents: &Extents,
    ) -> core::result::Result<bool, Refused> {
        let len = extents.bytes();
        self.moved(len);
        let pulled = self.io.over_the_bridge(|| {
            let window = self.io.window;
            sink.collect(window, self.memory, pd, offset, extents, len)
        });
        pulled.map_or(Ok(false), |pulled| pulled.map(|()| true))
    }

    /// Takes note of work that takes longer than a short message.
    pub(super) fn moved(&self, bytes: u64) {
        self.moved.set(self.moved.get().saturating_add(bytes));
    }

    /// Whether this run has worked long enough.
    fn is_tired(&self) -> bool {
        self.moved.get() >= MOST_MOVED
    }

    /// Whether so many bytes are announced, and memory is lent for them.
    pub(super) fn is_long(&self, bytes: u64) -> bool {
        bytes > self.trunk.peer.eager_most() as u64
    }

    /// Binds a window, or takes it back. False: accesses by it go on, it has to be tried again.
    pub(super) fn bind(&self, pd: &Pd, wqe: &SendWqe) -> Result<bool, Status> {
        let list = wqe.tail.list().map(Sgl::as_slice).unwrap_or_default();
        let binding = Binding {
            // None is needed to unbind.
            region: list.first().map_or(0, |region| region.stag),
            to: wqe.arg0,
            length: wqe.arg1,
            access: wqe.access,
            key: wqe.key,
        };
        ended(self.memory.bind(pd, wqe.remote_stag, &binding)).map_err(|_| Status::Bind)
    }

    /// Takes a window back. False: as above.
    pub(super) fn invalidate(&self, pd: &Pd, stag: u32) -> Result<bool, Status> {
        ended(self.memory.invalidate(pd, stag)).map_err(|_| Status::LocalProt)
    }
}

/// A word to nobody.
const NOTHING: Word = Word {
    qpn: 0,
    psn: 0,
    says: Says::Ack,
};

fn ended(done: Poll<Result<(), Denied>>) -> Result<bool, Denied> {
    match done {
        Poll::Ready(done) => done.map(|()| true),
        Poll::Pending => Ok(false),
    }
}

type Result<T = (), E = Error> = core::result::Result<T, E>;

/// What the peer is told by GONE.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Farewell {
    /// A queue pair of the peer's, or 0: any that has named `qpn`.
    pub(super) to: u32,
    /// The one of this end that writes nothing more for it, or that nobody has.
    pub(super) qpn: u32,
    /// It was never there for it.
    pub(super) refuses: bool,
}

/// What belongs to a session of the link.
struct Core {
    /// Counts sessions.
    session: u64,
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
    dev: ARef<pci::Device>,
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
        dev: &pci::Device,
        link: usize,
        table: Arc<Table>,
        memory: Arc<Memory>,
    ) -> Result<Arc<Self>> {
        let spares = Spares::new()?;
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.into(),
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

    /// No work runs, or comes, when this returns.
    pub(super) fn retire(self: &Arc<Self>) {
        let node = self.node.lock().take();
        work::cancel_delayed(self);
        drop(node);
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
                self.dev,
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
                    self.dev,
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
    }

    /// Nothing here touches the window when this returns, until the next session.
    pub(super) fn broken(&self, port: &dyn Port, reason: Reason) {
        let status = match reason {
            Reason::Link | Reason::Removed => Status::Link,
            Reason::Silence | Reason::Bye | Reason::Restart => Status::Peer,
        };
        let mut core = self.core.lock();
        self.end(port, &mut core, status);
    }

    /// Ends the trunk and all queue pairs that use it.
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
        let mut at = 0;
        while let Some((qp, next)) = self.table.next(at) {
            at = next;
            let mut inner = qp.inner.lock();
            if inner.path.is_some_and(|path| path.link == self.link) {
                inner.queued = false;
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
        let core = &mut *core.0;
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
    fn hurry(&self) -> Guard<'_, Core, MutexBackend> {
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
            ..
        } = core
        else {
            return Ok(Rest::Idle);
        };
        let mut cx = Cx {
            io: *io,
            own: *own,
            trunk,
            lent,
            spares,
            memory: &self.memory,
            dev: &self.dev,
            own_qpn: Cell::new(0),
            moved: Cell::new(0),
            sent: 0,
        };
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

/// One run.
struct Run<'a> {
    table: &'a Table,
    turns: &'a mut Turns,
    owed: &'a mut KVec<Owed>,
    gone: &'a mut KVec<Farewell>,
    link: usize,
    session: u64,
}

impl Run<'_> {
    /// The queue pair of this link with this number.
    fn find(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.table.find(qpn)
    }

    /// Whether a queue pair is connected by this session.
    fn is_here(&self, inner: &Inner) -> bool {
        let here = |path: Path| path.link == self.link && path.session == self.session;
        inner.path.is_some_and(here)
    }

    fn enqueue(&mut self, qp: &Arc<Qp>, inner: &mut Inner) {
        if !inner.queued {
            inner.queued = self.turns.push(qp.clone());
        }
    }

    /// Looks what has been moved, and says so. False: nothing has.
    fn moved(&mut self, cx: &mut Cx<'_>) -> Result<bool, Fault> {
        let Some(mover) = cx.io.mover() else {
            return Ok(false);
        };
        let mut progress = false;
        while let Some((what, went)) = cx.trunk.moving.next(mover) {
            progress = true;
            if went == Moved::Failed {
                return Err(Fault::Reach);
            }
            self.ended(what, went);
        }
        while let Some(&owed) = self.owed.first() {
            cx.own_qpn.set(owed.qpn);
            let qp = self.find(owed.qpn);
            let is_meant = |inner: &Inner| self.is_here(inner) && inner.epoch == owed.epoch;
            // One that has gone says nothing, and the peer is told that it has.
            let says = qp.as_ref().is_some_and(|qp| {
                let inner = qp.inner.lock();
                is_meant(&inner) && inner.state.hears()
            });
            if says && !cx.word_behind(&owed.word)? {
                break;
            }
            if let Some(qp) = qp.filter(|_| owed.answers) {
                let mut inner = qp.inner.lock();
                if is_meant(&inner) {
                    Qp::told_of_read(&mut inner);
                }
            }
            let _ = self.owed.remove(0);
            progress = true;
        }
        Ok(progress)
    }

    /// A transfer has ended.
    fn ended(&mut self, what: What, went: Moved) {
        let (qpn, epoch) = match what {
            What::Part { qpn, epoch, .. } | What::Answer { qpn, epoch, .. } => (qpn, epoch),
            What::Word | What::Nothing | What::Report => return,
        };
        let Some(qp) = self.find(qpn) else {
            return;
        };
        let mut inner = qp.inner.lock();
        if !self.is_here(&inner) || inner.epoch != epoch {
            return;
        }
        if inner.state.hears() {
            let word = match what {
                What::Part { psn, part, .. } => qp.part_moved(&mut inner, psn, part, went),
                What::Answer { psn, .. } => qp.answer_moved(&mut inner, psn, went),
                What::Word | What::Nothing | What::Report => None,
            };
            if let Some(word) = word {
                let owed = Owed {
                    qpn,
                    epoch,
                    word,
                    answers: matches!(what, What::Answer { .. }),
                };
                if self.owed.push(owed, GFP_KERNEL).is_err() {
                    // The peer would wait for ever.
                    let (lost, flushed) = (Status::RemoteOp, Status::Flushed);
                    qp.fail(&mut inner, lost, lost, flushed);
                }
            }
        }
        // It may have waited for this.
        self.enqueue(&qp, &mut inner);
    }

    /// Takes up to `most` of what has come; returns how much.
    fn take(&mut self, cx: &mut Cx<'_>, most: usize) -> Result<usize, Fault> {
        let mut taken = 0;
        while taken < most && !cx.is_tired() {
            let before = taken;
            if self.pushed_word(cx)? || self.pulled_word(cx)? {
                taken += 1;
                continue;
            }
            if let Some(arrived) = cx.trunk.peek(&cx.io)? {
                if let Message::Gone { .. } | Message::Join { .. } = arrived.message {
                    taken += self.catch_up(cx)?;
                }
                self.cell(cx, &arrived);
                cx.trunk.consume(&cx.io, &arrived);
                taken += 1;
            }
            taken += usize::from(self.pulled_cell(cx)?);
            if taken == before {
                break;
            }
        }
        Ok(taken)
    }

    /// Takes all that was said or put down before GONE, which is about to be taken: it counts; or
    /// before JOIN: it does not.
    fn catch_up(&mut self, cx: &mut Cx<'_>) -> Result<usize, Fault> {
        // No more than there could be when it was sent, however much a peer writes meanwhile.
        let (own, peer) = (cx.own, cx.trunk.peer);
        let pushed = self.up_to(own.cq().count(), cx, Self::pushed_word)?;
        let pulled = self.up_to(peer.out_words().count(), cx, Self::pulled_word)?;
        let cells = self.up_to(peer.out_cells().count(), cx, Self::pulled_cell)?;
        Ok(pushed + pulled + cells)
    }

    fn up_to(
        &mut self,
        most: u32,
        cx: &mut Cx<'_>,
        take: impl Fn(&mut Self, &mut Cx<'_>) -> Result<bool, Fault>,
    ) -> Result<usize, Fault> {
        let mut taken = 0;
        for _ in 0..most {
            if !take(self, cx)? {
                break;
            }
            taken += 1;
        }
        Ok(taken)
    }

    fn pushed_word(&mut self, cx: &mut Cx<'_>) -> Result<bool, Fault> {
        let word = cx.trunk.next_word(&cx.io)?;
        if let Some(word) = &word {
            self.word(cx, word, false);
        }
        Ok(word.is_some())
    }

    fn pulled_word(&mut self, cx: &mut Cx<'_>) -> Result<bool, Fault> {
        let word = cx.trunk.pull_word(&cx.io)?;
        if let Some(word) = &word {
            self.word(cx, word, true);
        }
        Ok(word.is_some())
    }

    fn pulled_cell(&mut self, cx: &mut Cx<'_>) -> Result<bool, Fault> {
        let arrived = cx.trunk.pull(&cx.io)?;
        if let Some(arrived) = &arrived {
            self.cell(cx, arrived);
            cx.trunk.consume(&cx.io, arrived);
        }
        Ok(arrived.is_some())
    }

    fn word(&mut self, cx: &mut Cx<'_>, word: &Word, pulled: bool) {
        cx.own_qpn.set(word.qpn);
        traced::word(cx.dev, self.link, false, word.qpn, word);
        let lease = match word.says {
            Says::Done { to, part } => cx.lent.take(word.qpn, word.psn, to, part),
            _ => None,
        };
        if let Some(qp) = self.find(word.qpn) {
            let mut inner = qp.inner.lock();
            if self.is_here(&inner) && inner.state.hears() && inner.joined {
                let protocol = qp.protocol();
                if protocol.allows_word(pulled, word.says) {
                    match &lease {
                        // Of what there was before a reset.
                        Some(lease) if lease.epoch != inner.epoch => {}
                        Some(lease) => match (lease.role, protocol.data) {
                            (Role::Initiator, false) => qp.read_done(cx, &mut inner, lease),
                            (Role::Responder, false) => qp.part_done(cx, &mut inner, lease),
                            (Role::Initiator, true) => qp.part_was_pulled(&mut inner, lease),
                            (Role::Responder, true) => qp.read_was_pulled(&mut inner, lease),
                        },
                        None => qp.told(cx, &mut inner, word.psn, word.says),
                    }
                } else {
                    qp.violated(&mut inner);
                }
                self.enqueue(&qp, &mut inner);
            }
        }
        if let Some(Lease { extents, .. }) = lease {
            // Taken when it was lent, and the peer is done with it.
            cx.trunk.staging.give(&extents);
        }
    }

    fn cell(&mut self, cx: &mut Cx<'_>, arrived: &Arrived) {
        let Arrived {
            lane,
            address,
            message,
        } = arrived;
        cx.own_qpn.set(address.qpn);
        traced::cell(cx.dev, self.link, false, address.qpn, *address, message);
        if let Message::Gone { qpn, .. } = *message {
            cx.lent.forget(address.qpn, qpn, &mut cx.trunk.staging);
        }
        let Some(qp) = self.find(address.qpn) else {
            self.nobody(cx, address.qpn, message);
            return;
        };
        let inner = &mut *qp.inner.lock();
        if !self.is_here(inner) {
            match *message {
                // It is asked when this one is connected.
                Message::Join { asks: true, .. } => {}
                // Of one that this one has asked before it was reset.
                Message::Join { qpn, .. } => self.refuse(&qp, qpn),
                _ => self.nobody(cx, address.qpn, message),
            }
            return;
        }
        if let Message::Join {
            qpn,
            protocol,
            asks,
        } = *message
        {
            self.join(&qp, inner, qpn, protocol, asks);
            return;
        }
        if !inner.state.hears() {
            // The peer was told when it went to ERR.
            return;
        }
        let psn = address.psn;
        match *message {
            // Of who it was connected to before,
            Message::Gone { qpn, .. } if !inner.is_peer(qpn) => {}
            // or of what there was with the same one.
            Message::Gone { refuses: false, .. } if !inner.joined => {}
            Message::Gone { .. } => {
                // What was said of requests before.
                let _ = qp.finish(cx, inner, &mut Served::default());
                qp.fail(inner, Status::Peer, Status::Peer, Status::Flushed);
            }
            _ if !inner.joined => {}
            _ if !qp.protocol().allows(*lane, message) => qp.violated(inner),
            Message::SizeIs { .. } | Message::Value { .. } => {
                qp.answered(cx, inner, psn, message);
            }
            Message::Lend { part, extents } => qp.lend(inner, psn, part, extents),
            Message::Offer {
                to: Role::Initiator,
                part,
                extents,
            } => qp.read_is_offered(inner, psn, part, extents),
            Message::Offer { part, extents, .. } => qp.part_is_offered(inner, psn, part, extents),
            _ => qp.requested(cx, inner, psn, message),
        }
        self.enqueue(&qp, inner);
    }

    /// A queue pair of the peer's says that it is connected to this one.
    fn join(&mut self, qp: &Arc<Qp>, inner: &mut Inner, qpn: u32, protocol: Protocol, asks: bool) {
        if !inner.is_peer(qpn) || !inner.state.hears() {
            self.refuse(qp, qpn);
            return;
        }
        inner.joined = true;
        if asks {
            // Also if they do not agree: that end is to find it out as well.
            inner.owes_join = Some(Ask::No);
        }
        if protocol != qp.protocol() {
            qp.violated(inner);
        }
        self.enqueue(qp, inner);
    }

    /// A queue pair of the peer's is told that this one is not for it.
    fn refuse(&mut self, qp: &Qp, peer_qpn: u32) {
        self.tell(Farewell {
            to: peer_qpn,
            qpn: qp.number(),
            refuses: true,
        });
    }

    fn tell(&mut self, word: Farewell) {
        if self.gone.len() < MOST_GONE && !self.gone.contains(&word) {
            // Without memory the peer waits until its user has had enough.
            let _ = self.gone.push(word, GFP_KERNEL);
        }
    }

    /// A message is for a number that nobody has here.
    fn nobody(&mut self, cx: &mut Cx<'_>, qpn: u32, message: &Message) {
        match (qpn, message) {
            (0, Message::Gone { qpn, .. }) => {
                cx.moved(SEARCH);
                self.lost(cx, *qpn);
            }
            // Nobody has this number anywhere.
            (0, _) => {}
            (_, message) if message.is_request() || matches!(message, Message::Join { .. }) => {
                // Whoever has named it.
                self.tell(Farewell {
                    to: 0,
                    qpn,
                    refuses: true,
                });
            }
            _ => {}
        }
    }

    /// The peer has no queue pair of this number.
    fn lost(&mut self, cx: &mut Cx<'_>, peer_qpn: u32) {
        cx.lent.lost(peer_qpn, &mut cx.trunk.staging);
        let mut at = 0;
        while let Some((qp, next)) = self.table.next(at) {
            at = next;
            let inner = &mut *qp.inner.lock();
            if inner.is_peer(peer_qpn) && self.is_here(inner) && inner.state.hears() {
                qp.fail(inner, Status::Peer, Status::Peer, Status::Flushed);
                inner.owes_gone = false;
            }
        }
    }

    /// Tells the peer which queue pairs are not there.
    fn tell_gone(&mut self, cx: &mut Cx<'_>) -> Result<bool, Fault> {
        cx.own_qpn.set(0);
        while let Some(&word) = self.gone.first() {
            if !cx.gone(Protocol::PUSH, None, word)? {
                return Ok(false);
            }
            let _ = self.gone.remove(0);
        }
        Ok(true)
    }

    /// Gives each queue pair that waits one turn, as far as the budget goes.
    fn visit(&mut self, cx: &mut Cx<'_>, left: &mut usize) -> Result<Served, Fault> {
        let mut all = Served {
            blocked: !self.tell_gone(cx)?,
            ..Served::default()
        };
        if all.blocked {
            // A JOIN must not overtake what ends what was there before.
            return Ok(all);
        }
        for _ in 0..self.turns.len() {
            if *left == 0 || cx.is_tired() {
                break;
            }
            *left -= 1;
            let Some(qp) = self.turns.pop() else {
                break;
            };
            let mut inner = qp.inner.lock();
            inner.queued = false;
            cx.own_qpn.set(qp.number());
            if !self.is_here(&inner) {
                continue;
            }
            if inner.state != State::Err && qp.is_overrun() {
                let (lost, flushed) = (Status::LocalLength, Status::Flushed);
                qp.fail(&mut inner, lost, flushed, flushed);
            }
            let mut served = qp.respond(cx, &mut inner)?;
            if inner.state == State::Err {
                served.again |= qp.flush(&mut inner, FLUSH);
            } else if inner.joined {
                let sent = qp.initiate(cx, &mut inner, QUANTUM)?;
                served = Served {
                    progress: served.progress || sent.progress,
                    again: served.again || sent.again,
                    blocked: served.blocked || sent.blocked,
                    starved: served.starved,
                };
                // What was found out now may have to be said.
                if inner.owes_gone {
                    served.again = true;
                }
            }
            if served.again || served.blocked || served.starved {
                self.enqueue(&qp, &mut inner);
            }
            all.progress |= served.progress;
            all.again |= served.again;
            all.blocked |= served.blocked;
            all.starved |= served.starved;
        }
        Ok(all)
    }
}
