// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Connect and disconnect of a queue pair and its peer: JOIN and GONE.
//!
//! ```text
//!   JOIN (own epoch)                    -->
//!                                       <--  JOIN (own epoch, peer's)  the receiver is connected
//!   JOIN (own epoch, peer's)            -->                            its receiver is connected
//! ```
//!
//! The *epoch* of a queue pair counts its resets. A queue pair is connected ("joined") by a JOIN that
//! answers its own epoch, and takes nothing before it: so messages from before a reset are not taken for
//! new ones. The caller knows which link leads to the peer, and in which session the queue pair was
//! connected.

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

/// What the caller is to do about a JOIN of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Service the queue pair.
    Known,
    /// Send [`Machine::refusal`] to the queue pair that has sent it.
    Refused,
}

impl<H: Heap> Machine<H> {
    /// Begins to connect to queue pair `peer_qpn` of the peer: a JOIN is due.
    pub fn connect(&mut self, peer_qpn: u32) {
        self.peer_qpn = Some(peer_qpn);
        self.owes_join = true;
    }

    /// Ends the connection, before a reset. `reaches`: the link still has the session in which it was
    /// made. Returns the disconnect to send to the peer, if any.
    pub fn disconnect(&mut self, reaches: bool) -> Option<Disconnect> {
        let what = self.ends(self.owes_join)?;
        self.peer_qpn = None;
        let told = reaches && (self.joined && self.state.hears() || self.owes_gone);
        told.then_some(what)
    }

    /// Returns the disconnect for the end of this queue pair. `refuses`: the peer may not know that the
    /// two were connected.
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

    /// Returns the answer to a JOIN that this queue pair does not accept.
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

    /// Clears the mark of a kept queue pair when a session of the link has begun. Returns true if it was
    /// kept: then it is to be connected to [`Machine::peer_qpn`] again.
    pub fn unkeep(&mut self) -> bool {
        core::mem::take(&mut self.kept)
    }

    /// Returns whether this end is connected to queue pair `qpn` of the peer.
    fn is_peer(&self, qpn: u32) -> bool {
        self.peer_qpn == Some(qpn)
    }

    /// Returns whether the position of the peer matches that of this end.
    fn goes_with(&self, peer: Standing) -> bool {
        // If this end is joined, requests may have been sent already, and the position has changed.
        self.joined || peer.fits(self.resumes, self.requester.next_number(), !self.touched)
    }

    /// Returns the contents of JOIN for the peer.
    pub(super) fn says_of_itself(&self) -> Join {
        Join {
            qpn: self.number,
            protocol: self.protocol,
            // This holds in ERR, too: the answer is refused then.
            asks: !self.joined,
            stands: self.standing(),
            epoch: self.epoch,
            peer_epoch: self.peer_epoch,
        }
    }

    /// Handles a JOIN: a queue pair of the peer is connected to this one.
    pub fn on_join<Q: Queues>(&mut self, env: &mut Q, join: &Join) -> Joined {
        if !self.is_peer(join.qpn) || !self.hears() {
            return Joined::Refused;
        }
        let known = self.peer_epoch != 0 && (self.joined || self.resumes);
        if known && join.epoch != self.peer_epoch {
            // The peer's queue pair was reset since it was joined with this one.
            self.fail(env, Status::Peer, Status::Peer, Status::Flushed);
            return Joined::Refused;
        }
        // Otherwise the peer does not know this queue pair yet, or only its epoch before a reset.
        let answers = join.peer_epoch == self.epoch;
        let together = !answers || self.goes_with(join.stands);
        self.peer_epoch = join.epoch;
        self.joined |= answers;
        // It is answered even if the two do not match: so the peer finds out, too.
        self.owes_join |= join.asks;
        if join.protocol != self.protocol {
            self.violated(env);
        } else if !together {
            // The peer's queue pair was reset while this one was kept.
            self.fail(env, Status::Peer, Status::Peer, Status::Flushed);
        }
        Joined::Known
    }

    /// Handles a GONE: a queue pair of the peer has ended, or refuses to join. Returns the answer, if
    /// any.
    pub fn on_gone<E>(&mut self, env: &mut E, gone: &Gone) -> Option<Disconnect>
    where
        E: Memory<Heap = H> + Queues,
    {
        let is_meant = gone.peer_epoch == 0 || gone.peer_epoch == self.epoch;
        let is_connected = self.is_peer(gone.qpn) && (gone.refuses || self.joined);
        if is_meant && is_connected && self.hears() {
            // Completes the requests that were answered before.
            self.finish(env, &mut Served::default());
            self.fail(env, Status::Peer, Status::Peer, Status::Flushed);
        }
        // A queue pair that ends itself sends its own GONE behind its data.
        let answers = !gone.refuses && !self.owes_gone;
        answers.then(|| Disconnect::answer(self.number, gone))
    }

    /// Ends this queue pair if it is connected to queue pair `qpn` of the peer, which does not exist.
    /// Returns true if it was.
    pub fn on_lost<Q: Queues>(&mut self, env: &mut Q, qpn: u32) -> bool {
        let lost = self.is_peer(qpn) && self.hears();
        if lost {
            self.fail(env, Status::Peer, Status::Peer, Status::Flushed);
            self.owes_gone = false;
        }
        lost
    }

    /// Returns whether requests may be sent: the peer takes nothing before JOIN.
    pub(super) fn may_request(&self) -> bool {
        self.state != State::Err && self.joined && !self.owes_join
    }
}
