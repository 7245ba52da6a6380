// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A list in memory of the caller, with a fixed capacity.

use core::marker::PhantomData;

/// There is no room for another item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// The list: the first `len` items of its memory.
pub struct List<T, M> {
    memory: M,
    len: usize,
    items: PhantomData<T>,
}

impl<T: Copy, M: AsRef<[T]> + AsMut<[T]>> List<T, M> {
    /// Creates an empty list.
    pub fn new(memory: M) -> Self {
        Self {
            memory,
            len: 0,
            items: PhantomData,
        }
    }

    /// Returns the most items that it can have.
    pub fn capacity(&self) -> usize {
        self.memory.as_ref().len()
    }

    /// Returns all items.
    pub fn all(&self) -> &[T] {
        self.memory.as_ref().get(..self.len).unwrap_or_default()
    }

    /// Returns all items, to be changed.
    pub fn all_mut(&mut self) -> &mut [T] {
        self.memory.as_mut().get_mut(..self.len).unwrap_or_default()
    }

    /// Returns the item at index `at`.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.all().get(at)
    }

    /// Appends an item.
    pub fn push(&mut self, item: T) -> Result<(), Full> {
        *self.memory.as_mut().get_mut(self.len).ok_or(Full)? = item;
        self.len += 1;
        Ok(())
    }

    /// Inserts an item into a sorted list, unless it is there.
    pub fn insert(&mut self, item: T) -> Result<(), Full>
    where
        T: Ord,
    {
        let Err(at) = self.all().binary_search(&item) else {
            return Ok(());
        };
        self.push(item)?;
        if let Some(behind) = self.all_mut().get_mut(at..) {
            behind.rotate_right(1);
        }
        Ok(())
    }

    /// Removes all items for which `stays` is false; the others keep their order.
    pub fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        let mut kept = 0;
        let len = self.len;
        let items = self.memory.as_mut();
        for at in 0..len {
            let Some(item) = items.get(at).copied() else {
                break;
            };
            if stays(&item) {
                if let Some(to) = items.get_mut(kept) {
                    *to = item;
                }
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}
