// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A node that was asked to come to rest, and answers when it has.
//!
//! Routes in use are about to lead elsewhere, and what was under way then might get lost. It is not waited
//! for anybody for long: who is not at rest by then loses no more than without being asked. This file must
//! not know what comes to rest, nor how.

use super::{
    super::{
        member::Member,
        message::{Differ, Taken},
        path::Path,
        table::Slot,
    },
    Effects, Node,
};

/// So long it is waited for a node that is to come to rest.
pub const REST_MS: u64 = 250;

/// And so long it rests at the most, if nobody asks it again.
pub const LEASE_MS: u64 = 2000;

/// Who waits for it.
#[derive(Clone, Copy)]
pub(super) struct Resting {
    xid: u32,
    /// The way to him; `None`: it is this node.
    back: Option<Path>,
    /// He is answered then in any case.
    pub(super) until: u64,
}

impl<M, T, B, A> Node<M, T, B, A>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
{
    /// Has [`Self::answer_at_rest`] answer. Who asks again waits no longer for that.
    pub(super) fn await_rest(&mut self, now: u64, xid: u32, back: Option<Path>) {
        let before = self.resting.take().filter(|resting| resting.xid == xid);
        let until = before.map_or(now + REST_MS, |resting| resting.until);
        self.resting = Some(Resting { xid, back, until });
    }

    /// Answers, if the node is at rest, or should have been.
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
