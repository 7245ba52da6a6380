// SPDX-License-Identifier: GPL-2.0

//! The engine's end of a link when its session is to end without its queue pairs: nothing is begun,
//! and queue pairs that have nothing under way are kept until there is another session with the same
//! peer.
//!
//! `proto::hold` decides when that may be. What it means for a queue pair is in `proto::qp`.

use super::{Core, Worker};
use crate::{
    fabric::Session,
    proto::{cqe::Status, hold::Say, wire::Body},
    sys::clock,
};
use kernel::sync::atomic::Relaxed;

impl Worker {
    /// Returns whether all requests that queue pairs of this session have sent are answered.
    fn is_quiet(core: &Core) -> bool {
        let mut members = core.members.iter();
        members.all(|qp| qp.inner.lock().machine.is_answered())
    }

    /// Has both ends begin nothing. Returns true if nothing is under way in either direction. Called
    /// again until it returns true.
    pub(in crate::verbs) fn hold(&self, session: &mut Session<'_>) -> bool {
        let mut core = self.hurry();
        let now = clock::now_ms();
        core.hold.request(now);
        if !self.has_users() {
            // Without connected queue pairs nothing is under way, and those that connect now begin
            // nothing.
            return true;
        }
        if let Some(say) = core.hold.due(now) {
            session.send(Body::Hold(say));
        }
        let quiet = Self::is_quiet(&core);
        core.hold.is_agreed(now, quiet)
    }

    /// Lets both ends begin requests again.
    pub(in crate::verbs) fn begin_again(&self, session: &mut Session<'_>) {
        let say = self.hurry().hold.give_up(clock::now_ms());
        if let Some(say) = say {
            session.send(Body::Hold(say));
        }
    }

    /// Handles a quiesce message of the peer.
    pub(in crate::verbs) fn hear(&self, session: &mut Session<'_>, say: Say) {
        let mut core = self.hurry();
        let now = clock::now_ms();
        if !core.hold.hear(now, say) {
            return;
        }
        let quiet = Self::is_quiet(&core);
        if let Some(answer) = core.hold.answer(now, quiet) {
            session.send(Body::Hold(answer));
        }
    }

    /// Reminds a peer that this end is quiesced, if it seems to have forgotten. Called again and again.
    pub(in crate::verbs) fn remind(&self, session: &mut Session<'_>) {
        // The link must not wait for the lock.
        let Some(mut core) = self.core.try_lock() else {
            return;
        };
        let now = clock::now_ms();
        if !core.hold.reminds(now) {
            return;
        }
        let quiet = Self::is_quiet(&core);
        if let Some(say) = core.hold.answer(now, quiet) {
            session.send(Body::Hold(say));
        }
    }

    /// Reconnects the queue pairs that were kept when a session begins, if it is with their peer; the
    /// others end.
    pub(super) fn resume(&self, core: &mut Core) {
        if core.kept.take().is_none() {
            return;
        }
        for qp in self.table.all() {
            let inner = &mut *qp.inner.lock();
            let path = inner.path.filter(|path| path.link == self.link);
            let (Some(path), Some(peer_qpn)) = (path, inner.machine.peer_qpn()) else {
                continue;
            };
            if !inner.machine.unkeep() {
                continue;
            }
            match self.connect(&qp, inner, core, path.peer, peer_qpn) {
                Ok(()) => Self::enqueue(core, &qp, inner),
                Err(_) => {
                    let (machine, mut env) = inner.outside(&qp);
                    machine.fail_silently(&mut env, Status::Peer, Status::Peer);
                }
            }
        }
        self.keeping.store(false, Relaxed);
    }

    /// Ends the queue pairs that were kept, as those of a link that broke: no session has begun in
    /// time.
    pub(super) fn keep_no_longer(&self, core: &mut Core) {
        let Some((_, status)) = core.kept.take() else {
            return;
        };
        for qp in self.table.all() {
            let mut inner = qp.inner.lock();
            if inner.machine.is_kept() && inner.path.is_some_and(|path| path.link == self.link) {
                let (machine, mut env) = inner.outside(&qp);
                machine.fail_silently(&mut env, status, status);
            }
        }
        self.keeping.store(false, Relaxed);
    }

    /// Ends the queue pairs that were kept for too long.
    pub(in crate::verbs) fn passed(&self, now: u64) {
        // The lock is held in a session.
        let Some(mut core) = self.core.try_lock() else {
            return;
        };
        if core.kept.is_some_and(|(until, _)| now >= until) {
            self.keep_no_longer(&mut core);
        }
    }
}
