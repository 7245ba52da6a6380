// SPDX-License-Identifier: GPL-2.0

//! Words of memory that a peer, a device or a user writes at any time.
//!
//! Bounds are checked once, for all of them, and not at each access. As in [`super::area`] there is no
//! reference to the memory: every access is a volatile one. This file must not know what the words mean.

use core::{marker::PhantomData, ptr};

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();

/// Aligned words of 8 bytes, contiguous in up to two pieces.
///
/// # Invariants
///
/// `first` is valid for volatile accesses of `here` words, and `second` of `count - here`, during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    first: *mut u64,
    here: usize,
    second: *mut u64,
    count: usize,
    _memory: PhantomData<&'a ()>,
}

impl Words<'_> {
    /// No words.
    pub(crate) const NONE: Self = Self {
        first: ptr::null_mut(),
        here: 0,
        second: ptr::null_mut(),
        count: 0,
        _memory: PhantomData,
    };

    /// Makes it of `here` words at `first`, and the other ones of `count` at `second`.
    ///
    /// # Safety
    ///
    /// Both are aligned, and valid for volatile accesses of so many words during the lifetime.
    #[inline]
    pub(super) const unsafe fn new(
        first: *mut u64,
        here: usize,
        second: *mut u64,
        count: usize,
    ) -> Self {
        // INVARIANT: By the requirements.
        Self {
            first,
            here,
            second,
            count,
            _memory: PhantomData,
        }
    }

    /// Loads word `n`, once; 0 if there are not so many.
    #[inline]
    pub(crate) fn load(&self, n: usize) -> u64 {
        if n < self.here {
            // SAFETY: By the invariants.
            return unsafe { self.first.add(n).read_volatile() };
        }
        match self.in_second(n) {
            // SAFETY: By the invariants.
            Some(word) => unsafe { word.read_volatile() },
            None => 0,
        }
    }

    /// Stores word `n`, in one piece; nothing if there are not so many.
    #[inline]
    pub(crate) fn store(&self, n: usize, value: u64) {
        if n < self.here {
            // SAFETY: By the invariants.
            return unsafe { self.first.add(n).write_volatile(value) };
        }
        if let Some(word) = self.in_second(n) {
            // SAFETY: By the invariants.
            unsafe { word.write_volatile(value) };
        }
    }

    /// Returns the address of `count` words of the first piece from word `first` on, if there are so many.
    #[inline]
    pub(super) fn run(&self, first: usize, count: usize) -> Option<*mut u64> {
        let end = first.checked_add(count)?;
        // SAFETY: Inside the piece, or at its end.
        (end <= self.here).then(|| unsafe { self.first.add(first) })
    }

    /// Copies the bytes of words, each loaded once, from word `first` on; nothing if there are not so many in
    /// the first piece.
    pub(crate) fn read(&self, first: usize, to: &mut [u8]) {
        let Some(mut at) = self.run(first, to.len().div_ceil(WORD)) else {
            return;
        };
        let mut load = || {
            // SAFETY: A word of the run.
            unsafe {
                let word = at.read_volatile();
                at = at.add(1);
                word.to_ne_bytes()
            }
        };
        let mut whole = to.chunks_exact_mut(WORD);
        for part in &mut whole {
            part.copy_from_slice(&load());
        }
        let rest = whole.into_remainder();
        if !rest.is_empty() {
            rest.iter_mut()
                .zip(load())
                .for_each(|(to, from)| *to = from);
        }
    }

    /// Stores bytes as words, in ascending order and each in one piece, from word `first` on; a last word that is
    /// not full is filled with zeros. Nothing if there are not so many in the first piece.
    pub(crate) fn write(&self, first: usize, bytes: &[u8]) {
        let Some(mut at) = self.run(first, bytes.len().div_ceil(WORD)) else {
            return;
        };
        let mut store = |word| {
            // SAFETY: A word of the run.
            unsafe {
                at.write_volatile(u64::from_ne_bytes(word));
                at = at.add(1);
            }
        };
        let whole = bytes.chunks_exact(WORD);
        let rest = whole.remainder();
        for part in whole {
            if let Ok(word) = part.try_into() {
                store(word);
            }
        }
        if !rest.is_empty() {
            let mut word = [0; WORD];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            store(word);
        }
    }

    /// Returns the address of word `n`, which is not in the first piece, if there are so many.
    #[cold]
    fn in_second(&self, n: usize) -> Option<*mut u64> {
        (n < self.count).then(|| self.second.wrapping_add(n - self.here))
    }
}
