// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory that others write or read at the same time: the only file that touches it.
//!
//! There is never a reference to such memory, only volatile accesses of whole words at offsets that
//! are checked here. Fences are those of the bridge, not of the language: a window is mapped write
//! combining, which Rust's atomics know nothing of.

use crate::entry::Entry;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{self, AtomicU64, Ordering};
use weft_proto::fence::Fence;
use weft_proto::window;

/// A mapping of a file of the driver.
#[derive(Debug)]
struct Mapping {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: The memory belongs to the mapping and not to a thread, and every access is volatile.
unsafe impl Send for Mapping {}
// SAFETY: As above; concurrent accesses of a word are single instructions on the machines that
// `fence` knows.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, offset: u64, bytes: usize, rights: ProtFlags) -> io::Result<Self> {
        // SAFETY: The kernel chooses a place where nothing is.
        let base = unsafe { mmap(ptr::null_mut(), bytes, rights, MapFlags::SHARED, fd, offset) }?;
        let base = NonNull::new(base).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Mapping { base, bytes })
    }

    /// Where `bytes` bytes at `at` are. Offsets come from code that has checked them: one that does
    /// not fit is a bug there.
    #[inline]
    fn place<T>(&self, at: usize, bytes: usize) -> *mut T {
        let fits = at.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        if !fits || at % size_of::<T>() != 0 {
            outside(at, bytes, self.bytes, size_of::<T>());
        }
        // SAFETY: Inside of the mapping, as just checked.
        unsafe { self.base.as_ptr().byte_add(at).cast() }
    }

    fn load64(&self, at: usize) -> u64 {
        // SAFETY: `place` has checked bounds and alignment; the kernel backs every page of a mapping
        // for as long as it exists, also after the device is gone.
        unsafe { self.place::<u64>(at, 8).read_volatile() }
    }

    fn store64(&self, at: usize, word: u64) {
        // SAFETY: As for `load64`; what is stored to was mapped writable.
        unsafe { self.place::<u64>(at, 8).write_volatile(word) }
    }
}

/// Stops what [`Mapping::place`] or [`Places::some`] has found to be outside. Not inlined, and does not return, so that
/// an access carries nothing along for it.
#[cold]
#[inline(never)]
fn outside(at: usize, count: usize, of: usize, align: usize) -> ! {
    let fits = at.checked_add(count).is_some_and(|end| end <= of);
    assert!(fits && at % align == 0, "{at:#x}+{count:#x} in {of:#x}");
    unreachable!("it is inside")
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: Nothing points into the mapping any more. It can only fail for arguments that
        // mmap() did not return.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes) };
    }
}

#[cfg(target_arch = "x86_64")]
mod fence {
    use std::arch::asm;

    /// Loads are not reordered with what follows: the compiler is to leave it so.
    pub fn load() {
        // SAFETY: No instruction.
        unsafe { asm!("", options(nostack, preserves_flags)) }
    }

    /// Drains write combining buffers before later stores.
    pub fn store() {
        // SAFETY: Touches no register, and memory only in that it orders it.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) }
    }

    /// The same before later loads.
    pub fn full() {
        // SAFETY: As above.
        unsafe { asm!("mfence", options(nostack, preserves_flags)) }
    }
}

#[cfg(target_arch = "aarch64")]
mod fence {
    use std::arch::asm;

    /// Loads before it are done before whatever follows.
    pub fn load() {
        // SAFETY: Touches no register, and memory only in that it orders it.
        unsafe { asm!("dmb oshld", options(nostack, preserves_flags)) }
    }

    /// Everything before it is done before later stores: loads of what is given back as well.
    pub fn store() {
        // SAFETY: As above.
        unsafe { asm!("dmb osh", options(nostack, preserves_flags)) }
    }

    /// Everything before it is done before whatever follows.
    pub fn full() {
        // SAFETY: As above.
        unsafe { asm!("dsb osh", options(nostack, preserves_flags)) }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the fences of this architecture are not known");

/// This end's area.
#[derive(Debug)]
pub struct Area(Mapping);

impl Area {
    /// Maps the area.
    pub fn new(fd: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Self> {
        Mapping::new(fd, offset, bytes, ProtFlags::READ).map(Area)
    }
}

impl window::Area for Area {
    fn load(&self, at: usize) -> u64 {
        self.0.load64(at)
    }

    fn rmb(&self, fence: Fence) {
        if fence.is_there() {
            fence::load();
        }
    }

    fn read(&self, at: usize, out: &mut [u8]) {
        let from = self.0.place::<u64>(at, out.len().next_multiple_of(8));
        let count = out.len() / 8;
        let mut words = out.chunks_exact_mut(8);
        // Whole words first: a copy of a length that is known is an instruction, not a call.
        for (n, part) in (&mut words).enumerate() {
            // SAFETY: `place` has checked all of the words.
            part.copy_from_slice(&unsafe { from.add(n).read_volatile() }.to_ne_bytes());
        }
        let rest = words.into_remainder();
        if !rest.is_empty() {
            // SAFETY: As above.
            let word = unsafe { from.add(count).read_volatile() }.to_ne_bytes();
            rest.copy_from_slice(&word[..rest.len()]);
        }
    }
}

/// The peer's area.
#[derive(Debug)]
pub struct Window(Mapping);

impl Window {
    /// Maps the window.
    pub fn new(fd: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Self> {
        Mapping::new(fd, offset, bytes, ProtFlags::WRITE).map(Window)
    }
}

impl window::Window for Window {
    fn store(&self, at: usize, word: u64) {
        self.0.store64(at, word);
    }

    fn wmb(&self, fence: Fence) {
        if fence.is_there() {
            fence::store();
        }
    }

    fn mb(&self, fence: Fence) {
        if fence.is_there() {
            fence::full();
        }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        let to = self.0.place::<u64>(at, bytes.len().next_multiple_of(8));
        // SAFETY: `place` has checked all of the words.
        unsafe { put_bytes(to, bytes) };
    }
}

/// A page that is shared with the kernel.
#[derive(Debug)]
pub struct Page(Mapping);

/// Bytes of such a page.
const PAGE: usize = 4096;

impl Page {
    /// Maps a page that the kernel writes.
    pub fn to_read(fd: BorrowedFd<'_>, offset: u64) -> io::Result<Self> {
        Mapping::new(fd, offset, PAGE, ProtFlags::READ).map(Page)
    }

    /// Maps a page that this end writes.
    pub fn to_write(fd: BorrowedFd<'_>, offset: u64) -> io::Result<Self> {
        Mapping::new(fd, offset, PAGE, ProtFlags::WRITE).map(Page)
    }

    /// Loads 32 bits; later loads are not done earlier.
    pub fn load32(&self, at: usize) -> u32 {
        // SAFETY: As for `Mapping::load64`.
        let value = unsafe { self.0.place::<u32>(at, 4).read_volatile() };
        if Fence::State.is_there() {
            fence::load();
        }
        value
    }

    /// Stores 32 bits.
    pub fn store32(&self, at: usize, value: u32) {
        // SAFETY: As for `Mapping::store64`.
        unsafe { self.0.place::<u32>(at, 4).write_volatile(value) }
    }

    /// Stores 64 bits.
    pub fn store64(&self, at: usize, value: u64) {
        self.0.store64(at, value);
    }
}

/// Words of a queue, to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    to: *mut u64,
    count: usize,
    _mapping: PhantomData<&'a Mapping>,
}

impl Places<'_> {
    /// Where `count` of them from `at` on are.
    #[inline]
    fn some(&self, at: usize, count: usize) -> *mut u64 {
        let fits = at.checked_add(count).is_some_and(|end| end <= self.count);
        if !fits {
            outside(at, count, self.count, 1);
        }
        // SAFETY: `place` has checked all of the words.
        unsafe { self.to.add(at) }
    }
}

impl Entry for Places<'_> {
    #[inline]
    fn put<const N: usize>(&mut self, at: usize, words: [u64; N]) {
        let to = self.some(at, N);
        for (n, word) in words.into_iter().enumerate() {
            // SAFETY: `some` has checked all of the words, and the mapping is borrowed.
            unsafe { to.add(n).write_volatile(word) };
        }
    }

    #[inline]
    fn put_bytes(&mut self, at: usize, bytes: &[u8]) {
        let to = self.some(at, bytes.len().div_ceil(8));
        // SAFETY: `some` has checked all of the words, and the mapping is borrowed.
        unsafe { put_bytes(to, bytes) };
    }
}

/// Stores bytes, and zeros up to the next word.
///
/// # Safety
///
/// They are in a mapping, all words of them.
#[inline]
unsafe fn put_bytes(to: *mut u64, bytes: &[u8]) {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    for (n, part) in words.enumerate() {
        let mut word = [0; 8];
        word.copy_from_slice(part);
        // SAFETY: As the caller says.
        unsafe { to.add(n).write_volatile(u64::from_ne_bytes(word)) };
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        // SAFETY: As the caller says.
        unsafe { to.add(bytes.len() / 8).write_volatile(u64::from_ne_bytes(word)) };
    }
}

/// Memory of a queue, which this end and the driver both read and write.
#[derive(Debug)]
pub struct Ring(Mapping);

impl Ring {
    /// Maps a queue.
    pub fn new(fd: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Self> {
        Mapping::new(fd, offset, bytes, ProtFlags::READ | ProtFlags::WRITE).map(Ring)
    }

    /// Memory of this process alone, zeroed: what a region is made of.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: The kernel chooses a place where nothing is.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), bytes, rights, MapFlags::PRIVATE) }?;
        let base = NonNull::new(base).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Ring(Mapping { base, bytes }))
    }

    /// Where it is, for the driver.
    pub fn address(&self) -> u64 {
        self.0.base.as_ptr() as u64
    }

    /// Bytes of it.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Loads 32 bits; later loads are not done earlier.
    pub fn load32(&self, at: usize) -> u32 {
        // SAFETY: As for `Mapping::load64`.
        let value = unsafe { self.0.place::<u32>(at, 4).read_volatile() };
        fence::load();
        value
    }

    /// Loads 64 bits; later loads are not done earlier.
    pub fn load64(&self, at: usize) -> u64 {
        let value = self.0.load64(at);
        fence::load();
        value
    }

    /// The `count` words from `at` on, a multiple of 8, to be stored.
    #[inline]
    pub fn places(&self, at: usize, count: usize) -> Places<'_> {
        let to = self.0.place::<u64>(at, count * size_of::<u64>());
        Places { to, count, _mapping: PhantomData }
    }

    /// Loads the `N` words from `at` on, a multiple of 8.
    #[inline]
    pub fn words<const N: usize>(&self, at: usize) -> [u64; N] {
        let from = self.0.place::<u64>(at, N * size_of::<u64>());
        // SAFETY: `place` has checked all of the words.
        std::array::from_fn(|n| unsafe { from.add(n).read_volatile() })
    }

    /// Stores 64 bits after everything that was stored and loaded before.
    pub fn publish64(&self, at: usize, value: u64) {
        release();
        self.0.store64(at, value);
    }

    /// Everything that was stored is there before anything is loaded.
    pub fn full(&self) {
        fence::full();
    }

    /// Copies out of it; whole words where `at` allows it.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        let from = self.0.place::<u8>(at, out.len());
        if at % 8 != 0 {
            for (n, byte) in out.iter_mut().enumerate() {
                // SAFETY: `place` has checked all of the bytes.
                *byte = unsafe { from.add(n).read_volatile() };
            }
            return;
        }
        let mut words = out.chunks_exact_mut(8);
        let mut n = 0;
        for part in &mut words {
            // SAFETY: `place` has checked all of the bytes; `at` is a multiple of 8, and mappings
            // begin at a page.
            let word = unsafe { from.add(n).cast::<u64>().read_volatile() };
            part.copy_from_slice(&word.to_ne_bytes());
            n += 8;
        }
        for byte in words.into_remainder() {
            // SAFETY: As above.
            *byte = unsafe { from.add(n).read_volatile() };
            n += 1;
        }
    }

    /// Copies into it; whole words where `at` allows it.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let to = self.0.place::<u8>(at, bytes.len());
        let whole = if at % 8 == 0 { bytes.len() & !7 } else { 0 };
        // SAFETY: `place` has checked all of the bytes; if there are whole words, `at` is a multiple of 8, and
        // mappings begin at a page.
        unsafe { put_bytes(to.cast(), &bytes[..whole]) };
        for (n, byte) in bytes.iter().enumerate().skip(whole) {
            // SAFETY: As above.
            unsafe { to.add(n).write_volatile(*byte) };
        }
    }

    /// Sets a bit of a little endian 64-bit word, after everything that was stored before.
    pub fn set_bit(&self, at: usize, bit: u32) {
        let word = (1u64 << (bit % 64)).to_le();
        // SAFETY: `place` has checked bounds and alignment; of this page only the driver and this
        // library know, and both use atomics on it.
        let at = unsafe { AtomicU64::from_ptr(self.0.place::<u64>(at, 8)) };
        at.fetch_or(word, Ordering::AcqRel);
    }
}

/// Stores and loads so far are done before later stores, in ordinary memory.
fn release() {
    atomic::fence(Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use window::{Area as _, Window as _};

    fn both() -> (Window, Area) {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(8192).expect("room");
        let window = Window::new(file.as_fd(), 4096, 4096).expect("mapped");
        (window, Area::new(file.as_fd(), 4096, 4096).expect("mapped"))
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let (window, area) = both();
        window.store(4088, 0x0123_4567_89ab_cdef);
        assert_eq!(area.load(4088), 0x0123_4567_89ab_cdef);
        for len in [0usize, 1, 7, 8, 9, 63, 64] {
            let bytes: Vec<u8> = (1..=len as u8).collect();
            window.write(64, &[0xff; 72]);
            window.wmb(Fence::Publish);
            window.write(64, &bytes);
            window.mb(Fence::WakeReceiver);
            area.rmb(Fence::Head);
            let mut out = vec![0; len];
            area.read(64, &mut out);
            assert_eq!(out, bytes);
            // A last word that is not full is filled up, what follows is left alone.
            let mut padded = bytes;
            padded.resize(len.next_multiple_of(8), 0);
            padded.push(0xff);
            let mut out = vec![0; padded.len()];
            area.read(64, &mut out);
            assert_eq!(out, padded);
        }
    }

    #[test]
    fn a_ring_keeps_what_is_written_at_any_place() {
        let ring = Ring::anonymous(4096).expect("mapped");
        assert_eq!((ring.bytes(), ring.address() % 4096), (4096, 0));
        for at in [0, 1, 8, 13, 64] {
            for len in [0usize, 1, 7, 8, 9, 63, 64] {
                ring.write(0, &[0xff; 256]);
                let bytes: Vec<u8> = (1..=len as u8).collect();
                ring.write(at, &bytes);
                let mut out = vec![0; len + 1];
                ring.read(at, &mut out);
                assert_eq!(out[..len], bytes, "{len} bytes at {at}");
                assert_eq!(out[len], 0xff, "what follows {len} bytes at {at}");
            }
        }
        ring.publish64(8, 0);
        ring.set_bit(8, 0);
        ring.set_bit(8, 63);
        assert_eq!(u64::from_le(ring.load64(8)), (1 << 63) | 1);
    }

    #[test]
    #[should_panic(expected = "in 0x1000")]
    fn a_copy_that_leaves_is_stopped() {
        let ring = Ring::anonymous(4096).expect("mapped");
        ring.read(4095, &mut [0; 2]);
    }

    #[test]
    #[should_panic(expected = "in 0x1000")]
    fn a_load_outside_is_stopped() {
        both().1.load(4096);
    }

    #[test]
    #[should_panic(expected = "in 0x1000")]
    fn a_run_that_leaves_is_stopped() {
        both().0.write(4032, &[0; 65]);
    }
}
