// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which hardware ids may take part, so that a stranger with a low one cannot seize the fabric.

use super::kind::is_host;

/// A list of hardware ids. An empty one allows all. Nodes without a host need not be on it: none of them
/// is ever master.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed<A>(pub A);

impl<A: AsRef<[u64]>> Allowed<A> {
    /// Whether `hwid` may take part. 0 is nobody.
    pub fn has(&self, hwid: u64) -> bool {
        let list = self.0.as_ref();
        hwid != 0 && (list.is_empty() || !is_host(hwid) || list.contains(&hwid))
    }
}
