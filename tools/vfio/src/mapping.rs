// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Memory that is shared with a device: its registers, and what it may reach of this program.
//!
//! All unsafe code is here. It must not know what any of it means.

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// The descriptor of something that can only say its number.
pub fn descriptor(of: &impl AsRawFd) -> BorrowedFd<'_> {
    // SAFETY: The owner of a descriptor keeps it open, here as long as it is borrowed.
    unsafe { BorrowedFd::borrow_raw(of.as_raw_fd()) }
}

/// A mapping, gone when it is dropped.
struct Mapping {
    at: NonNull<c_void>,
    bytes: usize,
}

impl Mapping {
    fn new(at: *mut c_void, bytes: usize) -> io::Result<Self> {
        let at = NonNull::new(at).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { at, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: Mapped, and no reference into it exists. That it may fail is nothing to act on.
        let _ = unsafe { munmap(self.at.as_ptr(), self.bytes) };
    }
}

/// Registers, in words of 32 bits.
pub struct Regs(Mapping);

impl Regs {
    /// Maps `bytes` bytes of `device` at `offset`.
    pub fn map(device: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: A new mapping, at an address that the kernel chooses.
        let at = unsafe { mmap(ptr::null_mut(), bytes, prot, MapFlags::SHARED, device, offset)? };
        Ok(Self(Mapping::new(at, bytes)?))
    }

    /// The word at `reg`, if there is one.
    fn word(&self, reg: u32) -> Option<*mut u32> {
        let reg = reg as usize;
        let inside = reg % size_of::<u32>() == 0 && reg + size_of::<u32>() <= self.0.bytes;
        inside.then(|| self.0.at.as_ptr().cast::<u8>().wrapping_add(reg).cast())
    }

    /// What is in `reg`; all ones beyond the mapping, as from a function that does not answer.
    pub fn read(&self, reg: u32) -> u32 {
        // SAFETY: Aligned and in the mapping.
        self.word(reg).map_or(u32::MAX, |at| unsafe { at.read_volatile() })
    }

    /// Writes `reg`.
    pub fn write(&self, reg: u32, value: u32) {
        if let Some(at) = self.word(reg) {
            // SAFETY: As above.
            unsafe { at.write_volatile(value) };
        }
    }

    /// Two words, the lower first.
    pub fn read64(&self, reg: u32) -> u64 {
        u64::from(self.read(reg)) | (u64::from(self.read(reg + 4)) << 32)
    }

    /// The same.
    pub fn write64(&self, reg: u32, value: u64) {
        self.write(reg, value as u32);
        self.write(reg + 4, (value >> 32) as u32);
    }
}

/// Memory that a device reads and writes.
pub struct Memory(Mapping);

impl Memory {
    /// `bytes` bytes that are zero.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: A new mapping, at an address that the kernel chooses.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), bytes, prot, MapFlags::SHARED)? };
        Ok(Self(Mapping::new(at, bytes)?))
    }

    /// Where it is.
    pub fn address(&self) -> u64 {
        self.0.at.as_ptr() as u64
    }

    /// How much it is.
    pub fn bytes(&self) -> u64 {
        self.0.bytes as u64
    }

    /// Makes it zero again. What is written meanwhile stays.
    pub fn clear(&self) {
        for at in 0..self.0.bytes / size_of::<u64>() {
            // SAFETY: Inside the mapping, which is aligned to a page.
            unsafe { self.0.at.cast::<u64>().as_ptr().wrapping_add(at).write_volatile(0) };
        }
    }
}
