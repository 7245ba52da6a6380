// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The connection of a port: packets in, and a bounded queue of packets out that
//! never blocks the daemon. Does not know what packets mean.

use super::descriptors::Descriptors;
use crate::wire::socket::{self, ENDED, Received};
use crate::wire::{LINKS, MAX_PACKETS, PACKET_BYTES, ToPort};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, shutdown};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// Packets a port may leave unread: the largest apertures of its neighbours, and
/// as much again for what changes meanwhile.
pub const MAX_QUEUED: usize = 2 * LINKS * MAX_PACKETS;
/// Packets from which on messages that may be lost are.
pub const MAX_DROPPABLE: usize = 1024;

/// A connection, before and after its HELLO.
pub struct Port {
    fd: OwnedFd,
    queue: VecDeque<Outgoing>,
    /// Set once HELLO was found in order.
    pub descriptors: Option<Descriptors>,
    /// When it is closed unless it has become a port.
    pub deadline: Option<Instant>,
    /// Was refused; only waits for its peer to read why.
    pub refused: bool,
    /// Messages not passed on since it connected.
    pub dropped: u64,
    /// The daemon's own, for an endpoint that it plays.
    pub endpoint: bool,
}

struct Outgoing {
    bytes: Box<[u8; PACKET_BYTES]>,
    descriptors: Option<Descriptors>,
}

impl Port {
    pub fn new(fd: OwnedFd, deadline: Instant) -> Self {
        Port {
            fd,
            queue: VecDeque::new(),
            descriptors: None,
            deadline: Some(deadline),
            refused: false,
            dropped: 0,
            endpoint: false,
        }
    }

    /// The connection of an endpoint that the daemon plays.
    pub fn of_endpoint(fd: OwnedFd, deadline: Instant) -> Self {
        Port { endpoint: true, ..Port::new(fd, deadline) }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What to wait for.
    pub fn interest(&self) -> PollFlags {
        if self.queue.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }

    /// Takes the next packet, without waiting.
    pub fn receive(&self) -> Received {
        socket::receive(self.fd.as_fd())
    }

    /// Puts a message at the end of the queue; `Err` if the port is hopeless.
    pub fn push(
        &mut self,
        message: &ToPort,
        descriptors: Option<Descriptors>,
    ) -> Result<(), String> {
        if message.may_be_dropped() && self.queue.len() >= MAX_DROPPABLE {
            self.dropped += 1;
            return Ok(());
        }
        if self.queue.len() >= MAX_QUEUED {
            return Err(format!("it has left {MAX_QUEUED} packets unread"));
        }
        let bytes = Box::new(message.packet().encode());
        self.queue.push_back(Outgoing { bytes, descriptors });
        Ok(())
    }

    /// Sends what can be sent without waiting; `Err` if the connection is broken.
    pub fn flush(&mut self) -> Result<(), String> {
        while let Some(next) = self.queue.front() {
            match next.send(&self.fd) {
                Ok(()) => drop(self.queue.pop_front()),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ENDED.into()),
                Err(e) => return Err(format!("the connection broke: {e}")),
            }
        }
        if self.refused {
            // Closing with packets unread would take the reason back from the
            // peer; so the peer, having read it, closes first.
            return shutdown(&self.fd, Shutdown::Write).map_err(|e| e.to_string());
        }
        Ok(())
    }

    /// The peer has closed its end, though its last packets may still be unread.
    pub fn hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::RDHUP)];
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().intersects(gone)
    }
}

impl Outgoing {
    fn send(&self, to: &OwnedFd) -> Result<(), Errno> {
        let fds: Vec<_> =
            self.descriptors.iter().flat_map(|all| all.iter()).map(AsFd::as_fd).collect();
        socket::send(to.as_fd(), &self.bytes, &fds, SendFlags::DONTWAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn a_queue_is_bounded_and_drops_only_what_may_be_lost() {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let mut port = Port::new(ours, Instant::now());
        let mbox = ToPort::Mbox { link: 0, to: 0, from: 0, data: vec![1] };
        let down = ToPort::LinkDown { link: 0 };
        for n in 0..MAX_QUEUED {
            assert_eq!(port.push(&mbox, None), Ok(()));
            if port.dropped == 0 {
                assert!(n < MAX_DROPPABLE);
            }
            if port.queue.len() < MAX_QUEUED {
                assert_eq!(port.push(&down, None), Ok(()));
            }
        }
        assert_eq!(port.queue.len(), MAX_QUEUED);
        assert!(port.push(&down, None).unwrap_err().contains("unread"));
        port.flush().unwrap();
        assert!(!port.queue.is_empty(), "a socket holds less");
        drop(theirs);
        assert!(port.flush().is_err());
    }
}
