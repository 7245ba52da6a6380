// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Route quiesce: a node that was asked to quiesce its routes answers when nothing is under way over
//! them.
//!
//! Routes in use are about to change, and what is under way meanwhile might get lost. Until then the node
//! answers *later*, each time that it is asked. The master does not wait long where a route in use leads
//! nowhere, as what is under way there is lost and never answered: [`REST_MS`]. Otherwise only a node that
//! has no time makes it wait, and that loses nothing: [`REST_WHOLE_MS`]. A node that is not quiesced by then
//! loses no more than without being asked. This file is independent of what is quiesced, and how.

use super::{
    super::{
        member::Member,
        message::{Differ, Taken},
        table::Slot,
    },
    auth::Return,
    Effects, Node,
};

/// Longest time that a master waits for nodes to quiesce if a route in use leads nowhere.
pub const REST_MS: u64 = 250;

/// The same if all routes in use lead to their destinations.
pub const REST_WHOLE_MS: u64 = 2000;

/// Time after which a quiesce ends by itself, unless it is asked for again. Hosts that are quiesced wait for
/// the last one, and for the routes.
pub const LEASE_MS: u64 = 3000;

/// A request to quiesce that waits for its answer.
#[derive(Clone, Copy)]
pub(super) struct Resting {
    xid: u32,
    /// Where the master is; `None`: this node is the master.
    back: Option<Return>,
    /// When the quiesce ends, and is answered no more.
    until: u64,
}

impl<M, T, B, A> Node<M, T, B, A>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
{
    /// Answers a request to quiesce: that it is done, or that it will be; then [`Self::answer_at_rest`]
    /// says when it is.
    pub(super) fn await_rest(
        &mut self,
        now: u64,
        xid: u32,
        back: Option<Return>,
        fx: &mut impl Effects,
    ) {
        let until = now + LEASE_MS;
        let resting = Resting { xid, back, until };
        let still = fx.is_at_rest();
        self.resting = (!still).then_some(resting);
        let taken = if still { Taken::Yes } else { Taken::Later };
        self.answer_rest(now, resting, taken, fx);
    }

    /// Answers the request if the node is quiesced by now.
    pub(super) fn answer_at_rest(&mut self, now: u64, fx: &mut impl Effects) {
        let Some(resting) = self.resting else {
            return;
        };
        if now >= resting.until {
            self.resting = None;
        } else if fx.is_at_rest() {
            self.resting = None;
            self.answer_rest(now, resting, Taken::Yes, fx);
        }
    }

    fn answer_rest(&mut self, now: u64, to: Resting, taken: Taken, fx: &mut impl Effects) {
        match to.back {
            Some(back) => self.acknowledge(&back, to.xid, taken, Differ::default(), fx),
            None => {
                self.acked(now, to.xid, self.me.hwid, taken, Differ::default());
            }
        }
    }
}
