// SPDX-License-Identifier: GPL-2.0

//! User memory that is pinned for long, and charged to the user of the process that pins it.
//!
//! Pinned pages stay the same whatever happens to the mapping: a fork copies them for the child,
//! `munmap` leaves them pinned. They count against RLIMIT_MEMLOCK for as long as they are pinned,
//! together with all others of the same user: neither `exec` nor the end of the process makes room for
//! more while a descriptor keeps them.

use crate::sys::{account::Locked, ext, task};
use core::ptr::NonNull;
use kernel::{bindings, page::PAGE_SIZE, prelude::*};

/// How many pages one call pins at most; a temporary list holds their pointers.
const BATCH: usize = PAGE_SIZE / size_of::<*mut bindings::page>();

/// A number of pages that are charged to a user, and counted as pinned by an address space.
struct Account {
    /// A reference (`mmgrab()`); the address space itself may be gone.
    mm: NonNull<bindings::mm_struct>,
    pages: usize,
    _locked: Locked,
}

impl Account {
    /// Charges pages as [`Locked::new`] does, and counts them (`mm_struct.pinned_vm`,
    /// `include/linux/mm_types.h`). `EFAULT` if the task has no address space.
    fn new(pages: usize) -> Result<Self> {
        let locked = Locked::new(pages)?;
        // SAFETY: No requirements; returns a reference or null.
        let mm = unsafe { ext::weft_count_pinned(pages) };
        Ok(Self {
            mm: NonNull::new(mm).ok_or(EFAULT)?,
            pages,
            _locked: locked,
        })
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // SAFETY: Counted by `new`; this drops its reference.
        unsafe { ext::weft_uncount_pinned(self.mm.as_ptr(), self.pages) };
    }
}

/// Pages that are contiguous in physical memory, too.
struct Run {
    page: *mut bindings::page,
    count: usize,
}

/// A range of user memory. Any thread can drop it, which unpins the pages and sleeps.
///
/// # Invariants
///
/// The pages of `runs` are pinned, and are those of the range, in the same order.
pub(crate) struct Pinned {
    runs: KVVec<Run>,
    /// The offset of the first byte in the first page.
    offset: usize,
    bytes: usize,
    write: bool,
    // Last: counted until nothing is pinned.
    _account: Account,
}

// SAFETY: Pins and accounts belong to no thread.
unsafe impl Send for Pinned {}
// SAFETY: Nothing changes while it is shared.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Pins `bytes` bytes at address `at` of the current process; for writing, too, if `write`.
    ///
    /// Wraps `pin_user_pages_fast()`, `include/linux/mm.h`, with `FOLL_LONGTERM`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `bytes` is 0 or the range wraps around; `EFAULT` if not all of it is mapped, or not
    /// writable; `EOPNOTSUPP` if it cannot be pinned for long; `ENOMEM` if RLIMIT_MEMLOCK does not allow
    /// so many pages, or if there is no memory; `EINTR` if the process is being killed.
    ///
    /// # Context
    ///
    /// Sleeps. Called in a thread of a user process.
    pub(crate) fn new(at: usize, bytes: usize, write: bool) -> Result<Self> {
        let end = at.checked_add(bytes).filter(|_| bytes != 0).ok_or(EINVAL)?;
        let offset = at % PAGE_SIZE;
        let pages = (end - 1) / PAGE_SIZE - at / PAGE_SIZE + 1;
        // INVARIANT: No page yet.
        let mut pinned = Self {
            runs: KVVec::new(),
            offset,
            bytes,
            write,
            _account: Account::new(pages)?,
        };
        let mut list = KVec::with_capacity(BATCH.min(pages), GFP_KERNEL)?;
        let mut at = at - offset;
        let mut left = pages;
        while left != 0 {
            if task::is_killed() {
                return Err(EINTR);
            }
            let count = pinned.pin(at, left, &mut list)?;
            at += count * PAGE_SIZE;
            left -= count;
        }
        Ok(pinned)
    }

    /// Pins up to `count` pages from `at` on, as many as fit into `list`, and returns how many. After a
    /// failure none of them is pinned.
    fn pin(
        &mut self,
        at: usize,
        count: usize,
        list: &mut KVec<*mut bindings::page>,
    ) -> Result<usize> {
        let flags = bindings::FOLL_LONGTERM | if self.write { bindings::FOLL_WRITE } else { 0 };
        let most = count.min(list.capacity());
        list.clear();
        // While there is nothing to undo: every page may be a run of its own.
        self.runs.reserve(most, GFP_KERNEL_ACCOUNT)?;
        // SAFETY: `list` has room for `most` pointers; the call checks the address.
        let got = unsafe {
            bindings::pin_user_pages_fast(
                at,
                most as c_int,
                flags,
                list.spare_capacity_mut().as_mut_ptr().cast(),
            )
        };
        let got = match usize::try_from(got) {
            Ok(0) => return Err(EFAULT),
            Ok(got) => got.min(most),
            Err(_) => return Err(Error::from_errno(got)),
        };
        // SAFETY: `got` pointers were written, and there is room for them.
        unsafe { list.inc_len(got) };
        for &page in &*list {
            // INVARIANT: Pinned above, the next of the range.
            match self.runs.last_mut() {
                // SAFETY: Both pages exist.
                Some(run) if unsafe { pfn(run.page) + run.count == pfn(page) } => run.count += 1,
                // Never fails, as there is room: the pin is not lost.
                _ => self.runs.push(Run { page, count: 1 }, GFP_KERNEL_ACCOUNT)?,
            }
        }
        Ok(got)
    }

    /// Returns the runs of contiguous pages: the number of the first page frame, and of pages.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|run| {
            // SAFETY: By the invariants.
            let first = unsafe { pfn(run.page) };
            (first as u64, run.count as u64)
        })
    }

    /// Returns the offset of the first byte in the first page.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the memory is pinned for writing.
    pub(crate) fn is_writable(&self) -> bool {
        self.write
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        for run in &self.runs {
            // SAFETY: By the invariants. Pages that are pinned for writing are marked dirty.
            unsafe { bindings::unpin_user_page_range_dirty_lock(run.page, run.count, self.write) };
        }
    }
}

/// Returns the page frame number of `page`.
///
/// # Safety
///
/// `page` exists.
unsafe fn pfn(page: *mut bindings::page) -> usize {
    // SAFETY: By the requirement.
    unsafe { ext::weft_page_pfn(page) }
}
