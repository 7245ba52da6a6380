// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Work requests: what a queue pair is asked to do.

use crate::abi;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::mr::{Mr, Rights};
use crate::mw::Mw;
use crate::stag::{Remote, Sge};
use std::ops::Range;

/// Operations, in requests and completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// To the peer's receive queue.
    Send,
    /// Into memory of the peer.
    Write,
    /// Likewise, and takes a receive request of the peer.
    WriteImm,
    /// Out of memory of the peer.
    Read,
    /// Likewise, as many bytes as there are.
    ReadAll,
    /// Adds to 8 bytes of the peer.
    FetchAdd,
    /// Replaces 8 bytes of the peer if they are as expected.
    CompareSwap,
    /// Binds a memory window.
    Bind,
    /// Takes a memory window back.
    Invalidate,
    /// A message came.
    Recv,
    /// A write with immediate data came.
    RecvWriteImm,
    /// One that this library does not know.
    Other(u8),
}

impl From<u8> for Operation {
    fn from(number: u8) -> Self {
        match number.into() {
            abi::WEFT_OP_SEND => Operation::Send,
            abi::WEFT_OP_WRITE => Operation::Write,
            abi::WEFT_OP_WRITE_IMM => Operation::WriteImm,
            abi::WEFT_OP_READ => Operation::Read,
            abi::WEFT_OP_READ_ALL => Operation::ReadAll,
            abi::WEFT_OP_FETCH_ADD => Operation::FetchAdd,
            abi::WEFT_OP_CMP_SWAP => Operation::CompareSwap,
            abi::WEFT_OP_BIND_MW => Operation::Bind,
            abi::WEFT_OP_LOCAL_INV => Operation::Invalidate,
            abi::WEFT_OP_RECV => Operation::Recv,
            abi::WEFT_OP_RECV_WRITE_IMM => Operation::RecvWriteImm,
            _ => Operation::Other(number),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Data<'a> {
    List(&'a [Sge]),
    Inline(&'a [u8]),
}

/// A request for the send queue. It completes with an entry in the completion queue only if it is
/// [`signaled`](Self::signaled) or fails.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    head: abi::weft_send_wqe,
    data: Data<'a>,
}

const HEAD: usize = size_of::<abi::weft_send_wqe>();
const RECV_HEAD: usize = size_of::<abi::weft_recv_wqe>();
const SGE: usize = size_of::<abi::weft_sge>();
const WORD: usize = size_of::<u64>();

impl<'a> Request<'a> {
    fn new(wr_id: u64, opcode: u32, remote: Remote, data: Data<'a>) -> Self {
        let head = abi::weft_send_wqe {
            wr_id,
            opcode: opcode as u8,
            remote_to: remote.to,
            remote_stag: remote.stag,
            ..Default::default()
        };
        Request { head, data }
    }

    /// Sends what the list names to the peer's receive queue.
    pub fn send(wr_id: u64, list: &'a [Sge]) -> Self {
        Self::new(wr_id, abi::WEFT_OP_SEND, Remote::default(), Data::List(list))
    }

    /// Sends these bytes, which are copied into the queue.
    pub fn send_inline(wr_id: u64, bytes: &'a [u8]) -> Self {
        Self::new(wr_id, abi::WEFT_OP_SEND, Remote::default(), Data::Inline(bytes))
    }

    /// Writes what the list names to `remote`.
    pub fn write(wr_id: u64, list: &'a [Sge], remote: Remote) -> Self {
        Self::new(wr_id, abi::WEFT_OP_WRITE, remote, Data::List(list))
    }

    /// Writes these bytes, which are copied into the queue.
    pub fn write_inline(wr_id: u64, bytes: &'a [u8], remote: Remote) -> Self {
        Self::new(wr_id, abi::WEFT_OP_WRITE, remote, Data::Inline(bytes))
    }

    /// Reads as many bytes as the list has.
    pub fn read(wr_id: u64, list: &'a [Sge], remote: Remote) -> Self {
        Self::new(wr_id, abi::WEFT_OP_READ, remote, Data::List(list))
    }

    /// Reads as many bytes as there are from `remote` on. The completion says how many.
    pub fn read_all(wr_id: u64, list: &'a [Sge], remote: Remote) -> Self {
        Self::new(wr_id, abi::WEFT_OP_READ_ALL, remote, Data::List(list))
    }

    /// Adds to the 8 bytes at `remote`; the old value goes to the list.
    pub fn fetch_add(wr_id: u64, list: &'a [Sge], remote: Remote, add: u64) -> Self {
        let mut request = Self::new(wr_id, abi::WEFT_OP_FETCH_ADD, remote, Data::List(list));
        request.head.arg0 = add;
        request
    }

    /// Puts `new` into the 8 bytes at `remote` if they are `old`; the old value goes to the list.
    pub fn compare_swap(wr_id: u64, list: &'a [Sge], remote: Remote, old: u64, new: u64) -> Self {
        let mut request = Self::new(wr_id, abi::WEFT_OP_CMP_SWAP, remote, Data::List(list));
        (request.head.arg0, request.head.arg1) = (old, new);
        request
    }

    /// Binds a window to tagged offsets of the region that the list's one element names
    /// ([`Mr::all`]), with rights and a key.
    pub fn bind(
        wr_id: u64,
        window: &Mw,
        region: &'a [Sge; 1],
        part: Range<u64>,
        rights: Rights,
        key: u8,
    ) -> Self {
        let remote = Remote { stag: window.stag(), to: 0 };
        let mut request = Self::new(wr_id, abi::WEFT_OP_BIND_MW, remote, Data::List(region));
        request.head.access = rights.0;
        request.head.imm = key.into();
        (request.head.arg0, request.head.arg1) = (part.start, part.end.saturating_sub(part.start));
        request
    }

    /// Takes a window back that was bound with `key`.
    pub fn invalidate(wr_id: u64, window: &Mw, key: u8) -> Self {
        let remote = Remote { stag: window.bound(key), to: 0 };
        Self::new(wr_id, abi::WEFT_OP_LOCAL_INV, remote, Data::List(&[]))
    }

    /// With immediate data: a send tells them to the receiver, a write takes a receive request for
    /// them.
    #[must_use]
    pub fn imm(mut self, imm: u32) -> Self {
        self.head.imm = imm;
        if u32::from(self.head.opcode) == abi::WEFT_OP_WRITE {
            self.head.opcode = abi::WEFT_OP_WRITE_IMM as u8;
        } else {
            self.head.flags |= abi::WEFT_WR_IMM as u8;
        }
        self
    }

    /// Completes with an entry also if it succeeds.
    #[must_use]
    pub fn signaled(mut self) -> Self {
        self.head.flags |= abi::WEFT_WR_SIGNALED as u8;
        self
    }

    /// Not before earlier reads and atomic operations are done.
    #[must_use]
    pub fn fence(mut self) -> Self {
        self.head.flags |= abi::WEFT_WR_FENCE as u8;
        self
    }

    /// Writes the entry; `room` is the bytes of it.
    #[inline]
    pub(crate) fn encode(&self, room: usize, entry: &mut (impl Entry + ?Sized)) -> Result<()> {
        let head = &self.head;
        let (count, bytes) = match self.data {
            Data::List(list) => (list.len(), list.len() * SGE),
            Data::Inline(bytes) => (bytes.len(), bytes.len()),
        };
        check(room, HEAD, bytes)?;
        let mut flags = head.flags;
        if let Data::Inline(_) = self.data {
            flags |= abi::WEFT_WR_INLINE as u8;
        }
        // No entry has room for more.
        let count = (count as u16).to_ne_bytes();
        let what = u32::from_ne_bytes([head.opcode, flags, count[0], count[1]]);
        let words = [
            head.wr_id,
            pair(what, head.imm),
            head.remote_to,
            pair(head.remote_stag, head.access),
            head.arg0,
            head.arg1,
            0,
            0,
        ];
        entry.put(0, words);
        match self.data {
            Data::List(list) => put_list(list, HEAD / WORD, entry),
            Data::Inline(bytes) => entry.put_bytes(HEAD / WORD, bytes),
        }
        Ok(())
    }
}

/// Writes an entry of a receive queue; `room` is the bytes of it.
#[inline]
pub fn encode_recv(
    wr_id: u64,
    list: &[Sge],
    room: usize,
    entry: &mut (impl Entry + ?Sized),
) -> Result<()> {
    check(room, RECV_HEAD, list.len() * SGE)?;
    entry.put(0, [wr_id, pair(list.len() as u32, 0)]);
    put_list(list, RECV_HEAD / WORD, entry);
    Ok(())
}

/// Whether an entry has room for what comes behind a head.
fn check(room: usize, head: usize, bytes: usize) -> Result<()> {
    let room = room.saturating_sub(head);
    if bytes <= room {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "a list or inline data of {bytes} bytes in a queue whose entries have room for {room}"
    )))
}

/// Writes the elements of a list, from word `at` on.
#[inline]
fn put_list(list: &[Sge], at: usize, entry: &mut (impl Entry + ?Sized)) {
    for (n, element) in list.iter().enumerate() {
        entry.put(at + 2 * n, [element.to, pair(element.length, element.stag)]);
    }
}

/// Two halves of a word, in the order of addresses.
#[inline]
fn pair(first: u32, second: u32) -> u64 {
    let (low, high) =
        if cfg!(target_endian = "little") { (first, second) } else { (second, first) };
    u64::from(low) | (u64::from(high) << 32)
}

impl Mr {
    /// All of it as the one element that [`Request::bind`] takes.
    pub fn whole(&self) -> [Sge; 1] {
        [self.all()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_proto::wqe;

    const REMOTE: Remote = Remote { stag: 0x1234_5678, to: 0x9abc_def0_1234 };

    impl Entry for [u64] {
        fn put<const N: usize>(&mut self, at: usize, words: [u64; N]) {
            self[at..at + N].copy_from_slice(&words);
        }

        fn put_bytes(&mut self, at: usize, bytes: &[u8]) {
            for (n, part) in bytes.chunks(WORD).enumerate() {
                let mut word = [0; WORD];
                word[..part.len()].copy_from_slice(part);
                self[at + n] = u64::from_ne_bytes(word);
            }
        }
    }

    /// An entry of `room` bytes with what `encode` writes; other bytes are as they were.
    fn entry(room: usize, encode: impl FnOnce(&mut [u64]) -> Result<()>) -> Vec<u64> {
        let mut words = vec![u64::MAX; room / WORD];
        encode(&mut words).expect("room");
        words
    }

    #[test]
    fn the_driver_reads_what_is_written() {
        let list = [Sge { to: 5, length: 6, stag: 7 }, Sge { to: 8, length: 9, stag: 10 }];
        let shape = wqe::QueueShape::send(16, 4, 64).expect("allowed");
        // As the driver reads it.
        let room = shape.stride() as usize;
        let read = |request: Request<'_>| {
            let words = entry(room, |words| request.encode(room, &mut *words));
            let mut wqe = wqe::SendWqe::BLANK;
            let (identity, sense) = wqe.read(|n| words[n], &shape);
            sense.expect("it makes sense");
            (identity, wqe)
        };
        let (who, decoded) = read(Request::write(3, &list, REMOTE).signaled().fence());
        assert_eq!((who.wr_id, decoded.opcode), (3, wqe::Opcode::Write));
        assert_eq!((decoded.remote_stag, decoded.remote_to), (REMOTE.stag, REMOTE.to));
        let elements = decoded.tail.list().expect("a list").as_slice();
        let elements: Vec<_> = elements.iter().map(|e| (e.to, e.length, e.stag)).collect();
        assert_eq!(elements, [(5, 6, 7), (8, 9, 10)]);

        let list = [Sge { to: 0, length: 8, stag: 7 }];
        let (_, decoded) = read(Request::compare_swap(4, &list, REMOTE.offset(4), 77, 78));
        assert_eq!((decoded.arg0, decoded.arg1), (77, 78));

        for data in [&b"a word"[..], b"two words, and 1"] {
            let (_, decoded) = read(Request::send_inline(5, data));
            assert_eq!(decoded.tail.inline(), Some(data));
        }

        let shape = wqe::QueueShape::recv(16, 4).expect("allowed");
        let list = [Sge { to: 5, length: 6, stag: 7 }];
        let room = shape.stride() as usize;
        let words = entry(room, |words| encode_recv(6, &list, room, &mut *words));
        let mut decoded = wqe::RecvWqe::BLANK;
        let sense = decoded.read(|n| words[n], &shape);
        assert_eq!((decoded.wr_id, sense.is_ok()), (6, true));
    }

    #[test]
    fn a_write_with_immediate_data_is_an_operation_of_its_own() {
        let bytes = |request: Request<'_>| {
            let words = entry(128, |words| request.encode(128, &mut *words));
            words.into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<_>>()
        };
        let out = bytes(Request::write_inline(1, b"abc", REMOTE).imm(9));
        assert_eq!(out[8], abi::WEFT_OP_WRITE_IMM as u8);
        assert_eq!(out[9], abi::WEFT_WR_INLINE as u8);
        assert_eq!(out[64..67], *b"abc");
        let out = bytes(Request::send_inline(1, b"abc").imm(9));
        assert_eq!(out[8], abi::WEFT_OP_SEND as u8);
        assert_eq!(out[9], (abi::WEFT_WR_INLINE | abi::WEFT_WR_IMM) as u8);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let list = [Sge { to: 0, length: 1, stag: 1 }; 5];
        let room = 64 + 4 * 16;
        let encode = |request: Request<'_>| request.encode(room, &mut vec![0; room / WORD][..]);
        assert!(encode(Request::send(1, &list[..4])).is_ok());
        assert!(matches!(encode(Request::send(1, &list)), Err(Error::Invalid(_))));
        assert!(encode(Request::send_inline(1, &[0; 64])).is_ok());
        assert!(encode(Request::send_inline(1, &[0; 65])).is_err());
        let encode = |list: &[Sge]| encode_recv(1, list, 64, &mut vec![0; 64 / WORD][..]);
        assert!(encode(&list).is_err());
        assert!(encode(&list[..3]).is_ok());
    }
}
