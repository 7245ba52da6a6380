// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Memory in a descriptor, read and written by the kernel's calls: it changes at any
//! time by others' hands, and so there are no references to it.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{Errno, pread, pwrite};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Memory of `bytes` bytes, all 0, that others may map.
pub fn make(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, bytes)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(fd)
}

/// Reads all of `to`, at `at`.
pub fn read(fd: impl AsFd, mut at: u64, mut to: &mut [u8]) -> Result<(), Errno> {
    while !to.is_empty() {
        match pread(&fd, &mut *to, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => {
                to = &mut to[n..];
                at += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes all of `from`, at `at`.
pub fn write(fd: impl AsFd, mut at: u64, mut from: &[u8]) -> Result<(), Errno> {
    while !from.is_empty() {
        match pwrite(&fd, from, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => {
                from = &from[n..];
                at += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Little endian numbers in a buffer whose length the caller knows.
pub fn word(bytes: &[u8], at: u32) -> u32 {
    let at = at as usize;
    u32::from_le_bytes(std::array::from_fn(|n| bytes.get(at + n).copied().unwrap_or(0)))
}

/// The same of 64 bits.
pub fn long(bytes: &[u8], at: u32) -> u64 {
    u64::from(word(bytes, at)) | (u64::from(word(bytes, at + 4)) << 32)
}
