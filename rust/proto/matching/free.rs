// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The places of a storage that are free: those that were used before, chained through the places themselves,
//! and those that never were. It is independent of what is stored.

use super::storage::{Storage, NONE};

/// What has room for the index of the next free place while it is free itself.
pub(super) trait Chained {
    fn next(&mut self) -> &mut u32;
}

/// The free places of a storage, which may grow.
pub(super) struct Free {
    first: u32,
    /// Places in the chain.
    count: u32,
    /// The places from here on were never used.
    fresh: u32,
}

impl Free {
    /// All places are free.
    pub const ALL: Self = Self {
        first: NONE,
        count: 0,
        fresh: 0,
    };

    /// Returns the number of free places of `storage`.
    pub fn count<T>(&self, storage: &impl Storage<T>) -> u32 {
        let never_used = storage.count().saturating_sub(self.fresh);
        never_used.saturating_add(self.count)
    }

    /// Returns the index from which on no place was ever used.
    pub const fn fresh(&self) -> u32 {
        self.fresh
    }

    /// Takes a free place, which has what it had when it was freed. Returns its index, and the place.
    pub fn take<'a, T: Chained>(
        &mut self,
        storage: &'a mut impl Storage<T>,
    ) -> Option<(u32, &'a mut T)> {
        let at = if self.count > 0 {
            self.first
        } else {
            self.fresh
        };
        let place = storage.at_mut(at)?;
        if self.count > 0 {
            self.first = *place.next();
            self.count -= 1;
        } else {
            self.fresh += 1;
        }
        Some((at, place))
    }

    /// Frees a place. Returns it.
    pub fn put<'a, T: Chained>(
        &mut self,
        storage: &'a mut impl Storage<T>,
        at: u32,
    ) -> Option<&'a mut T> {
        let place = storage.at_mut(at)?;
        *place.next() = self.first;
        self.first = at;
        self.count += 1;
        Some(place)
    }
}
