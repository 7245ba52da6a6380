// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory that grows with the fabric, as the caller provides it.
//!
//! An allocation may fail: then what was to be kept is not kept, and the machine goes on without it.

/// A list in memory of the caller.
pub trait Store<T> {
    /// Returns what is in it.
    fn all(&self) -> &[T];
    /// Returns what is in it, to be changed.
    fn all_mut(&mut self) -> &mut [T];
    /// Inserts at `at`, which is no more than the number of what is in it. Returns false if there is no
    /// memory.
    fn insert(&mut self, at: usize, what: T) -> bool;
    /// Removes what is at `at`.
    fn remove(&mut self, at: usize);
    /// Removes all.
    fn clear(&mut self);
}
