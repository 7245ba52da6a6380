// SPDX-License-Identifier: GPL-2.0 OR MIT

//! One end of a channel: both halves together.

use crate::error::Result;
use crate::link::Peer;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::shared::{Shared, State};
use crate::time::Deadline;
use rustix::event::PollFlags;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// One end of a channel. It is closed when it is dropped, with both halves after [`Self::split`].
#[derive(Debug)]
pub struct Channel {
    shared: Arc<Shared>,
    sender: Sender,
    receiver: Receiver,
}

impl Channel {
    /// Takes over a file that has become one end of a channel.
    pub(crate) fn new(file: OwnedFd) -> Result<Self> {
        Self::over(Shared::new(file)?)
    }

    pub(crate) fn over(shared: Shared) -> Result<Self> {
        let shared = Arc::new(shared);
        let sender = Sender::new(shared.clone())?;
        let receiver = Receiver::new(shared.clone());
        Ok(Channel { shared, sender, receiver })
    }

    /// The port at the other end.
    pub fn peer(&self) -> Peer {
        Peer { hwid: self.shared.info.peer_hwid, generation: self.shared.info.peer_generation }
    }

    /// The link that the channel uses.
    pub fn link(&self) -> u32 {
        self.shared.info.link
    }

    /// The service that was connected to.
    pub fn service(&self) -> u32 {
        self.shared.info.service
    }

    /// The longest message, in bytes.
    pub fn longest(&self) -> usize {
        self.sender.longest()
    }

    /// State of the channel.
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// Sends a message if there is room; false if not.
    pub fn try_send(&mut self, payload: &[u8], tag: u64) -> Result<bool> {
        self.sender.try_send(payload, tag)
    }

    /// Sends a message, and waits for room before that; any time without `timeout`.
    ///
    /// Two ends that both only send wait for each other for ever: a program that cannot be sure of the peer
    /// uses [`Self::try_send`] and [`Self::wait`].
    pub fn send(&mut self, payload: &[u8], tag: u64, timeout: Option<Duration>) -> Result<()> {
        if !self.sender.try_send(payload, tag)? {
            self.receiver.before_sleep()?;
            self.sender.send(payload, tag, timeout)?;
        }
        Ok(())
    }

    /// Takes the next message, if one has come: see [`Receiver::try_recv`].
    pub fn try_recv(&mut self, payload: &mut Vec<u8>) -> Result<Option<u64>> {
        self.receiver.try_recv(payload)
    }

    /// Waits for the next message: see [`Receiver::recv`].
    pub fn recv(&mut self, payload: &mut Vec<u8>, timeout: Option<Duration>) -> Result<u64> {
        self.receiver.recv(payload, timeout)
    }

    /// Waits until a message has come, or there is room if `writable`, or the channel ends; false
    /// when time is up.
    pub fn wait(&mut self, writable: bool, timeout: Option<Duration>) -> Result<bool> {
        let deadline = Deadline::after(timeout);
        let Channel { shared, sender, receiver } = self;
        let found = shared
            .spin(deadline, || Ok(receiver.is_readable()? || writable && sender.is_writable()?))?;
        if found {
            return Ok(true);
        }
        receiver.before_sleep()?;
        let room = if writable { PollFlags::OUT } else { PollFlags::empty() };
        shared.sleep(PollFlags::IN | room, deadline)
    }

    /// Says that no more will be sent, and waits until the peer has consumed everything; any time
    /// without `timeout`.
    pub fn finish(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.receiver.before_sleep()?;
        self.sender.finish(timeout)
    }

    /// Waits until the peer has consumed everything; any time without `timeout`.
    pub fn drain(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.receiver.before_sleep()?;
        self.sender.drain(timeout)
    }

    /// The two halves, for two threads.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    /// The sending half.
    pub fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    /// The receiving half.
    pub fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.as_fd()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.shared.as_fd().as_raw_fd()
    }
}
