// SPDX-License-Identifier: GPL-2.0

//! Memory of a user that is pinned for long, and accounted to the address space that it is of.
//!
//! Pinned pages stay what they are whatever becomes of the mapping: a fork copies them for the child,
//! `munmap` leaves them here. They count against RLIMIT_MEMLOCK of the process that has pinned them, and are
//! counted off the same address space, whatever process drops them: a file can be closed by another process
//! than the one that registered.

use crate::sys::ext;
use kernel::{bindings, page::PAGE_SIZE, prelude::*};

/// Pages that are pinned in one go, and for which there is a list meanwhile.
const BATCH: usize = PAGE_SIZE / size_of::<*mut bindings::page>();

/// Pages that count as locked, of an address space.
struct Account {
    /// Held; the address space itself may be gone.
    mm: *mut bindings::mm_struct,
    pages: usize,
}

impl Account {
    /// Counts pages of the current process. `ENOMEM`: more than RLIMIT_MEMLOCK allows.
    fn new(pages: usize) -> Result<Self> {
        let mut mm = core::ptr::null_mut();
        // SAFETY: In a thread of a process; `mm` takes a reference if this succeeds.
        kernel::error::to_result(unsafe { ext::weft_account_pinned(pages, &mut mm) })?;
        Ok(Self { mm, pages })
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // SAFETY: Counted by `new`, whose reference goes.
        unsafe { ext::weft_unaccount_pinned(self.mm, self.pages) };
    }
}

/// Pages that are in a row in memory as well.
struct Run {
    page: *mut bindings::page,
    count: usize,
}

/// Memory of a user. Can be dropped by any thread; sleeps.
///
/// # Invariants
///
/// The pages of `runs` are pinned, and are those of the range in its order.
pub(crate) struct Pinned {
    runs: KVVec<Run>,
    /// Where the first byte is in the first page.
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
    /// Pins `bytes` bytes at `at` of the current process; to be written, too, if `write`. `EFAULT`:
    /// not all of it is mapped, or not to be written; `EOPNOTSUPP`: it cannot be pinned for long;
    /// `ENOMEM`: more than RLIMIT_MEMLOCK allows; `EINTR`: the
    /// process is being killed.
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
            // SAFETY: No requirements.
            if unsafe { ext::weft_is_killed() } {
                return Err(EINTR);
            }
            let count = pinned.pin(at, left, &mut list)?;
            at += count * PAGE_SIZE;
            left -= count;
        }
        Ok(pinned)
    }

    /// Pins up to `count` pages from `at` on, as many as fit into `list`, and says how many. On failure
    /// none of them is.
    fn pin(
        &mut self,
        at: usize,
        count: usize,
        list: &mut KVec<*mut bindings::page>,
    ) -> Result<usize> {
        let flags = bindings::FOLL_LONGTERM | if self.write { bindings::FOLL_WRITE } else { 0 };
        let most = count.min(list.capacity());
        list.clear();
        // Before there is anything to be undone: every page may be a run.
        self.runs.reserve(most, GFP_KERNEL_ACCOUNT)?;
        // SAFETY: `list` has room for `most` pointers; whatever the address is, it is checked.
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
        // SAFETY: So many were written, and there is room for them.
        unsafe { list.inc_len(got) };
        for &page in &*list {
            // INVARIANT: Pinned above, the next of the range.
            match self.runs.last_mut() {
                // SAFETY: Pages that are there.
                Some(run) if unsafe { pfn(run.page) + run.count == pfn(page) } => run.count += 1,
                // Never fails, as there is room: the page is not lost.
                _ => self.runs.push(Run { page, count: 1 }, GFP_KERNEL_ACCOUNT)?,
            }
        }
        Ok(got)
    }

    /// Runs of pages in a row: the number of the first page frame, and how many.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|run| {
            // SAFETY: By the invariants.
            let first = unsafe { pfn(run.page) };
            (first as u64, run.count as u64)
        })
    }

    /// Where the first byte is in the first page.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it may be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.write
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        for run in &self.runs {
            // SAFETY: By the invariants. What could be written counts as written.
            unsafe { bindings::unpin_user_page_range_dirty_lock(run.page, run.count, self.write) };
        }
    }
}

/// # Safety
///
/// `page` is one that there is.
unsafe fn pfn(page: *mut bindings::page) -> usize {
    // SAFETY: By the requirement.
    unsafe { ext::weft_page_pfn(page) }
}
