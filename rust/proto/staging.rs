// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Allocator of the staging pages of the link queues, at the end that owns them.
//!
//! A transfer gets the memory that is free, in a few extents, and continues part by part. The allocator
//! writes nothing into the pages, which the peer can write as well. This file is independent of the use
//! of the pages.

use super::{
    cell::PAGE_BYTES,
    request::{Extent, Extents, MAX_EXTENTS},
    trunk::{Layout, MAX_BYTES},
};

const MAX_PAGES: usize = MAX_BYTES as usize / PAGE_BYTES;
const BITS: usize = u64::BITS as usize;

/// The staging pages of one end of a link.
pub struct Staging {
    /// Offset of the first page in the link queues.
    at: usize,
    pages: usize,
    free: usize,
    /// A bit is set while its page is taken.
    taken: [u64; MAX_PAGES / BITS],
}

impl Staging {
    /// Creates the allocator with all pages free.
    pub const fn new(own: &Layout) -> Self {
        Self {
            at: own.staging_at(),
            pages: own.staging_pages(),
            free: own.staging_pages(),
            taken: [0; MAX_PAGES / BITS],
        }
    }

    /// Returns the number of pages.
    pub const fn pages(&self) -> usize {
        self.pages
    }

    /// Returns the number of free pages.
    pub const fn free_pages(&self) -> usize {
        self.free
    }

    fn is_taken(&self, page: usize) -> bool {
        page >= self.pages
            || self
                .taken
                .get(page / BITS)
                .is_none_or(|word| (word >> (page % BITS)) & 1 != 0)
    }

    fn mark(&mut self, first: usize, count: usize, taken: bool) {
        for page in first..first + count {
            if let Some(word) = self.taken.get_mut(page / BITS) {
                let bit = 1 << (page % BITS);
                *word = if taken { *word | bit } else { *word & !bit };
            }
        }
    }

    /// Returns the first run of free pages from `page` on: its first page, and its length, at most
    /// `most`.
    fn run(&self, page: usize, most: usize) -> Option<(usize, usize)> {
        let first = (page..self.pages).find(|&page| !self.is_taken(page))?;
        let end = (first..self.pages.min(first + most)).find(|&page| self.is_taken(page));
        let end = end.unwrap_or(self.pages.min(first + most));
        Some((first, end - first))
    }

    /// Allocates `bytes` bytes, or as many as fit into a cell's extents now. The last extent has only
    /// the bytes that are needed. Returns `None` if no page is free, or `bytes` is 0.
    pub fn take(&mut self, bytes: u64) -> Option<Extents> {
        let mut left = bytes;
        let mut extents = Extents::NONE;
        let mut page = 0;
        while left > 0 && extents.as_slice().len() < MAX_EXTENTS {
            let wanted = left.div_ceil(PAGE_BYTES as u64).min(MAX_PAGES as u64) as usize;
            let Some((first, count)) = self.run(page, wanted) else {
                break;
            };
            let here = left.min((count * PAGE_BYTES) as u64);
            let extent = Extent {
                at: (self.at + first * PAGE_BYTES) as u32,
                bytes: here as u32,
            };
            if !extents.push(extent) {
                break;
            }
            self.mark(first, count, true);
            self.free -= count;
            left -= here;
            page = first + count;
        }
        (!extents.as_slice().is_empty()).then_some(extents)
    }

    /// Frees the memory of a [`Self::take`]. Returns false if an extent was not completely taken; such
    /// an extent is left as it is.
    pub fn give(&mut self, extents: &Extents) -> bool {
        let mut whole = true;
        for extent in extents.as_slice() {
            let first = (extent.at as usize)
                .checked_sub(self.at)
                .map(|at| at / PAGE_BYTES);
            let count = (extent.bytes as usize).div_ceil(PAGE_BYTES);
            match first {
                Some(first)
                    if count <= self.pages
                        && first <= self.pages - count
                        && (first..first + count).all(|page| self.is_taken(page)) =>
                {
                    self.mark(first, count, false);
                    self.free += count;
                }
                _ => whole = false,
            }
        }
        whole
    }
}
