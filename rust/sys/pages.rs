// SPDX-License-Identifier: GPL-2.0

//! Memory of the kernel's that users map, and write at any time: queues.
//!
//! Every mapping holds the pages: their owner may go, and what is written there then means
//! nothing. Never behind a reference, as in [`super::area`]; what was read is a copy, to be checked
//! before it is used. It must not know what the bytes mean.

use crate::sys::vma::{NewVma, SharedPage};
#[cfg(KERNEL_7_3)]
use kernel::sync::barrier;
use kernel::{
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
};

/// Entry, then what says that it is there; to be put between the stores.
#[cfg(not(KERNEL_7_3))]
pub(crate) use kernel::sync::barrier::smp_wmb as publish;

/// What says that an entry is there, then the entry; to be put between the loads.
#[cfg(not(KERNEL_7_3))]
pub(crate) use kernel::sync::barrier::smp_rmb as look;

/// The copy of an entry, then what says that it may be written over.
#[cfg(not(KERNEL_7_3))]
pub(crate) use kernel::sync::barrier::smp_mb as release;

/// Entry, then what says that it is there; to be put between the stores.
#[cfg(KERNEL_7_3)]
pub(crate) fn publish() {
    barrier::smp_mb(barrier::Write);
}

/// What says that an entry is there, then the entry; to be put between the loads.
#[cfg(KERNEL_7_3)]
pub(crate) fn look() {
    barrier::smp_mb(barrier::Read);
}

/// The copy of an entry, then what says that it may be written over.
#[cfg(KERNEL_7_3)]
pub(crate) fn release() {
    barrier::smp_mb(barrier::Full);
}

/// Zeroed pages in a row, as offsets go.
pub(crate) struct Pages(KVec<SharedPage>);

impl Pages {
    /// As many as `bytes` take, counted to the caller's memory cgroup.
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        let count = bytes.div_ceil(PAGE_SIZE);
        let mut pages = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..count {
            pages.push(SharedPage::new()?, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self(pages))
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() << PAGE_SHIFT
    }

    fn page(&self, off: usize) -> Result<&SharedPage> {
        self.0.get(off >> PAGE_SHIFT).ok_or(EINVAL)
    }

    /// The 64-bit word at `off`.
    pub(crate) fn read64(&self, off: usize) -> Result<u64> {
        self.page(off)?.read64(off % PAGE_SIZE)
    }

    pub(crate) fn write64(&self, off: usize, value: u64) -> Result {
        self.page(off)?.write64(off % PAGE_SIZE, value)
    }

    /// Takes the 64-bit word at `off`, atomically for users, too, and leaves 0.
    pub(crate) fn take64(&self, off: usize) -> Result<u64> {
        let page = self.page(off)?;
        let at = off % PAGE_SIZE;
        // Mostly there is nothing: the line is left where it is.
        if page.read64(at)? == 0 {
            return Ok(0);
        }
        page.take64(at)
    }

    /// Sets bits of the 64-bit word at `off`, atomically for users, too.
    pub(crate) fn give64(&self, off: usize, bits: u64) -> Result {
        self.page(off)?.give64(off % PAGE_SIZE, bits)
    }

    /// Copies whole words out of the pages, from a multiple of 8 on.
    pub(crate) fn copy_in(&self, off: usize, to: &mut [u8]) -> Result {
        let (mut at, mut rest) = (off, to);
        while !rest.is_empty() {
            let inside = at % PAGE_SIZE;
            let most = rest.len().min(PAGE_SIZE - inside);
            let (part, behind) = rest.split_at_mut_checked(most).ok_or(EINVAL)?;
            self.page(at)?.copy_in(inside, part)?;
            at = at.checked_add(most).ok_or(EINVAL)?;
            rest = behind;
        }
        Ok(())
    }

    /// Maps all from page `first` on that `vma` has room for. `EINVAL`: it has too much.
    pub(crate) fn map(&self, first: u64, vma: &NewVma<'_>) -> Result {
        let first = usize::try_from(first).map_err(|_| EINVAL)?;
        let count = usize::try_from(vma.count()).map_err(|_| EINVAL)?;
        let end = first.checked_add(count).ok_or(EINVAL)?;
        vma.fill(self.0.get(first..end).ok_or(EINVAL)?)
    }
}
