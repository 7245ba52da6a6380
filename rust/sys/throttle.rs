// SPDX-License-Identifier: GPL-2.0

//! Keeps what others can provoke from filling the log.

use kernel::{
    sync::atomic::{Atomic, Relaxed},
    time::{Delta, Instant, Monotonic},
};

/// Lets a number of messages pass in each interval. For one thread at a time; if two get in each
/// other's way a message more or fewer passes.
pub(crate) struct Throttle {
    birth: Instant<Monotonic>,
    interval: i64,
    burst: u32,
    /// Which interval since `birth` it is.
    now: Atomic<i64>,
    passed: Atomic<u32>,
    missed: Atomic<u32>,
}

impl Throttle {
    pub(crate) fn new(burst: u32, interval: Delta) -> Self {
        Self {
            birth: Instant::now(),
            interval: interval.as_nanos(),
            burst,
            now: Atomic::new(0),
            passed: Atomic::new(0),
            missed: Atomic::new(0),
        }
    }

    /// Whether a message may pass, and how many have not since the last one.
    pub(crate) fn pass(&self) -> Option<u32> {
        let now = self.birth.elapsed().as_nanos() / self.interval;
        if self.now.load(Relaxed) != now {
            self.now.store(now, Relaxed);
            self.passed.store(0, Relaxed);
        }
        if self.passed.load(Relaxed) >= self.burst {
            self.missed.fetch_add(1, Relaxed);
            return None;
        }
        self.passed.fetch_add(1, Relaxed);
        let missed = self.missed.load(Relaxed);
        self.missed.fetch_sub(missed, Relaxed);
        Some(missed)
    }
}
