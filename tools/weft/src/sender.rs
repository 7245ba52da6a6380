// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The half of a channel that sends.

use crate::error::{Error, Result};
use crate::shared::{Shared, State};
use crate::time::Deadline;
use rustix::event::PollFlags;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use weft_proto::ring::{self, SendError};

/// The half of a channel that sends.
pub struct Sender {
    shared: Arc<Shared>,
    ring: ring::Sender<Box<[u64]>>,
    /// The credit for which what was refused last waits, 0 if nothing was.
    wanted: u64,
}

impl Sender {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self> {
        let starts = vec![0; shared.shape.cells() as usize].into_boxed_slice();
        let ring = ring::Sender::new(shared.shape, starts)
            .ok_or(Error::Driver("the sizes of a channel are not allowed"))?;
        Ok(Sender { shared, ring, wanted: 0 })
    }

    /// State of the channel.
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// The longest message, in bytes.
    pub fn longest(&self) -> usize {
        self.shared.shape.bulk() as usize
    }

    /// Messages sent so far, the end included.
    pub fn sent(&self) -> u64 {
        self.ring.produced()
    }

    /// Messages that the peer has consumed, of those sent. Still true of a broken channel, where
    /// those and perhaps more have arrived.
    pub fn consumed(&mut self) -> Result<u64> {
        match self.ring.refresh(&self.shared.area) {
            Ok(credit) => Ok(credit),
            Err(fault) => match self.state() {
                // Its memory may be gone: what was known last.
                State::Broken(_) => Ok(self.ring.credit()),
                _ => Err(self.shared.fault(fault)),
            },
        }
    }

    /// Sends a message if there is room; false if not.
    pub fn try_send(&mut self, payload: &[u8], tag: u64) -> Result<bool> {
        self.put(|ring, shared| ring.send(&shared.area, &shared.window, payload, tag)).map_err(
            |error| match error {
                Error::TooLong { limit, .. } => Error::TooLong { len: payload.len(), limit },
                error => error,
            },
        )
    }

    /// Sends a message, and waits for room before that; any time without `timeout`.
    pub fn send(&mut self, payload: &[u8], tag: u64, timeout: Option<Duration>) -> Result<()> {
        let deadline = Deadline::after(timeout);
        while !self.try_send(payload, tag)? {
            self.wait_until(deadline, "waiting for room to send")?;
        }
        Ok(())
    }

    /// Says that no more will be sent, if there is room; false if not. Saying it again is harmless.
    pub fn try_end(&mut self) -> Result<bool> {
        if self.ring.is_finished() {
            return Ok(true);
        }
        self.put(|ring, shared| ring.finish(&shared.area, &shared.window))
    }

    /// Says that no more will be sent, and waits until the peer has consumed everything; any time
    /// without `timeout`.
    pub fn finish(&mut self, timeout: Option<Duration>) -> Result<()> {
        let deadline = Deadline::after(timeout);
        while !self.try_end()? {
            self.wait_until(deadline, "waiting for room to send")?;
        }
        self.drain_until(deadline)
    }

    /// Waits until the peer has consumed everything; any time without `timeout`.
    pub fn drain(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.drain_until(Deadline::after(timeout))
    }

    /// Waits until there is room for what was refused last, or anything if nothing was, or the
    /// channel ends, which the next call of `try_send` tells; false when time is up.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let deadline = Deadline::after(timeout);
        if self.shared.clone().spin(deadline, || self.is_writable())? {
            return Ok(true);
        }
        self.shared.sleep(PollFlags::OUT, deadline)
    }

    /// Whether [`Self::wait`] would not sleep.
    pub(crate) fn is_writable(&mut self) -> Result<bool> {
        if self.state() != State::Open {
            return Ok(true);
        }
        let credit = self.consumed()?;
        let cells = u64::from(self.shared.shape.cells());
        Ok(credit >= self.wanted && self.ring.produced() - credit < cells)
    }

    fn put(
        &mut self,
        send: impl FnOnce(&mut ring::Sender<Box<[u64]>>, &Shared) -> std::result::Result<(), SendError>,
    ) -> Result<bool> {
        match self.state() {
            State::Open => {}
            State::PeerClosed => return Err(Error::Closed),
            State::Broken(reason) => return Err(Error::Broken(reason)),
        }
        match send(&mut self.ring, &self.shared) {
            Ok(()) => {}
            Err(SendError::Full(wanted)) => {
                self.want(wanted);
                return Ok(false);
            }
            Err(SendError::TooLong(limit)) => {
                return Err(Error::TooLong { len: 0, limit: limit as usize });
            }
            Err(SendError::Finished) => return Err(Error::Finished),
            Err(SendError::Corrupt(fault)) => return Err(self.shared.fault(fault)),
        }
        self.shared.tell_sent(self.ring.produced(), self.ring.bulk());
        self.want(0);
        if self.ring.needs_kick(&self.shared.area, &self.shared.window) {
            self.shared.kick()?;
        }
        Ok(true)
    }

    fn want(&mut self, wanted: u64) {
        if self.wanted != wanted {
            self.wanted = wanted;
            self.shared.tell_wanted(wanted);
        }
    }

    fn wait_until(&mut self, deadline: Deadline, what: &'static str) -> Result<()> {
        if deadline.is_over() || !self.wait(deadline.left())? {
            return Err(Error::TimedOut(what));
        }
        Ok(())
    }

    fn drain_until(&mut self, deadline: Deadline) -> Result<()> {
        let all = self.ring.produced();
        self.want(all);
        let result = loop {
            // The state first: credit that comes before the end counts.
            let state = self.state();
            if self.consumed()? >= all {
                break Ok(());
            }
            match state {
                State::Open => {}
                State::PeerClosed => break Err(Error::Closed),
                State::Broken(reason) => break Err(Error::Broken(reason)),
            }
            let what = "waiting until the peer has received everything";
            if let Err(error) = self.wait_until(deadline, what) {
                break Err(error);
            }
        };
        self.want(0);
        result
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("state", &self.state())
            .field("sent", &self.sent())
            .finish_non_exhaustive()
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.as_fd()
    }
}

impl AsRawFd for Sender {
    fn as_raw_fd(&self) -> RawFd {
        self.shared.as_fd().as_raw_fd()
    }
}
