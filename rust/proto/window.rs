// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory that two ends share: an end loads from its own area, and stores through its window into the
//! area of the peer.
//!
//! The peer can write what is loaded at any time: each word is loaded once, checked, and then used. This
//! file is independent of what the words mean.

use super::fence::Fence;

/// This end's area, which the peer writes at any time.
pub trait Area {
    /// Loads the word at `at`, a multiple of 8 within the area, exactly once.
    fn load(&self, at: usize) -> u64;

    /// Returns a function that loads word `n`, counted from `at`, exactly once per call; `count` words are
    /// within the area.
    #[inline]
    fn words(&self, at: usize, _count: usize) -> impl Fn(usize) -> u64 {
        move |n| self.load(at + 8 * n)
    }

    /// Completes loads before this before loads after it. `fence` names the reason.
    fn rmb(&self, fence: Fence);

    /// Copies `out.len()` bytes from `at`, a multiple of 8.
    fn read(&self, at: usize, out: &mut [u8]) {
        for (n, part) in out.chunks_mut(8).enumerate() {
            let word = self.load(at + 8 * n).to_ne_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }
}

/// The peer's area, as the window shows it.
pub trait Window {
    /// Stores a word at `at`, a multiple of 8 within the area, in one piece.
    fn store(&self, at: usize, word: u64);

    /// Returns a function that stores word `n`, counted from `at`, in one piece; `count` words are within
    /// the area.
    #[inline]
    fn places(&self, at: usize, _count: usize) -> impl Fn(usize, u64) {
        move |n, word| self.store(at + 8 * n, word)
    }

    /// Orders stores before this, as the peer sees them, before stores after it, and loads before it
    /// before stores after it. `fence` names the reason.
    fn wmb(&self, fence: Fence);

    /// Issues stores before this before loads from the area after it. `fence` names the reason.
    fn mb(&self, fence: Fence);

    /// Stores `bytes` at `at`, a multiple of 8, in ascending order; a last word that is not full is
    /// filled with zeros.
    fn write(&self, at: usize, bytes: &[u8]) {
        for (n, part) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.store(at + 8 * n, u64::from_ne_bytes(word));
        }
    }
}

/// Returns whether a count that went from `old` to `new` has passed `event`.
pub const fn passed(event: u64, old: u64, new: u64) -> bool {
    event.wrapping_sub(old) < new.wrapping_sub(old)
}
