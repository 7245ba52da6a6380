// SPDX-License-Identifier: GPL-2.0

//! A part of a BAR, mapped.
//!
//! A [`Region`] reserves the BAR; an [`IoMap`] maps what is needed of it.

use crate::sys::raw_pci;
use core::ptr::NonNull;
use kernel::{
    bindings, device::Bound, error::to_result, page::PAGE_SIZE, pci, prelude::*, str::CStrExt,
    sync::aref::ARef,
};

/// How a mapping is cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cache {
    /// As ordinary memory.
    Normal,
    /// Stores are gathered, and leave in any order until a write barrier.
    WriteCombining,
    /// Each access by itself, in program order.
    Uncached,
}

/// A BAR reserved for this driver.
pub(crate) struct Region {
    pdev: ARef<pci::Device>,
    bar: u32,
    start: u64,
    bytes: u64,
}

impl Region {
    /// Reserves a memory BAR of at least `min` bytes.
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

    /// Physical address of the BAR.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Bytes of the BAR.
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

/// A mapping of part of a [`Region`]; to be dropped before it.
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
// SAFETY: What is behind it is accessed by volatile accesses of single registers or words only.
unsafe impl Sync for IoMap {}

impl IoMap {
    /// Maps `bytes` bytes, whole words, from `offset` of `region`, a multiple of the page size.
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

    /// Where it is mapped.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Physical address.
    pub(crate) fn phys(&self) -> u64 {
        self.phys
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn cache(&self) -> Cache {
        self.cache
    }
}

impl Drop for IoMap {
    fn drop(&mut self) {
        // SAFETY: Mapped in `new`; `ioremap_cache` and `ioremap_wc` are undone by the same call.
        unsafe { bindings::iounmap(self.base.as_ptr().cast()) };
    }
}

/// 32-bit registers, mapped uncached.
///
/// Offsets are constants of the register interface and indices that were checked: one that is out
/// of range is a bug of the driver, is refused and reads as all ones, as from a device that is gone.
pub(crate) struct Regs(IoMap);

impl Regs {
    pub(crate) fn new(region: &Region, bytes: usize) -> Result<Self> {
        Ok(Self(IoMap::new(region, 0, bytes, Cache::Uncached)?))
    }

    fn at(&self, off: usize) -> Option<*mut c_void> {
        let inside = off % 4 == 0 && off < self.0.bytes;
        // SAFETY: `off` and the three bytes behind it are inside the mapping, a multiple of 4 long.
        inside.then(|| unsafe { self.0.base.as_ptr().add(off).cast() })
    }

    pub(crate) fn read32(&self, off: usize) -> u32 {
        match self.at(off) {
            // SAFETY: A register inside the mapping.
            Some(p) => unsafe { bindings::readl(p) },
            None => u32::MAX,
        }
    }

    /// Two reads, low half first: not a snapshot of a register that changes.
    pub(crate) fn read64(&self, off: usize) -> u64 {
        u64::from(self.read32(off)) | u64::from(self.read32(off + 4)) << 32
    }

    /// Ordered behind every earlier store to memory.
    pub(crate) fn write32(&self, off: usize, value: u32) {
        if let Some(p) = self.at(off) {
            // SAFETY: A register inside the mapping.
            unsafe { bindings::writel(value, p) }
        }
    }

    /// Two writes, low half first.
    pub(crate) fn write64(&self, off: usize, value: u64) {
        self.write32(off, value as u32);
        self.write32(off + 4, (value >> 32) as u32);
    }

    /// Reads bytes out of registers in a row, which hold them as words of little endian.
    pub(crate) fn read_bytes(&self, off: usize, to: &mut [u8]) {
        for (n, part) in to.chunks_mut(4).enumerate() {
            let word = self.read32(off + 4 * n).to_le_bytes();
            for (to, from) in part.iter_mut().zip(word) {
                *to = from;
            }
        }
    }

    /// Writes bytes into registers in a row; what is missing of the last word is 0.
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
