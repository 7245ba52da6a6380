// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that users map and write at any time: queues.
//!
//! Every mapping holds references to the pages: they outlive the object that has made them; what users
//! write then has no effect. They are charged to the user until the last mapping is gone, too. Never behind a reference, as in [`super::area`]; a value that was read is a
//! copy, to be checked before it is used. This file must not know what the bytes mean.

use crate::sys::{
    account::Locked,
    vma::{NewVma, SharedPage},
    words::{Words, WORD},
};
#[cfg(KERNEL_7_3)]
use kernel::sync::barrier;
use kernel::{
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::Arc,
};

/// Orders the store of an entry before the store that publishes it: `smp_wmb()`, `asm/barrier.h`.
#[cfg(not(KERNEL_7_3))]
pub(crate) use kernel::sync::barrier::smp_wmb as publish;

/// Orders the load that finds an entry published before the loads of the entry: `smp_rmb()`,
/// `asm/barrier.h`.
#[cfg(not(KERNEL_7_3))]
pub(crate) use kernel::sync::barrier::smp_rmb as look;

/// Orders the copy of an entry before the store that lets it be overwritten: `smp_mb()`,
/// `asm/barrier.h`.
#[cfg(not(KERNEL_7_3))]
pub(crate) use kernel::sync::barrier::smp_mb as release;

/// Orders the store of an entry before the store that publishes it: `smp_wmb()`, `asm/barrier.h`.
#[cfg(KERNEL_7_3)]
pub(crate) fn publish() {
    barrier::smp_mb(barrier::Write);
}

/// Orders the load that finds an entry published before the loads of the entry: `smp_rmb()`,
/// `asm/barrier.h`.
#[cfg(KERNEL_7_3)]
pub(crate) fn look() {
    barrier::smp_mb(barrier::Read);
}

/// Orders the copy of an entry before the store that lets it be overwritten: `smp_mb()`,
/// `asm/barrier.h`.
#[cfg(KERNEL_7_3)]
pub(crate) fn release() {
    barrier::smp_mb(barrier::Full);
}

/// Zeroed pages with contiguous offsets; not contiguous in memory.
pub(crate) struct Pages {
    pages: KVec<SharedPage>,
    /// Held by mappings, too.
    locked: Arc<Locked>,
}

impl Pages {
    /// Allocates as many pages as `bytes` take, charged to the caller's memory cgroup, and to its user as
    /// [`Locked::new`] does. `ENOMEM` if there is no memory, or if RLIMIT_MEMLOCK does not allow so much.
    /// Sleeps.
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        let count = bytes.div_ceil(PAGE_SIZE);
        let locked = Arc::new(Locked::new(count)?, GFP_KERNEL_ACCOUNT)?;
        let mut pages = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..count {
            pages.push(SharedPage::new()?, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self { pages, locked })
    }

    /// Returns the size of all pages in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.len() << PAGE_SHIFT
    }

    /// Returns the page that contains byte `off`. `EINVAL` if it is outside.
    fn page(&self, off: usize) -> Result<&SharedPage> {
        self.pages.get(off >> PAGE_SHIFT).ok_or(EINVAL)
    }

    /// Returns the 64-bit word at byte `off`. `EINVAL` if `off` is outside or not aligned.
    pub(crate) fn read64(&self, off: usize) -> Result<u64> {
        self.page(off)?.read64(off % PAGE_SIZE)
    }

    /// Writes the 64-bit word at byte `off`. `EINVAL` if `off` is outside or not aligned.
    pub(crate) fn write64(&self, off: usize, value: u64) -> Result {
        self.page(off)?.write64(off % PAGE_SIZE, value)
    }

    /// Replaces the 64-bit word at byte `off` by 0 and returns what it was; atomic for users, too.
    /// `EINVAL` if `off` is outside or not aligned.
    pub(crate) fn take64(&self, off: usize) -> Result<u64> {
        let page = self.page(off)?;
        let at = off % PAGE_SIZE;
        // The word is mostly 0; a read leaves the cache line where it is.
        if page.read64(at)? == 0 {
            return Ok(0);
        }
        page.take64(at)
    }

    /// Sets `bits` in the 64-bit word at byte `off`; atomic for users, too. Errors as
    /// [`SharedPage::give64`].
    pub(crate) fn give64(&self, off: usize, bits: u64) -> Result {
        self.page(off)?.give64(off % PAGE_SIZE, bits)
    }

    /// Returns `count` words of 8 bytes from byte `off` on, to be accessed one by one. `EINVAL` if `off` is
    /// not aligned, or if they are not all inside, or more than a page.
    #[inline]
    pub(crate) fn words(&self, off: usize, count: usize) -> Result<Words<'_>> {
        if off % WORD != 0 || count > PAGE_SIZE / WORD {
            return Err(EINVAL);
        }
        let inside = off % PAGE_SIZE;
        let here = count.min((PAGE_SIZE - inside) / WORD);
        let first = self.page(off)?;
        let second = match count - here {
            0 => first,
            _ => self.page(off + here * WORD)?,
        };
        let at = first.base().wrapping_add(inside);
        // SAFETY: The first page holds `here` words from byte `inside` on; the others, at most as many as a
        // page holds, are at the beginning of the second one. The pages stay while `self` is borrowed.
        Ok(unsafe { Words::new(at.cast(), here, second.base().cast(), count) })
    }

    /// Maps the pages from page `first` on, as many as `vma` has. `EINVAL` if `vma` has more than there
    /// are; else errors as [`NewVma::fill`].
    pub(crate) fn map(&self, first: u64, vma: &NewVma<'_>) -> Result {
        let first = usize::try_from(first).map_err(|_| EINVAL)?;
        let count = usize::try_from(vma.count()).map_err(|_| EINVAL)?;
        let end = first.checked_add(count).ok_or(EINVAL)?;
        vma.fill(self.pages.get(first..end).ok_or(EINVAL)?, &self.locked)
    }
}
