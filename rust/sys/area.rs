// SPDX-License-Identifier: GPL-2.0

//! Memory that a peer, a device or a user writes at any time.
//!
//! Never behind a reference or a Rust atomic, for which the compiler may assume that values stay:
//! every access is a volatile one of a checked offset. A value that was read is a copy, to be checked
//! before it is used. Only the barriers of this file order accesses.
//!
//! This file must not know what the bytes mean.

pub(crate) use crate::sys::iomap::Cache;

use crate::sys::{
    dma::DmaMem,
    ext,
    iomap::IoMap,
    words::{Words, WORD},
};
use core::ptr::NonNull;
use kernel::{
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

/// Makes earlier stores visible, to CPUs and behind a window, before later stores, and drains
/// write-combining buffers. Placed before the store that publishes data.
///
/// Wraps `wmb()`, `asm/barrier.h`.
pub(crate) fn wmb() {
    // SAFETY: No requirements.
    unsafe { ext::weft_wmb() }
}

/// Completes earlier loads before later loads. Placed after the load of the word that publishes data.
///
/// Wraps `dma_rmb()`, `asm/barrier.h`.
pub(crate) fn rmb() {
    // SAFETY: No requirements.
    unsafe { ext::weft_rmb() }
}

/// Completes earlier loads and stores before later ones. Placed before the store that lets the writer
/// overwrite memory that was just loaded from; [`wmb`] does not wait for loads.
///
/// Wraps `mb()`, `asm/barrier.h`.
pub(crate) fn mb() {
    // SAFETY: No requirements.
    unsafe { ext::weft_mb() }
}

/// The owner of the memory.
enum Owner {
    Dma(DmaMem),
    Bar { map: Arc<IoMap>, offset: usize },
}

/// A page-aligned range of such memory.
///
/// # Invariants
///
/// `base` is valid for volatile accesses of `bytes` bytes while `owner` lives, and page aligned;
/// `bytes` is a multiple of the page size.
pub(crate) struct Area {
    base: NonNull<u8>,
    bytes: usize,
    owner: Owner,
    /// Bytes that were zeroed.
    zeroed: Atomic<u64>,
}

// SAFETY: The memory belongs to no thread.
unsafe impl Send for Area {}
// SAFETY: Volatile accesses only, which do not tear up to 8 bytes; races are its very purpose.
unsafe impl Sync for Area {}

impl Area {
    /// Makes an area of all of `mem`.
    pub(crate) fn from_dma(mem: DmaMem) -> Self {
        // INVARIANT: By those of `DmaMem`; allocations of whole pages are page aligned.
        Self {
            base: mem.cpu(),
            bytes: mem.bytes(),
            owner: Owner::Dma(mem),
            zeroed: Atomic::new(0),
        }
    }

    /// Makes an area of `bytes` bytes from `offset` on of a mapping of memory without side effects.
    /// `EINVAL` if they are outside the mapping or not whole pages.
    pub(crate) fn from_map(map: Arc<IoMap>, offset: usize, bytes: usize) -> Result<Self> {
        let end = offset.checked_add(bytes).ok_or(EINVAL)?;
        let aligned = (map.phys() as usize | offset | bytes) % PAGE_SIZE == 0;
        if bytes == 0 || !aligned || end > map.bytes() {
            return Err(EINVAL);
        }
        // SAFETY: Inside the mapping.
        let base = unsafe { map.base().add(offset) };
        // INVARIANT: By those of `IoMap`, and the checks.
        Ok(Self {
            base,
            bytes,
            owner: Owner::Bar { map, offset },
            zeroed: Atomic::new(0),
        })
    }

    /// Returns the size in bytes, a multiple of the page size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how the area is cached; users must map it in the same way.
    pub(crate) fn cache(&self) -> Cache {
        match &self.owner {
            Owner::Dma(_) => Cache::Normal,
            Owner::Bar { map, .. } => map.cache(),
        }
    }

    /// Returns the page frame number of page `page`, to be mapped to users while the port exists.
    /// `EINVAL` if the page is outside.
    pub(crate) fn pfn(&self, page: usize) -> Result<usize> {
        if page >= self.bytes / PAGE_SIZE {
            return Err(EINVAL);
        }
        match &self.owner {
            Owner::Dma(mem) => mem.pfn(page),
            Owner::Bar { map, offset } => {
                let phys = map.phys() + (offset + page * PAGE_SIZE) as u64;
                Ok((phys >> PAGE_SHIFT) as usize)
            }
        }
    }

    /// Returns the address of `bytes` bytes at `off`. `EINVAL` if they are not all inside.
    pub(super) fn at(&self, off: usize, bytes: usize) -> Result<*mut u8> {
        match off.checked_add(bytes) {
            // SAFETY: `off` is at most `self.bytes`.
            Some(end) if end <= self.bytes => Ok(unsafe { self.base.as_ptr().add(off) }),
            _ => Err(EINVAL),
        }
    }

    /// As [`Area::at`], for a word. `EINVAL` if it is not aligned, too.
    #[inline]
    fn word<T>(&self, off: usize) -> Result<*mut T> {
        // All of an aligned word is inside if its first byte is: the area has whole pages.
        if off % size_of::<T>() != 0 || off >= self.bytes {
            return Err(EINVAL);
        }
        // SAFETY: `off` is below `self.bytes`.
        Ok(unsafe { self.base.as_ptr().add(off) }.cast())
    }

    /// Returns the `count` words of 8 bytes from byte `off` on, to be accessed one by one. `EINVAL` if they
    /// are not all inside, or not aligned.
    #[inline]
    pub(crate) fn words(&self, off: usize, count: usize) -> Result<Words<'_>> {
        let end = count
            .checked_mul(WORD)
            .and_then(|bytes| off.checked_add(bytes));
        if off % WORD != 0 || end.is_none_or(|end| end > self.bytes) {
            return Err(EINVAL);
        }
        // SAFETY: `off` is at most `self.bytes`.
        let at = unsafe { self.base.as_ptr().add(off) }.cast();
        // SAFETY: All are inside the area, which stays while `self` is borrowed, and aligned.
        Ok(unsafe { Words::new(at, count, at, count) })
    }

    /// Returns the 64-bit word at byte `off`. `EINVAL` if it is not all inside, or not aligned.
    pub(crate) fn read64(&self, off: usize) -> Result<u64> {
        let p = self.word::<u64>(off)?;
        // SAFETY: Inside the area and aligned.
        Ok(unsafe { p.read_volatile() })
    }

    /// Writes the 64-bit word at byte `off`. `EINVAL` as [`Area::read64`].
    pub(crate) fn write64(&self, off: usize, value: u64) -> Result {
        let p = self.word::<u64>(off)?;
        // SAFETY: Inside the area and aligned.
        unsafe { p.write_volatile(value) };
        Ok(())
    }

    /// Returns the 32-bit word at byte `off`. `EINVAL` as [`Area::read64`].
    pub(crate) fn read32(&self, off: usize) -> Result<u32> {
        let p = self.word::<u32>(off)?;
        // SAFETY: Inside the area and aligned.
        Ok(unsafe { p.read_volatile() })
    }

    /// Writes the 32-bit word at byte `off`. `EINVAL` as [`Area::read64`].
    pub(crate) fn write32(&self, off: usize, value: u32) -> Result {
        let p = self.word::<u32>(off)?;
        // SAFETY: Inside the area and aligned.
        unsafe { p.write_volatile(value) };
        Ok(())
    }

    /// Copies `to.len()` bytes from `off` on out of the area, by aligned words of 8 bytes where they are
    /// whole. `EINVAL` if they are not all inside.
    pub(crate) fn copy_in(&self, off: usize, to: &mut [u8]) -> Result {
        let from = self.at(off, to.len())?;
        let (head, words) = split(off, to.len());
        let mut i = 0;
        while i < to.len() {
            if i >= head && i < head + words {
                // SAFETY: Bytes `i` to `i + 8` are inside both, and aligned in the area.
                let w = unsafe { from.add(i).cast::<u64>().read_volatile() };
                if let Some(to) = to.get_mut(i..i + 8) {
                    to.copy_from_slice(&w.to_ne_bytes());
                }
                i += 8;
            } else {
                // SAFETY: Byte `i` is inside.
                let b = unsafe { from.add(i).read_volatile() };
                if let Some(to) = to.get_mut(i) {
                    *to = b;
                }
                i += 1;
            }
        }
        Ok(())
    }

    /// Copies `from` into the area at `off`, in ascending order, by aligned words of 8 bytes where they
    /// are whole. `EINVAL` if not all bytes are inside.
    pub(crate) fn copy_out(&self, off: usize, from: &[u8]) -> Result {
        let to = self.at(off, from.len())?;
        let (head, words) = split(off, from.len());
        let (first, rest) = from.split_at_checked(head).ok_or(EINVAL)?;
        let (middle, last) = rest.split_at_checked(words).ok_or(EINVAL)?;
        let mut i = 0;
        for &b in first {
            // SAFETY: `i` is below `from.len()`, hence inside the area.
            unsafe { to.add(i).write_volatile(b) };
            i += 1;
        }
        for w in middle.chunks_exact(8) {
            let w = u64::from_ne_bytes(w.try_into().map_err(|_| EINVAL)?);
            // SAFETY: As above for 8 bytes, which are aligned since the head ended.
            unsafe { to.add(i).cast::<u64>().write_volatile(w) };
            i += 8;
        }
        for &b in last {
            // SAFETY: As above.
            unsafe { to.add(i).write_volatile(b) };
            i += 1;
        }
        Ok(())
    }

    /// Returns how many bytes [`Area::zero`] has written so far, for statistics.
    pub(crate) fn zeroed(&self) -> u64 {
        self.zeroed.load(Relaxed)
    }

    /// Writes `len` zeroes from `off` on. `EINVAL` if they are not all inside.
    pub(crate) fn zero(&self, off: usize, len: usize) -> Result {
        let to = self.at(off, len)?;
        self.zeroed.fetch_add(len as u64, Relaxed);
        let (head, words) = split(off, len);
        let mut i = 0;
        while i < len {
            if i >= head && i < head + words {
                // SAFETY: Bytes `i` to `i + 8` are inside, and aligned.
                unsafe { to.add(i).cast::<u64>().write_volatile(0) };
                i += 8;
            } else {
                // SAFETY: Byte `i` is inside.
                unsafe { to.add(i).write_volatile(0) };
                i += 1;
            }
        }
        Ok(())
    }
}

/// Returns how many of `len` bytes at `off` come before the first aligned word of 8 bytes, and how many
/// of the rest are in whole aligned words.
fn split(off: usize, len: usize) -> (usize, usize) {
    let head = (off.wrapping_neg() % 8).min(len);
    (head, (len - head) & !7)
}
