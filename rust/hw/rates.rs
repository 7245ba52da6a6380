// SPDX-License-Identifier: GPL-2.0

//! What links to neighbours carry, and how fast they may be. It must not know why a link is to be slow.

use kernel::prelude::*;

/// Of the links of a port to neighbours.
pub(crate) trait Rates: Send + Sync {
    /// Bytes that `link` has carried, out and in, by all functions: the other end counts the same. They may
    /// begin anew at any time. `None`: the hardware does not say, or does not answer.
    fn traffic(&self, link: usize) -> Option<[u64; 2]>;

    /// Has `link` run at this generation and so many lanes at the most, until that is said again or the
    /// port is reset; 0: at the most that it can. The other end has a say of its own. It stays up.
    /// `EOPNOTSUPP`: the hardware, or this function of it, cannot do that.
    fn set_target(&self, link: usize, speed: u32, width: u32) -> Result;
}
