// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What kind of node a hardware id is of.
//!
//! Switches take part in the fabric, and so may others without a host, but nobody can look after a fabric
//! there: only a host is ever master.

/// Set in the hardware id of a node without a host.
pub const NO_HOST: u64 = 1 << 63;

/// Whether the node has a host.
pub fn is_host(hwid: u64) -> bool {
    hwid & NO_HOST == 0
}
