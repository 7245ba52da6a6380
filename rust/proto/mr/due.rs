// SPDX-License-Identifier: GPL-2.0 OR MIT

//! When a master looks after the hierarchies: as soon as something that they depend on is another one than
//! when it last began, and while something could not be done again and again, but less and less often.
//!
//! Who asks often whether there is something to do does not make it more often. This file must not know
//! what is done.

/// What could not be done is tried again after this, and each time after twice as long,
pub const AGAIN_MS: u32 = 500;
/// up to this.
pub const LONGEST_MS: u32 = 16_000;

/// What a run depends on: with another one there is something to do.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cause {
    term: u32,
    /// What the network manager has found and written, the assignments included.
    found: u64,
    /// How often hot-plug controllers have reported.
    plugs: u32,
}

/// When it is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// There is nothing to do.
    No,
    /// At once.
    Now,
    /// In so many milliseconds, unless that was said before.
    In(u32),
}

/// How a run has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// All is done.
    Done,
    /// Something could not be done.
    Later,
    /// Another host is the master, and looks after it.
    Lost,
}

/// Why it is to run, and why it did.
#[derive(Default)]
pub struct Causes {
    now: Option<Cause>,
    begun: Option<Cause>,
    plugs: u32,
    /// How long to wait after the next failure.
    delay: u32,
    /// The last run is to be followed by another, so long after it.
    again: Option<u32>,
}

impl Causes {
    /// A hot-plug controller has news.
    pub fn plugged(&mut self) {
        self.plugs = self.plugs.wrapping_add(1);
    }

    /// The network manager has settled on something, as master: its term, and one number for all that it
    /// has found and written; `None`: it is about to, or another one is master.
    pub fn settled(&mut self, on: Option<(u32, u64)>) -> Due {
        let plugs = self.plugs;
        self.now = on.map(|(term, found)| Cause { term, found, plugs });
        match self.again {
            _ if self.now.is_none() => Due::No,
            _ if self.now != self.begun => Due::Now,
            Some(ms) => Due::In(ms),
            None => Due::No,
        }
    }

    /// A run begins: in which term; `None`: there is nothing to do now.
    pub fn begin(&mut self) -> Option<u32> {
        self.begun = self.now;
        self.again = None;
        self.now.map(|cause| cause.term)
    }

    /// It has ended. In how many milliseconds another one is to follow.
    pub fn end(&mut self, how: End) -> Option<u32> {
        if how != End::Later {
            self.delay = 0;
        }
        if how != End::Done {
            self.delay = (2 * self.delay).clamp(AGAIN_MS, LONGEST_MS);
            self.again = Some(self.delay);
        }
        self.again
    }
}
