// SPDX-License-Identifier: GPL-2.0

//! One run of the engine on a link: takes what has arrived, and services the queue pairs in the run
//! queue.
//!
//! What a queue pair does with it is in `proto::qp`; when a run takes place is decided by `worker`.

use super::{
    control::Control,
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
        qp::{Deferred, Disconnect, Flow, Joined, Lease, Served, Transfer},
        request::{Address, Message},
        trunk::Fault,
        word::{Says, Word},
    },
};
use kernel::{prelude::*, sync::Arc};

/// Requests that a queue pair sends or flushes each time it is serviced.
const QUANTUM: usize = 8;
/// What a search of all queue pairs, or of all sockets, costs of the budget, in bytes moved.
const SEARCH: u64 = 64 << 10;
/// The most GONE messages that wait to be sent about queue pairs that do not exist.
const MOST_GONE: usize = 256;

/// One run.
pub(super) struct Run<'a> {
    pub(super) table: &'a Table,
    pub(super) turns: &'a mut Turns,
    pub(super) deferred: &'a mut KVec<Deferred>,
    pub(super) gone: &'a mut KVec<Disconnect>,
    pub(super) members: &'a Members,
    pub(super) control: &'a dyn Control,
    pub(super) link: usize,
}

impl<'a> Run<'a> {
    /// Returns queue pair `qpn`, if it is connected in this session.
    fn find(&self, qpn: u32) -> Option<&'a Arc<Qp>> {
        self.members.find(qpn)
    }

    fn enqueue(&mut self, qp: &Arc<Qp>, inner: &mut Inner) {
        if !inner.queued {
            inner.queued = self.turns.push(qp.clone());
        }
    }

    /// Handles transfers that are done and sends deferred control words. Returns whether there was
    /// any.
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
            // A queue pair that is gone sends nothing; GONE has told the peer.
            let says = |qp: &Arc<Qp>| qp.inner.lock().machine.is_to_tell(&deferred);
            let says = qp.is_some_and(says);
            if says && !cx.word_behind(&deferred.word)? {
                break;
            }
            if let Some(qp) = qp {
                let mut inner = qp.inner.lock();
                inner.machine.has_told(&deferred);
                // Data that the CPU stores may wait for it.
                self.enqueue(qp, &mut inner);
            }
            let _ = self.deferred.remove(0);
            progress = true;
        }
        Ok(progress)
    }

    /// Handles a transfer that is done, or was `refused`.
    fn ended(&mut self, transfer: Transfer, refused: bool) {
        let (qpn, epoch) = transfer.owner();
        let Some(qp) = self.find(qpn) else {
            return;
        };
        let mut inner = qp.inner.lock();
        if inner.machine.epoch() != epoch {
            return;
        }
        let (machine, mut env) = inner.outside(qp);
        let deferred = machine.transfer_ended(&mut env, transfer, refused);
        if deferred.is_some_and(|deferred| self.deferred.push(deferred, GFP_KERNEL).is_err()) {
            // Otherwise the peer waits for ever.
            let lost = Status::RemoteOp;
            machine.fail(&mut env, lost, lost, Status::Flushed);
        }
        // The queue pair may have waited for the transfer.
        self.enqueue(qp, &mut inner);
    }

    /// Takes up to `most` cells and control words that have arrived; returns how many.
    pub(super) fn take(&mut self, cx: &mut Cx<'_>, most: usize) -> Result<usize, Fault> {
        let mut taken = 0;
        while taken < most && !cx.is_tired() {
            let before = taken;
            if self.pushed_word(cx)? || cx.trunk.may_pull_word(&cx.io) && self.pulled_word(cx)? {
                taken += 1;
                continue;
            }
            // Looked at where it is: a cell is large.
            match &cx.trunk.peek(&cx.io) {
                Ok(Some(arrived)) => {
                    if arrived.message.follows_all() {
                        taken += self.catch_up(cx)?;
                    }
                    self.cell(cx, arrived);
                    cx.trunk.consume(&cx.io, arrived);
                    taken += 1;
                }
                Ok(None) => {}
                Err(fault) => return Err(*fault),
            }
            if cx.trunk.may_pull(&cx.io) {
                taken += usize::from(self.pulled_cell(cx)?);
            }
            if taken == before {
                break;
            }
        }
        Ok(taken)
    }

    /// Takes all control words and requests that the peer sent or posted before the GONE or JOIN that
    /// is about to be taken. What precedes GONE still counts; what precedes JOIN is void.
    fn catch_up(&mut self, cx: &mut Cx<'_>) -> Result<usize, Fault> {
        // At most as many as fit into the queues, however much the peer writes meanwhile.
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
        match &cx.trunk.pull(&cx.io) {
            Ok(Some(arrived)) => {
                self.cell(cx, arrived);
                cx.trunk.consume(&cx.io, arrived);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(fault) => Err(*fault),
        }
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
            let (machine, mut env) = inner.inside(qp, cx);
            if machine.on_word(&mut env, word, pulled, lease.as_ref()) {
                self.enqueue(qp, &mut inner);
            }
        }
        if let Some(Lease { extents, .. }) = lease {
            // The peer no longer uses the staging memory.
            cx.trunk.buffers.give(&extents);
        }
    }

    fn cell(&mut self, cx: &mut Cx<'_>, arrived: &Arrived) {
        let Arrived {
            address, message, ..
        } = arrived;
        cx.own_qpn.set(address.qpn);
        traced::cell(cx.dev, self.link, false, address.qpn, *address, message);
        if let Message::Socket(socket) = message {
            if self.control.arrived(&cx.io.reached(), socket) {
                cx.moved(SEARCH);
            }
            return;
        }
        if let Message::Gone(gone) = message {
            let buffers = &mut cx.trunk.buffers;
            buffers.revoke_peer(address.qpn, gone.qpn, gone.peer_epoch);
        }
        let Some(qp) = self.find(address.qpn) else {
            match (message, self.table.find(address.qpn)) {
                // When this queue pair becomes connected it sends a JOIN of its own.
                (Message::Join(join), Some(_)) if join.asks => {}
                // The queue pair was reset since the peer joined it.
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
                let (machine, mut env) = inner.outside(qp);
                if machine.on_join(&mut env, join) == Joined::Refused {
                    self.tell(machine.refusal(join));
                }
                true
            }
            Message::Gone(ref gone) => {
                let (machine, mut env) = inner.inside(qp, cx);
                if let Some(answer) = machine.on_gone(&mut env, gone) {
                    self.tell(answer);
                }
                true
            }
            _ => {
                let (machine, mut env) = inner.inside(qp, cx);
                machine.on_cell(&mut env, arrived)
            }
        };
        if heard {
            self.enqueue(qp, inner);
        }
    }

    /// Queues a GONE to the peer: the queue pair does not exist, or is not connected to the one that
    /// asked.
    fn tell(&mut self, word: Disconnect) {
        if self.gone.len() < MOST_GONE && !self.gone.contains(&word) {
            // If memory is short, the peer waits until its user gives up.
            let _ = self.gone.push(word, GFP_KERNEL);
        }
    }

    /// Handles a message for a QPN that no queue pair here has.
    fn unknown(&mut self, cx: &mut Cx<'_>, qpn: u32, message: &Message) {
        match (qpn, message) {
            (0, Message::Gone(gone)) => {
                cx.moved(SEARCH);
                self.lost(cx, gone.qpn);
            }
            // QPN 0 is never assigned.
            (0, _) => {}
            (_, Message::Gone(gone)) if !gone.refuses => self.tell(Disconnect::answer(qpn, gone)),
            (_, message) if message.is_request() || matches!(message, Message::Join(_)) => {
                self.tell(Disconnect::unknown(qpn));
            }
            _ => {}
        }
    }

    /// Ends the queue pairs that are connected to `peer_qpn`, which the peer does not have.
    fn lost(&mut self, cx: &mut Cx<'_>, peer_qpn: u32) {
        cx.trunk.buffers.revoke_lost(peer_qpn);
        let members = self.members;
        for qp in members.iter() {
            let inner = &mut *qp.inner.lock();
            let (machine, mut env) = inner.outside(qp);
            if machine.on_lost(&mut env, peer_qpn) {
                // It has requests to flush.
                self.enqueue(qp, inner);
            }
        }
    }

    /// Sends the queued GONE messages. Returns false if there is no room now.
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

    /// Sends the messages of sockets that are due. Returns false if there is no room now.
    fn tell_sockets(&mut self, cx: &mut Cx<'_>) -> Result<bool, Fault> {
        cx.own_qpn.set(0);
        while let Some(message) = self.control.next(self.link) {
            // Only a request may be pulled.
            let protocol = Protocol {
                wqe: message.is_pulled(),
                ..Protocol::PUSH
            };
            let to = Address { qpn: 0, psn: 0 };
            if cx.flow == Flow::Quiesced || !cx.send(protocol, to, &Message::Socket(message))? {
                return Ok(false);
            }
            self.control.sent(self.link);
        }
        Ok(true)
    }

    /// Services each queue pair in the run queue once, as far as the budget of `left` goes: each request
    /// is one of it, and a service without any is, too.
    pub(super) fn visit(&mut self, cx: &mut Cx<'_>, left: &mut usize) -> Result<Served, Fault> {
        let mut all = Served {
            blocked: !self.tell_gone(cx)? || !self.tell_sockets(cx)?,
            ..Served::default()
        };
        if all.blocked {
            // A JOIN must not overtake a GONE of an earlier connection.
            return Ok(all);
        }
        for _ in 0..self.turns.len() {
            if *left == 0 || cx.is_tired() {
                break;
            }
            let Some(qp) = self.turns.pop() else {
                break;
            };
            // It may have been disconnected, and be queued at another link.
            if self.members.find(qp.number()).is_none() {
                *left -= 1;
                continue;
            }
            let mut inner = qp.inner.lock();
            inner.queued = false;
            cx.own_qpn.set(qp.number());
            let (machine, mut env) = inner.inside(&qp, cx);
            if machine.state() != State::Err && qp.is_overrun() {
                machine.overrun(&mut env);
            }
            let served = machine.serve(&mut env, QUANTUM.min(*left))?;
            *left = left.saturating_sub(served.requests.max(1));
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
