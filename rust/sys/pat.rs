// SPDX-License-Identifier: GPL-2.0

//! The physical address table (PAT) of pinned memory: the addresses of its pages for CPUs and the
//! device.
//!
//! A page of the table can be larger than a page of memory, where memory is contiguous. Users, the
//! device and peers write the memory at any time: it is never behind a reference.

use crate::sys::{area::Area, bytes, ext, pin::Pinned, raw_dev};
use kernel::{
    device::Device,
    new_mutex,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// The largest page of a table, as a power of two of small pages: 2 MiB.
pub(crate) const MAX_ORDER: u32 = 9;

// Pinned pages are in the kernel's mapping of all memory: there is no high memory.
const _: () = assert!(usize::BITS == 64);

/// An entry: the addresses of the beginning of a page, which need not be pinned itself.
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
    mapped: Mutex<Option<ARef<Device>>>,
    pages: KVVec<Page>,
    shift: u32,
    /// Where the first byte is in the first page.
    first: usize,
    pinned: Pinned,
}

// SAFETY: The addresses belong to no thread.
unsafe impl Send for Pat {}
// SAFETY: Volatile accesses only; races are left to the users of the memory.
unsafe impl Sync for Pat {}

impl Pat {
    /// Returns the maximum size of a page of a table for `dev`, as a power of two of small pages. `dev`
    /// is bound.
    ///
    /// Wraps `dma_max_mapping_size()`, `include/linux/dma-mapping.h`.
    pub(crate) fn max_order(dev: &Device) -> u32 {
        // SAFETY: The device is bound.
        let most = unsafe { ext::weft_dma_max_mapping(raw_dev(dev)) } >> PAGE_SHIFT;
        most.checked_ilog2().unwrap_or(0).min(MAX_ORDER)
    }

    /// Makes a table for `pinned` with pages of `1 << order` small pages, and maps it for `dev`, which
    /// is bound until [`Pat::unmap`]. `order` is at most what `proto::tpt::page_order` returns for the
    /// runs of `pinned`.
    ///
    /// Wraps `dma_map_page_attrs()`, `include/linux/dma-mapping.h`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `order` is too large; `ENOMEM` if there is no memory, or if the memory cannot be
    /// mapped for DMA.
    pub(crate) fn new(dev: &Device, pinned: Pinned, order: u32) -> Result<Arc<Self>> {
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

    /// Calls `f` for each page of the table, with the number of bytes before its pinned part, the
    /// physical address of the pinned part, and its number of bytes.
    ///
    /// `EINVAL` if the pages are too large for the runs; else the first error of `f`.
    fn walk(pinned: &Pinned, shift: u32, mut f: impl FnMut(u64, u64, usize) -> Result) -> Result {
        let small = 1u64 << (shift - PAGE_SHIFT as u32);
        let begin = pinned.runs().next().map_or(0, |(first, _)| first % small);
        let mut at = begin;
        for (mut frame, mut left) in pinned.runs() {
            while left != 0 {
                let inside = at % small;
                if inside != 0 && at != begin {
                    // The pages are too large: the memory is not contiguous inside of one.
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

    /// Maps the memory for `dev`, which is bound until [`Pat::unmap`], unless it is mapped for it
    /// already.
    ///
    /// Wraps `dma_map_page_attrs()`, `include/linux/dma-mapping.h`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is mapped for another device; `ENOMEM` if it cannot be mapped for DMA.
    pub(crate) fn map(&self, dev: &Device) -> Result {
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
        // INVARIANT: All pages were mapped above.
        *mapped = Some(dev.into());
        Ok(())
    }

    /// Unmaps the first `count` pages, which are mapped for `dev`.
    fn undo(&self, dev: &Device, count: usize) {
        for (index, page) in self.pages.iter().enumerate().take(count) {
            let (from, bytes) = self.pinned_part(index);
            let dma = page.dma.load(Relaxed).wrapping_add(from as u64);
            // SAFETY: Mapped by `map`, with these bytes; the device is bound.
            unsafe { ext::weft_dma_unmap(raw_dev(dev), dma, bytes, self.pinned.is_writable()) };
        }
    }

    /// Unmaps the memory: no device reaches it until [`Pat::map`]. No address that [`Pat::dma`] returned
    /// may be in use any more.
    ///
    /// Wraps `dma_unmap_page_attrs()`, `include/linux/dma-mapping.h`. Sleeps.
    pub(crate) fn unmap(&self) {
        let mut mapped = self.mapped.lock();
        if let Some(dev) = mapped.take() {
            self.undo(&dev, self.pages.len());
        }
    }

    /// Returns which part of page `index` is pinned: the first byte, and the number of bytes.
    fn pinned_part(&self, index: usize) -> (usize, usize) {
        let size = 1usize << self.shift;
        let first = self.first & !(PAGE_SIZE - 1);
        let end = (self.first + self.pinned.bytes()).next_multiple_of(PAGE_SIZE);
        let begin = index * size;
        let from = first.max(begin);
        (from - begin, end.min(begin + size).saturating_sub(from))
    }

    /// Returns the size of a page in bytes, as a power of two.
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// Returns the offset of the first byte in the first page.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Returns page `index`. `EINVAL` if not all `bytes` bytes from its byte `offset` on are memory of
    /// the user.
    #[inline]
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

    /// Returns the CPU's address of `bytes` bytes. `EINVAL` as [`Pat::page`].
    fn cpu(&self, index: u32, offset: usize, bytes: usize) -> Result<*mut u8> {
        Ok(self.page(index, offset, bytes)?.cpu.wrapping_add(offset))
    }

    /// As [`Pat::cpu`], for memory that is to be written. `EACCES` if it is not pinned for writing.
    fn cpu_mut(&self, index: u32, offset: usize, bytes: usize) -> Result<*mut u8> {
        if !self.pinned.is_writable() {
            return Err(EACCES);
        }
        self.cpu(index, offset, bytes)
    }

    /// Returns the device's address of `bytes` bytes from byte `offset` of page `index` on. `EINVAL` if
    /// they are not all memory of the user.
    pub(crate) fn dma(&self, index: u32, offset: usize, bytes: usize) -> Result<u64> {
        let dma = self.page(index, offset, bytes)?.dma.load(Relaxed);
        Ok(dma.wrapping_add(offset as u64))
    }

    /// Copies `to.len()` bytes from byte `offset` of page `index` on. `EINVAL` if they are not all
    /// memory of the user.
    pub(crate) fn read(&self, index: u32, offset: usize, to: &mut [u8]) -> Result {
        let from = self.cpu(index, offset, to.len())?;
        // SAFETY: Pinned memory, of `to.len()` bytes; no reference leads there, hence nor `to`.
        unsafe { bytes::copy(to.as_mut_ptr(), from, to.len()) };
        Ok(())
    }

    /// Copies `from` to byte `offset` of page `index`. `EINVAL` as [`Pat::read`]; `EACCES` if the memory
    /// is not pinned for writing.
    pub(crate) fn write(&self, index: u32, offset: usize, from: &[u8]) -> Result {
        let to = self.cpu_mut(index, offset, from.len())?;
        // SAFETY: As above.
        unsafe { bytes::copy(to, from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Copies `bytes` bytes from byte `at` of `area`. Errors as [`Pat::write`]; `EINVAL`, too, if they
    /// are not all inside the area.
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

    /// Copies `bytes` bytes to byte `at` of `area`. `EINVAL` as [`Pat::read`], or if they are not all
    /// inside the area.
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

    /// Returns the CPU's address of the 8 bytes at `offset`. `EINVAL` if they are not aligned or not all
    /// memory of the user; `EACCES` if it is not pinned for writing.
    fn word(&self, index: u32, offset: usize) -> Result<*mut c_void> {
        let word = self.cpu_mut(index, offset, size_of::<u64>())?;
        if word.addr() % size_of::<u64>() != 0 {
            return Err(EINVAL);
        }
        Ok(word.cast())
    }

    /// Adds `value` to the 8 aligned bytes at `offset`, atomically for all CPUs, and returns the
    /// previous value. `EINVAL` if they are not aligned or not all memory of the user; `EACCES` if it is
    /// not pinned for writing.
    ///
    /// Wraps `atomic64_fetch_add()`, `include/linux/atomic.h`.
    pub(crate) fn fetch_add(&self, index: u32, offset: usize, value: u64) -> Result<u64> {
        let word = self.word(index, offset)?;
        // SAFETY: Pinned memory, 8 aligned bytes.
        Ok(unsafe { ext::weft_fetch_add(word, value) })
    }

    /// Stores `new` in the 8 aligned bytes at `offset` if they contain `old`, atomically for all CPUs,
    /// and returns the previous value. Errors as [`Pat::fetch_add`].
    ///
    /// Wraps `cmpxchg64()`, `include/linux/atomic.h`.
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
