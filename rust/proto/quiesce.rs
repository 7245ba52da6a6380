// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How long the users of a link may be quiesced.
//!
//! A quiesce is asked for by others: by the master of the fabric, before routes change, and by the owner of a
//! virtual function that moves. Each of them asks again for as long as it needs it, so neither is trusted
//! to end. This file is independent of what is quiesced, and of the cause.

/// Longest time for which users are quiesced, in milliseconds. Afterwards they are not for as long. The time
/// for which they are not quiesced is credited, so that many short ones in a row are no way around this.
pub const QUIESCE_MS: u64 = 10_000;

/// What a link has used up of [`QUIESCE_MS`]. All times are in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiesce {
    used: u64,
    /// Time at which `used` was true.
    at: u64,
    /// The users are quiesced.
    on: bool,
    /// All was used up, and is not recovered yet.
    refuses: bool,
}

impl Quiesce {
    /// Returns whether users may be quiesced now; if so, they are from now on. Called again and again while
    /// this is wanted. If it returns false, users that were quiesced must not be any more.
    pub fn request(&mut self, now: u64) -> bool {
        self.pass(now);
        self.refuses |= self.used >= QUIESCE_MS;
        self.on = !self.refuses;
        self.on
    }

    /// Users are not quiesced any more.
    pub fn end(&mut self, now: u64) {
        self.pass(now);
        self.on = false;
    }

    /// Returns whether users are quiesced, as of the last call.
    pub fn is_on(&self) -> bool {
        self.on
    }

    fn pass(&mut self, now: u64) {
        let passed = now.saturating_sub(self.at);
        self.at = now;
        self.used = match self.on {
            true => self.used.saturating_add(passed),
            false => self.used.saturating_sub(passed),
        };
        self.refuses &= self.used != 0;
    }
}
