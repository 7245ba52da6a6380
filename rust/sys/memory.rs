// SPDX-License-Identifier: GPL-2.0

//! Memory for the state machines and lists of `proto`, which take it as slices.

use kernel::prelude::*;

/// A fixed number of elements.
pub(crate) struct Memory<T>(KVVec<T>);

impl<T: Clone> Memory<T> {
    pub(crate) fn new(what: T, count: usize) -> Result<Self> {
        Ok(Self(KVVec::from_elem(what, count, GFP_KERNEL)?))
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
