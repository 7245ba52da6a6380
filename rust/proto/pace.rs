// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How often something is told that others can cause as often as they like: up to `N` times in any second.
//!
//! A caller that has to wait keeps what it has to tell, and asks again: so what is told last is always told.
//! This file is independent of what that is.

/// The stretch of time in which at most `N` are told, in milliseconds.
pub const PERIOD_MS: u64 = 1000;

/// When the last `N` were told, in milliseconds. The default is the pace of what was never told.
#[derive(Clone, Copy, Debug)]
pub struct Pace<const N: usize> {
    told: [Option<u64>; N],
    /// Index of the oldest.
    next: usize,
}

impl<const N: usize> Pace<N> {
    /// Creates the pace of something that was never told.
    pub const fn new() -> Self {
        const { assert!(N != 0) };
        Self {
            told: [None; N],
            next: 0,
        }
    }

    /// Returns `None` if it may be told now, which counts as told; else after how many milliseconds to ask
    /// again.
    pub fn wait(&mut self, now: u64) -> Option<u64> {
        let oldest = self.told.get_mut(self.next)?;
        let until = oldest.map_or(0, |at| at.saturating_add(PERIOD_MS));
        if now < until {
            return Some(until - now);
        }
        *oldest = Some(now);
        self.next = (self.next + 1) % N;
        None
    }
}

impl<const N: usize> Default for Pace<N> {
    fn default() -> Self {
        Self::new()
    }
}
