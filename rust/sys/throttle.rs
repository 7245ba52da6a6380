// SPDX-License-Identifier: GPL-2.0

//! A rate limit for log messages that a peer or a user can cause.

use kernel::{
    sync::atomic::{Atomic, Relaxed},
    time::{Delta, Instant, Monotonic},
};

/// Lets `burst` messages pass in each interval. Meant for one thread at a time; if two threads call it
/// at the same time, a message more or fewer passes.
pub(crate) struct Throttle {
    birth: Instant<Monotonic>,
    interval: i64,
    burst: u32,
    /// The number of the current interval since `birth`.
    now: Atomic<i64>,
    passed: Atomic<u32>,
    missed: Atomic<u32>,
}

impl Throttle {
    /// Lets `burst` messages pass in each `interval`.
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

    /// Returns `None` if the message must not pass; else the number of messages that were suppressed
    /// since the last one that passed. Any context.
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
