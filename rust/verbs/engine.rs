// SPDX-License-Identifier: GPL-2.0

//! The engine of a port: processes the queue pairs, with one [`Worker`] per link.
//!
//! It learns of links as a client of `fabric`, and of work by [`Engine::kick`] and by doorbells.
//! `worker` runs then.

use super::{
    control::Control,
    kicks::{KickPage, Kicks},
    making::Making,
    qp::{Inner, Path, Qp, State},
    table::Table,
    worker::{CoreGuard, Worker},
};
use crate::{
    fabric::{Destination, Held, Inside, Node, Reason, Session},
    hw::{Port, MAX_LINKS},
    mem::Memory,
    proto::{hold::Say, link::Peer, pair::Ask},
    share::Payer,
    sys::{errno::ECONNRESET, home::Home, task},
};
use kernel::{prelude::*, sync::Arc, time::Msecs};

/// The budget of the run after a change of a queue pair.
const ONCE: usize = 8;

/// How long to wait until the peer of a queue pair is reached.
const REACH_MS: Msecs = 5000;

/// The engine of a port.
pub(crate) struct Engine {
    /// One per link.
    workers: KVec<Arc<Worker>>,
    table: Arc<Table>,
    kicks: Arc<Kicks>,
}

/// The changes that a user asks for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Change {
    pub(crate) state: Option<State>,
    pub(crate) access: Option<u32>,
    pub(crate) path: Option<Wanted>,
}

/// The peer that a queue pair is to be connected to.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Hardware id of the peer, 0 for any peer.
    pub(crate) peer: u64,
    /// The link, `None` for any.
    pub(crate) link: Option<usize>,
    pub(crate) peer_qpn: u32,
}

/// The result of `WEFT_QP_QUERY`.
pub(crate) struct Status {
    pub(crate) state: State,
    pub(crate) why: u32,
    pub(crate) access: u32,
    pub(crate) path: Option<Path>,
    /// QPN of the peer's queue pair, 0 without a connection.
    pub(crate) peer_qpn: u32,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Engine {
    pub(crate) fn new(
        home: &Arc<Home>,
        memory: &Arc<Memory>,
        control: Arc<dyn Control>,
    ) -> Result<Arc<Self>> {
        let table = Arc::pin_init(Table::new(), GFP_KERNEL)?;
        let (table_of, memory_of) = (|| table.clone(), || memory.clone());
        let worker = |link| Worker::new(home, link, table_of(), memory_of(), control.clone());
        let mut workers = KVec::with_capacity(MAX_LINKS, GFP_KERNEL)?;
        for link in 0..MAX_LINKS {
            workers.push(worker(link)?, GFP_KERNEL)?;
        }
        let kicks = Kicks::new(&workers)?;
        let engine = Self {
            workers,
            table,
            kicks,
        };
        Ok(Arc::new(engine, GFP_KERNEL)?)
    }

    /// Makes a queue pair, in RESET. `ENOSPC`: the port has `MAX_QPS`; `EDQUOT`: `payer` has its share.
    pub(crate) fn create(&self, payer: &Payer, making: Making) -> Result<Arc<Qp>> {
        self.table.add(payer, |number| Qp::new(number, making))
    }

    /// Calls `f` with `qp.inner` locked and, if `qp` is connected or `link` is given, with the worker
    /// of that link and its core locked: the engine does not run on the link meanwhile.
    fn change<R>(
        &self,
        qp: &Qp,
        link: Option<usize>,
        f: impl FnOnce(&mut Inner, Option<(&Worker, &mut CoreGuard<'_>)>) -> R,
    ) -> R {
        let mut link = link;
        loop {
            let path = qp.inner.lock().path;
            link = path.map(|path| path.link).or(link);
            let worker = link.and_then(|link| self.worker(link));
            let mut guard = worker.map(|worker| worker.lock());
            let inner = &mut *qp.inner.lock();
            // It may have been connected meanwhile.
            if inner.path.is_none() || inner.path.map(|path| path.link) == link {
                let both = worker.map(|worker| &**worker).zip(guard.as_mut());
                return f(inner, both);
            }
        }
    }

    /// Changes a queue pair as `WEFT_QP_MODIFY` specifies, then runs the engine once.
    pub(crate) fn modify(
        &self,
        node: &Node,
        payer: &Payer,
        inside: &Inside<'_>,
        qp: &Arc<Qp>,
        change: &Change,
    ) -> Result {
        let mut held = match &change.path {
            Some(wanted) => Some(Self::reach(node, payer, inside, qp, wanted)?),
            None => None,
        };
        let link = held.as_ref().map(Held::link);
        self.change(qp, link, |inner, worker| {
            let before = inner.machine.state();
            let to = change.state.unwrap_or(before);
            if change.state.is_some() {
                if before == State::Err && to == State::Rts {
                    return Err(ECONNRESET.into());
                }
                if !before.may_become(to) {
                    return Err(EINVAL);
                }
            }
            let connects = before == State::Init && to == State::Rtr;
            if connects != change.path.is_some() {
                return Err(EINVAL);
            }
            match to {
                State::Rtr if connects => {
                    let (Some(wanted), Some(held), Some((worker, core))) =
                        (&change.path, &mut held, worker)
                    else {
                        return Err(EINVAL);
                    };
                    worker.bind(qp, inner, core, held.peer, wanted.peer_qpn)?;
                    inner.charge = held.take_charge();
                }
                State::Reset => {
                    if let Some((worker, core)) = worker {
                        worker.leave(qp, inner, core);
                    }
                    inner.reset(qp);
                }
                State::Err => {
                    let (machine, mut env) = inner.outside(qp);
                    machine.user_fails(&mut env);
                }
                _ => {}
            }
            if to != State::Err {
                inner.machine.set_state(to);
            }
            if let Some(access) = change.access {
                inner.machine.set_access(access);
            }
            Ok(())
        })?;
        // Sends what the change made due.
        self.kick(node, Some(qp), ONCE)
    }

    /// Returns a READY link to the wanted peer, held. Errors as [`Node::reach`]; `EINVAL`: the peer is the queue
    /// pair itself.
    fn reach<'a>(
        node: &'a Node,
        payer: &Payer,
        inside: &Inside<'_>,
        qp: &Qp,
        wanted: &Wanted,
    ) -> Result<Held<'a>> {
        let to = Destination {
            peer: wanted.peer,
            link: wanted.link,
            // The two of a pair in this host take one each.
            end: usize::from(qp.number() > wanted.peer_qpn),
        };
        // It would have to be at both ends of a link.
        if wanted.peer_qpn == qp.number() && node.identity()?.hwid == wanted.peer {
            return Err(EINVAL);
        }
        // No link is taken for a change that will fail.
        let state = qp.inner.lock().machine.state();
        if state != State::Init {
            return node.find(payer, to);
        }
        node.reach(payer, inside, to, REACH_MS)
    }

    /// Returns the result of `WEFT_QP_QUERY`.
    pub(crate) fn query(&self, qp: &Qp) -> Status {
        let inner = qp.inner.lock();
        Status {
            state: inner.machine.state(),
            why: (inner.machine.why() as u16).into(),
            access: inner.machine.access(),
            path: inner.path,
            peer_qpn: inner.machine.peer_qpn().unwrap_or(0),
            sent: inner.machine.sent(),
            received: inner.machine.received(),
        }
    }

    /// Destroys a queue pair. When this returns, the engine no longer touches the memory that its
    /// requests named. Sleeps.
    pub(crate) fn destroy(&self, qp: &Arc<Qp>) {
        self.table.remove(qp);
        self.change(qp, None, |inner, worker| {
            if let Some((worker, core)) = worker {
                worker.leave(qp, inner, core);
            }
            inner.reset(qp);
        });
    }

    /// Runs the engine in the caller's thread, for at most `budget` cells, control words and requests
    /// a link: on the link of `qp`, which has work, or on all links that connect queue pairs. Work items
    /// do what is left. `ENOMEM`: requests of `qp`, which is in ERR, are left to the next call.
    pub(crate) fn kick(&self, node: &Node, qp: Option<&Arc<Qp>>, budget: usize) -> Result {
        let port = node.port()?;
        match qp {
            Some(qp) => {
                let run = |worker: &Arc<Worker>, left| worker.kick(node, &**port, Some(qp), left);
                self.rung(qp, budget, run)?;
            }
            None => {
                for worker in self.workers.iter().filter(|worker| worker.has_users()) {
                    worker.kick(node, &**port, None, budget);
                    if task::is_killed() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Has the engine send what [`Control::next`] returns of a link, in the caller's thread. Work items do what is
    /// left. `EINVAL`: there is no such link.
    pub(crate) fn tell(&self, node: &Node, link: usize) -> Result {
        let port = node.port()?;
        // The caller is no user that runs the engine again and again: the peer is asked to ring as ever.
        let worker = self.worker(link).ok_or(EINVAL)?;
        worker.serve_posted(node, &**port);
        Ok(())
    }

    /// Prepares for a user that is going to sleep until there is a completion.
    pub(crate) fn user_sleeps(&self, node: &Node) {
        // The port stays entered while work is queued; the work is cancelled when all have left the
        // port.
        let Ok(_port) = node.port() else {
            return;
        };
        for worker in self.workers.iter().filter(|worker| worker.has_users()) {
            worker.user_sleeps();
        }
    }

    /// Makes a kick page for a file, to be released by [`Engine::forget`]. `None`: the hardware has
    /// no doorbell for it. `ENOSPC`: the port has as many as it can; `EDQUOT`: `payer` has its share.
    pub(crate) fn kick_page(&self, node: &Node, payer: &Payer) -> Result<Option<Arc<KickPage>>> {
        self.kicks.add(node, payer)
    }

    /// Releases a kick page: its bits are not looked at any more.
    pub(crate) fn forget(&self, page: &Arc<KickPage>) {
        self.kicks.remove(page);
    }

    /// Starts the engine on `node`, until [`Engine::retired`] or [`Engine::park`].
    pub(crate) fn serve(&self, node: &Arc<Node>) {
        for worker in &self.workers {
            worker.serve(node.clone());
        }
        self.kicks.serve(node.clone());
    }

    /// Returns whether a queue pair is connected over `link`, or waits for its next session.
    pub(crate) fn is_used(&self, link: usize) -> bool {
        let worker = self.worker(link);
        worker.is_some_and(|worker| worker.has_users() || worker.keeps())
    }

    /// Returns how many queue pairs a link connects.
    pub(crate) fn connected(&self, link: usize) -> u32 {
        self.worker(link).map_or(0, |worker| worker.connected())
    }

    /// Returns how many bytes the CPU has stored at the peer of a link since the last call.
    pub(crate) fn take_stored(&self, link: usize) -> u64 {
        self.worker(link).map_or(0, |worker| worker.take_stored())
    }

    pub(super) fn worker(&self, link: usize) -> Option<&Arc<Worker>> {
        self.workers.get(link)
    }

    pub(super) fn workers(&self) -> impl Iterator<Item = &Arc<Worker>> {
        self.workers.iter()
    }

    /// Does what is due because `qp` has work: flushes its requests if it is in ERR, and has `run` run the worker
    /// of its link with what is left of `budget`. Returns that. `ENOMEM`: what a work item was to flush is
    /// left to the next call.
    pub(super) fn rung<'a>(
        &'a self,
        qp: &Arc<Qp>,
        budget: usize,
        run: impl FnOnce(&'a Arc<Worker>, usize),
    ) -> Result<usize> {
        let rung = qp.rung(budget as u32);
        let left = budget.saturating_sub(rung.flushed as usize);
        if let Some(worker) = rung.path.and_then(|path| self.worker(path.link)) {
            run(worker, left);
        }
        if rung.more {
            // It may not be connected any more.
            self.kicks.flush_later(qp)?;
        }
        Ok(left)
    }

    pub(crate) fn ready(&self, port: &dyn Port, link: usize, peer: &Peer) {
        if let Some(worker) = self.worker(link) {
            worker.ready(port, peer);
            // Queue pairs that were kept may continue.
            worker.rung();
        }
    }

    /// As [`crate::fabric::Client::hold`].
    pub(crate) fn hold(&self, session: &mut Session<'_>) -> bool {
        match self.worker(session.link()) {
            Some(worker) => worker.hold(session),
            None => true,
        }
    }

    /// As [`crate::fabric::Client::go_on`].
    pub(crate) fn go_on(&self, session: &mut Session<'_>) {
        if let Some(worker) = self.worker(session.link()) {
            worker.begin_again(session);
        }
    }

    /// Detaches the engine from the port, as [`crate::fabric::Client::parked`], until
    /// [`Engine::serve`].
    pub(crate) fn park(&self) {
        self.kicks.retire();
        for worker in &self.workers {
            worker.rest();
        }
    }

    /// Handles a quiesce message of the peer.
    pub(crate) fn hear(&self, session: &mut Session<'_>, say: Say) {
        if let Some(worker) = self.worker(session.link()) {
            worker.hear(session, say);
        }
    }

    /// Called as [`crate::fabric::Client::passed`]: ends queue pairs that were kept for too long.
    pub(crate) fn passed(&self, now: u64) {
        for worker in &self.workers {
            worker.passed(now);
        }
    }

    pub(crate) fn broken(&self, port: &dyn Port, link: usize, reason: Reason) {
        if let Some(worker) = self.worker(link) {
            worker.broken(port, reason);
        }
    }

    pub(crate) fn tick(&self, session: &mut Session<'_>, now: u64) {
        // If the interrupt of a kick was lost, no other comes.
        self.kicks.tick();
        let Some(worker) = self.worker(session.link()) else {
            return;
        };
        worker.remind(session);
        if !worker.tick(session.port()) {
            session.begin_anew(now);
        }
    }

    /// Handles the neighbour's doorbell. Called in hard interrupts.
    pub(crate) fn wake(&self, port: &dyn Port, link: usize) {
        if let Some(worker) = self.worker(link) {
            worker.called(port);
        }
    }

    /// Handles the report of the link's DMA channel. Called in hard interrupts.
    pub(crate) fn moved(&self, link: usize) {
        if let Some(worker) = self.worker(link) {
            worker.moved();
        }
    }

    /// Handles the doorbell of the kick pages. Called in hard interrupts.
    pub(crate) fn kicked(&self) {
        self.kicks.rung();
    }

    /// Wakes all waiters for completions: the port is gone, or something is wanted of users.
    pub(crate) fn closed(&self) {
        for qp in self.table.all() {
            qp.tell();
        }
    }

    /// Pauses or unpauses the port. Paused: no request is begun after this returns. Unpaused: all
    /// connected queue pairs are serviced. Sleeps.
    fn pause(&self, paused: bool) {
        if !self.table.pause(paused) {
            return;
        }
        if paused {
            // Waits for the runs that have begun; later ones see that the table is paused.
            for worker in &self.workers {
                drop(worker.lock());
            }
            return;
        }
        for qp in self.table.all() {
            let path = qp.inner.lock().path;
            if let Some(worker) = path.and_then(|path| self.worker(path.link)) {
                worker.posted(&qp);
            }
        }
        for worker in &self.workers {
            worker.rung();
        }
    }

    /// Counts the requests without a completion; with `posted`, also those that were not begun.
    fn count(&self, posted: bool) -> u32 {
        let each = self.table.all().map(|qp| qp.outstanding(posted));
        each.fold(0, u32::saturating_add)
    }

    /// Carries out `ask` and returns how many requests have no completion, 0 for an `ask` that does
    /// not stop the port. With 0 for [`Ask::Stop`] or [`Ask::Finish`], none is begun until another
    /// `ask`.
    pub(crate) fn outstanding(&self, ask: Ask) -> u32 {
        match ask {
            Ask::GoOn | Ask::Still | Ask::Look => {
                self.pause(false);
                0
            }
            Ask::Stop => {
                self.pause(true);
                self.count(false)
            }
            Ask::Finish => {
                if !self.table.is_paused() {
                    let left = self.count(true);
                    if left != 0 {
                        return left;
                    }
                }
                // Counted again with the port paused: a request may have been begun during the first
                // count.
                self.pause(true);
                let left = self.count(true);
                if left != 0 {
                    self.pause(false);
                }
                left
            }
        }
    }

    pub(crate) fn retired(&self) {
        self.kicks.retire();
        for worker in &self.workers {
            worker.retire();
        }
    }
}
