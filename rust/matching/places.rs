// SPDX-License-Identifier: GPL-2.0

//! A table with a few places, and which of them are in use: those alone are looked at in a round.
//!
//! This file must not know what is in it.

use core::ops::Range;
use kernel::prelude::*;

/// Places at most.
const MOST: usize = u64::BITS as usize;

/// A table.
pub(super) struct Places<T> {
    places: KVec<Option<T>>,
    used: u64,
}

impl<T> Places<T> {
    /// Makes one with `count` places, up to 64. `ENOMEM`.
    pub(super) fn new(count: usize) -> Result<Self> {
        let count = count.min(MOST);
        let mut places = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..count {
            places.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self { places, used: 0 })
    }

    /// Returns the first place of `range` that is free.
    pub(super) fn free(&self, range: Range<usize>) -> Option<usize> {
        range.into_iter().find(|n| {
            let place = self.places.get(*n);
            place.is_some_and(Option::is_none)
        })
    }

    /// Returns those that are in use now.
    pub(super) fn used(&self) -> Used {
        Used(self.used)
    }

    pub(super) fn get(&self, n: usize) -> Option<&T> {
        self.places.get(n)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, n: usize) -> Option<&mut T> {
        self.places.get_mut(n)?.as_mut()
    }

    /// Fills a place that is free.
    pub(super) fn put(&mut self, n: usize, what: T) {
        if let Some(place) = self.places.get_mut(n) {
            *place = Some(what);
            self.used |= 1 << n;
        }
    }

    /// Frees a place.
    pub(super) fn take(&mut self, n: usize) -> Option<T> {
        let taken = self.places.get_mut(n)?.take();
        self.used &= !(1 << n);
        taken
    }

    /// Frees the next place that is in use.
    pub(super) fn take_any(&mut self) -> Option<T> {
        self.used().next().and_then(|n| self.take(n))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.used().filter_map(|n| self.get(n))
    }
}

/// Numbers of places.
pub(super) struct Used(u64);

impl Iterator for Used {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let n = self.0.trailing_zeros() as usize;
        // The lowest bit that is set.
        self.0 &= self.0.wrapping_sub(1);
        (n < MOST).then_some(n)
    }
}
