// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How a queue pair is connected to its peer's, and how that ends: JOIN and GONE.
//!
//! ```text
//!   JOIN (my epoch)                     -->
//!                                       <--  JOIN (my epoch, yours)    the receiver is joined
//!   JOIN (my epoch, yours)              -->                            and so is this one
//! ```
//!
//! A queue pair counts how often it was begun: its *epoch*. It is joined by a JOIN that answers its own
//! epoch, and hears nothing before: what the peer has said to it before a reset is not taken for what it
//! says now. Which link leads to the peer, and which session of it is meant, the caller knows.

use super::{
    disconnect::Disconnect,
    env::{Memory, Queues},
    Heap, Machine, Served, State,
};
use crate::proto::{
    cqe::Status,
    hold::Standing,
    request::{Gone, Join},
};

/// What to do about a JOIN of the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Nothing more: the queue pair is to be served.
    Known,
    /// The queue pair that has sent it is to be told [`Machine::refusal`].
    Refused,
}

impl<H: Heap> Machine<H> {
    /// Connects to queue pair `peer_qpn` of the peer, which is asked to join.
    pub fn connect(&mut self, peer_qpn: u32) {
        self.peer_qpn = Some(peer_qpn);
        self.owes_join = true;
    }

    /// Ends the connection, before a reset. `reaches`: the link still has the session in which it was
    /// made. What the peer is to be told.
    pub fn disconnect(&mut self, reaches: bool) -> Option<Disconnect> {
        let what = self.ends(self.owes_join)?;
        self.peer_qpn = None;
        let told = reaches && (self.joined && self.state.hears() || self.owes_gone);
        told.then_some(what)
    }

    /// What the peer is told when this queue pair ends. `refuses`: the peer may not know that they were
    /// joined.
    pub(super) fn ends(&self, refuses: bool) -> Option<Disconnect> {
        Some(Disconnect {
            to: self.peer_qpn?,
            gone: Gone {
                qpn: self.number,
                refuses,
                epoch: self.epoch,
                peer_epoch: self.peer_epoch,
            },
        })
    }

    /// The answer to a JOIN that this queue pair is not for.
    pub const fn refusal(&self, join: &Join) -> Disconnect {
        Disconnect {
            to: join.qpn,
            gone: Gone {
                qpn: self.number,
                refuses: true,
                epoch: self.epoch,
                peer_epoch: join.epoch,
            },
        }
    }

    /// A session of the link has begun, and the queue pair was kept. True: it is to be connected anew,
    /// to [`Machine::peer_qpn`].
    pub fn unkeep(&mut self) -> bool {
        core::mem::take(&mut self.kept)
    }

    /// Whether this end is connected to queue pair `qpn` of the peer.
    fn is_peer(&self, qpn: u32) -> bool {
        self.peer_qpn == Some(qpn)
    }

    /// Whether the peer, which says where it stands, goes on where this end does.
    fn goes_with(&self, peer: Standing) -> bool {
        // An answer comes when requests may have been sent already.
        self.joined || peer.fits(self.resumes, self.requester.next_number(), !self.touched)
    }

    /// What the peer is told by JOIN.
    pub(super) fn says_of_itself(&self) -> Join {
        Join {
            qpn: self.number,
            protocol: self.protocol,
            // In ERR, too: the answer is refused then.
            asks: !self.joined,
            stands: self.standing(),
            epoch: self.epoch,
            peer_epoch: self.peer_epoch,
        }
    }

    /// A queue pair of the peer says that it is connected to this one.
    pub fn on_join<Q: Queues>(&mut self, env: &mut Q, join: &Join) -> Joined {
        if !self.is_peer(join.qpn) || !self.hears() {
            return Joined::Refused;
        }
        let known = self.peer_epoch != 0 && (self.joined || self.resumes);
        if known && join.epoch != self.peer_epoch {
            // It has begun anew since it was joined with this one.
            self.fail(env, Status::Peer, Status::Peer, Status::Flushed);
            return Joined::Refused;
        }
        // Else it has not heard of this one yet, or of what was before a reset.
        let answers = join.peer_epoch == self.epoch;
        let together = !answers || self.goes_with(join.stands);
        self.peer_epoch = join.epoch;
        self.joined |= answers;
        // Also if they do not agree: that end is to find it out as well.
        self.owes_join |= join.asks;
        if join.protocol != self.protocol {
            self.violated(env);
        } else if !together {
            // It has begun anew while this one was kept.
            self.fail(env, Status::Peer, Status::Peer, Status::Flushed);
        }
        Joined::Known
    }

    /// A queue pair of the peer says that it is gone, or refuses to join. The answer, if there is one.
    pub fn on_gone<E>(&mut self, env: &mut E, gone: &Gone) -> Option<Disconnect>
    where
        E: Memory<Heap = H> + Queues,
    {
        let is_meant = gone.peer_epoch == 0 || gone.peer_epoch == self.epoch;
        let is_connected = self.is_peer(gone.qpn) && (gone.refuses || self.joined);
        if is_meant && is_connected && self.hears() {
            // What was said of requests before.
            self.finish(env, &mut Served::default());
            self.fail(env, Status::Peer, Status::Peer, Status::Flushed);
        }
        // One that ends itself says so behind its data.
        let answers = !gone.refuses && !self.owes_gone;
        answers.then(|| Disconnect::answer(self.number, gone))
    }

    /// The peer has no queue pair `qpn`: this one ends if it is connected to it.
    pub fn on_lost<Q: Queues>(&mut self, env: &mut Q, qpn: u32) {
        if self.is_peer(qpn) && self.hears() {
            self.fail_silently(env, Status::Peer, Status::Flushed);
        }
    }

    /// Whether requests may be sent: the peer hears nothing that comes before JOIN.
    pub(super) fn may_request(&self) -> bool {
        self.state != State::Err && self.joined && !self.owes_join
    }
}
