// SPDX-License-Identifier: GPL-2.0

//! The physical address table (PAT) of pinned memory: where CPUs and the device find its pages.
//!
//! A page of the table can be larger than one of memory, where that is in a row. Users and others
//! write the memory at any time: it is never behind a reference.

use crate::sys::{area::Area, bytes, ext, pin::Pinned, raw_dev};
use kernel::{
    new_mutex,
    page::{PAGE_SHIFT, PAGE_SIZE},
    pci,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// The largest page, as a power of two of small pages: 2 MiB.
pub(crate) const MAX_ORDER: u32 = 9;

// Pinned pages are in the kernel's mapping of all memory: there is no high memory.
const _: () = assert!(usize::BITS == 64);

/// An entry. The addresses are where the page would begin, were all of it pinned.
struct Page {
    cpu: *mut u8,
    dma: Atomic<u64>,
}

/// The table. Sleeps when it is dropped.
///
/// # Invariants
///
/// Byte `i` of the memory, counted from the beginning of the first page, is at `i % size` of page
/// `i / size`, for all `i` from `first` to `first + pinned.bytes()`; all pages are mapped for the
/// device of `mapped`, if there is one, which is bound.
#[pin_data(PinnedDrop)]
pub(crate) struct Pat {
    #[pin]
    mapped: Mutex<Option<ARef<pci::Device>>>,
    pages: KVVec<Page>,
    shift: u32,
    /// Where the first byte is in the first page.
    first: usize,
    pinned: Pinned,
}

// SAFETY: The addresses belong to no thread.
unsafe impl Send for Pat {}
// SAFETY: Volatile accesses only; races are the users' business.
unsafe impl Sync for Pat {}

impl Pat {
    /// The most that a page of a table for `dev`, which is bound, can have, as a power of two of small pages.
    pub(crate) fn max_order(dev: &pci::Device) -> u32 {
        // SAFETY: The device is bound.
        let most = unsafe { ext::weft_dma_max_mapping(raw_dev(dev)) } >> PAGE_SHIFT;
        most.checked_ilog2().unwrap_or(0).min(MAX_ORDER)
    }

    /// Maps `pinned` for `dev`, which is bound until [`Pat::unmap`], with pages of `1 << order` small
    /// ones, which is to be at most what `proto::tpt::page_order` says of its runs.
    pub(crate) fn new(dev: &pci::Device, pinned: Pinned, order: u32) -> Result<Arc<Self>> {
        let order = order.min(MAX_ORDER);
        let shift = PAGE_SHIFT as u32 + order;
        let size = 1usize << shift;
        let small = 1u64 << order;
        let begin = pinned.runs().next().map_or(0, |(first, _)| first % small);
        let first = begin as usize * PAGE_SIZE + pinned.offset();
        let count = (first + pinned.bytes()).div_ceil(size);
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        Self::walk(&pinned, shift, |inside, phys, _| {
            // SAFETY: An address is computed, of memory that is in the mapping of all memory.
            let cpu = unsafe { ext::weft_phys_to_virt(phys) }.cast::<u8>();
            let page = Page {
                cpu: cpu.wrapping_sub(inside as usize),
                dma: Atomic::new(0),
            };
            // There is room for all pages.
            Ok(pages.push(page, GFP_KERNEL_ACCOUNT)?)
        })?;
        // INVARIANT: Mapped for no device yet.
        let table = Arc::pin_init(
            pin_init!(Self {
                mapped <- new_mutex!(None, "weft pat"),
                pages,
                shift,
                first,
                pinned,
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        table.map(dev)?;
        Ok(table)
    }

    /// Calls `f` for each page: what of it is not pinned before what is, where that begins in physical
    /// memory, and how much it is.
    fn walk(pinned: &Pinned, shift: u32, mut f: impl FnMut(u64, u64, usize) -> Result) -> Result {
        let small = 1u64 << (shift - PAGE_SHIFT as u32);
        let begin = pinned.runs().next().map_or(0, |(first, _)| first % small);
        let mut at = begin;
        for (mut frame, mut left) in pinned.runs() {
            while left != 0 {
                let inside = at % small;
                if inside != 0 && at != begin {
                    // The pages were to be smaller.
                    return Err(EINVAL);
                }
                let count = left.min(small - inside);
                f(
                    inside << PAGE_SHIFT,
                    frame << PAGE_SHIFT,
                    (count << PAGE_SHIFT) as usize,
                )?;
                at += count;
                frame += count;
                left -= count;
            }
        }
        Ok(())
    }

    /// Maps it for `dev`, which is bound until [`Pat::unmap`], if it is not mapped yet. `EBUSY`: it is,
    /// for another one.
    pub(crate) fn map(&self, dev: &pci::Device) -> Result {
        let mut mapped = self.mapped.lock();
        if let Some(before) = &*mapped {
            let same = core::ptr::eq(raw_dev(before), raw_dev(dev));
            return if same { Ok(()) } else { Err(EBUSY) };
        }
        let write = self.pinned.is_writable();
        let mut count = 0;
        let done = Self::walk(&self.pinned, self.shift, |inside, phys, bytes| {
            let page = self.pages.get(count).ok_or(EINVAL)?;
            let mut dma = 0;
            // SAFETY: The device is bound, and the pages are pinned.
            kernel::error::to_result(unsafe {
                ext::weft_dma_map(raw_dev(dev), phys, bytes, write, &mut dma)
            })?;
            page.dma.store(dma.wrapping_sub(inside), Relaxed);
            count += 1;
            Ok(())
        });
        if done.is_err() {
            self.undo(dev, count);
            return done;
        }
        // INVARIANT: All of them, above.
        *mapped = Some(dev.into());
        Ok(())
    }

    /// Unmaps the first `count` pages, which are mapped for `dev`.
    fn undo(&self, dev: &pci::Device, count: usize) {
        for (index, page) in self.pages.iter().enumerate().take(count) {
            let (from, bytes) = self.pinned_part(index);
            let dma = page.dma.load(Relaxed).wrapping_add(from as u64);
            // SAFETY: Mapped by `map`, with these bytes; the device is bound.
            unsafe { ext::weft_dma_unmap(raw_dev(dev), dma, bytes, self.pinned.is_writable()) };
        }
    }

    /// No device reaches it from here on, until [`Pat::map`]. No address of it may be in use.
    pub(crate) fn unmap(&self) {
        let mut mapped = self.mapped.lock();
        if let Some(dev) = mapped.take() {
            self.undo(&dev, self.pages.len());
        }
    }

    /// What of page `index` is pinned: from which byte on, and how many.
    fn pinned_part(&self, index: usize) -> (usize, usize) {
        let size = 1usize << self.shift;
        let first = self.first & !(PAGE_SIZE - 1);
        let end = (self.first + self.pinned.bytes()).next_multiple_of(PAGE_SIZE);
        let begin = index * size;
        let from = first.max(begin);
        (from - begin, end.min(begin + size).saturating_sub(from))
    }

    /// Size of a page, as a power of two.
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// Where the first byte is in the first page.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Page `index`, if the `bytes` bytes from `offset` of it are memory of the user.
    fn page(&self, index: u32, offset: usize, bytes: usize) -> Result<&Page> {
        let page = self.pages.get(index as usize).ok_or(EINVAL)?;
        let size = 1usize << self.shift;
        if offset > size || bytes > size - offset {
            return Err(EINVAL);
        }
        // No overflow: there are so many pages.
        let at = index as usize * size + offset;
        match at.checked_sub(self.first) {
            Some(at) if at + bytes <= self.pinned.bytes() => Ok(page),
            _ => Err(EINVAL),
        }
    }

    /// The CPU's address of `bytes` bytes.
    fn cpu(&self, index: u32, offset: usize, bytes: usize) -> Result<*mut u8> {
        Ok(self.page(index, offset, bytes)?.cpu.wrapping_add(offset))
    }

    /// As [`Pat::cpu`], to be written: `EACCES` if it may not.
    fn cpu_mut(&self, index: u32, offset: usize, bytes: usize) -> Result<*mut u8> {
        if !self.pinned.is_writable() {
            return Err(EACCES);
        }
        self.cpu(index, offset, bytes)
    }

    /// The device's address of `bytes` bytes.
    pub(crate) fn dma(&self, index: u32, offset: usize, bytes: usize) -> Result<u64> {
        let dma = self.page(index, offset, bytes)?.dma.load(Relaxed);
        Ok(dma.wrapping_add(offset as u64))
    }

    pub(crate) fn read(&self, index: u32, offset: usize, to: &mut [u8]) -> Result {
        let from = self.cpu(index, offset, to.len())?;
        // SAFETY: Pinned memory, of `to.len()` bytes; no reference leads there, hence nor `to`.
        unsafe { bytes::copy(to.as_mut_ptr(), from, to.len()) };
        Ok(())
    }

    pub(crate) fn write(&self, index: u32, offset: usize, from: &[u8]) -> Result {
        let to = self.cpu_mut(index, offset, from.len())?;
        // SAFETY: As above.
        unsafe { bytes::copy(to, from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Copies from `at` of `area`.
    pub(crate) fn copy_in(
        &self,
        index: u32,
        offset: usize,
        area: &Area,
        at: usize,
        bytes: usize,
    ) -> Result {
        let (to, from) = (self.cpu_mut(index, offset, bytes)?, area.at(at, bytes)?);
        // SAFETY: Both are valid for so many bytes. Memory of users is none of an area.
        unsafe { bytes::copy(to, from, bytes) };
        Ok(())
    }

    /// Copies to `at` of `area`.
    pub(crate) fn copy_out(
        &self,
        index: u32,
        offset: usize,
        area: &Area,
        at: usize,
        bytes: usize,
    ) -> Result {
        let (from, to) = (self.cpu(index, offset, bytes)?, area.at(at, bytes)?);
        // SAFETY: As above.
        unsafe { bytes::copy(to, from, bytes) };
        Ok(())
    }

    /// The 8 bytes at `offset`, aligned and to be written.
    fn word(&self, index: u32, offset: usize) -> Result<*mut c_void> {
        let word = self.cpu_mut(index, offset, size_of::<u64>())?;
        if word.addr() % size_of::<u64>() != 0 {
            return Err(EINVAL);
        }
        Ok(word.cast())
    }

    /// Adds `value` to 8 aligned bytes, atomically for all CPUs, and returns what was there.
    pub(crate) fn fetch_add(&self, index: u32, offset: usize, value: u64) -> Result<u64> {
        let word = self.word(index, offset)?;
        // SAFETY: Pinned memory, 8 aligned bytes.
        Ok(unsafe { ext::weft_fetch_add(word, value) })
    }

    /// Stores `new` if `old` is there, likewise, and returns what was there.
    pub(crate) fn compare_swap(
        &self,
        index: u32,
        offset: usize,
        old: u64,
        new: u64,
    ) -> Result<u64> {
        let word = self.word(index, offset)?;
        // SAFETY: As above.
        Ok(unsafe { ext::weft_compare_swap(word, old, new) })
    }
}

#[pinned_drop]
impl PinnedDrop for Pat {
    fn drop(self: Pin<&mut Self>) {
        self.unmap();
    }
}
