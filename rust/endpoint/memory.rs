// SPDX-License-Identifier: GPL-2.0

//! Memory of the host for an endpoint. It must not know whether the endpoint reaches it.

use crate::sys::{area, dma::DmaSource};
use kernel::{page::PAGE_SIZE, prelude::*};

/// Memory for an endpoint.
pub(super) struct Memory {
    pub(super) area: area::Area,
    /// Its DMA address for the port.
    pub(super) addr: u64,
}

impl Memory {
    /// Allocates zeroed memory, charged to the calling program. No warning is logged on failure: the
    /// program gets the error. Called while the device is bound.
    pub(super) fn new(source: &DmaSource, bytes: usize) -> Result<Self> {
        let mem = source.take_for_user(bytes.next_multiple_of(PAGE_SIZE))?;
        Ok(Self {
            addr: mem.addr(),
            area: area::Area::from_dma(mem),
        })
    }
}
