// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The peer and the rings of a connection.

use crate::abi;
use crate::channel::Channel;
use crate::device::open_file;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use crate::time::Deadline;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// The peer and the rings of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    peer: u64,
    link: u32,
    service: u32,
    cells: u32,
    bulk: u32,
    timeout: Duration,
}

impl Connect {
    fn new(peer: u64, link: u32, service: u32) -> Self {
        Connect {
            peer,
            link,
            service,
            cells: 256,
            bulk: 256 << 10,
            timeout: Duration::from_secs(5),
        }
    }

    /// To `service` of the peer with hardware id `hwid`, by the first link that leads there.
    pub fn to_peer(hwid: u64, service: u32) -> Self {
        Connect::new(hwid, abi::WEFT_ANY_LINK, service)
    }

    /// To `service` of the host at the other end of `link`, whichever it is.
    pub fn to_link(link: u32, service: u32) -> Self {
        Connect::new(0, link, service)
    }

    /// By this link only.
    #[must_use]
    pub fn link(mut self, link: u32) -> Self {
        self.link = link;
        self
    }

    /// Messages under way each way: a power of two, 16 to 16384; 256 unless told.
    #[must_use]
    pub fn cells(mut self, cells: u32) -> Self {
        self.cells = cells;
        self
    }

    /// Bytes for messages of more than [`crate::INLINE_BYTES`] bytes under way each way, and so of
    /// the longest message: a multiple of 4096 up to 1 MiB; 256 KiB unless told.
    #[must_use]
    pub fn bulk(mut self, bulk: u32) -> Self {
        self.bulk = bulk;
        self
    }

    /// How long to wait for the peer: up to 60 s; 5 s unless told.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) fn connect(&self, path: &Path) -> Result<Channel> {
        let file = open_file(path, OFlags::empty())?;
        let deadline = Deadline::after(Some(self.timeout));
        loop {
            // 0 would be the driver's default.
            let left = deadline.left().unwrap_or(self.timeout).as_millis().max(1);
            let mut connect = abi::weft_chan_connect {
                peer: self.peer,
                link: self.link,
                service: self.service,
                cells: self.cells,
                bulk: self.bulk,
                timeout_ms: left.try_into().unwrap_or(u32::MAX),
                ..Default::default()
            };
            match connect.call(file.as_fd()) {
                Ok(()) => return Channel::new(file),
                // The file is still fresh.
                Err(e) if Errno::from_io_error(&e) == Some(Errno::INTR) && !deadline.is_over() => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
    }

    fn failed(&self, e: std::io::Error) -> Error {
        match Errno::from_io_error(&e) {
            Some(Errno::HOSTUNREACH) => Error::Unreachable(self.to_string()),
            Some(Errno::CONNREFUSED) => Error::Refused(self.to_string()),
            Some(Errno::NOSPC) => Error::NoRoom { at_peer: false },
            Some(Errno::DQUOT) => {
                Error::Share { what: "memory of the link for channels", most: None }
            }
            Some(Errno::NOBUFS) => Error::NoRoom { at_peer: true },
            Some(Errno::TIMEDOUT) => Error::TimedOut("connecting"),
            Some(Errno::CONNRESET) => Error::Reset,
            Some(Errno::INVAL) => Error::Invalid(format!(
                "cannot connect with service {}, {} cells, {} bytes of bulk ring and a timeout of \
                 {:?}: services begin at 1, cells are a power of two from {} to {}, a bulk ring is a \
                 multiple of 4096 up to {} bytes, a timeout is up to 60 s",
                self.service,
                self.cells,
                self.bulk,
                self.timeout,
                abi::WEFT_CHAN_MIN_CELLS,
                abi::WEFT_CHAN_MAX_CELLS,
                abi::WEFT_CHAN_MAX_BULK,
            )),
            _ => Error::os("connecting", e),
        }
    }
}

impl fmt::Display for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.peer, self.link) {
            (0, link) => write!(f, "service {} at the end of link {link}", self.service),
            (peer, abi::WEFT_ANY_LINK) => write!(f, "service {} of {peer:#x}", self.service),
            (peer, link) => write!(f, "service {} of {peer:#x} by link {link}", self.service),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_told_from_room_that_is_not_there() {
        let failed = |e: Errno| Connect::to_link(0, 7).failed(e.into());
        assert!(matches!(failed(Errno::NOSPC), Error::NoRoom { at_peer: false }));
        assert!(matches!(failed(Errno::NOBUFS), Error::NoRoom { at_peer: true }));
        let share = failed(Errno::DQUOT);
        assert!(matches!(share, Error::Share { .. }));
        assert_eq!(
            share.to_string(),
            "memory of the link for channels: this user has its share of the port's"
        );
        assert!(
            share.hint().is_some_and(|hint| hint.contains("half of what the other users leave"))
        );
    }
}
