// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A set of local ids, as the fewest intervals.

/// Most intervals of a set: as many as a message carries and a node keeps for each port.
pub const MAX_INTERVALS: usize = 20;

/// The ids from `first` to `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interval {
    /// The lowest.
    pub first: u32,
    /// The highest.
    pub last: u32,
}

impl Interval {
    /// Returns the number of ids in it.
    pub fn count(&self) -> u32 {
        self.last - self.first + 1
    }
}

/// A set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Set {
    intervals: [Interval; MAX_INTERVALS],
    len: u8,
}

impl Set {
    /// No ids.
    pub const EMPTY: Self = Self {
        intervals: [Interval { first: 0, last: 0 }; MAX_INTERVALS],
        len: 0,
    };

    /// Returns the intervals in ascending order; none is adjacent to another.
    pub fn intervals(&self) -> &[Interval] {
        self.intervals
            .get(..usize::from(self.len))
            .unwrap_or_default()
    }

    /// Returns the number of ids.
    pub fn count(&self) -> u32 {
        let counts = self.intervals().iter().map(Interval::count);
        counts.fold(0, u32::saturating_add)
    }

    /// Returns whether it has `id`.
    pub fn has(&self, id: u32) -> bool {
        let mut intervals = self.intervals().iter();
        intervals.any(|i| (i.first..=i.last).contains(&id))
    }

    /// Adds the ids from `first` to `last`. Returns false, and adds nothing, if the set has one of them,
    /// if it would have too many intervals, or if the range is invalid.
    pub fn add(&mut self, first: u32, last: u32) -> bool {
        if first == 0 || first > last || last == u32::MAX {
            return false;
        }
        let old = *self;
        let before = old.intervals().iter().filter(|i| i.first < first).count();
        let (lower, higher) = old.intervals().split_at(before);
        let clash = lower.last().is_some_and(|i| i.last >= first)
            || higher.first().is_some_and(|i| i.first <= last);
        if clash {
            return false;
        }
        *self = Self::EMPTY;
        let middle = [Interval { first, last }];
        let all = lower.iter().chain(&middle).chain(higher);
        let fits = all.into_iter().all(|interval| self.append(*interval));
        if !fits {
            *self = old;
        }
        fits
    }

    /// Adds an interval behind all others. Returns false if there is no room.
    fn append(&mut self, interval: Interval) -> bool {
        let len = usize::from(self.len);
        if let Some(last) = len.checked_sub(1).and_then(|at| self.intervals.get_mut(at)) {
            if last.last + 1 == interval.first {
                last.last = interval.last;
                return true;
            }
        }
        let place = self.intervals.get_mut(len);
        let fits = place.map(|place| *place = interval).is_some();
        self.len += u8::from(fits);
        fits
    }

    /// Adds all of `other`; or adds nothing and returns false.
    pub fn add_all(&mut self, other: &Self) -> bool {
        let old = *self;
        let fits = other.intervals().iter().all(|i| self.add(i.first, i.last));
        if !fits {
            *self = old;
        }
        fits
    }
}
