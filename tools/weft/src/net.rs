// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Sockets: streams of bytes to programs of other hosts, with the traits of [`std::io`].
//!
//! [`Listener`] and [`Stream`] are used as those of [`std::net`]; a host is named by its hardware id, and a service
//! by its number. Services of sockets and those of channels are apart. Bytes are in the memory of the peer, or ready
//! to be fetched from there, when `write` returns.
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use weft::{Port, net::{Connect, Stream}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let port = Port::open(0)?;
//! let mut stream = Stream::connect(&port, &Connect::new(0x2, 7000))?;
//! stream.write_all(b"hello")?;
//! stream.shutdown(std::net::Shutdown::Write)?;
//! let mut answer = Vec::new();
//! stream.read_to_end(&mut answer)?;
//! # Ok(())
//! # }
//! ```
//!
//! Errors are those of [`std::net`], with their numbers in [`std::io::Error::raw_os_error`]: ECONNREFUSED, nothing listens
//! there; ENOBUFS, the arena of the link has no room for another socket, at either end; EHOSTUNREACH, no link leads there;
//! ETIMEDOUT; EOPNOTSUPP, one of the two ports says that it has no sockets; ECONNRESET, the link or the peer was lost;
//! ENETDOWN, the port was removed; EPIPE, the peer has closed its end. Documentation/sockets.rst has all.

use crate::abi;
use crate::device::open_file;
use crate::ioctl::Ioctl;
use crate::port::Port;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The peer of a socket, and how data are moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    call: Call,
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    peer: u64,
    link: u32,
    service: u32,
    pulled: bool,
    bytes: u32,
}

impl Connect {
    /// To `service` of the host with hardware id `peer`, which may be this one.
    pub fn new(peer: u64, service: u32) -> Self {
        let link = abi::WEFT_ANY_LINK;
        Connect {
            call: Call { peer, link, service, pulled: false, bytes: 0 },
            timeout: Duration::from_secs(5),
        }
    }

    /// By this link only.
    #[must_use]
    pub fn link(mut self, link: u32) -> Self {
        self.call.link = link;
        self
    }

    /// Has data fetched by their receiver, instead of stored by their sender.
    #[must_use]
    pub fn pulled(mut self, pulled: bool) -> Self {
        self.call.pulled = pulled;
        self
    }

    /// Bytes of the memory for what is under way, of each end: a multiple of 4096 up to 1 MiB; 16 KiB unless told.
    #[must_use]
    pub fn bytes(mut self, bytes: u32) -> Self {
        self.call.bytes = bytes;
        self
    }

    /// How long to wait for the peer: up to 60 s; 5 s unless told.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Opens a file of a port that has no role yet.
fn fresh(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    open_file(path, flags).map_err(|error| match error {
        crate::Error::Os { source, .. } => source,
        other => io::Error::new(io::ErrorKind::NotFound, other),
    })
}

/// A stream of bytes to a program of another host, or of this one.
#[derive(Debug)]
pub struct Stream {
    file: File,
}

impl Stream {
    /// Connects, and waits until the peer has accepted.
    pub fn connect(port: &Port, to: &Connect) -> io::Result<Self> {
        let file = fresh(port.path(), OFlags::empty())?;
        let Call { peer, link, service, pulled, bytes } = to.call;
        let protocol = if pulled { abi::WEFT_PULL_WQE | abi::WEFT_PULL_DATA } else { 0 };
        // 0 would be the driver's default.
        let timeout = to.timeout.as_millis().max(1);
        let mut call = abi::weft_sock_connect {
            peer,
            link,
            service,
            protocol,
            bytes,
            timeout_ms: timeout.try_into().unwrap_or(u32::MAX),
            ..Default::default()
        };
        call.call(file.as_fd())?;
        Ok(Stream { file: file.into() })
    }

    /// Ends one direction, or both: after [`Shutdown::Write`] the peer reads to the end.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => abi::WEFT_SHUT_RECV,
            Shutdown::Write => abi::WEFT_SHUT_SEND,
            Shutdown::Both => abi::WEFT_SHUT_RECV | abi::WEFT_SHUT_SEND,
        };
        abi::weft_sock_shutdown { how, ..Default::default() }.call(self.file.as_fd())
    }

    /// Has calls fail with [`io::ErrorKind::WouldBlock`] rather than wait.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        let flags = fcntl_getfl(&self.file)?;
        let flags = if on { flags | OFlags::NONBLOCK } else { flags - OFlags::NONBLOCK };
        Ok(fcntl_setfl(&self.file, flags)?)
    }

    /// The hardware id of the peer, as its port attests it.
    pub fn peer(&self) -> io::Result<u64> {
        Ok(self.info()?.peer_hwid)
    }

    /// Bytes sent and received so far.
    pub fn counts(&self) -> io::Result<(u64, u64)> {
        let info = self.info()?;
        Ok((info.sent, info.received))
    }

    fn info(&self) -> io::Result<abi::weft_sock_info> {
        let mut info = abi::weft_sock_info::default();
        info.call(self.file.as_fd())?;
        Ok(info)
    }

    /// Another handle of the same socket, for another thread: it is closed when all are.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Stream { file: self.file.try_clone()? })
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        (&*self).read(to)
    }
}

impl Read for &Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(to)
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&*self).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for &Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&self.file).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl From<Stream> for OwnedFd {
    fn from(stream: Stream) -> Self {
        stream.file.into()
    }
}

/// A service that waits for connections.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    file: OwnedFd,
}

impl Listener {
    /// Listens on `service` of a port; up to `backlog` requests wait to be accepted.
    pub fn bind(port: &Port, service: u32, backlog: u32) -> io::Result<Self> {
        let path = port.path().to_path_buf();
        let file = fresh(&path, OFlags::empty())?;
        abi::weft_sock_listen { service, backlog, ..Default::default() }.call(file.as_fd())?;
        Ok(Listener { path, file })
    }

    /// Waits for a request, and accepts it.
    pub fn accept(&self) -> io::Result<Stream> {
        self.take(OFlags::empty())
    }

    /// Accepts the oldest request that waits; [`io::ErrorKind::WouldBlock`]: none does.
    pub fn try_accept(&self) -> io::Result<Stream> {
        let stream = self.take(OFlags::NONBLOCK)?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    fn take(&self, flags: OFlags) -> io::Result<Stream> {
        loop {
            let file = fresh(&self.path, flags)?;
            let listen_fd = self.file.as_raw_fd();
            let mut call = abi::weft_sock_accept { listen_fd, ..Default::default() };
            match call.call(file.as_fd()) {
                Ok(()) => return Ok(Stream { file: file.into() }),
                // The peer has given up; another one may wait.
                Err(e) if Errno::from_io_error(&e) == Some(Errno::CONNABORTED) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Accepts one request after the other, without end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<Stream>> + '_ {
        std::iter::repeat_with(|| self.accept())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
