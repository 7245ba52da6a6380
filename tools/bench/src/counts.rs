// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a port has sent, as it counts itself: in traced mode, each TLP.

use crate::Result;
use std::fs;

/// Posted writes, non-posted requests, doorbells.
const NAMES: [&str; 3] = ["tx_writes", "tx_reads", "tx_doorbells"];

/// So many of each.
pub type Counts = [u64; 3];

/// Of a port of this host.
pub fn of(port: u32) -> Result<Counts> {
    let mut counts = [0; 3];
    for (count, name) in counts.iter_mut().zip(NAMES) {
        let path = format!("/sys/class/weft/weft{port}/device/counters/{name}");
        *count = fs::read_to_string(path)?.trim().parse()?;
    }
    Ok(counts)
}

/// What came since.
pub fn since(port: u32, before: Counts) -> Result<Counts> {
    let mut now = of(port)?;
    for (now, before) in now.iter_mut().zip(before) {
        *now -= before;
    }
    Ok(now)
}
