// SPDX-License-Identifier: GPL-2.0

//! User mappings of revocable pages, which page faults fill.
//!
//! A mapping that is filled in `mmap` itself is linked to the address space only after `mmap` has
//! returned; a [`Mapping::zap`] in between would miss it. A fault comes later. Code that revokes a page
//! first makes faults stop inserting it, then zaps it.
//!
//! Every inode of a device node has an address space of its own; here, the address space of one
//! anonymous inode collects the mappings through all of them.

use crate::sys::{account::Locked, ext, iomap::Cache};
use core::{marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};
use kernel::{
    bindings,
    error::from_err_ptr,
    mm::virt::{flags, VmaNew, VmaRef},
    page::{Page, PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::Arc,
    time::{delay::fsleep, Delta},
};

/// How long a task sleeps before its fault is repeated, if the page cannot be inserted now.
const LATER: Delta = Delta::from_millis(1);

/// The address space that contains all mappings of a device.
pub(crate) struct Mapping(*mut bindings::inode);

// SAFETY: A reference to an inode, of which only the address space is used, which has its locks.
unsafe impl Send for Mapping {}
// SAFETY: As above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes an address space: that of a new anonymous inode. Wraps `weft_mapping_inode()`, `c/shim.c`:
    /// `anon_inode_create_getfile()`, `include/linux/anon_inodes.h`. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: No requirements.
        from_err_ptr(unsafe { ext::weft_mapping_inode() }).map(Self)
    }

    /// Returns the `struct address_space`.
    pub(super) fn as_ptr(&self) -> *mut bindings::address_space {
        // SAFETY: The inode is held.
        unsafe { (*self.0).i_mapping }
    }

    /// Removes `count` pages, from page offset `first` of the file on, from every mapping. They fault
    /// again at the next access. When this returns, no CPU has a store to them in progress.
    ///
    /// Wraps `unmap_mapping_range()`, `include/linux/mm.h`. Sleeps.
    pub(crate) fn zap(&self, first: u64, count: u64) {
        let (at, bytes) = (first << PAGE_SHIFT, count << PAGE_SHIFT);
        // SAFETY: The inode is held.
        unsafe { bindings::unmap_mapping_range(self.as_ptr(), at as i64, bytes as i64, 1) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: The reference is ours, and every file that uses the address space is closed.
        unsafe { bindings::iput(self.0) };
    }
}

/// A mapping that `mmap` is setting up.
pub(crate) struct NewVma<'a> {
    vma: *mut bindings::vm_area_struct,
    ops: &'static bindings::vm_operations_struct,
    _during: PhantomData<&'a ()>,
}

impl<'a> NewVma<'a> {
    /// # Safety
    ///
    /// During `'a` `vma` is being set up by `mmap`, and `ops` are suitable for it.
    pub(super) unsafe fn new(
        vma: *mut bindings::vm_area_struct,
        ops: &'static bindings::vm_operations_struct,
    ) -> Self {
        Self {
            vma,
            ops,
            _during: PhantomData,
        }
    }

    fn area(&self) -> &VmaNew {
        // SAFETY: By the requirements of `new`.
        unsafe { VmaNew::from_raw(self.vma) }
    }

    /// Returns the first page, as a page offset in the file.
    pub(crate) fn first(&self) -> u64 {
        // SAFETY: By the requirements of `new`.
        unsafe { (*self.vma).vm_pgoff as u64 }
    }

    /// Returns the number of pages.
    pub(crate) fn count(&self) -> u64 {
        ((self.area().end() - self.area().start()) / PAGE_SIZE) as u64
    }

    /// Completes a mapping of page frames, for [`Fault::insert`] (`VM_PFNMAP`: a `struct page` of a
    /// frame is ignored). It cannot be executed, nor, unless `writable`, written.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the mapping is private; `EACCES` if it asks for write access without `writable`;
    /// `EPERM` if it asks for execution.
    pub(crate) fn accept(&self, writable: bool, cache: Cache) -> Result {
        let area = self.area();
        // SAFETY: By the requirements of `new`.
        if !unsafe { ext::weft_vma_shared(self.vma) } {
            return Err(EINVAL);
        }
        if !writable {
            area.try_clear_maywrite().map_err(|_| EACCES)?;
        }
        area.try_clear_mayexec().map_err(|_| EPERM)?;
        area.set_io();
        area.set_dontexpand();
        area.set_dontdump();
        // SAFETY: The mapping is not linked yet. Only `vmf_insert_pfn_prot` fills it.
        unsafe {
            ext::weft_vm_flags_set(self.vma, flags::PFNMAP as c_ulong);
            let prot = &raw mut (*self.vma).vm_page_prot;
            match cache {
                Cache::Normal => {}
                Cache::WriteCombining => *prot = bindings::pgprot_writecombine(*prot),
                Cache::Uncached => *prot = ext::weft_pgprot_noncached(*prot),
            }
            (*self.vma).vm_ops = self.ops;
        }
        Ok(())
    }

    /// Completes a mapping of `pages`, which holds references to them, and to what they are charged as.
    ///
    /// Wraps `vm_insert_page()`, `include/linux/mm.h`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the mapping is private, or if `pages` has another number of pages than the mapping;
    /// `EPERM` if it asks for execution; else what `vm_insert_page()` returns.
    pub(super) fn fill(&self, pages: &[SharedPage], locked: &Arc<Locked>) -> Result {
        let area = self.area();
        // SAFETY: By the requirements of `new`.
        if !unsafe { ext::weft_vma_shared(self.vma) } || pages.len() as u64 != self.count() {
            return Err(EINVAL);
        }
        area.try_clear_mayexec().map_err(|_| EPERM)?;
        area.set_dontexpand();
        area.set_dontdump();
        let mixed = area.set_mixedmap();
        let mut address = area.start();
        for page in pages {
            mixed.vm_insert_page(address, &page.page)?;
            address += PAGE_SIZE;
        }
        // SAFETY: The mapping is not linked yet. `close` drops the reference.
        unsafe {
            (*self.vma).vm_private_data = Arc::into_raw(locked.clone()).cast_mut().cast();
            (*self.vma).vm_ops = self.ops;
        }
        Ok(())
    }
}

/// Returns the reference that a mapping of [`NewVma::fill`] holds, which stays the mapping's.
///
/// # Safety
///
/// `vma` was made by [`NewVma::accept`] or [`NewVma::fill`], or copied from such a mapping.
unsafe fn locked_of(vma: *mut bindings::vm_area_struct) -> Option<ManuallyDrop<Arc<Locked>>> {
    // SAFETY: By the requirements it is null, or a reference that `fill` or `open` has put there.
    unsafe {
        let held = (*vma).vm_private_data.cast::<Locked>().cast_const();
        (!held.is_null()).then(|| ManuallyDrop::new(Arc::from_raw(held)))
    }
}

/// The `open` of mappings: one was copied, or split.
pub(super) extern "C" fn open(vma: *mut bindings::vm_area_struct) {
    // SAFETY: Called for mappings with the operations that `NewVma::new` was given. The copy gets a
    // reference of its own.
    if let Some(held) = unsafe { locked_of(vma) } {
        core::mem::forget(Arc::clone(&held));
    }
}

/// The `close` of mappings: one is gone.
pub(super) extern "C" fn close(vma: *mut bindings::vm_area_struct) {
    // SAFETY: As above; the mapping is not used any more.
    if let Some(held) = unsafe { locked_of(vma) } {
        drop(ManuallyDrop::into_inner(held));
    }
}

/// The result of a fault handler (`vm_fault_t`).
#[must_use]
pub(crate) struct Outcome(bindings::vm_fault_t);

impl Outcome {
    /// Returns the value for the memory manager.
    pub(super) fn into_raw(self) -> bindings::vm_fault_t {
        self.0
    }
}

/// An access of a user to a page that is not in the mapping (`struct vm_fault`).
pub(crate) struct Fault<'a> {
    vmf: *mut bindings::vm_fault,
    _during: PhantomData<&'a ()>,
}

impl Fault<'_> {
    /// # Safety
    ///
    /// `vmf` is a fault that is being handled, in a mapping made by [`NewVma::accept`] or
    /// [`NewVma::fill`].
    pub(super) unsafe fn new(vmf: *mut bindings::vm_fault) -> Self {
        Self {
            vmf,
            _during: PhantomData,
        }
    }

    /// Returns the page, as a page offset in the file.
    pub(crate) fn page(&self) -> u64 {
        // SAFETY: By the requirements of `new`.
        unsafe { (*self.vmf).__bindgen_anon_1.pgoff as u64 }
    }

    /// Inserts page frame `pfn`. It must be zapped before it is freed. Refuses the fault if the mapping
    /// was made by [`NewVma::fill`].
    ///
    /// Wraps `vmf_insert_pfn_prot()`, `include/linux/mm.h`.
    pub(crate) fn insert(&self, pfn: usize) -> Outcome {
        // SAFETY: By the requirements of `new` the mapping is a VM_PFNMAP one, unless `fill` has made
        // it; that is refused.
        Outcome(unsafe {
            let fault = &(*self.vmf).__bindgen_anon_1;
            if VmaRef::from_raw(fault.vma).flags() & flags::PFNMAP == 0 {
                return self.refuse();
            }
            let prot = (*fault.vma).vm_page_prot;
            bindings::vmf_insert_pfn_prot(fault.vma, fault.address, pfn, prot)
        })
    }

    /// Delays the fault: the task sleeps for 1 ms and faults again, unless a fatal signal ends it. For a page
    /// that cannot be inserted now. The last thing that a handler does: the mapping may be gone when this
    /// returns. Sleeps.
    ///
    /// An access of the kernel for a system call of the task ends with `EFAULT` if the task is killed: the
    /// architecture's handler looks for the signal before it repeats a fault (`fault_signal_pending()`,
    /// `include/linux/sched/signal.h`), but not after `VM_FAULT_NOPAGE`. During the sleep `mmap_lock` is not
    /// held, so that other threads of the process can change its mappings.
    pub(crate) fn later(&self) -> Outcome {
        // SAFETY: By the requirements of `new`.
        let (flags, vma) = unsafe { ((*self.vmf).flags, (*self.vmf).__bindgen_anon_1.vma) };
        let has = |flag| flags & flag != 0;
        if !has(bindings::fault_flag_FAULT_FLAG_ALLOW_RETRY)
            || has(bindings::fault_flag_FAULT_FLAG_VMA_LOCK)
        {
            // The lock stays held, and the caller may look for no signal.
            // SAFETY: No requirements.
            if unsafe { ext::weft_is_killed() } {
                return self.refuse();
            }
            fsleep(LATER);
            return Outcome(bindings::vm_fault_reason_VM_FAULT_NOPAGE);
        }
        if !has(bindings::fault_flag_FAULT_FLAG_RETRY_NOWAIT) {
            // SAFETY: The mapping has a file, which is held from here on, and `mmap_lock` is held for
            // reading: `handle_mm_fault()` was called with it, as the flag VMA_LOCK is not set. A
            // handler that returns VM_FAULT_RETRY has to release it.
            let file = unsafe {
                let file = bindings::get_file((*vma).vm_file);
                bindings::mmap_read_unlock((*vma).vm_mm);
                file
            };
            fsleep(LATER);
            // SAFETY: Held above. If this is the last reference, the file is released when the task returns
            // to user mode, or by a work item later on: until this module's code has returned, the file,
            // and with it the module, are there.
            unsafe { bindings::fput(file) };
        }
        Outcome(bindings::vm_fault_reason_VM_FAULT_RETRY)
    }

    /// Refuses the fault: there is no such page. The task gets `SIGBUS`.
    pub(crate) fn refuse(&self) -> Outcome {
        Outcome(bindings::vm_fault_reason_VM_FAULT_SIGBUS)
    }
}

/// A page of the kernel that users map.
///
/// # Invariants
///
/// `base` is the address of `page` in the kernel's direct mapping.
pub(crate) struct SharedPage {
    page: Page,
    base: NonNull<u8>,
}

// SAFETY: A page, which belongs to no thread.
unsafe impl Send for SharedPage {}
// SAFETY: Shared references access the page by volatile and atomic operations only.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Allocates a page of zeroes, charged to the caller's memory cgroup. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        let page = Page::alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO)?;
        // SAFETY: The page is there, and is not high memory.
        let base = unsafe { ext::weft_page_address(page.as_ptr()) };
        // INVARIANT: As above.
        Ok(Self {
            page,
            base: NonNull::new(base.cast()).ok_or(ENOMEM)?,
        })
    }

    /// Returns the page frame number.
    pub(crate) fn pfn(&self) -> usize {
        // SAFETY: The page is ours.
        unsafe { ext::weft_page_pfn(self.page.as_ptr()) }
    }

    /// Returns the address of the page, which is valid for volatile accesses while the page is there.
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the 64-bit word at byte `off`, which a user may write at any time. `EINVAL` if `off` is
    /// outside or not aligned.
    pub(crate) fn read64(&self, off: usize) -> Result<u64> {
        if off % size_of::<u64>() != 0 || off >= PAGE_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: Inside the page, and aligned.
        Ok(unsafe { self.base().add(off).cast::<u64>().read_volatile() })
    }

    /// Writes the 64-bit word at byte `off`, which a user may read at any time. `EINVAL` as
    /// [`SharedPage::read64`].
    pub(crate) fn write64(&self, off: usize, value: u64) -> Result {
        if off % size_of::<u64>() != 0 || off >= PAGE_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: Inside the page, and aligned.
        unsafe { self.base().add(off).cast::<u64>().write_volatile(value) };
        Ok(())
    }

    /// Replaces the 64-bit word at byte `off` by 0 and returns what it was; atomic for users, too.
    /// `EINVAL` as [`SharedPage::read64`].
    ///
    /// Wraps `xchg()`, `include/linux/atomic.h`.
    pub(crate) fn take64(&self, off: usize) -> Result<u64> {
        if off % size_of::<u64>() != 0 || off >= PAGE_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: Inside the page, and aligned.
        Ok(unsafe { ext::weft_exchange(self.base().add(off).cast(), 0) })
    }

    /// Sets `bits` in the 64-bit word at byte `off`; atomic for users, too.
    ///
    /// Wraps `cmpxchg64()`, `include/linux/atomic.h`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a user program changes the word during each of 64 attempts; `EINVAL` as
    /// [`SharedPage::read64`].
    pub(crate) fn give64(&self, off: usize, bits: u64) -> Result {
        const TRIES: usize = 64;
        for _ in 0..TRIES {
            let old = self.read64(off)?;
            // SAFETY: Inside the page, and aligned: it was read.
            let was =
                unsafe { ext::weft_compare_swap(self.base().add(off).cast(), old, old | bits) };
            if was == old {
                return Ok(());
            }
        }
        Err(EBUSY)
    }

    /// Returns all bytes, while no user has mapped the page.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `&mut self`: no user has the page yet, as that takes its frame number from a shared
        // reference that outlives the mapping.
        unsafe { core::slice::from_raw_parts_mut(self.base(), PAGE_SIZE) }
    }
}
