// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What ports of one machine share beside their sockets: words of a doorbell page that several
//! processes change at once, and locks by which an owner sees what may still reach it. All that is
//! unsafe about that is here. Knows nothing of what the words mean.

use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory of a descriptor, as words that others change as well.
#[derive(Debug)]
pub struct Words {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: The memory belongs to the mapping and not to a thread, and every access is atomic.
unsafe impl Send for Words {}

impl Words {
    /// Maps `bytes` bytes of `fd`, which must have as many and be sealed against shrinking.
    pub fn map(fd: impl AsFd, bytes: usize) -> io::Result<Self> {
        let fd = fd.as_fd();
        let seals = rustix::fs::fcntl_get_seals(fd)?;
        let size = usize::try_from(fstat(fd)?.st_size).unwrap_or(0);
        if size < bytes || !seals.contains(rustix::fs::SealFlags::SHRINK) {
            return Err(io::Error::other(format!("{size} bytes, which may become fewer")));
        }
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: The kernel chooses a place where nothing is.
        let base = unsafe { mmap(ptr::null_mut(), bytes, rights, MapFlags::SHARED, fd, 0) }?;
        let base = NonNull::new(base).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Words { base, bytes })
    }

    /// The word at a byte offset; `None` if there is none.
    fn word(&self, at: usize) -> Option<&AtomicU32> {
        let inside = at % size_of::<u32>() == 0 && at.checked_add(size_of::<u32>())? <= self.bytes;
        // SAFETY: Inside of the mapping and aligned, as just checked; it lives as long as `self`, and
        // any other holder changes words atomically, or breaks a rule of its own.
        inside.then(|| unsafe { &*self.base.as_ptr().byte_add(at).cast::<AtomicU32>() })
    }

    /// Sets bits of the word at a byte offset. Whether there is such a word.
    pub fn set(&self, at: usize, bits: u32) -> bool {
        self.word(at).map(|word| word.fetch_or(bits, Ordering::SeqCst)).is_some()
    }

    /// Takes all bits of the word at a byte offset.
    pub fn take(&self, at: usize) -> u32 {
        self.word(at).map_or(0, |word| word.swap(0, Ordering::SeqCst))
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: Nothing points into the mapping any more. It can only fail for arguments that
        // mmap() did not return.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes) };
    }
}

/// Takes a shared lock on one byte of a file, which may lie behind its end. It is held until what is
/// returned is closed: an open file of its own, for a lock belongs to the open file, and a descriptor
/// that was handed over shares its with the holder.
pub fn hold(fd: BorrowedFd<'_>, byte: u64) -> io::Result<OwnedFd> {
    let own = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    let start = libc::off_t::try_from(byte).map_err(io::Error::other)?;
    let lock = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: The descriptor is open, and the kernel reads the structure before the call returns.
    match unsafe { libc::fcntl(own.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(own.into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

    fn memory() -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("weft-shared", flags).unwrap();
        ftruncate(&fd, 4096).unwrap();
        fd
    }

    #[test]
    fn two_mappings_have_the_same_words() {
        let fd = memory();
        assert!(Words::map(&fd, 4096).is_err(), "it could shrink");
        fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        assert!(Words::map(&fd, 8192).is_err(), "it is shorter");
        let (a, b) = (Words::map(&fd, 4096).unwrap(), Words::map(&fd, 4096).unwrap());
        assert!(a.set(4092, 5) && a.set(4092, 8));
        assert_eq!((b.take(4092), a.take(4092)), (13, 0));
        for nowhere in [4093, 4096, usize::MAX] {
            assert!(!a.set(nowhere, 1), "{nowhere}");
        }
    }

    /// What an owner asks: which process holds a lock on this byte?
    fn held(fd: &OwnedFd, byte: i64) -> bool {
        let mut lock = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: byte,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: The kernel writes no more than the structure, before the call returns.
        assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) }, 0);
        lock.l_type != libc::F_UNLCK as libc::c_short
    }

    #[test]
    fn a_lock_is_seen_until_it_is_closed() {
        let fd = memory();
        let byte = (7 << 32) + 99;
        let lock = hold(fd.as_fd(), byte as u64).unwrap();
        assert!(held(&fd, byte) && !held(&fd, byte + 1));
        drop(lock);
        assert!(!held(&fd, byte));
    }
}
