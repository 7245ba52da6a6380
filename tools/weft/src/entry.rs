// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What an entry of a queue is written into: memory that the driver reads, or words of a test.

/// Where an entry is written, by words of 8 bytes.
pub trait Entry {
    /// Writes words, the first of them into place `at`.
    fn put<const N: usize>(&mut self, at: usize, words: [u64; N]);

    /// Writes bytes, and zeros up to the next word.
    fn put_bytes(&mut self, at: usize, bytes: &[u8]);
}
