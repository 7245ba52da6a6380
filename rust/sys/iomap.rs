// SPDX-License-Identifier: GPL-2.0

//! Mappings of a BAR.
//!
//! A [`Region`] reserves the BAR; an [`IoMap`] maps a part of it.

use crate::sys::raw_pci;
use core::ptr::NonNull;
use kernel::{
    bindings, device::Bound, error::to_result, page::PAGE_SIZE, pci, prelude::*, str::CStrExt,
    sync::aref::ARef,
};

/// How a mapping is cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cache {
    /// Write back, as ordinary memory.
    Normal,
    /// Write combining: stores are gathered, and leave in any order until a write barrier.
    WriteCombining,
    /// Uncached: each access is performed separately, in program order.
    Uncached,
}

/// A BAR that is reserved for this driver; released when this is dropped.
pub(crate) struct Region {
    pdev: ARef<pci::Device>,
    bar: u32,
    start: u64,
    bytes: u64,
}

impl Region {
    /// Reserves a BAR of at least `min` bytes.
    ///
    /// Wraps `pci_request_region()`, `include/linux/pci.h`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the BAR is absent or too small, which is logged; `EINVAL` if `bar` is no BAR; else
    /// what `pci_request_region()` returns.
    pub(crate) fn new(dev: &pci::Device<Bound>, bar: u32, min: u64) -> Result<Self> {
        let (start, bytes) = (dev.resource_start(bar)?, dev.resource_len(bar)?);
        if start == 0 || bytes < min {
            dev_err!(
                dev,
                "BAR {} has {:#x} bytes, at least {:#x} are needed\n",
                bar,
                bytes,
                min
            );
            return Err(ENODEV);
        }
        // SAFETY: The device is bound; the name is static.
        to_result(unsafe {
            bindings::pci_request_region(raw_pci(dev), bar as c_int, c"weft".as_char_ptr())
        })?;
        Ok(Self {
            pdev: dev.into(),
            bar,
            start,
            bytes,
        })
    }

    /// Returns the physical address of the BAR.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the size of the BAR in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: Requested in `new`.
        unsafe { bindings::pci_release_region(raw_pci(&self.pdev), self.bar as c_int) };
    }
}

/// A mapping of a part of a [`Region`]; dropped before the region.
///
/// # Invariants
///
/// `base` is mapped for `bytes` bytes, at the physical address `phys`, until this is dropped.
pub(crate) struct IoMap {
    base: NonNull<u8>,
    phys: u64,
    bytes: usize,
    cache: Cache,
}

// SAFETY: A mapping belongs to no thread.
unsafe impl Send for IoMap {}
// SAFETY: The memory is accessed by volatile accesses of single registers or words only.
unsafe impl Sync for IoMap {}

impl IoMap {
    /// Maps `bytes` bytes, a multiple of 8, from `offset`, a multiple of the page size, of `region` on.
    ///
    /// Wraps `ioremap()`, `ioremap_wc()` and `ioremap_cache()`, `asm/io.h`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is empty, outside the region or not aligned; `ENOMEM` if it cannot be
    /// mapped.
    pub(crate) fn new(region: &Region, offset: u64, bytes: usize, cache: Cache) -> Result<Self> {
        let end = offset.checked_add(bytes as u64).ok_or(EINVAL)?;
        let aligned = offset % PAGE_SIZE as u64 == 0 && bytes % 8 == 0;
        if bytes == 0 || !aligned || end > region.bytes {
            return Err(EINVAL);
        }
        let phys = region.start + offset;
        // SAFETY: The range lies in a BAR that is reserved for this driver.
        let base = unsafe {
            match cache {
                Cache::Normal => crate::sys::ext::weft_ioremap_cache(phys, bytes),
                Cache::WriteCombining => bindings::ioremap_wc(phys, bytes),
                Cache::Uncached => bindings::ioremap(phys, bytes),
            }
        };
        Ok(Self {
            base: NonNull::new(base.cast()).ok_or(ENOMEM)?,
            phys,
            bytes,
            cache,
        })
    }

    /// Returns the virtual address of the mapping.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the physical address.
    pub(crate) fn phys(&self) -> u64 {
        self.phys
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how the mapping is cached.
    pub(crate) fn cache(&self) -> Cache {
        self.cache
    }
}

impl Drop for IoMap {
    fn drop(&mut self) {
        // SAFETY: Mapped in `new`; `iounmap` is right for `ioremap_cache` and `ioremap_wc`, too.
        unsafe { bindings::iounmap(self.base.as_ptr().cast()) };
    }
}

/// 32-bit registers, mapped uncached (`readl()`, `writel()`, `asm/io.h`).
///
/// Offsets are in bytes: constants of the register interface, or computed from checked indices. One that
/// is out of range is a bug of the driver: writes are ignored, reads return all ones, as for a device
/// that is gone.
pub(crate) struct Regs(IoMap);

impl Regs {
    /// Maps the first `bytes` bytes of `region`. Errors as [`IoMap::new`].
    pub(crate) fn new(region: &Region, bytes: usize) -> Result<Self> {
        Ok(Self(IoMap::new(region, 0, bytes, Cache::Uncached)?))
    }

    fn at(&self, off: usize) -> Option<*mut c_void> {
        let inside = off % 4 == 0 && off < self.0.bytes;
        // SAFETY: `off` and the three bytes behind it are inside the mapping, a multiple of 4 long.
        inside.then(|| unsafe { self.0.base.as_ptr().add(off).cast() })
    }

    /// Reads the register at `off`.
    pub(crate) fn read32(&self, off: usize) -> u32 {
        match self.at(off) {
            // SAFETY: A register inside the mapping.
            Some(p) => unsafe { bindings::readl(p) },
            None => u32::MAX,
        }
    }

    /// Reads a 64-bit register by two reads, low half first: not a snapshot of a register that changes.
    pub(crate) fn read64(&self, off: usize) -> u64 {
        u64::from(self.read32(off)) | u64::from(self.read32(off + 4)) << 32
    }

    /// Writes the register at `off`, after all earlier stores to memory.
    pub(crate) fn write32(&self, off: usize, value: u32) {
        if let Some(p) = self.at(off) {
            // SAFETY: A register inside the mapping.
            unsafe { bindings::writel(value, p) }
        }
    }

    /// Writes a 64-bit register by two writes, low half first.
    pub(crate) fn write64(&self, off: usize, value: u64) {
        self.write32(off, value as u32);
        self.write32(off + 4, (value >> 32) as u32);
    }

    /// Reads bytes from consecutive registers, which hold them as little-endian words.
    pub(crate) fn read_bytes(&self, off: usize, to: &mut [u8]) {
        for (n, part) in to.chunks_mut(4).enumerate() {
            let word = self.read32(off + 4 * n).to_le_bytes();
            for (to, from) in part.iter_mut().zip(word) {
                *to = from;
            }
        }
    }

    /// Writes bytes to consecutive registers, as little-endian words; the last word is padded with 0.
    pub(crate) fn write_bytes(&self, off: usize, from: &[u8]) {
        for (n, part) in from.chunks(4).enumerate() {
            let mut word = [0; 4];
            for (to, from) in word.iter_mut().zip(part) {
                *to = *from;
            }
            self.write32(off + 4 * n, u32::from_le_bytes(word));
        }
    }
}
