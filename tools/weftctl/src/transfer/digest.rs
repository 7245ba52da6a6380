// SPDX-License-Identifier: GPL-2.0 OR MIT
//! SHA-256 of what has gone by.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// A SHA-256 sum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A sum in the making, over the first [`Hasher::bytes`] of a file.
#[derive(Clone, Default)]
pub struct Hasher {
    sum: Sha256,
    bytes: u64,
}

impl Hasher {
    /// How much is in it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes what is new in `data`, which lies at `offset` of the file and must
    /// not leave a gap.
    pub fn update(&mut self, offset: u64, data: &[u8]) {
        debug_assert!(offset <= self.bytes);
        let known = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        if let Some(new) = data.get(known..) {
            self.sum.update(new);
            self.bytes += new.len() as u64;
        }
    }

    /// The sum of all that was taken.
    pub fn digest(&self) -> Digest {
        Digest(self.sum.clone().finalize().into())
    }
}
