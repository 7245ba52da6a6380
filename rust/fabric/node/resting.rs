// SPDX-License-Identifier: GPL-2.0

//! Quiesces routed links while routes of the fabric change, so that their sessions survive the change.
//!
//! The manager says when this begins and ends. It may also end by itself after [`LEASE_MS`], as a master
//! may die in between. The timer of the node does the work. Links to neighbours use no route and are not
//! affected. This file must not know which routes change.

use super::Node;
use crate::{hw::Port, proto::nm::node::LEASE_MS, sys::clock};
use kernel::{
    sync::atomic::{Acquire, Atomic, Full, Relaxed, Release},
    time::Msecs,
};

/// How often to look whether links are quiesced, or whether their routes lead somewhere again.
const LOOK_MS: Msecs = 4;
/// How long, after the end, a link may wait for a route.
const LATE_MS: u64 = 1000;

/// Whether routed links are to be quiesced, and how far they are.
pub(super) struct Resting {
    /// Until when the links are, or were, to be quiesced, in milliseconds.
    until: Atomic<u64>,
    /// Nothing is in flight.
    still: Atomic<bool>,
    /// The links that may be quiesced, a bit each. Changed by the timer alone.
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
    /// Begins (`on`) or ends the quiescing of routed links, because routes of the fabric are about to
    /// change, or have changed. Called with the manager locked.
    pub(crate) fn rest_for_ways(&self, on: bool) {
        let now = clock::now_ms();
        let until = if on { now + LEASE_MS } else { now };
        let before = self.resting.until.xchg(until, Full);
        if before <= now {
            self.resting.still.store(false, Release);
        }
        self.hurry();
    }

    /// Returns whether nothing is in flight on routed links.
    pub(crate) fn rests_for_ways(&self) -> bool {
        self.resting.still.load(Acquire)
    }

    /// Quiesces links, or lets them go on. Returns after how many milliseconds it wants to be called
    /// again by the timer; `None`: not at all.
    pub(super) fn keep_rest(&self, port: &dyn Port) -> Option<Msecs> {
        let now = clock::now_ms();
        let until = self.resting.until.load(Acquire);
        let before = self.resting.links.load(Relaxed);
        if now >= until && before == 0 {
            return None;
        }
        let (mut left, mut still) = (0, true);
        for number in port.far_links() {
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
        if now < until && self.resting.still.xchg(still, Full) != still && still {
            self.manage();
        }
        (now < until || left != 0).then_some(LOOK_MS)
    }
}
