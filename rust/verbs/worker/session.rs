// SPDX-License-Identifier: GPL-2.0

//! The part of a worker that belongs to a session of its link: what begins and ends with the session,
//! and which queue pairs it connects.
//!
//! This file must not know which thread runs the engine, nor what queue pairs do.

use super::{Core, CoreGuard, Watch, Worker};
use crate::{
    fabric::{Node, Reason},
    hw::Port,
    proto::{
        cqe::Status,
        hold::{Hold, PATIENCE_MS},
        link::Peer,
        trunk::Layout,
    },
    sys::{clock, errno::EHOSTUNREACH, work},
    verbs::{
        cx::Cx,
        qp::{Inner, Path, Qp},
        table::MAX_QPS,
        trunk::{Io, Trunk},
    },
};
use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc},
    time::{delay::fsleep, Delta},
    warn_on,
};

/// How often to check whether the DMA channel is done with the memory of a queue pair that is
/// disconnected.
const SETTLE_POLL: Delta = Delta::from_micros(20);

impl Worker {
    pub(in crate::verbs) fn ready(&self, port: &dyn Port, peer: &Peer) {
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
        core.watch = Watch::new();
        core.hold = Hold::new();
        // What the session before has stored may have gone to another peer.
        self.stored.store(0, Relaxed);
        self.resume(&mut core);
    }

    /// Queues the work item, in case a doorbell was lost, and checks the DMA channel. Returns false
    /// if the session is of no more use to queue pairs, and another one is needed.
    pub(in crate::verbs) fn tick(self: &Arc<Self>, port: &dyn Port) -> bool {
        // The holder of the lock checks for itself; the link must not wait for it.
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

    /// Ends the session. When this returns, the engine does not touch the window until the next
    /// session.
    pub(in crate::verbs) fn broken(&self, port: &dyn Port, reason: Reason) {
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

    /// Drops the link queues and ends all queue pairs that use them, except those that are to be
    /// kept.
    pub(super) fn end(&self, port: &dyn Port, core: &mut Core, status: Status) {
        // Before the memory of its transfers is given back.
        if let Some(mover) = port.mover(self.link).filter(|_| core.is_moving()) {
            mover.stop();
        }
        if cfg!(debug_assertions) {
            let whole = core
                .trunk
                .as_ref()
                .is_none_or(|trunk| trunk.buffers.is_whole());
            let _ = warn_on!(!whole);
        }
        core.trunk = None;
        *self.next.lock() = None;
        core.deferred.clear();
        core.gone.clear();
        core.members.clear();
        self.users.store(0, Relaxed);
        while core.turns.pop().is_some() {}
        let mut keeps = false;
        for qp in self.table.all() {
            let mut inner = qp.inner.lock();
            if inner.path.is_some_and(|path| path.link == self.link) {
                inner.queued = false;
                if core.kept.is_some()
                    && inner.is_of(self.link, core.session)
                    && inner.machine.keep()
                {
                    keeps = true;
                    continue;
                }
                let (machine, mut env) = inner.outside(&qp);
                machine.fail_silently(&mut env, status, status);
            }
        }
        self.keeping.store(keeps, Relaxed);
    }

    /// Connects a queue pair. `EHOSTUNREACH`: the link has no link queues, or leads to another peer.
    pub(in crate::verbs) fn bind(
        &self,
        qp: &Arc<Qp>,
        inner: &mut Inner,
        core: &mut CoreGuard<'_>,
        peer: u64,
        peer_qpn: u32,
    ) -> Result {
        self.connect(qp, inner, &mut core.0, peer, peer_qpn)
    }

    /// As [`Worker::bind`]; also connects kept queue pairs anew in another session.
    pub(super) fn connect(
        &self,
        qp: &Arc<Qp>,
        inner: &mut Inner,
        core: &mut Core,
        peer: u64,
        peer_qpn: u32,
    ) -> Result {
        // Another peer may have come to the link since the caller looked it up.
        if core.trunk.is_none() || core.peer != peer {
            return Err(EHOSTUNREACH.into());
        }
        let most = core.turns.len() + core.members.len() + 1;
        core.turns.reserve(most)?;
        core.members.add(qp.clone())?;
        // From here on runs do not note it.
        *self.next.lock() = None;
        self.users.store(core.members.len() as u32, Relaxed);
        inner.path = Some(Path {
            link: self.link,
            peer,
            session: core.session,
        });
        inner.machine.connect(peer_qpn);
        Ok(())
    }

    /// Disconnects a queue pair that is going to be reset or destroyed, and waits until its memory is
    /// not read any more. The peer is told if that is possible now, and before it of its requests that were
    /// carried out; otherwise it learns of it when it asks.
    pub(in crate::verbs) fn leave(&self, qp: &Qp, inner: &mut Inner, core: &mut CoreGuard<'_>) {
        let (qpn, core) = (qp.number(), &mut *core.0);
        let Some(path) = inner.path.take() else {
            return;
        };
        // It may still be in the run queue; a run then does not find it among the members.
        inner.queued = false;
        let reaches = path.session == core.session && core.trunk.is_some();
        if reaches {
            self.settle(core, qpn);
            self.serve_last(qp, inner, core);
            core.members.remove(qpn);
            self.users.store(core.members.len() as u32, Relaxed);
        }
        if let Some(what) = inner.machine.disconnect(reaches) {
            // Bounded: the peer may not read, while users here come and go.
            if core.gone.len() < MAX_QPS as usize {
                let _ = core.gone.push(what, GFP_KERNEL);
            }
        }
    }

    /// Calls `f` with the node that is served, and its port. `None`: there is none now.
    fn with_port<R>(&self, f: impl FnOnce(&Node, &dyn Port) -> R) -> Option<R> {
        let node = self.node.lock().clone()?;
        let port = node.port().ok()?;
        Some(f(&node, &**port))
    }

    /// Sends the results that a queue pair owes its peer, as far as there is room.
    fn serve_last(&self, qp: &Qp, inner: &mut Inner, core: &mut Core) {
        let (Some(own), Some(trunk)) = (core.own, &mut core.trunk) else {
            return;
        };
        let (dev, spares) = (self.home.get(), &mut core.spares);
        let serve = |io: &Io<'_>| {
            let mut cx = Cx::new(*io, own, trunk, spares, &self.memory, &dev);
            cx.own_qpn.set(qp.number());
            let (machine, mut env) = inner.inside(qp, &mut cx);
            // The next run finds a fault, too, and ends the session.
            if machine.serve_last(&mut env).is_ok() {
                cx.trunk.ring(io);
            }
        };
        self.with_port(|node, port| self.with_io(node, port, serve));
    }

    /// Waits until the DMA channel does not read memory that requests of queue pair `qpn` have named.
    /// Sleeps.
    fn settle(&self, core: &Core, qpn: u32) {
        let Some(trunk) = core.trunk.as_ref().filter(|trunk| trunk.moving.has(qpn)) else {
            return;
        };
        self.with_port(|_, port| {
            let Some(mover) = port.mover(self.link) else {
                return;
            };
            while trunk.moving.reads_for(qpn, mover) {
                if !trunk.moving.is_well(mover) {
                    // The next tick finds out and ends the session.
                    mover.stop();
                    return;
                }
                fsleep(SETTLE_POLL);
            }
        });
    }
}
