// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory of the provider that the driver reads and writes: of messages that wait, and of those whose bytes are not in
//! one piece.

use crate::fi::Iovec;
use std::ptr::{NonNull, slice_from_raw_parts_mut};
use weft::matching::{IN_RING, Memory};

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

    /// All of it as a piece, which is valid as long as the area is kept.
    pub fn piece(&self) -> Iovec {
        Iovec { iov_base: self.at.as_ptr().cast(), iov_len: self.bytes }
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

/// Bytes that are sent, or put: copied into the ring if they are few; else where the program has them, or copied.
#[derive(Debug)]
pub struct Outgoing {
    short: [u8; IN_RING],
    pub bytes: usize,
    /// Where they are, if they are not in the ring.
    pub memory: Option<Memory>,
    /// The copy.
    pub own: Option<Area>,
}

impl Outgoing {
    /// The bytes of `pieces`. If they are injected they are the program's again at once.
    ///
    /// # Safety
    ///
    /// The pieces can be read: now, if they are injected, or else until the operation is over; and so long the copy is
    /// kept.
    pub unsafe fn of(pieces: &[Iovec], inject: bool) -> Self {
        let mut all =
            Outgoing { short: [0; IN_RING], bytes: length(pieces), memory: None, own: None };
        // SAFETY: As the caller says, and there is room.
        unsafe {
            match pieces {
                _ if all.bytes <= IN_RING => gather(pieces, all.short.as_mut_ptr()),
                [one] if !inject => {
                    all.memory = Some(Memory::new(one.iov_base.cast(), one.iov_len))
                }
                _ => {
                    let area = Area::gathered(pieces);
                    all.memory = Some(area.memory());
                    all.own = Some(area);
                }
            }
        }
        all
    }

    /// Those in the ring, if all are there.
    pub fn short(&self) -> &[u8] {
        self.short.get(..self.bytes).unwrap_or(&[])
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
    fn what_goes_is_in_the_ring_or_in_one_piece() {
        let (mut a, mut b, mut c) = ([1u8; 40], [2u8; 24], [3u8; 1]);
        let all = pieces(&mut [&mut a, &mut b, &mut c]);
        // SAFETY: All of them are there for longer than what goes.
        unsafe {
            let few = Outgoing::of(&all[..3], false);
            assert!(few.memory.is_none() && few.own.is_none());
            assert_eq!((few.short().len(), few.short()[39], few.short()[40]), (64, 1, 2));
            let many = Outgoing::of(&all, false);
            assert!(many.own.is_some() && many.short().is_empty());
            assert_eq!(many.memory.map(|memory| memory.len()), Some(65));
            let mut long = [4u8; 65];
            let one = pieces(&mut [&mut long]);
            assert!(Outgoing::of(&one[..1], false).own.is_none());
            assert!(Outgoing::of(&one[..1], true).own.is_some());
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
