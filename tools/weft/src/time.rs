// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Waiting: until when, and for which events of a descriptor.

use crate::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// When a wait ends; never, if the time was not limited or is out of reach.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// `timeout` from now.
    pub fn after(timeout: Option<Duration>) -> Self {
        Deadline(timeout.and_then(|t| Instant::now().checked_add(t)))
    }

    /// What is left; `None`: any time.
    pub fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Whether nothing is left.
    pub fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}

/// Sleeps until `fd` has one of `events`, or an error or end; false when time is up.
pub fn sleep(fd: BorrowedFd<'_>, events: PollFlags, deadline: Deadline) -> Result<bool> {
    loop {
        let timeout = deadline.left().map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::from_borrowed_fd(fd, events)], timeout.as_ref()) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) if deadline.is_over() => return Ok(false),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::os("poll", errno.into())),
        }
    }
}
