// SPDX-License-Identifier: GPL-2.0

//! Accesses of the kernel itself to the memory of a channel, for an end that no program maps.
//!
//! They are made inside a gate, which is closed while the channel is quiesced, and for good when it
//! breaks: then nothing is written to the peer any more, as with programs, whose mappings are taken away.

use super::{Channel, State};
use crate::{
    hw::{Arena, Part, Port},
    sys::{area::Area, errno::ECONNRESET, gate},
};
use kernel::prelude::*;

/// The memory of an open channel, as long as this exists.
pub(super) struct Access<'a> {
    channel: &'a Channel,
    arena: Arena<'a>,
    window: &'a Area,
    _entered: gate::Guard<'a, ()>,
}

impl<'a> Access<'a> {
    /// Enters `channel`. `EAGAIN`: it is quiesced; `ECONNRESET`: it is broken; `ENOTCONN`: it was never open.
    pub(super) fn new(channel: &'a Channel, port: &'a dyn Port) -> Result<Self> {
        let entered = channel.accesses.enter();
        if let State::Broken(_) | State::Refused(_) = channel.state() {
            return Err(ECONNRESET.into());
        }
        Ok(Self {
            channel,
            arena: port.arena(channel.made.link)?,
            window: port.window(channel.made.link)?,
            _entered: entered.ok_or(EAGAIN)?,
        })
    }

    /// Returns this end's area.
    pub(super) fn own(&self) -> Part<'_> {
        Part::of(
            &self.arena,
            self.channel.area_at(),
            self.channel.made.shape.area_bytes(),
        )
    }

    /// Returns the area of the peer; nothing of it if the peer has closed its end: what is stored there is
    /// dropped.
    pub(super) fn peer(&self) -> Part<'_> {
        let remote = self.channel.remote.as_ref();
        match remote.filter(|_| self.channel.state() == State::Open) {
            Some(remote) => Part::of(
                self.window,
                remote.area_at,
                self.channel.made.shape.area_bytes(),
            ),
            None => Part::NONE,
        }
    }
}
