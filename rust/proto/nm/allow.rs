// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The hardware ids that may take part, so that an unknown host with a low id cannot take over the
//! fabric.

use super::kind::is_host;

/// A list of hardware ids. An empty one allows all. Nodes without a host need not be on it: they never
/// become master.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed<A>(pub A);

impl<A: AsRef<[u64]>> Allowed<A> {
    /// Returns whether all nodes may take part.
    pub fn all(&self) -> bool {
        self.0.as_ref().is_empty()
    }

    /// Returns whether `hwid` may take part. 0 is the id of no node.
    pub fn has(&self, hwid: u64) -> bool {
        let list = self.0.as_ref();
        hwid != 0 && (self.all() || !is_host(hwid) || list.contains(&hwid))
    }
}
