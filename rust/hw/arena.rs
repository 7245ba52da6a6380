// SPDX-License-Identifier: GPL-2.0

//! The arena of a link: the memory that its neighbour may access.

use crate::sys::{area::Area, dma::DmaSource};
use kernel::{device::Device, prelude::*};

/// The arena of a link.
pub(in crate::hw) struct Arena {
    pub(in crate::hw) area: Area,
    /// Its address for the port.
    pub(in crate::hw) addr: u64,
}

/// The minimum size of an arena in bytes.
pub(in crate::hw) const MIN_ARENA: usize = 256 << 10;
/// The maximum size of an arena. No more of a slot is mapped, as no neighbour grants more.
pub(crate) const MAX_ARENA: usize = 64 << 20;

/// Allocates an arena of `bytes` bytes, or of less if there is no contiguous memory, which is logged:
/// half as much each time, down to [`MIN_ARENA`]. `ENOMEM` if there is not even that. Sleeps.
pub(in crate::hw) fn new_arena(
    dev: &Device,
    source: &DmaSource,
    link: usize,
    bytes: usize,
) -> Result<Arena> {
    let mut size = bytes;
    let mem = loop {
        match source.take(size) {
            Ok(mem) if size == bytes => break mem,
            Ok(mem) => {
                dev_warn!(
                    dev,
                    "link {}: an arena of {} KiB only, there is no contiguous memory for {} KiB\n",
                    link,
                    size >> 10,
                    bytes >> 10
                );
                break mem;
            }
            Err(_) if size > MIN_ARENA => size /= 2,
            Err(e) => {
                dev_err!(
                    dev,
                    "link {}: no contiguous memory, not even the {} KiB that an arena needs\n",
                    link,
                    MIN_ARENA >> 10
                );
                return Err(e);
            }
        }
    };
    Ok(Arena {
        addr: mem.addr(),
        area: Area::from_dma(mem),
    })
}
