// SPDX-License-Identifier: GPL-2.0

//! Memory of the host that an endpoint is to reach. It must not know whether it does.

use crate::sys::{area, dma::DmaSource};
use kernel::{page::PAGE_SIZE, prelude::*};

/// Memory for an endpoint.
pub(super) struct Memory {
    pub(super) area: area::Area,
    /// Where the port finds it.
    pub(super) addr: u64,
}

impl Memory {
    /// Of zeroes, for the program that calls; quietly, for it is told. To be taken while the device is
    /// bound.
    pub(super) fn new(source: &DmaSource, bytes: usize) -> Result<Self> {
        let mem = source.take_for_user(bytes.next_multiple_of(PAGE_SIZE))?;
        Ok(Self {
            addr: mem.addr(),
            area: area::Area::from_dma(mem),
        })
    }
}
