// SPDX-License-Identifier: GPL-2.0

//! A table with a few places, which can have more behind them, and which of them are in use: those alone are looked at
//! in a round.
//!
//! This file must not know what is in it.

use core::ops::Range;
use kernel::{bitmap::BitmapVec, prelude::*};

/// The few places: each has its bit in a [`Set`].
const FEW: usize = u64::BITS as usize;

/// Numbers of the few places. It can be gone through: what it has then does not change meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Set(u64);

impl Set {
    pub(super) const EMPTY: Self = Self(0);

    /// Returns those of a range.
    fn of(range: &Range<usize>) -> Self {
        let below = |n: usize| match n < FEW {
            true => (1 << n) - 1,
            false => u64::MAX,
        };
        Self(below(range.end) & !below(range.start))
    }

    pub(super) fn insert(&mut self, n: usize) {
        if n < FEW {
            self.0 |= 1 << n;
        }
    }

    pub(super) fn remove(&mut self, n: usize) {
        if n < FEW {
            self.0 &= !(1 << n);
        }
    }

    fn has(self, n: usize) -> bool {
        n < FEW && self.0 & (1 << n) != 0
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns those from `n` on.
    fn from(self, n: usize) -> Self {
        match n < FEW {
            true => Self(self.0 & (u64::MAX << n)),
            false => Self::EMPTY,
        }
    }
}

impl Iterator for Set {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let n = self.0.trailing_zeros() as usize;
        // The lowest bit that is set.
        self.0 &= self.0.wrapping_sub(1);
        (n < FEW).then_some(n)
    }
}

/// Numbers of places, the few and those behind them.
pub(super) struct Marks {
    few: Set,
    more: BitmapVec,
    /// How many there are of those behind.
    count: usize,
}

impl Marks {
    pub(super) fn new() -> Self {
        Self {
            few: Set::EMPTY,
            more: BitmapVec::new_inline(),
            count: 0,
        }
    }

    /// Makes room for numbers below `count`. `ENOMEM`.
    pub(super) fn grow(&mut self, count: usize) -> Result {
        let count = count.saturating_sub(FEW);
        if count > self.more.len() {
            let mut more = BitmapVec::new(count, GFP_KERNEL_ACCOUNT)?;
            more.copy_and_extend(&self.more);
            self.more = more;
        }
        Ok(())
    }

    /// Returns which bit it has behind the few; `None`: there is none.
    fn bit(&self, n: usize) -> Option<usize> {
        n.checked_sub(FEW).filter(|bit| *bit < self.more.len())
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, n: usize) {
        match n < FEW {
            true => self.few.insert(n),
            false => self.insert_behind(n),
        }
    }

    #[cold]
    fn insert_behind(&mut self, n: usize) {
        if let Some(bit) = self.bit(n).filter(|bit| !self.has_behind(*bit)) {
            self.more.set_bit(bit);
            self.count += 1;
        }
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, n: usize) {
        match n < FEW {
            true => self.few.remove(n),
            false => self.remove_behind(n),
        }
    }

    #[cold]
    fn remove_behind(&mut self, n: usize) {
        if let Some(bit) = self.bit(n).filter(|bit| self.has_behind(*bit)) {
            self.more.clear_bit(bit);
            self.count -= 1;
        }
    }

    #[inline(always)]
    pub(super) fn has(&self, n: usize) -> bool {
        match n < FEW {
            true => self.few.has(n),
            false => self.bit(n).is_some_and(|bit| self.has_behind(bit)),
        }
    }

    fn has_behind(&self, bit: usize) -> bool {
        self.more.next_bit(bit) == Some(bit)
    }

    /// Returns the first number from `n` on.
    pub(super) fn next(&self, n: usize) -> Option<usize> {
        self.few.from(n).next().or_else(|| self.next_behind(n))
    }

    #[inline(always)]
    fn next_behind(&self, n: usize) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let bit = self.bit(n.max(FEW))?;
        Some(FEW + self.more.next_bit(bit)?)
    }

    /// Begins to go through the numbers, while others come and go.
    #[inline]
    pub(super) fn walk(&self) -> Walk {
        Walk {
            few: self.few,
            behind: FEW,
        }
    }

    /// Returns the first number of those behind the few that it does not have.
    fn next_free(&self) -> Option<usize> {
        Some(FEW + self.more.next_zero_bit(0)?)
    }
}

/// How far numbers were gone through. Of the few it has those that there were when it began.
pub(super) struct Walk {
    few: Set,
    behind: usize,
}

impl Walk {
    #[inline(always)]
    pub(super) fn next(&mut self, of: &Marks) -> Option<usize> {
        self.few.next().or_else(|| {
            let n = of.next_behind(self.behind)?;
            self.behind = n + 1;
            Some(n)
        })
    }
}

/// A table.
pub(super) struct Places<T> {
    places: KVVec<Option<T>>,
    used: Marks,
}

impl<T> Places<T> {
    /// Makes one with `count` places, up to 64. `ENOMEM`.
    pub(super) fn new(count: usize) -> Result<Self> {
        let mut new = Self {
            places: KVVec::new(),
            used: Marks::new(),
        };
        new.grow(count.min(FEW))?;
        Ok(new)
    }

    /// Adds places, up to `count` of them. `ENOMEM`.
    pub(super) fn grow(&mut self, count: usize) -> Result {
        self.used.grow(count)?;
        let more = count.saturating_sub(self.places.len());
        self.places.reserve(more, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..more {
            self.places.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(())
    }

    /// Returns how many places there are.
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns the first place of `range`, of the few ones, that is free.
    #[inline]
    pub(super) fn free(&self, range: Range<usize>) -> Option<usize> {
        let n = Set::of(&range).without(self.used.few).next();
        n.filter(|n| *n < self.places.len())
    }

    /// Returns the first place behind the few that is free.
    pub(super) fn free_behind(&self) -> Option<usize> {
        let n = self.used.next_free();
        n.filter(|n| *n < self.places.len())
    }

    /// Returns those of the few that are in use now.
    #[inline]
    pub(super) fn used(&self) -> Set {
        self.used.few
    }

    /// Returns the first one from `n` on that is in use.
    pub(super) fn next(&self, n: usize) -> Option<usize> {
        self.used.next(n)
    }

    #[inline]
    pub(super) fn get(&self, n: usize) -> Option<&T> {
        self.places.get(n)?.as_ref()
    }

    #[inline]
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

    /// Frees a place, and drops what is there.
    #[inline]
    pub(super) fn free_place(&mut self, n: usize) {
        self.used.remove(n);
        if let Some(place) = self.places.get_mut(n) {
            *place = None;
        }
    }

    /// Frees a place.
    #[inline]
    pub(super) fn take(&mut self, n: usize) -> Option<T> {
        // First: so what is taken need not be copied once more.
        self.used.remove(n);
        self.places.get_mut(n)?.take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// Frees the next place that is in use.
    pub(super) fn take_any(&mut self) -> Option<T> {
        self.next(0).and_then(|n| self.take(n))
    }
}
