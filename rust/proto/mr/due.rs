// SPDX-License-Identifier: GPL-2.0 OR MIT

//! When a master updates the hierarchies: as soon as something that they depend on has changed since the
//! last run began, and again and again while a run could not do everything, at growing intervals.
//!
//! Frequent queries do not make runs more frequent. This file is independent of what a run does.

/// Time until the first repetition of a run that could not do everything; it doubles each time.
pub const AGAIN_MS: u32 = 500;
/// Longest time until a repetition.
pub const LONGEST_MS: u32 = 16_000;

/// What a run depends on: if it changes, a run is due.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cause {
    term: u32,
    /// What the network manager has found and written, the assignments included.
    found: u64,
    /// Number of reports of hot-plug controllers.
    plugs: u32,
}

/// When the next run is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// There is nothing to do.
    No,
    /// At once.
    Now,
    /// In this many milliseconds after the last run.
    In(u32),
}

/// Result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Everything is done.
    Done,
    /// Something could not be done.
    Later,
    /// Another host is the master, and updates the hierarchies.
    Lost,
}

/// The causes of the next and of the last run.
#[derive(Default)]
pub struct Causes {
    now: Option<Cause>,
    begun: Option<Cause>,
    plugs: u32,
    /// Delay after the last failure in milliseconds.
    delay: u32,
    /// The last run is to be repeated after this many milliseconds.
    again: Option<u32>,
}

impl Causes {
    /// Counts a report of a hot-plug controller.
    pub fn plugged(&mut self) {
        self.plugs = self.plugs.wrapping_add(1);
    }

    /// Takes the state of the network manager and returns when the next run is due. `on` is, for a
    /// master that has settled, its term and one number for everything that it has found and written;
    /// `None`: it has not settled, or another node is master.
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

    /// Begins a run and returns its term; `None`: there is nothing to do now.
    pub fn begin(&mut self) -> Option<u32> {
        self.begun = self.now;
        self.again = None;
        self.now.map(|cause| cause.term)
    }

    /// Ends a run. Returns in how many milliseconds it is to be repeated; `None`: it is not.
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
