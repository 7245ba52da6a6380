// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A limit of how often something is done that another host can cause.
//!
//! A few times at once are free, so that nothing is delayed that happens now and then; beyond that it is
//! done at intervals. All times are in milliseconds.

/// The limit, and when it was used.
pub struct RateLimit {
    burst: u64,
    interval: u64,
    /// When the whole burst is free again.
    full: u64,
}

impl RateLimit {
    /// Creates a limit of `burst` times at once, at least 1, and one more each `interval`.
    pub const fn new(burst: u64, interval: u64) -> Self {
        Self {
            burst,
            interval,
            full: 0,
        }
    }

    /// Returns whether it may be done now, and counts it if so. Times of later calls are not earlier.
    pub fn pass(&mut self, now: u64) -> bool {
        let full = self.full.max(now) + self.interval;
        if full - now > self.burst * self.interval {
            return false;
        }
        self.full = full;
        true
    }
}
