// SPDX-License-Identifier: GPL-2.0

//! A worker and a session of its link: what begins with one, who is connected by it, and what ends with
//! it.
//!
//! It must not know who runs the engine, nor what queue pairs do.

use super::{Core, CoreGuard, Watch, Worker};
use crate::{
    fabric::Reason,
    hw::Port,
    proto::{
        cqe::Status,
        hold::{Hold, PATIENCE_MS},
        link::Peer,
        trunk::Layout,
    },
    sys::{clock, errno::EHOSTUNREACH, work},
    verbs::{
        qp::{Inner, Path, Qp},
        table::MAX_QPS,
        trunk::Trunk,
    },
};
use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc},
    time::{delay::fsleep, Delta},
    warn_on,
};

/// How often it is looked whether the mover has done with the memory of one that goes.
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
        self.resume(&mut core);
    }

    /// Some time has passed: what a doorbell should have told of is found now. False: the session is
    /// good for no queue pair any more, and another is needed.
    pub(in crate::verbs) fn tick(self: &Arc<Self>, port: &dyn Port) -> bool {
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

    /// Nothing here touches the window when this returns, until the next session.
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

    /// Ends the trunk and all queue pairs that use it, but those that are to be kept.
    pub(super) fn end(&self, port: &dyn Port, core: &mut Core, status: Status) {
        // Before it gives back what it kept in its place.
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
        core.deferred.clear();
        core.gone.clear();
        core.members.clear();
        self.users.store(0, Relaxed);
        while core.turns.pop().is_some() {}
        for qp in self.table.all() {
            let mut inner = qp.inner.lock();
            if inner.path.is_some_and(|path| path.link == self.link) {
                inner.queued = false;
                if core.kept.is_some()
                    && inner.is_of(self.link, core.session)
                    && inner.machine.keep()
                {
                    continue;
                }
                let (machine, mut env) = inner.outside(&qp);
                machine.fail_silently(&mut env, status, status);
            }
        }
    }

    /// Connects a queue pair. `EHOSTUNREACH`: the link has no trunk, or leads to another peer.
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

    /// The same, and that it goes on in another session.
    pub(super) fn connect(
        &self,
        qp: &Arc<Qp>,
        inner: &mut Inner,
        core: &mut Core,
        peer: u64,
        peer_qpn: u32,
    ) -> Result {
        // Another may have come to the link since it was looked up.
        if core.trunk.is_none() || core.peer != peer {
            return Err(EHOSTUNREACH.into());
        }
        let most = core.turns.len() + core.members.len() + 1;
        core.turns.reserve(most)?;
        core.members.add(qp.clone())?;
        self.users.store(core.members.len() as u32, Relaxed);
        inner.path = Some(Path {
            link: self.link,
            peer,
            session: core.session,
        });
        inner.machine.connect(peer_qpn);
        Ok(())
    }

    /// Disconnects a queue pair that is going to be reset or destroyed. The peer is told, as far as
    /// that is possible now; otherwise it hears of it when it asks.
    pub(in crate::verbs) fn leave(&self, qpn: u32, inner: &mut Inner, core: &mut CoreGuard<'_>) {
        let core = &mut *core.0;
        let Some(path) = inner.path.take() else {
            return;
        };
        // Its turn here may still come, and finds it gone.
        inner.queued = false;
        let reaches = path.session == core.session && core.trunk.is_some();
        if reaches {
            self.settle(core, qpn);
            core.members.remove(qpn);
            self.users.store(core.members.len() as u32, Relaxed);
        }
        if let Some(what) = inner.machine.disconnect(reaches) {
            // A peer that hears nothing meets with users here that come and go.
            if core.gone.len() < MAX_QPS as usize {
                let _ = core.gone.push(what, GFP_KERNEL);
            }
        }
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
}
