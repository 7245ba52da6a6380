// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completion queues: what became of requests.

use crate::abi;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use crate::mapping::Ring;
use crate::objects::{Handle, Objects};
use crate::request::Operation;
use crate::time::{Deadline, sleep};
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::io::{Errno, read};
use std::fmt;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

const ENTRIES_AT: usize = abi::WEFT_CQ_ENTRIES_AT as usize;
const ENTRY: usize = size_of::<abi::weft_cqe>();

/// What became of a request. After any but success its queue pair is in ERR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It was done.
    Success,
    /// It was not begun, or not ended, when the queue pair went to ERR.
    Flushed,
    /// The list is shorter than what came.
    LocalLength,
    /// The request makes no sense.
    LocalRequest,
    /// An STag of the list: none, of another domain, rights or bounds.
    LocalProtection,
    /// An STag at the peer: likewise.
    RemoteAccess,
    /// The peer takes no such request.
    RemoteRequest,
    /// The peer failed to do it.
    RemoteOperation,
    /// The window could not be bound.
    Bind,
    /// The link went down; the peer may have done it or not.
    Link,
    /// The peer's queue pair is in ERR or gone, or its driver is.
    Peer,
    /// The peer broke the protocol, or another one was agreed on.
    Protocol,
    /// One that this library does not know.
    Other(u16),
}

impl From<u16> for Status {
    fn from(number: u16) -> Self {
        match number.into() {
            abi::WEFT_WC_SUCCESS => Status::Success,
            abi::WEFT_WC_FLUSHED => Status::Flushed,
            abi::WEFT_WC_LOCAL_LENGTH => Status::LocalLength,
            abi::WEFT_WC_LOCAL_REQUEST => Status::LocalRequest,
            abi::WEFT_WC_LOCAL_PROT => Status::LocalProtection,
            abi::WEFT_WC_REMOTE_ACCESS => Status::RemoteAccess,
            abi::WEFT_WC_REMOTE_REQUEST => Status::RemoteRequest,
            abi::WEFT_WC_REMOTE_OP => Status::RemoteOperation,
            abi::WEFT_WC_BIND => Status::Bind,
            abi::WEFT_WC_LINK => Status::Link,
            abi::WEFT_WC_PEER => Status::Peer,
            abi::WEFT_WC_PROTOCOL => Status::Protocol,
            _ => Status::Other(number),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Success => "success",
            Status::Flushed => "flushed: the queue pair is in ERR",
            Status::LocalLength => "the list is shorter than what came",
            Status::LocalRequest => "the request makes no sense",
            Status::LocalProtection => "the list names memory that the queue pair may not use",
            Status::RemoteAccess => "the peer does not allow access to that memory",
            Status::RemoteRequest => "the peer takes no such request",
            Status::RemoteOperation => "the peer failed to do it",
            Status::Bind => "the window could not be bound",
            Status::Link => "the link went down",
            Status::Peer => "the peer's queue pair is gone",
            Status::Protocol => "the peer broke the protocol",
            Status::Other(number) => return write!(f, "status {number}"),
        })
    }
}

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
    pub(crate) fn new(objects: &Objects, entries: u32) -> Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| Error::os("eventfd", e.into()))?;
        let event_fd = event.as_raw_fd();
        let mut create = abi::weft_cq_create { entries, event_fd, ..Default::default() };
        objects.make("a completion queue", &mut create)?;
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
        let at = ENTRIES_AT + (self.consumed % self.entries) as usize * ENTRY;
        let valid = self.memory.load32(at + offset_of!(abi::weft_cqe, valid));
        let lap = self.consumed / self.entries;
        if (valid & abi::WEFT_CQE_PHASE != 0) != (lap % 2 == 0) {
            if self.memory.load32(offset_of!(abi::weft_cq_ctl, overrun)) != 0 {
                return Err(Error::Overrun);
            }
            return Ok(None);
        }
        let mut entry = [0; ENTRY];
        self.memory.read(at, &mut entry);
        let completion = decode(&entry);
        self.consumed += 1;
        self.memory.publish64(offset_of!(abi::weft_cq_ctl, consumed), self.consumed);
        Ok(Some(completion))
    }

    /// Waits for the next completion, asleep; any time without `timeout`.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Completion> {
        let deadline = Deadline::after(timeout);
        loop {
            if let Some(completion) = self.poll()? {
                return Ok(completion);
            }
            self.arm()?;
            if deadline.is_over() || !sleep(self.as_fd(), PollFlags::IN, deadline)? {
                return Err(Error::TimedOut("waiting for a completion"));
            }
            self.quiet()?;
        }
    }

    /// Waits likewise, but lets the engine work in this thread and never sleeps.
    pub fn spin(&mut self, timeout: Option<Duration>) -> Result<Completion> {
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

    /// Takes the event back that woke who slept.
    pub fn quiet(&self) -> Result<()> {
        match read(&self.shared.event, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::os("reading an eventfd", errno.into())),
        }
    }
}

impl AsFd for Cq {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

fn decode(entry: &[u8; ENTRY]) -> Completion {
    let word =
        |at: usize| u32::from_ne_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
    let low = word(offset_of!(abi::weft_cqe, wr_id));
    let high = word(offset_of!(abi::weft_cqe, wr_id) + 4);
    let wr_id = if cfg!(target_endian = "little") { [low, high] } else { [high, low] };
    let status = offset_of!(abi::weft_cqe, status);
    let flags = u32::from(entry[offset_of!(abi::weft_cqe, flags)]);
    let imm = word(offset_of!(abi::weft_cqe, imm));
    Completion {
        wr_id: (u64::from(wr_id[1]) << 32) | u64::from(wr_id[0]),
        qpn: word(offset_of!(abi::weft_cqe, qpn)),
        bytes: word(offset_of!(abi::weft_cqe, byte_len)),
        imm: (flags & abi::WEFT_WC_FLAG_IMM != 0).then_some(imm),
        status: u16::from_ne_bytes([entry[status], entry[status + 1]]).into(),
        operation: entry[offset_of!(abi::weft_cqe, opcode)].into(),
        ends: flags & abi::WEFT_WC_FLAG_END != 0,
    }
}
