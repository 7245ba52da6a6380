// SPDX-License-Identifier: GPL-2.0

//! Accesses to the two halves of a socket.
//!
//! They are made inside a gate, which is closed while the link is quiesced, and for good when the socket breaks: then
//! nothing is written to the peer any more.

use super::{
    end::{Remote, State},
    Socket,
};
use crate::{
    hw::{Arena, Part, Port},
    proto::socket::Mode,
    sys::{area::Area, gate},
};
use kernel::prelude::*;

/// The halves, as long as this exists.
pub(super) struct Access<'a> {
    socket: &'a Socket,
    remote: &'a Remote,
    port: &'a dyn Port,
    arena: Arena<'a>,
    window: &'a Area,
    _entered: gate::Guard<'a, ()>,
}

impl<'a> Access<'a> {
    /// `None`: there is no connection, or it is quiesced.
    pub(super) fn new(socket: &'a Socket, port: &'a dyn Port) -> Option<Self> {
        let entered = socket.accesses.enter()?;
        Some(Self {
            socket,
            remote: socket.remote.as_ref()?,
            port,
            arena: port.arena(socket.made.link).ok()?,
            window: port.window(socket.made.link).ok()?,
            _entered: entered,
        })
    }

    /// Returns the own half.
    pub(super) fn own(&self) -> Part<'_> {
        Part::of(&self.arena, self.socket.made.at(), self.bytes())
    }

    /// Returns the peer's half, for stores; nothing of it if the peer has closed its end: what is stored there is
    /// dropped.
    pub(super) fn peer(&self) -> Part<'_> {
        match self.socket.writes_to_peer() {
            true => self.remote(),
            false => Part::NONE,
        }
    }

    /// Returns the peer's half, for loads.
    pub(super) fn remote(&self) -> Part<'_> {
        Part::of(self.window, self.remote.base, self.bytes())
    }

    /// Returns the half whose ring has what comes.
    pub(super) fn source(&self) -> Part<'_> {
        match self.socket.made.shape.mode() {
            Mode::Push => self.own(),
            Mode::Pull => self.remote(),
        }
    }

    fn bytes(&self) -> usize {
        self.socket.made.shape.bytes() as usize
    }

    /// Calls `f`, which may load through the window. `EAGAIN`: some of its loads failed, and it is to be called
    /// again later.
    pub(super) fn loads<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        if self.socket.made.shape.mode() == Mode::Push {
            return Ok(f());
        }
        let count = || self.port.losses().map(|losses| losses.failed_loads());
        let before = count();
        let loaded = f();
        match before {
            // No load fails while the port is there.
            None if self.port.is_present() => Ok(loaded),
            Some(Some(_)) if count() == before => Ok(loaded),
            _ => Err(EAGAIN),
        }
    }
}

impl State {
    /// Returns whether a socket in this state may store into the memory of its peer.
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Open | Self::Draining)
    }
}
