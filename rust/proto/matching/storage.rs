// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory that the caller hands in.
//!
//! A slice, a vector or an array is storage. Storage that grows, by chunks for example, implements
//! [`Storage`]: what is there stays where it is, and there is only ever more. This file is independent of what
//! is stored.

/// The index of nothing.
pub const NONE: u32 = u32::MAX;

/// A sequence of items that are found by their index.
pub trait Storage<T> {
    /// Returns the number of items, which never becomes less.
    fn count(&self) -> u32;

    /// Returns the item with this index.
    fn at(&self, index: u32) -> Option<&T>;

    /// Returns the item with this index.
    fn at_mut(&mut self, index: u32) -> Option<&mut T>;
}

impl<T, S: AsRef<[T]> + AsMut<[T]>> Storage<T> for S {
    fn count(&self) -> u32 {
        u32::try_from(self.as_ref().len()).unwrap_or(NONE)
    }

    fn at(&self, index: u32) -> Option<&T> {
        self.as_ref().get(index as usize)
    }

    fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.as_mut().get_mut(index as usize)
    }
}
