// SPDX-License-Identifier: GPL-2.0

//! One run of the engine's end of a link: takes what has come, and gives queue pairs their turns.
//!
//! What a queue pair makes of it is in `initiator` and `responder`; who runs this, and when, is in
//! `worker`.

use super::{
    cx::{Cx, Farewell, Served},
    lent::Lease,
    moving::{Owed, What},
    qp::{Ask, Inner, Qp, State, FLUSH},
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
        request::{Message, Role},
        trunk::Fault,
        word::{Says, Word},
    },
};
use kernel::{prelude::*, sync::Arc};

/// Requests that a queue pair sends in one turn.
const QUANTUM: usize = 16;
/// What a search for all queue pairs of a peer is worth, in bytes.
const SEARCH: u64 = 64 << 10;
/// Numbers of queue pairs that are not there, of which the peer is to be told.
const MOST_GONE: usize = 256;

/// One run.
pub(super) struct Run<'a> {
    pub(super) table: &'a Table,
    pub(super) turns: &'a mut Turns,
    pub(super) owed: &'a mut KVec<Owed>,
    pub(super) gone: &'a mut KVec<Farewell>,
    pub(super) link: usize,
    pub(super) session: u64,
}

impl Run<'_> {
    /// The queue pair of this link with this number.
    fn find(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.table.find(qpn)
    }

    /// Whether a queue pair is connected by this session.
    fn is_here(&self, inner: &Inner) -> bool {
        inner.is_of(self.link, self.session)
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
    pub(super) fn take(&mut self, cx: &mut Cx<'_>, most: usize) -> Result<usize, Fault> {
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
        if let Message::Join { qpn, .. } = *message {
            self.join(&qp, inner, qpn, message);
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
    fn join(&mut self, qp: &Arc<Qp>, inner: &mut Inner, qpn: u32, message: &Message) {
        let Message::Join {
            protocol,
            asks,
            stands,
            ..
        } = *message
        else {
            return;
        };
        if !inner.is_peer(qpn) || !inner.state.hears() {
            self.refuse(qp, qpn);
            return;
        }
        let together = inner.goes_with(stands);
        inner.joined = true;
        if asks {
            // Also if they do not agree: that end is to find it out as well.
            inner.owes_join = Some(Ask::No);
        }
        if protocol != qp.protocol() {
            qp.violated(inner);
        } else if !together {
            // It has begun anew while this one was kept.
            qp.fail(inner, Status::Peer, Status::Peer, Status::Flushed);
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
        for qp in self.table.all() {
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
            } else if inner.joined && inner.owes_join.is_none() {
                // The peer hears nothing that comes before JOIN.
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
