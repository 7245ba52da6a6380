// SPDX-License-Identifier: GPL-2.0

//! Coherent DMA memory that is not a Rust object: the device, and a peer through it, writes it.

use crate::sys::{ext, raw_dev};
use core::ptr::NonNull;
use kernel::{
    bindings,
    device::{Bound, Device},
    page::PAGE_SIZE,
    prelude::*,
    sync::aref::ARef,
};

/// Returns whether devices reach only memory that was decrypted for them. A user's mapping of coherent
/// memory by its page frame number would be one of encrypted memory then.
///
/// Wraps `cc_platform_has()`, `include/linux/cc_platform.h`.
pub(crate) fn is_encrypted() -> bool {
    // SAFETY: No requirements.
    unsafe { ext::weft_memory_is_encrypted() }
}

/// Memory that the device accesses at [`DmaMem::addr`]. Dropped while the device is bound, by
/// `dma_free_attrs()`, `include/linux/dma-mapping.h`.
///
/// # Invariants
///
/// `cpu` is valid for `bytes` bytes, a multiple of the page size, until this is dropped.
pub(crate) struct DmaMem {
    dev: ARef<Device>,
    cpu: NonNull<u8>,
    addr: bindings::dma_addr_t,
    bytes: usize,
}

/// Allocates such memory later, when the size is known. Used while the device is bound.
pub(crate) struct DmaSource(ARef<Device>);

impl DmaSource {
    /// Keeps a reference to `dev`.
    pub(crate) fn new(dev: &Device<Bound>) -> Self {
        Self(dev.into())
    }

    /// Allocates memory as [`DmaMem::new`] does.
    pub(crate) fn take(&self, bytes: usize) -> Result<DmaMem> {
        self.take_as(bytes, bindings::GFP_KERNEL)
    }

    /// Allocates memory as [`DmaMem::new`] does, charged to the caller's memory cgroup.
    pub(crate) fn take_for_user(&self, bytes: usize) -> Result<DmaMem> {
        self.take_as(bytes, bindings::GFP_KERNEL_ACCOUNT)
    }

    fn take_as(&self, bytes: usize, flags: bindings::gfp_t) -> Result<DmaMem> {
        if bytes == 0 || bytes % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let flags = flags | bindings::__GFP_NOWARN;
        let mut addr = 0;
        // SAFETY: The device is bound and its DMA mask is set. Coherent memory is always zeroed.
        let cpu =
            unsafe { bindings::dma_alloc_attrs(raw_dev(&self.0), bytes, &mut addr, flags, 0) };
        Ok(DmaMem {
            dev: self.0.clone(),
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
    /// Allocates `bytes` bytes of zeroed memory. A failure is not logged, as the caller may try again
    /// with less.
    ///
    /// Wraps `dma_alloc_attrs()`, `include/linux/dma-mapping.h`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `bytes` is 0 or not a multiple of the page size; `ENOMEM` if there is no memory.
    pub(crate) fn new(dev: &Device<Bound>, bytes: usize) -> Result<Self> {
        DmaSource::new(dev).take(bytes)
    }

    /// Returns the address of the memory for the CPU.
    pub(super) fn cpu(&self) -> NonNull<u8> {
        self.cpu
    }

    /// Returns the address of the memory for the device.
    pub(crate) fn addr(&self) -> u64 {
        self.addr
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the page frame number of page `page`. `EINVAL` if the page is outside.
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
        // SAFETY: Allocated in `take_as` with the same arguments.
        unsafe {
            bindings::dma_free_attrs(
                raw_dev(&self.dev),
                self.bytes,
                self.cpu.as_ptr().cast(),
                self.addr,
                0,
            )
        };
    }
}
