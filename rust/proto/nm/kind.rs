// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The kind of node that a hardware id belongs to.
//!
//! Switches take part in the fabric, and so may other nodes without a host, but only a host can become
//! master.

/// Set in the hardware id of a node without a host.
pub const NO_HOST: u64 = 1 << 63;

/// Set in addition in the hardware id of an endpoint that hosts share, but not in that of a switch.
pub const SHARED: u64 = 1 << 62;

/// Returns whether the node has a host.
pub fn is_host(hwid: u64) -> bool {
    hwid & NO_HOST == 0
}

/// Returns whether the node is an endpoint that hosts share.
pub fn is_endpoint(hwid: u64) -> bool {
    let both = NO_HOST | SHARED;
    hwid & both == both
}
