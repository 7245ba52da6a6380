// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory of the provider that the driver reads and writes: of messages that wait, and of those whose bytes are not in
//! one piece.

use crate::fi::Iovec;
use std::ptr::{NonNull, slice_from_raw_parts_mut};
use weft::matching::Memory;

/// Memory that is reached by raw pointers alone.
#[derive(Debug)]
pub struct Area {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: The memory belongs to the area and not to a thread.
unsafe impl Send for Area {}

impl Area {
    pub fn new(bytes: usize) -> Self {
        let memory = Box::into_raw(vec![0u8; bytes].into_boxed_slice());
        // A box is not at address 0.
        let at = NonNull::new(memory.cast::<u8>()).unwrap_or(NonNull::dangling());
        Area { at, bytes }
    }

    /// Memory with the bytes of `pieces` behind each other.
    ///
    /// # Safety
    ///
    /// The pieces can be read.
    pub unsafe fn gathered(pieces: &[Iovec]) -> Self {
        let area = Area::new(length(pieces));
        // SAFETY: As the caller says; it has as many bytes as the pieces.
        unsafe { gather(pieces, area.at.as_ptr()) };
        area
    }

    /// Copies the first `count` bytes to `pieces`, as far as they have room.
    ///
    /// # Safety
    ///
    /// The pieces can be written, and the driver does not write to the area any more.
    pub unsafe fn scatter(&self, count: usize, pieces: &[Iovec]) {
        let mut done = 0;
        for piece in pieces {
            let part = piece.iov_len.min(count.min(self.bytes) - done);
            if part > 0 {
                // SAFETY: As the caller says; `done + part` is not more than there is.
                unsafe {
                    let from = self.at.as_ptr().add(done);
                    piece.iov_base.cast::<u8>().copy_from_nonoverlapping(from, part);
                }
            }
            done += part;
        }
    }

    /// The memory, as the driver is told of it.
    ///
    /// # Safety
    ///
    /// The area is kept until the driver does not use it any more.
    pub unsafe fn memory(&self) -> Memory {
        // SAFETY: As the caller says.
        unsafe { Memory::new(self.at.as_ptr(), self.bytes) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: It was made of a box of so many bytes.
        drop(unsafe { Box::from_raw(slice_from_raw_parts_mut(self.at.as_ptr(), self.bytes)) });
    }
}

/// Bytes of all pieces. More than there can be count as the most: no message is as long.
pub fn length(pieces: &[Iovec]) -> usize {
    pieces.iter().fold(0, |all, piece| all.saturating_add(piece.iov_len))
}

/// Copies the bytes of pieces behind each other.
///
/// # Safety
///
/// The pieces can be read, and `to` has room for them.
pub unsafe fn gather(pieces: &[Iovec], mut to: *mut u8) {
    for piece in pieces.iter().filter(|piece| piece.iov_len > 0) {
        // SAFETY: As the caller says.
        unsafe {
            to.copy_from_nonoverlapping(piece.iov_base.cast::<u8>(), piece.iov_len);
            to = to.add(piece.iov_len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn pieces(parts: &mut [&mut [u8]]) -> Vec<Iovec> {
        let of = |part: &mut &mut [u8]| Iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        };
        let mut pieces: Vec<Iovec> = parts.iter_mut().map(of).collect();
        pieces.insert(1, Iovec { iov_base: null_mut(), iov_len: 0 });
        pieces
    }

    #[test]
    fn pieces_are_gathered_and_scattered() {
        let (mut a, mut b, mut c) = (*b"ab", *b"", *b"cde");
        let from = pieces(&mut [&mut a, &mut b, &mut c]);
        assert_eq!(length(&from), 5);
        // SAFETY: All of them are there.
        let area = unsafe { Area::gathered(&from) };
        for (count, want) in [(5, b"abcde!"), (3, b"abc!!!"), (0, b"!!!!!!"), (9, b"abcde!")] {
            let mut to = *b"!!!!!!";
            let (x, y) = to.split_at_mut(4);
            // SAFETY: Likewise.
            unsafe { area.scatter(count, &pieces(&mut [x, y])) };
            assert_eq!(&to, want);
        }
    }

    #[test]
    fn nothing_is_an_area() {
        let area = Area::new(0);
        // SAFETY: It has no bytes.
        unsafe {
            assert!(area.memory().is_empty());
            area.scatter(4, &[]);
        }
        let most = Iovec { iov_base: null_mut(), iov_len: usize::MAX };
        assert_eq!(length(&[most, most]), usize::MAX);
    }
}
