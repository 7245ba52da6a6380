// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Allocator of the pages of an arena.
//!
//! A bitmap of fixed size: it needs no allocation, and writes nothing into the arena, which a neighbour
//! can write as well. First fit, lowest address first.

const WORD: usize = u64::BITS as usize;
const WORDS: usize = 256;

/// Most pages that are managed; only this part of a larger arena is used.
pub const MAX_PAGES: usize = WORDS * WORD;

/// Contiguous pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Index of the first page.
    pub first: usize,
    /// Number of pages.
    pub count: usize,
}

/// The pages of one arena.
pub struct Pages {
    /// A bit is set while its page is taken.
    taken: [u64; WORDS],
    total: usize,
    free: usize,
}

impl Pages {
    /// Creates an allocator of `total` free pages, or [`MAX_PAGES`] if that is less.
    pub const fn new(total: usize) -> Self {
        let total = if total < MAX_PAGES { total } else { MAX_PAGES };
        Self {
            taken: [0; WORDS],
            total,
            free: total,
        }
    }

    /// Frees all pages, and sets their number to `total`, or [`MAX_PAGES`] if that is less.
    pub fn reset(&mut self, total: usize) {
        self.taken.fill(0);
        self.total = total.min(MAX_PAGES);
        self.free = self.total;
    }

    /// Returns the number of pages.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the number of free pages.
    pub fn free_pages(&self) -> usize {
        self.free
    }

    /// Allocates `count` contiguous pages; `None` if there are none.
    pub fn take(&mut self, count: usize) -> Option<Run> {
        if count == 0 || count > self.free {
            return None;
        }
        let mut first = 0;
        while first + count <= self.total {
            // The last taken page in the way, if any: the next candidate starts behind it.
            match (first..first + count)
                .rev()
                .find(|&page| self.is_taken(page))
            {
                Some(page) => first = page + 1,
                None => {
                    let run = Run { first, count };
                    self.mark(run, true);
                    self.free -= count;
                    return Some(run);
                }
            }
        }
        None
    }

    /// Frees `run`. Returns false, and does nothing, unless all of it is taken.
    #[must_use]
    pub fn give(&mut self, run: Run) -> bool {
        let Some(end) = run.first.checked_add(run.count) else {
            return false;
        };
        if end > self.total || !(run.first..end).all(|page| self.is_taken(page)) {
            return false;
        }
        self.mark(run, false);
        self.free += run.count;
        true
    }

    fn is_taken(&self, page: usize) -> bool {
        self.taken
            .get(page / WORD)
            .is_some_and(|word| (word >> (page % WORD)) & 1 != 0)
    }

    fn mark(&mut self, run: Run, taken: bool) {
        for page in run.first..run.first + run.count {
            if let Some(word) = self.taken.get_mut(page / WORD) {
                let bit = 1 << (page % WORD);
                *word = if taken { *word | bit } else { *word & !bit };
            }
        }
    }
}
