// SPDX-License-Identifier: GPL-2.0

//! Copying between memories that a peer, a device or a user writes meanwhile.
//!
//! The compiler's `memcpy` assumes that no other agent writes; these accesses are volatile. Stores are
//! aligned words of 8 bytes where possible, in ascending order, as suits a write-combining window.

/// 8 bytes at any address.
#[repr(C, packed)]
struct Word(u64);

/// Bytes that are copied at once.
const WORD: usize = size_of::<u64>();

/// Copies `len` bytes.
///
/// # Safety
///
/// `from` is valid for volatile loads of `len` bytes, `to` for volatile stores, and they do not
/// overlap.
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    let head = (to.addr().wrapping_neg() % WORD).min(len);
    let words = (len - head) / WORD;
    let mut i = 0;
    while i < head {
        // SAFETY: `i` is below `len`.
        unsafe { to.add(i).write_volatile(from.add(i).read_volatile()) };
        i += 1;
    }
    for _ in 0..words {
        // SAFETY: Bytes `i` to `i + 8` are below `len`, and `to` is aligned since the head ended.
        unsafe {
            let Word(word) = from.add(i).cast::<Word>().read_volatile();
            to.add(i).cast::<u64>().write_volatile(word);
        }
        i += WORD;
    }
    while i < len {
        // SAFETY: `i` is below `len`.
        unsafe { to.add(i).write_volatile(from.add(i).read_volatile()) };
        i += 1;
    }
}
