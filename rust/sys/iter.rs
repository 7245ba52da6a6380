// SPDX-License-Identifier: GPL-2.0

//! Copies between the memory of a caller, as `struct iov_iter` (`include/linux/uio.h`) describes it, and words that
//! a peer accesses.
//!
//! Each byte is copied once, without a buffer. Page faults are not handled meanwhile: the memory of a program may be one
//! that another program provides, for which nothing of a link may wait. A copy ends before such a page, and the caller
//! has it fetched where it may sleep. This file must not know what the bytes mean.

use crate::sys::{
    ext,
    words::{Words, WORD},
};
use kernel::{
    bindings,
    iov::{IovIterDest, IovIterSource},
};

/// Stores the next `count` bytes of `from` at byte `at` of `words`, each word in one piece and in ascending order.
/// `word` has the bytes before `at` of the first word, the first one in the lowest bits; then those of the last one if it is
/// not full. Returns how many it has stored: fewer, if a page of `from` is not there, or the words are not.
///
/// Wraps `weft_iter_store()`, `c/iter.c`.
pub(crate) fn store(
    words: &Words<'_>,
    at: usize,
    count: usize,
    word: &mut u64,
    from: &mut IovIterSource<'_>,
) -> usize {
    let held = at % WORD;
    let Some(to) = words.run(at / WORD, (held + count).div_ceil(WORD)) else {
        return 0;
    };
    // SAFETY: The words are valid for stores, and have room for the bytes held and `count` others; the iterator is a
    // source, and borrowed.
    unsafe { ext::weft_iter_store(to.cast(), held as u32, word, count, from.as_raw()) }
}

/// Copies `count` bytes from byte `at` of `words` on to `to`. Returns how many it has copied: fewer, if a page of `to` is
/// not there, or the words are not.
///
/// Wraps `weft_iter_load()`, `c/iter.c`.
pub(crate) fn load(words: &Words<'_>, at: usize, count: usize, to: &mut IovIterDest<'_>) -> usize {
    let skipped = at % WORD;
    let Some(from) = words.run(at / WORD, (skipped + count).div_ceil(WORD)) else {
        return 0;
    };
    // SAFETY: The words are valid for loads, and have the bytes skipped and `count` others; the iterator is a
    // destination, and borrowed.
    unsafe { ext::weft_iter_load(from.cast::<u8>().add(skipped).cast(), count, to.as_raw()) }
}

/// Has pages of the next `bytes` bytes of `from` be there. Returns false if the first one cannot be. Sleeps.
///
/// Wraps `fault_in_iov_iter_readable()`, `include/linux/uio.h`.
pub(crate) fn fetch_source(from: &mut IovIterSource<'_>, bytes: usize) -> bool {
    let bytes = bytes.min(from.len());
    // SAFETY: The iterator is valid.
    unsafe { bindings::fault_in_iov_iter_readable(from.as_raw(), bytes) < bytes }
}

/// As [`fetch_source`], for writes.
///
/// Wraps `fault_in_iov_iter_writeable()`, `include/linux/uio.h`.
pub(crate) fn fetch_dest(to: &mut IovIterDest<'_>, bytes: usize) -> bool {
    let bytes = bytes.min(to.len());
    // SAFETY: The iterator is valid.
    unsafe { bindings::fault_in_iov_iter_writeable(to.as_raw(), bytes) < bytes }
}

/// Calls `copy`, which copies to `to`. If it returns `None`, `to` is again what it was: the bytes are copied once more.
///
/// Wraps `iov_iter_revert()`, `include/linux/uio.h`.
pub(crate) fn attempt<T>(
    to: &mut IovIterDest<'_>,
    copy: impl FnOnce(&mut IovIterDest<'_>) -> Option<T>,
) -> Option<T> {
    let (at, before) = (to.as_raw(), to.len());
    let copied = copy(to);
    if copied.is_none() && to.as_raw() == at {
        let count = before.saturating_sub(to.len());
        // SAFETY: It was advanced by so many bytes since, and not beyond its beginning.
        unsafe { to.revert(count) };
    }
    copied
}
