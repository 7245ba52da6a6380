// SPDX-License-Identifier: GPL-2.0

//! Coherent DMA memory that is not a Rust object: the device, and through it a peer, writes it.

use crate::sys::raw_dev;
use core::ptr::NonNull;
use kernel::{bindings, device::Bound, page::PAGE_SIZE, pci, prelude::*, sync::aref::ARef};

/// Memory that the device reaches at [`DmaMem::addr`]. To be dropped while the device is bound.
///
/// # Invariants
///
/// `cpu` is valid for `bytes` bytes, a multiple of the page size, until this is dropped.
pub(crate) struct DmaMem {
    pdev: ARef<pci::Device>,
    cpu: NonNull<u8>,
    addr: bindings::dma_addr_t,
    bytes: usize,
}

/// Where such memory comes from when it is not known in time how much is needed. To be used while the
/// device is bound.
pub(crate) struct DmaSource(ARef<pci::Device>);

impl DmaSource {
    pub(crate) fn new(dev: &pci::Device<Bound>) -> Self {
        Self(dev.into())
    }

    /// As [`DmaMem::new`].
    pub(crate) fn take(&self, bytes: usize) -> Result<DmaMem> {
        self.take_as(bytes, bindings::GFP_KERNEL)
    }

    /// The same, counted to the caller's memory cgroup.
    pub(crate) fn take_for_user(&self, bytes: usize) -> Result<DmaMem> {
        self.take_as(bytes, bindings::GFP_KERNEL_ACCOUNT)
    }

    fn take_as(&self, bytes: usize, flags: bindings::gfp_t) -> Result<DmaMem> {
        if bytes == 0 || bytes % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let flags = flags | bindings::__GFP_NOWARN;
        let mut addr = 0;
        // SAFETY: The device is bound and its DMA mask was set. Such memory is always zeroed.
        let cpu =
            unsafe { bindings::dma_alloc_attrs(raw_dev(&self.0), bytes, &mut addr, flags, 0) };
        Ok(DmaMem {
            pdev: self.0.clone(),
            cpu: NonNull::new(cpu.cast()).ok_or(ENOMEM)?,
            addr,
            bytes,
        })
    }
}

// SAFETY: The memory belongs to no thread.
unsafe impl Send for DmaMem {}
// SAFETY: Gives no access by itself.
unsafe impl Sync for DmaMem {}

impl DmaMem {
    /// Allocates zeroed memory; quietly, as the caller may be content with less.
    pub(crate) fn new(dev: &pci::Device<Bound>, bytes: usize) -> Result<Self> {
        DmaSource::new(dev).take(bytes)
    }

    pub(super) fn cpu(&self) -> NonNull<u8> {
        self.cpu
    }

    /// Where the device finds it.
    pub(crate) fn addr(&self) -> u64 {
        self.addr
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Page frame number of a page of it.
    pub(super) fn pfn(&self, page: usize) -> Result<usize> {
        if page >= self.bytes / PAGE_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: An address inside the memory.
        Ok(unsafe {
            let at = self.cpu.as_ptr().add(page * PAGE_SIZE);
            crate::sys::ext::weft_coherent_pfn(at.cast())
        })
    }
}

impl Drop for DmaMem {
    fn drop(&mut self) {
        // SAFETY: Allocated in `new` with the same arguments.
        unsafe {
            bindings::dma_free_attrs(
                raw_dev(&self.pdev),
                self.bytes,
                self.cpu.as_ptr().cast(),
                self.addr,
                0,
            )
        };
    }
}
