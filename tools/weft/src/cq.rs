// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completion queues: what became of requests.

use crate::abi;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use crate::mapping::Ring;
use crate::objects::{Handle, Objects};
use crate::request::Operation;
use crate::status::Status;
use crate::time::Deadline;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

const ENTRIES_AT: usize = abi::WEFT_CQ_ENTRIES_AT as usize;
const ENTRY: usize = size_of::<abi::weft_cqe>();
const WORDS: usize = ENTRY / size_of::<u64>();

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The request's.
    pub wr_id: u64,
    /// Number of the queue pair.
    pub qpn: u32,
    /// Bytes received, read or written.
    pub bytes: u32,
    /// Immediate data, if there are any.
    pub imm: Option<u32>,
    /// What became of it.
    pub status: Status,
    /// What was asked for, or what came.
    pub operation: Operation,
    /// It is of no request: a queue pair that takes its receive requests from a shared queue has
    /// gone to ERR, and the status says why.
    pub ends: bool,
}

impl Completion {
    /// An error unless it succeeded.
    pub fn must(self) -> Result<Self> {
        match self.status {
            Status::Success => Ok(self),
            status => Err(Error::Failed { wr_id: self.wr_id, status }),
        }
    }
}

/// What queue pairs hold of a completion queue.
#[derive(Debug)]
pub struct Shared {
    pub handle: Handle,
    event: OwnedFd,
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    pub(crate) shared: Arc<Shared>,
    memory: Ring,
    entries: u64,
    consumed: u64,
}

impl Cq {
    fn new(objects: &Objects, entries: u32) -> Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| Error::os("eventfd", e.into()))?;
        let event_fd = event.as_raw_fd();
        let mut create = abi::weft_cq_create { entries, event_fd, ..Default::default() };
        objects.make("a completion queue", |l| l.cq_share, &mut create)?;
        let handle = Handle::new(objects, create.cq);
        let bytes = ENTRIES_AT as u64 + u64::from(entries) * ENTRY as u64;
        if create.ring_bytes < bytes {
            return Err(Error::Driver("the memory of a completion queue is too small"));
        }
        let memory = Ring::new(objects.as_fd(), create.ring_offset, create.ring_bytes as usize)
            .map_err(|e| Error::os("mapping a completion queue", e))?;
        let shared = Arc::new(Shared { handle, event });
        Ok(Cq { shared, memory, entries: entries.into(), consumed: 0 })
    }

    /// Takes the next completion, if one has come.
    pub fn poll(&mut self) -> Result<Option<Completion>> {
        // A power of two: the driver makes no other.
        let at = ENTRIES_AT + (self.consumed & (self.entries - 1)) as usize * ENTRY;
        let valid = self.memory.load32(at + offset_of!(abi::weft_cqe, valid));
        if !is_there(valid, self.consumed, self.entries) {
            if self.memory.load32(offset_of!(abi::weft_cq_ctl, overrun)) != 0 {
                return Err(Error::Overrun);
            }
            return Ok(None);
        }
        let completion = decode(self.memory.words(at));
        self.consumed += 1;
        self.memory.publish64(offset_of!(abi::weft_cq_ctl, consumed), self.consumed);
        Ok(Some(completion))
    }

    /// Waits for the next completion, asleep; any time without `timeout`. The engine works in this thread
    /// before it sleeps, and when a peer rings.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Completion> {
        match self.poll()? {
            Some(completion) => Ok(completion),
            None => self.sleep(0, timeout),
        }
    }

    /// Rings for the queue pair `qp`, 0 for none, and waits likewise.
    pub(crate) fn sleep(&mut self, qp: u32, timeout: Option<Duration>) -> Result<Completion> {
        let mut wait = abi::weft_cq_wait {
            cq: self.shared.handle.number,
            consumed: self.consumed,
            qp,
            timeout_ms: timeout.map_or(abi::WEFT_CQ_FOREVER, milliseconds),
            ..Default::default()
        };
        loop {
            let waited = wait.call(self.shared.handle.objects.as_fd());
            if let Some(completion) = self.poll()? {
                return Ok(completion);
            }
            match waited.as_ref().map_err(Errno::from_io_error) {
                // Interrupted, the driver has taken from the timeout what has passed.
                Ok(()) | Err(Some(Errno::INTR)) => {}
                Err(Some(Errno::TIMEDOUT | Errno::AGAIN)) => {
                    return Err(Error::TimedOut("waiting for a completion"));
                }
                Err(_) => waited.map_err(|e| Error::os("waiting for a completion", e))?,
            }
        }
    }

    /// Waits likewise, but lets the engine work in this thread and never sleeps.
    pub fn spin(&mut self, timeout: Option<Duration>) -> Result<Completion> {
        if let Some(completion) = self.poll()? {
            return Ok(completion);
        }
        let deadline = Deadline::after(timeout);
        let objects = self.shared.handle.objects.clone();
        loop {
            if let Some(completion) = self.poll()? {
                return Ok(completion);
            }
            objects.progress(0)?;
            if deadline.is_over() {
                return match self.poll()? {
                    Some(completion) => Ok(completion),
                    None => Err(Error::TimedOut("waiting for a completion")),
                };
            }
        }
    }

    /// Asks for one event when a completion comes that was not taken yet: then the descriptor can
    /// be read. At once if there is one.
    pub fn arm(&self) -> Result<()> {
        let mut arm = abi::weft_cq_arm {
            cq: self.shared.handle.number,
            consumed: self.consumed,
            ..Default::default()
        };
        arm.call(self.shared.handle.objects.as_fd())
            .map_err(|e| Error::os("arming a completion queue", e))
    }

    /// Takes the event back that woke the sleeper.
    pub fn quiet(&self) -> Result<()> {
        match read(&self.shared.event, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::os("reading an eventfd", errno.into())),
        }
    }
}

impl Objects {
    /// A completion queue of `entries`, a power of two from 16 on.
    pub fn cq(&self, entries: u32) -> Result<Cq> {
        Cq::new(self, entries)
    }
}

impl AsFd for Cq {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

/// As the driver counts, rounded up; the longest time if there are too many.
fn milliseconds(time: Duration) -> u32 {
    let all = time.as_nanos().div_ceil(1_000_000);
    u32::try_from(all).unwrap_or(u32::MAX).min(abi::WEFT_CQ_FOREVER - 1)
}

/// Whether `valid`, of the entry in the place of this number, says that it has come.
fn is_there(valid: u32, number: u64, entries: u64) -> bool {
    (valid & abi::WEFT_CQE_PHASE != 0) == (number & entries == 0)
}

#[inline]
fn decode(entry: [u64; WORDS]) -> Completion {
    let bytes = |at: usize| entry[at / 8].to_ne_bytes();
    let word = |at: usize| {
        let [a, b, c, d, e, f, g, h] = bytes(at);
        u32::from_ne_bytes(if at % 8 == 0 { [a, b, c, d] } else { [e, f, g, h] })
    };
    let byte = |at: usize| bytes(at)[at % 8];
    let status = offset_of!(abi::weft_cqe, status);
    let flags = u32::from(byte(offset_of!(abi::weft_cqe, flags)));
    let imm = word(offset_of!(abi::weft_cqe, imm));
    Completion {
        wr_id: entry[offset_of!(abi::weft_cqe, wr_id) / 8],
        qpn: word(offset_of!(abi::weft_cqe, qpn)),
        bytes: word(offset_of!(abi::weft_cqe, byte_len)),
        imm: (flags & abi::WEFT_WC_FLAG_IMM != 0).then_some(imm),
        status: u16::from_ne_bytes([byte(status), byte(status + 1)]).into(),
        operation: byte(offset_of!(abi::weft_cqe, opcode)).into(),
        ends: flags & abi::WEFT_WC_FLAG_END != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_proto::cqe::{self, CqShape, Cqe};

    #[test]
    fn no_limit_is_taken_for_none_or_for_nothing() {
        let cases = [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2)];
        for (nanos, ms) in cases {
            assert_eq!(milliseconds(Duration::from_nanos(nanos)), ms);
        }
        assert_eq!(milliseconds(Duration::MAX), abi::WEFT_CQ_FOREVER - 1);
    }

    /// What the driver writes of a completion is what a program is told.
    #[test]
    fn completions_are_those_of_the_driver() {
        let shape = CqShape::new(16).expect("allowed");
        let mut told = vec![];
        for number in 0.. {
            let Some(status) = cqe::Status::of(number) else { break };
            let number = u64::from(number) * 5;
            let ends = number % 2 == 0;
            let imm = (number % 3 == 0).then_some(0x8765_4321);
            let (wr_id, qpn) = (0x0123_4567_89ab_cdef, 0xab_cdef);
            let opcode = abi::WEFT_OP_RECV as u8;
            let cqe = Cqe { wr_id, qpn, byte_len: 0xffff_fff0, imm, status, opcode, ends };
            let words = cqe.encode(number, shape);
            let completion = decode(words);
            assert_eq!((completion.wr_id, completion.qpn), (wr_id, qpn));
            assert_eq!((completion.bytes, completion.imm), (0xffff_fff0, imm));
            assert_eq!((completion.operation, completion.ends), (Operation::from(opcode), ends));
            assert_eq!(completion.status, Status::from(status as u16));
            told.push(completion.status);

            let at = offset_of!(abi::weft_cqe, valid);
            let bytes = words[at / 8].to_ne_bytes();
            let valid = u32::from_ne_bytes(bytes[at % 8..][..4].try_into().expect("four bytes"));
            assert!(is_there(valid, number, 16) && !is_there(valid, number + 16, 16));
            assert!(!is_there(0, number % 16, 16), "fresh memory is empty for a lap");
            assert_eq!(shape.entry_at(number), ENTRIES_AT + (number as usize % 16) * ENTRY);
        }
        assert_eq!(told.len(), abi::WEFT_WC_PROTOCOL as usize + 1);
        for (n, status) in told.iter().enumerate() {
            assert!(!matches!(status, Status::Other(_)) && !told[..n].contains(status));
        }
    }
}
