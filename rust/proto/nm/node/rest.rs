// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Route quiesce: a node that was asked to quiesce its routes answers when nothing is under way over
//! them.
//!
//! Routes in use are about to change, and what is under way meanwhile might get lost. The master does
//! not wait long: a node that is not quiesced after [`REST_MS`] loses no more than without being asked.
//! This file is independent of what is quiesced, and how.

use super::{
    super::{
        member::Member,
        message::{Differ, Taken},
        path::Path,
        table::Slot,
    },
    Effects, Node,
};

/// Time after which a node answers even if it is not quiesced.
pub const REST_MS: u64 = 250;

/// Time after which a quiesce ends by itself, unless it is asked for again.
pub const LEASE_MS: u64 = 2000;

/// A request to quiesce that waits for its answer.
#[derive(Clone, Copy)]
pub(super) struct Resting {
    xid: u32,
    /// The path to the master; `None`: this node is the master.
    back: Option<Path>,
    /// The request is answered at this time in any case.
    pub(super) until: u64,
}

impl<M, T, B, A> Node<M, T, B, A>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
{
    /// Records a request for [`Self::answer_at_rest`]. A repeated request keeps its time limit.
    pub(super) fn await_rest(&mut self, now: u64, xid: u32, back: Option<Path>) {
        let before = self.resting.take().filter(|resting| resting.xid == xid);
        let until = before.map_or(now + REST_MS, |resting| resting.until);
        self.resting = Some(Resting { xid, back, until });
    }

    /// Answers the request if the node is quiesced, or the time is up.
    pub(super) fn answer_at_rest(&mut self, now: u64, fx: &mut impl Effects) {
        let Some(Resting { xid, back, until }) = self.resting else {
            return;
        };
        if now < until && !fx.is_at_rest() {
            return;
        }
        self.resting = None;
        match back {
            Some(back) => self.acknowledge(back, xid, Taken::Yes, Differ::default(), fx),
            None => self.acked(now, xid, self.me.hwid, Taken::Yes, Differ::default()),
        }
    }
}
