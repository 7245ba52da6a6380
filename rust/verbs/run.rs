// SPDX-License-Identifier: GPL-2.0

//! One run of the engine's end of a link: takes what has come, and gives queue pairs their turns.
//!
//! What a queue pair makes of it is in `proto::qp`; what runs this, and when, is in `worker`.

use super::{
    cx::Cx,
    members::Members,
    moving::What,
    qp::{Inner, Qp, State},
    table::Table,
    traced,
    turns::Turns,
};
use crate::{
    hw::Moved,
    proto::{
        cqe::Status,
        fifo::Arrived,
        protocol::Protocol,
        qp::{Deferred, Disconnect, Joined, Lease, Served, Transfer},
        request::Message,
        trunk::Fault,
        word::{Says, Word},
    },
};
use kernel::{prelude::*, sync::Arc};

/// Steps of a queue pair in one turn: to take a request from the send queue is one, to send it another.
const QUANTUM: usize = 16;
/// What a search for all queue pairs of a peer is worth, in bytes.
const SEARCH: u64 = 64 << 10;
/// Numbers of queue pairs that are not there, of which the peer is to be told.
const MOST_GONE: usize = 256;

/// One run.
pub(super) struct Run<'a> {
    pub(super) table: &'a Table,
    pub(super) turns: &'a mut Turns,
    pub(super) deferred: &'a mut KVec<Deferred>,
    pub(super) gone: &'a mut KVec<Disconnect>,
    pub(super) members: &'a Members,
    pub(super) link: usize,
}

impl Run<'_> {
    /// The queue pair with this number, if it is connected by this session.
    fn find(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.members.find(qpn).cloned()
    }

    fn enqueue(&mut self, qp: &Arc<Qp>, inner: &mut Inner) {
        if !inner.queued {
            inner.queued = self.turns.push(qp.clone());
        }
    }

    /// Looks what has been moved, and says so. False: nothing has.
    pub(super) fn moved(&mut self, cx: &mut Cx<'_>) -> Result<bool, Fault> {
        let Some(mover) = cx.io.mover() else {
            return Ok(false);
        };
        let mut progress = false;
        while let Some((what, went)) = cx.trunk.moving.next(mover) {
            progress = true;
            if went == Moved::Failed {
                return Err(Fault::Reach);
            }
            if let What::Transfer(transfer) = what {
                self.ended(transfer, went == Moved::Refused);
            }
        }
        while let Some(&deferred) = self.deferred.first() {
            cx.own_qpn.set(deferred.qpn);
            let qp = self.find(deferred.qpn);
            // One that has gone says nothing, and the peer is told that it has.
            let says = |qp: &Arc<Qp>| qp.inner.lock().machine.is_to_tell(&deferred);
            let says = qp.as_ref().is_some_and(says);
            if says && !cx.word_behind(&deferred.word)? {
                break;
            }
            if let Some(qp) = qp.filter(|_| deferred.answers) {
                qp.inner.lock().machine.has_told(&deferred);
            }
            let _ = self.deferred.remove(0);
            progress = true;
        }
        Ok(progress)
    }

    /// A transfer has ended.
    fn ended(&mut self, transfer: Transfer, refused: bool) {
        let (qpn, epoch) = transfer.owner();
        let Some(qp) = self.find(qpn) else {
            return;
        };
        let mut inner = qp.inner.lock();
        if inner.machine.epoch() != epoch {
            return;
        }
        let (machine, mut env) = inner.outside(&qp);
        let deferred = machine.transfer_ended(&mut env, transfer, refused);
        if deferred.is_some_and(|deferred| self.deferred.push(deferred, GFP_KERNEL).is_err()) {
            // The peer would wait for ever.
            let lost = Status::RemoteOp;
            machine.fail(&mut env, lost, lost, Status::Flushed);
        }
        // It may have waited for this.
        self.enqueue(&qp, &mut inner);
    }

    /// Takes up to `most` of what has come; returns how much.
    pub(super) fn take(&mut self, cx: &mut Cx<'_>, most: usize) -> Result<usize, Fault> {
        let mut taken = 0;
        while taken < most && !cx.is_tired() {
            let before = taken;
            if self.pushed_word(cx)? || self.pulled_word(cx)? {
                taken += 1;
                continue;
            }
            if let Some(arrived) = cx.trunk.peek(&cx.io)? {
                if let Message::Gone(_) | Message::Join(_) = arrived.message {
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
            Says::Done { to, part } => cx.trunk.buffers.end(word.qpn, word.psn, to, part),
            _ => None,
        };
        if let Some(qp) = self.find(word.qpn) {
            let mut inner = qp.inner.lock();
            let (machine, mut env) = inner.inside(&qp, cx);
            if machine.on_word(&mut env, word, pulled, lease.as_ref()) {
                self.enqueue(&qp, &mut inner);
            }
        }
        if let Some(Lease { extents, .. }) = lease {
            // The peer is done with it.
            cx.trunk.buffers.give(&extents);
        }
    }

    fn cell(&mut self, cx: &mut Cx<'_>, arrived: &Arrived) {
        let Arrived {
            address, message, ..
        } = arrived;
        cx.own_qpn.set(address.qpn);
        traced::cell(cx.dev, self.link, false, address.qpn, *address, message);
        if let Message::Gone(gone) = message {
            let buffers = &mut cx.trunk.buffers;
            buffers.revoke_peer(address.qpn, gone.qpn, gone.peer_epoch);
        }
        let Some(qp) = self.find(address.qpn) else {
            match (message, self.table.find(address.qpn)) {
                // It is asked when this one is connected.
                (Message::Join(join), Some(_)) if join.asks => {}
                // Of one that was joined with this one before it was reset.
                (Message::Join(join), Some(qp)) => {
                    let refusal = qp.inner.lock().machine.refusal(join);
                    self.tell(refusal);
                }
                _ => self.unknown(cx, address.qpn, message),
            }
            return;
        };
        let inner = &mut *qp.inner.lock();
        let heard = match *message {
            Message::Join(ref join) => {
                let (machine, mut env) = inner.outside(&qp);
                if machine.on_join(&mut env, join) == Joined::Refused {
                    self.tell(machine.refusal(join));
                }
                true
            }
            Message::Gone(ref gone) => {
                let (machine, mut env) = inner.inside(&qp, cx);
                if let Some(answer) = machine.on_gone(&mut env, gone) {
                    self.tell(answer);
                }
                true
            }
            _ => {
                let (machine, mut env) = inner.inside(&qp, cx);
                machine.on_cell(&mut env, arrived)
            }
        };
        if heard {
            self.enqueue(&qp, inner);
        }
    }

    /// Has the peer told of a queue pair that is not there, or not for the one that has asked.
    fn tell(&mut self, word: Disconnect) {
        if self.gone.len() < MOST_GONE && !self.gone.contains(&word) {
            // Without memory the peer waits until its user has had enough.
            let _ = self.gone.push(word, GFP_KERNEL);
        }
    }

    /// A message is for a number that no queue pair has here.
    fn unknown(&mut self, cx: &mut Cx<'_>, qpn: u32, message: &Message) {
        match (qpn, message) {
            (0, Message::Gone(gone)) => {
                cx.moved(SEARCH);
                self.lost(cx, gone.qpn);
            }
            // No queue pair has this number anywhere.
            (0, _) => {}
            (_, Message::Gone(gone)) if !gone.refuses => self.tell(Disconnect::answer(qpn, gone)),
            (_, message) if message.is_request() || matches!(message, Message::Join(_)) => {
                self.tell(Disconnect::unknown(qpn));
            }
            _ => {}
        }
    }

    /// The peer has no queue pair of this number.
    fn lost(&mut self, cx: &mut Cx<'_>, peer_qpn: u32) {
        cx.trunk.buffers.revoke_lost(peer_qpn);
        for qp in self.members.iter() {
            let inner = &mut *qp.inner.lock();
            let (machine, mut env) = inner.outside(qp);
            machine.on_lost(&mut env, peer_qpn);
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
    pub(super) fn visit(&mut self, cx: &mut Cx<'_>, left: &mut usize) -> Result<Served, Fault> {
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
            // It may have left, and wait at another link.
            if self.members.find(qp.number()).is_none() {
                continue;
            }
            let mut inner = qp.inner.lock();
            inner.queued = false;
            cx.own_qpn.set(qp.number());
            let (machine, mut env) = inner.inside(&qp, cx);
            if machine.state() != State::Err && qp.is_overrun() {
                machine.overrun(&mut env);
            }
            let served = machine.serve(&mut env, QUANTUM)?;
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
