// SPDX-License-Identifier: GPL-2.0

//! Memory for the state machines and lists of `proto`, which take it as slices.

use kernel::prelude::*;

/// A number of elements, of which there may become more.
pub(crate) struct Memory<T>(KVVec<T>);

impl<T: Clone> Memory<T> {
    pub(crate) fn new(what: T, count: usize) -> Result<Self> {
        Ok(Self(KVVec::from_elem(what, count, GFP_KERNEL)?))
    }

    /// Adds elements, up to `count` of them, for what a user does. `ENOMEM`.
    pub(crate) fn grow(&mut self, what: T, count: usize) -> Result {
        let more = count.saturating_sub(self.0.len());
        Ok(self.0.extend_with(more, what, GFP_KERNEL_ACCOUNT)?)
    }
}

impl<T> AsRef<[T]> for Memory<T> {
    fn as_ref(&self) -> &[T] {
        &self.0
    }
}

impl<T> AsMut<[T]> for Memory<T> {
    fn as_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
