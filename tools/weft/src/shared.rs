// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What both halves of a channel use: the file, its mappings, its state and the doorbell.

use crate::abi::{self, weft_chan_status, weft_chan_user};
use crate::error::{Error, Reason, Result};
use crate::ioctl::Ioctl;
use crate::mapping::{Area, Page, Window};
use crate::time::{Deadline, sleep};
use rustix::event::PollFlags;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};
use weft_proto::cell::{Fault, Shape};

/// States of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Both ends are there.
    Open,
    /// The peer has closed its end: what came can still be received, nothing can be sent.
    PeerClosed,
    /// What was not acknowledged may be lost.
    Broken(Reason),
}

/// How long to look before going to sleep: about what falling asleep and being woken costs.
const SPIN: Duration = Duration::from_micros(20);

#[derive(Debug)]
pub struct Shared {
    file: OwnedFd,
    pub area: Area,
    pub window: Window,
    status: Page,
    user: Page,
    bell: Option<(Page, u32)>,
    pub shape: Shape,
    pub info: abi::weft_chan_info,
    /// This end has found that the peer broke the protocol.
    faulty: AtomicBool,
    spin: Duration,
}

impl Shared {
    /// Takes over a file that has become one end of a channel.
    pub fn new(file: OwnedFd) -> Result<Self> {
        let mut info = abi::weft_chan_info::default();
        info.call(file.as_fd()).map_err(|e| Error::os("asking for the channel", e))?;
        let shape = Shape::new(info.cells, info.bulk)
            .ok_or(Error::Driver("the sizes of a channel are not allowed"))?;
        if info.area_bytes != shape.area_bytes() as u64 {
            return Err(Error::Driver("an area has another layout"));
        }
        Self::over(file, info, shape).map_err(|e| Error::os("mapping the channel", e))
    }

    /// Maps what `info` tells of.
    pub fn over(file: OwnedFd, info: abi::weft_chan_info, shape: Shape) -> io::Result<Self> {
        let fd = file.as_fd();
        let bell = match info.kick_offset {
            0 => None,
            at => Some((Page::to_write(fd, at)?, info.kick_value)),
        };
        let alone = available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
        Ok(Shared {
            area: Area::new(fd, info.area_offset, shape.area_bytes())?,
            window: Window::new(fd, info.window_offset, shape.area_bytes())?,
            status: Page::to_read(fd, info.status_offset)?,
            user: Page::to_write(fd, info.user_offset)?,
            bell,
            shape,
            info,
            faulty: AtomicBool::new(false),
            // Nothing can come while the only CPU looks for it.
            spin: if alone { Duration::ZERO } else { SPIN },
            file,
        })
    }

    pub fn state(&self) -> State {
        let state = match self.status.load32(offset_of!(weft_chan_status, state)) {
            abi::WEFT_CHAN_OPEN => State::Open,
            abi::WEFT_CHAN_PEER_CLOSED => State::PeerClosed,
            _ => State::Broken(match self.status.load32(offset_of!(weft_chan_status, reason)) {
                abi::WEFT_REASON_LINK => Reason::LinkDown,
                abi::WEFT_REASON_PEER => Reason::PeerRestarted,
                abi::WEFT_REASON_PROTOCOL => Reason::Protocol,
                abi::WEFT_REASON_REMOVED => Reason::Removed,
                other => Reason::Other(other),
            }),
        };
        match state {
            State::Open | State::PeerClosed if self.faulty.load(Ordering::Relaxed) => {
                State::Broken(Reason::Protocol)
            }
            state => state,
        }
    }

    /// The error for what makes no sense in memory. A channel that broke for another reason is not
    /// the peer's fault: its memory may be gone.
    pub fn fault(&self, _: Fault) -> Error {
        match self.state() {
            State::Broken(reason) => Error::Broken(reason),
            _ => {
                self.faulty.store(true, Ordering::Relaxed);
                Error::Broken(Reason::Protocol)
            }
        }
    }

    /// Rings for programs that sleep at the other end.
    pub fn kick(&self) -> Result<()> {
        if let Some((page, value)) = &self.bell {
            page.store32(0, *value);
            return Ok(());
        }
        match abi::weft_chan_kick::default().call(self.file.as_fd()) {
            // There is no peer to be woken; the state tells.
            Err(_) if self.state() != State::Open => Ok(()),
            result => result.map_err(|e| Error::os("ringing the peer's doorbell", e)),
        }
    }

    pub fn tell_consumed(&self, consumed: u64) {
        self.user.store64(offset_of!(weft_chan_user, consumed), consumed);
    }

    pub fn tell_sent(&self, produced: u64, bulk: u64) {
        self.user.store64(offset_of!(weft_chan_user, bulk), bulk);
        self.user.store64(offset_of!(weft_chan_user, produced), produced);
    }

    pub fn tell_wanted(&self, wanted: u64) {
        self.user.store64(offset_of!(weft_chan_user, credit_wanted), wanted);
    }

    /// Looks for a short time whether `found` is true, at least once.
    pub fn spin(
        &self,
        deadline: Deadline,
        mut found: impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        let start = Instant::now();
        loop {
            for _ in 0..32 {
                if found()? {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            if start.elapsed() >= self.spin || deadline.is_over() {
                return Ok(false);
            }
        }
    }

    /// Sleeps until the driver reports one of `events` or the end; false when time is up.
    pub fn sleep(&self, events: PollFlags, deadline: Deadline) -> Result<bool> {
        sleep(self.file.as_fd(), events, deadline)
    }
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
