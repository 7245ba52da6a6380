// SPDX-License-Identifier: GPL-2.0

//! A table with a few places, and which of them are in use: those alone are looked at in a round.
//!
//! This file must not know what is in it.

use core::ops::Range;
use kernel::prelude::*;

/// Places at most.
const MOST: usize = u64::BITS as usize;

/// Numbers of places. It can be gone through: what it has then does not change meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Set(u64);

impl Set {
    pub(super) const EMPTY: Self = Self(0);

    /// Returns those of a range.
    fn of(range: &Range<usize>) -> Self {
        let below = |n: usize| match n < MOST {
            true => (1 << n) - 1,
            false => u64::MAX,
        };
        Self(below(range.end) & !below(range.start))
    }

    pub(super) fn insert(&mut self, n: usize) {
        if n < MOST {
            self.0 |= 1 << n;
        }
    }

    pub(super) fn remove(&mut self, n: usize) {
        if n < MOST {
            self.0 &= !(1 << n);
        }
    }

    pub(super) fn has(self, n: usize) -> bool {
        n < MOST && self.0 & (1 << n) != 0
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl Iterator for Set {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let n = self.0.trailing_zeros() as usize;
        // The lowest bit that is set.
        self.0 &= self.0.wrapping_sub(1);
        (n < MOST).then_some(n)
    }
}

/// A table.
pub(super) struct Places<T> {
    places: KVec<Option<T>>,
    used: Set,
}

impl<T> Places<T> {
    /// Makes one with `count` places, up to 64. `ENOMEM`.
    pub(super) fn new(count: usize) -> Result<Self> {
        let count = count.min(MOST);
        let mut places = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..count {
            places.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self {
            places,
            used: Set::EMPTY,
        })
    }

    /// Returns the first place of `range` that is free.
    pub(super) fn free(&self, range: Range<usize>) -> Option<usize> {
        let n = Set::of(&range).without(self.used).next();
        n.filter(|n| *n < self.places.len())
    }

    /// Returns those that are in use now.
    pub(super) fn used(&self) -> Set {
        self.used
    }

    pub(super) fn get(&self, n: usize) -> Option<&T> {
        self.places.get(n)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, n: usize) -> Option<&mut T> {
        self.places.get_mut(n)?.as_mut()
    }

    /// Fills a place that is free.
    #[inline]
    pub(super) fn put(&mut self, n: usize, what: T) {
        // So the compiler sees that nothing is dropped.
        if let Some(place @ None) = self.places.get_mut(n) {
            *place = Some(what);
            self.used.insert(n);
        }
    }

    /// Frees a place.
    pub(super) fn take(&mut self, n: usize) -> Option<T> {
        let taken = self.places.get_mut(n)?.take();
        self.used.remove(n);
        taken
    }

    /// Frees the next place that is in use.
    pub(super) fn take_any(&mut self) -> Option<T> {
        self.used.next().and_then(|n| self.take(n))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.used.filter_map(|n| self.get(n))
    }
}
