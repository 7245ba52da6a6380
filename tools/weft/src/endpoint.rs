// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Functions of shared endpoints that the hierarchy of this host gives it: work is submitted, and
//! reaped when it is done. What a function works with are areas, which only it and this program
//! reach.

use crate::abi;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use crate::mapping::Ring;
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The most pieces of work, or completions, of a call.
const BATCH: usize = abi::WEFT_EP_MAX_BATCH as usize;

/// Which function of a shared endpoint, and how it is to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionOptions {
    endpoint: u64,
    ve: u32,
    function: u32,
    entries: u32,
    flags: u32,
}

impl FunctionOptions {
    /// The first function of a virtual endpoint of the endpoint with that hardware id.
    pub fn new(endpoint: u64, ve: u32) -> Self {
        FunctionOptions { endpoint, ve, function: 0, entries: 64, flags: 0 }
    }

    /// Another function of it.
    pub fn function(mut self, number: u32) -> Self {
        self.function = number;
        self
    }

    /// How much work can be outstanding: a power of two up to 1024. 64 by default.
    pub fn entries(mut self, entries: u32) -> Self {
        self.entries = entries;
        self
    }

    /// Work is written to the function, which else fetches it.
    pub fn push_work(self, push: bool) -> Self {
        self.flag(abi::WEFT_EP_PUSH_WORK, push)
    }

    /// Areas are in the memory of the function, which else fetches data, and delivers them.
    pub fn push_data(self, push: bool) -> Self {
        self.flag(abi::WEFT_EP_PUSH_DATA, push)
    }

    /// Completions are read from the function, which else delivers them.
    pub fn pull_done(self, pull: bool) -> Self {
        self.flag(abi::WEFT_EP_PULL_DONE, pull)
    }

    fn flag(mut self, flag: u32, set: bool) -> Self {
        self.flags = if set { self.flags | flag } else { self.flags & !flag };
        self
    }
}

/// What a function may do with an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads it.
    Read,
    /// It writes it.
    Write,
    /// Both.
    Both,
}

impl Access {
    fn bits(self) -> u32 {
        match self {
            Access::Read => abi::WEFT_EP_MAY_READ,
            Access::Write => abi::WEFT_EP_MAY_WRITE,
            Access::Both => abi::WEFT_EP_MAY_READ | abi::WEFT_EP_MAY_WRITE,
        }
    }
}

/// A part of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    area: u32,
    offset: u64,
    bytes: u32,
}

/// A piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Work(abi::weft_ep_work);

impl Work {
    fn new(cookie: u64, op: u32, sources: &[Part], dests: &[Part]) -> Self {
        let mut work = abi::weft_ep_work {
            cookie,
            op: op as u8,
            // What does not fit the driver refuses.
            sources: sources.len().try_into().unwrap_or(u8::MAX),
            dests: dests.len().try_into().unwrap_or(u8::MAX),
            ..Default::default()
        };
        for (segment, part) in work.segment.iter_mut().zip(sources.iter().chain(dests)) {
            let Part { area, offset, bytes } = *part;
            *segment = abi::weft_ep_segment { area, bytes, offset };
        }
        Work(work)
    }

    /// Nothing, which has a completion as well.
    pub fn nothing(cookie: u64) -> Self {
        Self::new(cookie, abi::WEFT_EP_OP_NOP, &[], &[])
    }

    /// Copies; with `sum` it tells the CRC-32C of what it has read.
    pub fn copy(cookie: u64, from: &[Part], to: &[Part], sum: bool) -> Self {
        let op = if sum { abi::WEFT_EP_OP_COPY_CRC32C } else { abi::WEFT_EP_OP_COPY };
        Self::new(cookie, op, from, to)
    }

    /// Tells the CRC-32C.
    pub fn sum(cookie: u64, of: &[Part]) -> Self {
        Self::new(cookie, abi::WEFT_EP_OP_CRC32C, of, &[])
    }
}

/// What became of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DoneStatus {
    /// It is done.
    Ok,
    /// The endpoint finds no sense in it.
    Bad,
    /// It is not of the protocol that was chosen.
    Protocol,
    /// An area is gone, or may not be used so.
    Unreachable,
    /// It is more than is done at once.
    TooLong,
    /// The function works no more: it may be done, or not.
    Flushed,
    /// A status that this library does not know.
    Other(u32),
}

impl From<u32> for DoneStatus {
    fn from(status: u32) -> Self {
        match status {
            abi::WEFT_EP_DONE_OK => DoneStatus::Ok,
            abi::WEFT_EP_DONE_BAD => DoneStatus::Bad,
            abi::WEFT_EP_DONE_PROTOCOL => DoneStatus::Protocol,
            abi::WEFT_EP_DONE_UNREACHABLE => DoneStatus::Unreachable,
            abi::WEFT_EP_DONE_TOO_LONG => DoneStatus::TooLong,
            abi::WEFT_EP_DONE_FLUSHED => DoneStatus::Flushed,
            other => DoneStatus::Other(other),
        }
    }
}

impl fmt::Display for DoneStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DoneStatus::Ok => f.write_str("ok"),
            DoneStatus::Bad => f.write_str("bad"),
            DoneStatus::Protocol => f.write_str("protocol"),
            DoneStatus::Unreachable => f.write_str("unreachable"),
            DoneStatus::TooLong => f.write_str("too long"),
            DoneStatus::Flushed => f.write_str("flushed"),
            DoneStatus::Other(number) => write!(f, "status {number}"),
        }
    }
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Of the work.
    pub cookie: u64,
    /// What became of it.
    pub status: DoneStatus,
    /// CRC-32C of what was read, if that was asked for; else 0.
    pub crc: u32,
    /// Bytes that were done.
    pub bytes: u64,
}

/// What is known of a function that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionStatus {
    /// It works.
    pub works: bool,
    /// Why it has failed, as it says itself; 0 unless that is so.
    pub failed: u32,
    /// Work that is not completed.
    pub outstanding: u32,
    /// Areas that there are.
    pub areas: u32,
    /// Pieces of work that were submitted.
    pub submitted: u64,
    /// And completed.
    pub completed: u64,
    /// Bytes that these have read.
    pub bytes: u64,
}

/// A function of a shared endpoint, which is this program's until it is dropped.
#[derive(Debug)]
pub struct Function {
    file: Arc<OwnedFd>,
}

impl Function {
    /// `file` is a fresh one.
    pub(crate) fn open(file: OwnedFd, options: &FunctionOptions) -> Result<Self> {
        let FunctionOptions { endpoint, ve, function, entries, flags } = *options;
        let mut open =
            abi::weft_ep_open { flags, endpoint, ve, function, entries, ..Default::default() };
        let name = || format!("function {function} of {endpoint:#018x}.{ve}");
        open.call(file.as_fd()).map_err(|e| match Errno::from_io_error(&e) {
            Some(Errno::NOENT | Errno::OPNOTSUPP) => Error::NotGiven(name()),
            Some(Errno::BUSY) => Error::Used(name()),
            Some(Errno::NOSPC) => Error::Limit(Error::FUNCTIONS),
            Some(Errno::HOSTUNREACH) => Error::Unreachable(name()),
            Some(Errno::INVAL) => {
                Error::Invalid(format!("{entries} entries: a power of two up to 1024"))
            }
            _ => ended("opening a function", e),
        })?;
        Ok(Function { file: Arc::new(file) })
    }

    /// Memory for the function to work with: zeroed, in whole pages, up to 4 MiB.
    pub fn area(&self, bytes: usize, access: Access) -> Result<EndpointArea> {
        let mut call =
            abi::weft_ep_area { flags: access.bits(), bytes: bytes as u64, ..Default::default() };
        call.call(self.as_fd()).map_err(|e| match Errno::from_io_error(&e) {
            Some(Errno::NOSPC) => Error::Limit(Error::AREAS),
            Some(Errno::BUSY) => Error::Busy,
            Some(Errno::INVAL) => Error::Invalid(format!("an area of {bytes} bytes: up to 4 MiB")),
            _ => ended("making an area", e),
        })?;
        let handle = AreaHandle { file: self.file.clone(), number: call.area };
        let memory = Ring::new(self.as_fd(), call.offset, call.bytes as usize);
        let memory = memory.map_err(|e| Error::os("mapping an area", e))?;
        Ok(EndpointArea { memory, handle })
    }

    /// Submits the first of these pieces of work, as many as there is room for: how many.
    pub fn submit(&self, work: &[Work]) -> Result<usize> {
        let work: Vec<abi::weft_ep_work> = work.iter().take(BATCH).map(|work| work.0).collect();
        if work.is_empty() {
            return Ok(0);
        }
        let mut call = abi::weft_ep_submit {
            work: work.as_ptr() as u64,
            count: work.len() as u32,
            ..Default::default()
        };
        match call.call(self.as_fd()) {
            Ok(()) => Ok(call.done as usize),
            Err(e) => match Errno::from_io_error(&e) {
                Some(Errno::AGAIN) => Ok(0),
                Some(Errno::INVAL) => {
                    Err(Error::Invalid(format!("work {}: it makes no sense", call.done)))
                }
                Some(Errno::NOENT) => {
                    Err(Error::Invalid(format!("work {}: there is no such area", call.done)))
                }
                _ => Err(ended("submitting work", e)),
            },
        }
    }

    /// Takes completions, in the order of the work; waits for the first, any time without
    /// `timeout`. None: time is up.
    pub fn reap(&self, timeout: Option<Duration>) -> Result<Vec<Done>> {
        let mut room = [abi::weft_ep_done::default(); BATCH];
        let timeout_ms = match timeout {
            None => abi::WEFT_EP_FOREVER,
            Some(time) => {
                time.as_millis().min(u128::from(abi::WEFT_EP_FOREVER - 1)).try_into().unwrap_or(0)
            }
        };
        let mut call = abi::weft_ep_reap {
            done: room.as_mut_ptr() as u64,
            count: BATCH as u32,
            timeout_ms,
            ..Default::default()
        };
        match call.call(self.as_fd()) {
            Ok(()) => {}
            Err(e) => match Errno::from_io_error(&e) {
                Some(Errno::AGAIN | Errno::TIMEDOUT) => return Ok(vec![]),
                _ => return Err(ended("waiting for completions", e)),
            },
        }
        let done = room.iter().take(call.count as usize);
        Ok(done
            .map(|done| Done {
                cookie: done.cookie,
                status: done.status.into(),
                crc: done.crc,
                bytes: done.bytes,
            })
            .collect())
    }

    /// What there is to know of it.
    pub fn status(&self) -> Result<FunctionStatus> {
        let mut call = abi::weft_ep_query::default();
        call.call(self.as_fd()).map_err(|e| Error::os("asking for a function's state", e))?;
        Ok(FunctionStatus {
            works: call.broken == 0,
            failed: call.failed,
            outstanding: call.outstanding,
            areas: call.areas,
            submitted: call.submitted,
            completed: call.completed,
            bytes: call.bytes,
        })
    }

    /// Waits until completions can be reaped, or the function works no more; false when time is up.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        crate::time::sleep(self.as_fd(), PollFlags::IN, crate::time::Deadline::after(timeout))
    }
}

impl AsFd for Function {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The error of a call that a function ends which works no more.
fn ended(what: &'static str, error: io::Error) -> Error {
    match Errno::from_io_error(&error) {
        Some(Errno::SHUTDOWN) => Error::Withdrawn,
        Some(Errno::CONNRESET) => Error::Reset,
        _ => Error::os(what, error),
    }
}

/// The driver's area, taken away when this is dropped.
#[derive(Debug)]
struct AreaHandle {
    file: Arc<OwnedFd>,
    number: u32,
}

impl Drop for AreaHandle {
    fn drop(&mut self) {
        let mut call = abi::weft_ep_free { area: self.number, ..Default::default() };
        // It is there; and if the function works no more it is gone with it.
        let _ = call.call(self.file.as_fd());
    }
}

/// An area: taken from the function when it is dropped. Work that names it then is unreachable.
#[derive(Debug)]
pub struct EndpointArea {
    // Not mapped any more when the driver takes it away.
    memory: Ring,
    handle: AreaHandle,
}

impl EndpointArea {
    /// Bytes of it.
    pub fn len(&self) -> usize {
        self.memory.bytes()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// `bytes` bytes from `offset` on.
    pub fn part(&self, offset: usize, bytes: usize) -> Part {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Part { area: self.handle.number, offset: offset as u64, bytes }
    }

    /// Copies bytes out, from `at` on.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        self.memory.read(at, out);
    }

    /// Copies bytes in, from `at` on.
    ///
    /// # Panics
    /// If there is not so much room.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.memory.write(at, bytes);
    }
}
