// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completions, and how they look in each of the formats of a completion queue.

use crate::fi::*;
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};

/// What has become of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub entry: CqTaggedEntry,
    /// Index of the source, or [`FI_ADDR_UNSPEC`].
    pub source: FiAddr,
    /// The error of libfabric, or 0.
    pub error: c_int,
    /// What the driver has said.
    pub prov_errno: c_int,
    /// Bytes that did not fit.
    pub left: usize,
}

// SAFETY: The addresses in it are the program's, which is told of them wherever it asks.
unsafe impl Send for Done {}

/// Bytes of an entry in a format; `None`: there is no such format.
pub fn entry_bytes(format: u32) -> Option<usize> {
    let words = match format {
        FI_CQ_FORMAT_CONTEXT => 1,
        FI_CQ_FORMAT_MSG => 3,
        FI_CQ_FORMAT_DATA => 5,
        FI_CQ_FORMAT_TAGGED => 6,
        _ => return None,
    };
    Some(words * size_of::<u64>())
}

/// Completions that were not read yet, in their order.
#[derive(Debug, Default)]
pub struct Queue(VecDeque<Done>);

/// What is next in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Nothing,
    Success,
    Error,
}

impl Queue {
    pub fn push(&mut self, done: Done) {
        self.0.push_back(done);
    }

    pub fn next(&self) -> Next {
        match self.0.front() {
            None => Next::Nothing,
            Some(done) if done.error == 0 => Next::Success,
            Some(_) => Next::Error,
        }
    }

    /// Takes the next one, if it is a success.
    pub fn take(&mut self) -> Option<Done> {
        match self.next() {
            Next::Success => self.0.pop_front(),
            _ => None,
        }
    }

    /// Takes the next one, if it is an error.
    pub fn take_error(&mut self) -> Option<Done> {
        match self.next() {
            Next::Error => self.0.pop_front(),
            _ => None,
        }
    }
}

/// Writes up to `count` completions in entries of `bytes` bytes, and their sources. Returns how many there were.
///
/// # Safety
///
/// There is room for so many, of each that is not null.
pub unsafe fn fill(
    queue: &mut Queue,
    bytes: usize,
    to: *mut c_void,
    count: usize,
    sources: *mut FiAddr,
) -> usize {
    for n in 0..count {
        let Some(done) = queue.take() else { return n };
        // SAFETY: There is room for `count` of both; the formats are beginnings of this one.
        unsafe {
            let to = to.cast::<u8>().add(n * bytes);
            to.copy_from_nonoverlapping((&raw const done.entry).cast(), bytes);
            if !sources.is_null() {
                sources.add(n).write(done.source);
            }
        }
    }
    count
}

/// Writes an error as a program that was made for a version of the interface reads it: entries have grown.
///
/// # Safety
///
/// There is room for an entry of that version.
pub unsafe fn fill_error(done: &Done, api: u32, to: *mut CqErrEntry) {
    let entry = &done.entry;
    // SAFETY: As the caller says; fields are written one by one, as far as the version has them.
    unsafe {
        (*to).op_context = entry.op_context;
        (*to).flags = entry.flags;
        (*to).len = entry.len;
        (*to).buf = entry.buf;
        (*to).data = entry.data;
        (*to).tag = entry.tag;
        (*to).olen = done.left;
        (*to).err = done.error;
        (*to).prov_errno = done.prov_errno;
        if api >= crate::version(1, 5) {
            (*to).err_data_size = 0;
        }
        if api >= crate::version(1, 20) {
            (*to).src_addr = done.source;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn done(n: u64, error: c_int) -> Done {
        let entry = CqTaggedEntry {
            op_context: n as *mut c_void,
            flags: n + 1,
            len: n as usize + 2,
            buf: (n + 3) as *mut c_void,
            data: n + 4,
            tag: n + 5,
        };
        Done { entry, source: n + 6, error, prov_errno: 99, left: 7 }
    }

    #[test]
    fn each_format_is_a_beginning_of_the_longest() {
        let formats = [
            (FI_CQ_FORMAT_CONTEXT, 1),
            (FI_CQ_FORMAT_MSG, 3),
            (FI_CQ_FORMAT_DATA, 5),
            (FI_CQ_FORMAT_TAGGED, 6),
        ];
        for (format, words) in formats {
            let bytes = entry_bytes(format).expect("there is such a format");
            assert_eq!(bytes, words * 8);
            let mut queue = Queue::default();
            (0..3).for_each(|n| queue.push(done(n * 10, 0)));
            let (mut to, mut sources) = ([u64::MAX; 20], [u64::MAX; 4]);
            // SAFETY: There is room for three.
            let count =
                unsafe { fill(&mut queue, bytes, to.as_mut_ptr().cast(), 3, sources.as_mut_ptr()) };
            assert_eq!((count, queue.next()), (3, Next::Nothing));
            for n in 0..3 {
                let want: Vec<u64> = (0..words as u64).map(|word| n as u64 * 10 + word).collect();
                assert_eq!(&to[n * words..][..words], &want);
            }
            assert_eq!(to[3 * words], u64::MAX);
            assert_eq!(sources, [6, 16, 26, u64::MAX]);
        }
        assert_eq!(entry_bytes(FI_CQ_FORMAT_UNSPEC), None);
        assert_eq!(entry_bytes(5), None);
    }

    #[test]
    fn an_error_ends_what_is_read_at_once() {
        let mut queue = Queue::default();
        [(1, 0), (2, 5), (3, 0)].into_iter().for_each(|(n, error)| queue.push(done(n, error)));
        let mut to = [0u64; 18];
        let mut read = |queue: &mut Queue| {
            // SAFETY: There is room for three.
            unsafe { fill(queue, 48, to.as_mut_ptr().cast(), 3, null_mut()) }
        };
        assert!(queue.take_error().is_none());
        assert_eq!(read(&mut queue), 1);
        assert_eq!((queue.next(), read(&mut queue)), (Next::Error, 0));
        assert_eq!(queue.take_error().map(|done| done.error), Some(5));
        assert_eq!(read(&mut queue), 1);
        assert_eq!(queue.next(), Next::Nothing);
    }

    #[test]
    fn errors_are_as_long_as_their_version_says() {
        let fresh = || CqErrEntry {
            op_context: null_mut(),
            flags: 0,
            len: 0,
            buf: null_mut(),
            data: 0,
            tag: 0,
            olen: 0,
            err: 0,
            prov_errno: 0,
            err_data: null_mut(),
            err_data_size: 55,
            src_addr: 66,
        };
        for (api, size, source) in [((1, 4), 55, 66), ((1, 5), 0, 66), ((1, 20), 0, 16)] {
            let mut to = fresh();
            // SAFETY: It is as long as the newest.
            unsafe { fill_error(&done(10, 113), crate::version(api.0, api.1), &mut to) };
            assert_eq!((to.err, to.prov_errno, to.olen, to.tag), (113, 99, 7, 15));
            assert_eq!((to.err_data_size, to.src_addr), (size, source));
        }
    }
}
