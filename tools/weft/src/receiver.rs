// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The half of a channel that receives.

use crate::error::{Error, Result};
use crate::shared::{Shared, State};
use crate::time::Deadline;
use rustix::event::PollFlags;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use weft_proto::fence::Fence;
use weft_proto::ring::{self, Message, Next};
use weft_proto::window::Area;

/// The half of a channel that receives.
pub struct Receiver {
    shared: Arc<Shared>,
    ring: ring::Receiver,
}

impl Receiver {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let ring = ring::Receiver::new(shared.shape);
        Receiver { shared, ring }
    }

    /// State of the channel.
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// Messages received so far, the end included.
    pub fn received(&self) -> u64 {
        self.ring.consumed()
    }

    /// Takes the next message, if one has come: replaces what is in `payload`, returns the tag.
    ///
    /// When nothing more will come, that is an error that says why: [`Error::Ended`] if the peer
    /// said so, [`Error::Closed`] if it closed its end, [`Error::Broken`].
    pub fn try_recv(&mut self, payload: &mut Vec<u8>) -> Result<Option<u64>> {
        // The state first: what has come before the end is found after it.
        let state = self.state();
        match self.peek()? {
            Next::Message(message) => self.take(&message, payload).map(Some),
            Next::End => Err(Error::Ended),
            Next::Nothing => match state {
                State::Open => Ok(None),
                State::PeerClosed => Err(Error::Closed),
                State::Broken(reason) => Err(Error::Broken(reason)),
            },
        }
    }

    /// Waits for the next message, see [`Self::try_recv`]; any time without `timeout`.
    pub fn recv(&mut self, payload: &mut Vec<u8>, timeout: Option<Duration>) -> Result<u64> {
        let deadline = Deadline::after(timeout);
        loop {
            if let Some(tag) = self.try_recv(payload)? {
                return Ok(tag);
            }
            if deadline.is_over() || !self.wait(deadline.left())? {
                return Err(Error::TimedOut("waiting for a message"));
            }
        }
    }

    /// Waits until a message has come or nothing more will; false when time is up.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let deadline = Deadline::after(timeout);
        if self.shared.clone().spin(deadline, || self.is_readable())? {
            return Ok(true);
        }
        self.before_sleep()?;
        self.shared.sleep(PollFlags::IN, deadline)
    }

    /// To be called before the descriptor is waited for by other means than [`Self::wait`]: tells
    /// the peer what was received, for which it may wait itself.
    pub fn before_sleep(&mut self) -> Result<()> {
        self.ring.flush(&self.shared.window);
        self.wake_sender()
    }

    /// Whether [`Self::wait`] would not sleep.
    pub(crate) fn is_readable(&mut self) -> Result<bool> {
        Ok(self.state() != State::Open || self.peek()? != Next::Nothing)
    }

    fn peek(&mut self) -> Result<Next> {
        let next = self.ring.peek(&self.shared.area, &self.shared.window);
        let next = next.map_err(|fault| self.shared.fault(fault))?;
        if next == Next::End {
            self.shared.tell_consumed(self.ring.consumed());
        }
        // Credit may have been given back.
        self.wake_sender()?;
        Ok(next)
    }

    fn take(&mut self, message: &Message, payload: &mut Vec<u8>) -> Result<u64> {
        payload.resize(message.len as usize, 0);
        self.ring.copy(&self.shared.area, message, 0, payload);
        self.shared.area.rmb(Fence::Reread);
        if let State::Broken(reason) = self.state() {
            // The area may have been taken away in the middle; then the cell is gone as well.
            if self.peek()? != Next::Message(*message) {
                return Err(Error::Broken(reason));
            }
        }
        self.ring.consume(&self.shared.window, message);
        self.shared.tell_consumed(self.ring.consumed());
        self.wake_sender()?;
        Ok(message.tag)
    }

    fn wake_sender(&mut self) -> Result<()> {
        if self.ring.needs_kick(&self.shared.area, &self.shared.window) {
            self.shared.kick()?;
        }
        Ok(())
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("state", &self.state())
            .field("received", &self.received())
            .finish_non_exhaustive()
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.as_fd()
    }
}

impl AsRawFd for Receiver {
    fn as_raw_fd(&self) -> RawFd {
        self.shared.as_fd().as_raw_fd()
    }
}
