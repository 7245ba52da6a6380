// SPDX-License-Identifier: GPL-2.0

//! Mappings of pages that can be taken away, filled by page faults.
//!
//! A mapping that is filled in `mmap` itself is linked to the address space only after `mmap` has
//! returned, so that a [`Mapping::zap`] in between would miss it. A fault comes later: code that takes
//! a page away first sees to it that faults do not give it out any more, then zaps.
//!
//! Every inode of a device node has an address space of its own; that of an anonymous inode collects
//! the mappings of all of them.

use crate::sys::{ext, iomap::Cache};
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::from_err_ptr,
    mm::virt::{flags, VmaNew, VmaRef},
    page::{Page, PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    time::{delay::fsleep, Delta},
};

/// How long who touches a page waits that cannot be there just now.
const LATER: Delta = Delta::from_millis(1);

/// The address space in which all mappings of a device are.
pub(crate) struct Mapping(*mut bindings::inode);

// SAFETY: A reference to an inode, of which only the address space is used, which has its locks.
unsafe impl Send for Mapping {}
// SAFETY: As above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: No requirements.
        from_err_ptr(unsafe { ext::weft_mapping_inode() }).map(Self)
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::address_space {
        // SAFETY: The inode is held.
        unsafe { (*self.0).i_mapping }
    }

    /// Takes pages `first` to `first + count`, counted in file offsets, out of every mapping. They
    /// fault again when they are touched. When this returns, no store to them is on its way in a
    /// CPU. Sleeps.
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

/// A mapping that is being made.
pub(crate) struct NewVma<'a> {
    vma: *mut bindings::vm_area_struct,
    ops: &'static bindings::vm_operations_struct,
    _during: PhantomData<&'a ()>,
}

impl<'a> NewVma<'a> {
    /// # Safety
    ///
    /// During `'a` `vma` is being set up by `mmap`, and `ops` do for it.
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

    /// The first page, as an offset in the file.
    pub(crate) fn first(&self) -> u64 {
        // SAFETY: By the requirements of `new`.
        unsafe { (*self.vma).vm_pgoff as u64 }
    }

    /// How many pages.
    pub(crate) fn count(&self) -> u64 {
        ((self.area().end() - self.area().start()) / PAGE_SIZE) as u64
    }

    /// Completes a mapping of pages that are there without `struct page`, or as if: `EINVAL` if it
    /// is a private one, `EACCES` if the user wants to write and may not, `EPERM` if to execute.
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

    /// Completes a mapping of `pages`, one for each of its own, which it holds: `EINVAL` if it is a
    /// private one, `EPERM` if the user wants to execute.
    pub(super) fn fill(&self, pages: &[SharedPage]) -> Result {
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
            mixed.vm_insert_page(address, &page.0)?;
            address += PAGE_SIZE;
        }
        // SAFETY: The mapping is not linked yet.
        unsafe { (*self.vma).vm_ops = self.ops };
        Ok(())
    }
}

/// What became of a fault.
#[must_use]
pub(crate) struct Outcome(bindings::vm_fault_t);

impl Outcome {
    pub(super) fn into_raw(self) -> bindings::vm_fault_t {
        self.0
    }
}

/// A page that a user has touched, and that is not there.
pub(crate) struct Fault<'a> {
    vmf: *mut bindings::vm_fault,
    _during: PhantomData<&'a ()>,
}

impl Fault<'_> {
    /// # Safety
    ///
    /// `vmf` is a fault that is being handled, of a mapping made by [`NewVma::accept`] or
    /// [`NewVma::fill`].
    pub(super) unsafe fn new(vmf: *mut bindings::vm_fault) -> Self {
        Self {
            vmf,
            _during: PhantomData,
        }
    }

    /// Which page, as an offset in the file.
    pub(crate) fn page(&self) -> u64 {
        // SAFETY: By the requirements of `new`.
        unsafe { (*self.vmf).__bindgen_anon_1.pgoff as u64 }
    }

    /// Puts the page with this frame number there. It has to be zapped before it is freed.
    pub(crate) fn insert(&self, pfn: usize) -> Outcome {
        // SAFETY: By the requirements of `new`, the mapping is a VM_PFNMAP one, unless its pages are
        // those of `fill`, whose owners insert none: that is refused.
        Outcome(unsafe {
            let fault = &(*self.vmf).__bindgen_anon_1;
            if VmaRef::from_raw(fault.vma).flags() & flags::PFNMAP == 0 {
                return self.refuse();
            }
            let prot = (*fault.vma).vm_page_prot;
            bindings::vmf_insert_pfn_prot(fault.vma, fault.address, pfn, prot)
        })
    }

    /// It cannot be there just now: the thread waits a moment, and touches it again, unless it is
    /// to die. Sleeps.
    pub(crate) fn later(&self) -> Outcome {
        fsleep(LATER);
        Outcome(bindings::vm_fault_reason_VM_FAULT_NOPAGE)
    }

    /// There is no such page.
    pub(crate) fn refuse(&self) -> Outcome {
        Outcome(bindings::vm_fault_reason_VM_FAULT_SIGBUS)
    }
}

/// A page of the kernel that a user maps.
pub(crate) struct SharedPage(Page);

impl SharedPage {
    /// A page of zeroes.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Page::alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO)?))
    }

    pub(crate) fn pfn(&self) -> usize {
        // SAFETY: The page is ours.
        unsafe { ext::weft_page_pfn(self.0.as_ptr()) }
    }

    fn base(&self) -> *mut u8 {
        // SAFETY: The page is ours, and in the kernel's direct mapping: it is no high memory.
        unsafe { ext::weft_page_address(self.0.as_ptr()) }.cast()
    }

    /// The 64-bit word at `off`, which a user may write at any time.
    pub(crate) fn read64(&self, off: usize) -> Result<u64> {
        if off % size_of::<u64>() != 0 || off >= PAGE_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: Inside the page, and aligned.
        Ok(unsafe { self.base().add(off).cast::<u64>().read_volatile() })
    }

    /// Copies `to.len()` bytes from `off` on, word by word, each of which a user may write at any
    /// time. `EINVAL`: they are not all inside, or not whole aligned words.
    pub(crate) fn copy_in(&self, off: usize, to: &mut [u8]) -> Result {
        const WORD: usize = size_of::<u64>();
        let end = off.checked_add(to.len()).filter(|end| *end <= PAGE_SIZE);
        if off % WORD != 0 || to.len() % WORD != 0 || end.is_none() {
            return Err(EINVAL);
        }
        // SAFETY: Inside the page, or its end.
        let from = unsafe { self.base().add(off) }.cast::<u64>();
        for (n, part) in to.chunks_exact_mut(WORD).enumerate() {
            // SAFETY: Inside the page, as was checked for all of them, and aligned.
            let word = unsafe { from.add(n).read_volatile() };
            part.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(())
    }

    /// Writes the 64-bit word at `off`, which a user may read at any time.
    pub(crate) fn write64(&self, off: usize, value: u64) -> Result {
        if off % size_of::<u64>() != 0 || off >= PAGE_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: Inside the page, and aligned.
        unsafe { self.base().add(off).cast::<u64>().write_volatile(value) };
        Ok(())
    }

    /// Takes the 64-bit word at `off`, atomically for users, too, and leaves 0.
    pub(crate) fn take64(&self, off: usize) -> Result<u64> {
        if off % size_of::<u64>() != 0 || off >= PAGE_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: Inside the page, and aligned.
        Ok(unsafe { ext::weft_exchange(self.base().add(off).cast(), 0) })
    }

    /// Sets bits of the 64-bit word at `off`, atomically for users, too. A user who writes to it all
    /// the time may keep it from that.
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

    /// All bytes, while the page is not mapped.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `&mut self`: no user has the page yet, as that takes its frame number from a shared
        // reference that outlives the mapping.
        unsafe { core::slice::from_raw_parts_mut(self.base(), PAGE_SIZE) }
    }
}
