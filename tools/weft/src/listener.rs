// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A service that waits for connections.

use crate::abi;
use crate::channel::Channel;
use crate::device::open_file;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use crate::objects::share_of;
use crate::time::{Deadline, sleep};
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What errors call them.
const LISTENERS: &str = "files that listen";

/// A service that waits for connections.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    file: OwnedFd,
    service: u32,
}

impl Listener {
    pub(crate) fn new(path: &Path, service: u32, backlog: u32) -> Result<Self> {
        let file = open_file(path, OFlags::empty())?;
        let mut listen = abi::weft_chan_listen { service, backlog, ..Default::default() };
        listen.call(file.as_fd()).map_err(|e| match Errno::from_io_error(&e) {
            Some(Errno::ADDRINUSE) => Error::InUse(service),
            Some(Errno::NOSPC) => Error::Limit(LISTENERS),
            Some(Errno::DQUOT) => {
                Error::Share { what: LISTENERS, most: share_of(file.as_fd(), |l| l.listener_share) }
            }
            Some(Errno::INVAL) => Error::Invalid(format!(
                "cannot listen on service {service} with a backlog of {backlog}: \
                 services begin at 1, a backlog is 1 to 64"
            )),
            _ => Error::os("listening", e),
        })?;
        Ok(Listener { path: path.into(), file, service })
    }

    /// The number of the service.
    pub fn service(&self) -> u32 {
        self.service
    }

    /// Takes the oldest connection that waits, if one does.
    pub fn try_accept(&self) -> Result<Option<Channel>> {
        loop {
            let fresh = open_file(&self.path, OFlags::NONBLOCK)?;
            let listen_fd = self.file.as_raw_fd();
            let mut accept = abi::weft_chan_accept { listen_fd, ..Default::default() };
            match accept.call(fresh.as_fd()) {
                Ok(()) => return Channel::new(fresh).map(Some),
                Err(e) => match Errno::from_io_error(&e) {
                    Some(Errno::AGAIN) => return Ok(None),
                    Some(Errno::CONNABORTED | Errno::INTR) => {}
                    _ => return Err(Error::os("accepting a connection", e)),
                },
            }
        }
    }

    /// Waits for a connection; any time without `timeout`.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<Channel> {
        let deadline = Deadline::after(timeout);
        loop {
            if let Some(channel) = self.try_accept()? {
                return Ok(channel);
            }
            if !sleep(self.file.as_fd(), PollFlags::IN, deadline)? {
                return Err(Error::TimedOut("waiting for a connection"));
            }
        }
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
