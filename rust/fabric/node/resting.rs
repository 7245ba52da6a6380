// SPDX-License-Identifier: GPL-2.0

//! Far links come to rest while ways of the fabric change, so that their sessions outlast it.
//!
//! The manager says when that begins and ends, and is not waited for without end: a master may die in
//! between. The timer of the node does the rest. Neighbours are reached by no way, and notice nothing. This
//! must not know which ways change.

use super::Node;
use crate::{
    hw::{Port, MAX_LINKS},
    proto::nm::node::LEASE_MS,
    sys::clock,
};
use kernel::{
    sync::atomic::{Acquire, Atomic, Full, Relaxed, Release},
    time::Msecs,
};

/// How often it is looked whether links have come to rest, or ways lead somewhere again.
const LOOK_MS: Msecs = 4;
/// How long a way may lead nowhere at the end.
const LATE_MS: u64 = 1000;

/// What is wanted of the links, and how far they are.
pub(super) struct Resting {
    /// Until when they are, or were, to rest, in milliseconds.
    until: Atomic<u64>,
    /// Nothing is under way.
    still: Atomic<bool>,
    /// Those that may rest, a bit each. Changed by the timer alone.
    links: Atomic<u32>,
}

impl Resting {
    pub(super) fn new() -> Self {
        Self {
            until: Atomic::new(0),
            still: Atomic::new(false),
            links: Atomic::new(0),
        }
    }
}

impl Node {
    /// Ways of the fabric are going to change, or have. With the manager locked.
    pub(crate) fn rest_for_ways(&self, on: bool) {
        let now = clock::now_ms();
        let until = if on { now + LEASE_MS } else { now };
        let before = self.resting.until.xchg(until, Full);
        if before <= now {
            self.resting.still.store(false, Release);
        }
        self.hurry();
    }

    /// Whether nothing is under way by ways of the fabric.
    pub(crate) fn rests_for_ways(&self) -> bool {
        self.resting.still.load(Acquire)
    }

    /// Has links come to rest, or go on. Says when it wants to be called again, by the timer.
    pub(super) fn keep_rest(&self, port: &dyn Port) -> Option<Msecs> {
        let now = clock::now_ms();
        let until = self.resting.until.load(Acquire);
        let before = self.resting.links.load(Relaxed);
        if now >= until && before == 0 {
            return None;
        }
        let (mut left, mut still) = (0, true);
        for number in port.links()..MAX_LINKS {
            let Ok(link) = self.link(port, number) else {
                continue;
            };
            if now < until {
                left |= 1 << number;
                still &= link.rest(self, port);
            } else if before & 1 << number != 0 && !link.leave(self, port, now >= until + LATE_MS) {
                left |= 1 << number;
            }
        }
        self.resting.links.store(left, Relaxed);
        if now < until && still && !self.resting.still.xchg(true, Full) {
            self.manage();
        }
        (now < until || left != 0).then_some(LOOK_MS)
    }
}
