// SPDX-License-Identifier: GPL-2.0

//! Byte counts and speed limits of links to neighbours. This file must not know why a link is limited.

use kernel::prelude::*;

/// The byte counts and speed limits of a port's links to neighbours.
pub(crate) trait Rates: Send + Sync {
    /// Returns how many bytes `link` has carried, out and in, for all functions; the other end counts
    /// the same. The counts may restart from 0 at any time. `None` if the hardware does not count, or
    /// does not answer.
    fn traffic(&self, link: usize) -> Option<[u64; 2]>;

    /// Returns whether the port cannot see what CPUs store by windows, and is to be told.
    fn is_told(&self) -> bool;

    /// Tells the port that CPUs have stored about `bytes` by the window of `link`, of any kind, since this was
    /// told last. It counts them at all links on the way.
    fn tell_stored(&self, link: usize, bytes: u64);

    /// Limits `link` to PCI Express generation `speed` and `width` lanes, until the next call or a reset
    /// of the port; 0: no limit. The other end can set lower limits. The link stays up.
    ///
    /// `EOPNOTSUPP` if the hardware, or this function of it, cannot do that.
    fn set_target(&self, link: usize, speed: u32, width: u32) -> Result;
}
