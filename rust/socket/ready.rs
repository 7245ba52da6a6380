// SPDX-License-Identifier: GPL-2.0

//! Whether there is something to receive, or room to send, and that a user is woken when there is. Nothing here sleeps.

use super::{access::Access, end::State, Socket};
use crate::{
    fabric::Node,
    proto::socket::stream::Found,
    sys::{
        errno::{ENOTCONN, EPROTO},
        file::events,
    },
};
use kernel::{
    prelude::*,
    sync::atomic::{Acquire, Release},
};

impl Socket {
    /// Returns whether the peer has closed its end: all that it has sent has come.
    pub(super) fn is_closed_by_peer(&self) -> bool {
        matches!(self.state(), State::Draining | State::PeerClosed)
    }

    /// Returns whether a call that receives is to go on: there may be something, or there never will be. If not, the peer
    /// is asked to ring.
    pub(super) fn may_receive(&self, node: &Node) -> bool {
        match self.state() {
            State::Connecting => node.is_closed(),
            State::Open => self.deaf.load(Acquire) || node.is_closed() || self.can(node, true),
            State::Draining | State::PeerClosed => !self.accesses.is_closed(),
            _ => true,
        }
    }

    pub(super) fn may_send(&self, node: &Node) -> bool {
        match self.state() {
            State::Connecting => node.is_closed(),
            State::Open => self.finished.load(Acquire) || node.is_closed() || self.can(node, false),
            _ => true,
        }
    }

    /// Returns whether there is something to receive, or room to send, and it can be done now. Waiters are woken when it
    /// can.
    fn can(&self, node: &Node, recv: bool) -> bool {
        // Quiesced: `go_on` wakes all.
        !self.accesses.is_closed()
            && node
                .port()
                .is_ok_and(|port| self.is_ready(node, &**port, recv, true))
    }

    /// Returns the state of poll, a mask of [`events`]. For those in `want` that have not come the peer is asked to ring.
    pub(crate) fn poll(&self, node: &Node, want: u32) -> u32 {
        let ended = events::IN | events::OUT | events::RDHUP | events::HUP;
        let Ok(port) = node.port() else {
            return ended | events::ERR;
        };
        if self.error().is_some() {
            return ended | events::ERR;
        }
        let state = self.state();
        let mut got = match state {
            State::Connecting => return 0,
            State::Open => 0,
            // The peer takes nothing any more.
            State::Draining | State::PeerClosed => events::OUT | events::RDHUP,
            _ => return ended,
        };
        let still = self.accesses.is_closed();
        let ready = |recv, bit| !still && self.is_ready(node, &**port, recv, want & bit != 0);
        if state != State::Open || self.deaf.load(Acquire) || ready(true, events::IN) {
            got |= events::IN;
        }
        if state == State::Open && (self.finished.load(Acquire) || ready(false, events::OUT)) {
            got |= events::OUT;
        }
        got
    }

    /// Returns how many bytes can be received: `want`, or more; or fewer, if no more will come, and 0 at the end of the
    /// stream. Does not wait, and does not sleep.
    ///
    /// `EAGAIN`: there are fewer; with `arms` the waiters are woken when there are more than now. `ENOTCONN`: the peer has
    /// not answered. Others as [`Sockets::receive`](super::Sockets::receive).
    pub(crate) fn readable(&self, node: &Node, want: usize, arms: bool) -> Result<usize> {
        let mut receiving = self.receiving.try_lock().ok_or(EAGAIN)?;
        loop {
            if let Some(error) = self.error() {
                return Err(error);
            }
            let closed = self.is_closed_by_peer();
            if self.deaf.load(Acquire) {
                return Ok(0);
            }
            if self.state() == State::Connecting {
                return Err(ENOTCONN.into());
            }
            let port = node.port()?;
            let Ok(found) = self.look(&**port, &mut receiving) else {
                return Err(self.spoilt(node));
            };
            let count = match found {
                // `go_on` wakes the waiters.
                None => return Err(EAGAIN),
                Some(Found::Bytes(count)) => count as usize,
                Some(Found::Nothing) if !closed => 0,
                Some(Found::End | Found::Nothing) => {
                    if !closed {
                        self.deaf.store(true, Release);
                    }
                    return Ok(0);
                }
            };
            let more = receiving.receiver.seen().filter(|_| !closed);
            match more {
                Some(seen) if count < want => {
                    if !arms {
                        return Err(EAGAIN);
                    }
                    if count == 0 {
                        self.give_back(node, &**port, &mut receiving, false);
                    }
                    self.input.set_mark(Some(seen));
                    // More may have come meanwhile.
                    if !self.is_ready(node, &**port, true, true) {
                        return Err(EAGAIN);
                    }
                }
                _ => return Ok(count),
            }
        }
    }

    /// Returns how many bytes there is room for. If there is none, and `arms`, the waiters are woken when there is. Does
    /// not wait, and does not sleep.
    ///
    /// `EAGAIN`: there is none; `ENOTCONN`: the peer has not answered. Others as [`Sockets::send`](super::Sockets::send).
    pub(crate) fn writable(&self, node: &Node, arms: bool) -> Result<usize> {
        let mut sending = self.sending.try_lock().ok_or(EAGAIN)?;
        loop {
            let state = self.state();
            if let Some(error) = self.error() {
                return Err(error);
            }
            match state {
                State::Connecting => return Err(ENOTCONN.into()),
                State::Open if !self.finished.load(Acquire) => {}
                _ => return Err(EPIPE),
            }
            let port = node.port()?;
            let room = match Access::new(self, &**port) {
                Some(access) => sending.sender.room(&access.own()),
                None => return Err(EAGAIN),
            };
            self.output.set_mark(sending.sender.mark());
            match room {
                Err(_) => return Err(self.spoilt(node)),
                Ok(0) if arms && self.is_ready(node, &**port, false, true) => {}
                Ok(0) => return Err(EAGAIN),
                Ok(room) => return Ok(room as usize),
            }
        }
    }

    /// Notes that the peer has broken the protocol, and returns the error of calls. The peer is told when the socket is
    /// closed.
    fn spoilt(&self, node: &Node) -> Error {
        complain(node, self);
        self.failure.populate(EPROTO.into());
        EPROTO.into()
    }
}

/// Logs that the peer has broken the protocol of a socket.
pub(super) fn complain(node: &Node, socket: &Socket) {
    node.complain(fmt!(
        "link {}: the peer broke the protocol of a socket: it ends",
        socket.made.link
    ));
}
