// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What kind of node a hardware id is of.
//!
//! Switches take part in the fabric, and so may others without a host, but nobody can look after a fabric
//! there: only a host is ever master.

/// Set in the hardware id of a node without a host.
pub const NO_HOST: u64 = 1 << 63;

/// Set besides in that of an endpoint that hosts share; in that of a switch it is not.
pub const SHARED: u64 = 1 << 62;

/// Whether the node has a host.
pub fn is_host(hwid: u64) -> bool {
    hwid & NO_HOST == 0
}

/// Whether the node is an endpoint that hosts share.
pub fn is_endpoint(hwid: u64) -> bool {
    let both = NO_HOST | SHARED;
    hwid & both == both
}
