// SPDX-License-Identifier: GPL-2.0 OR MIT

//! One port of a node: who is at the other end of its link, and what the link is worth.

use super::bytes::{Reader, Short, Writer};

/// Ports of a host.
pub const HOST_PORTS: usize = 4;
/// Most ports of a node: a switch may have more than a host.
pub const PORTS: usize = 16;
/// Bytes of a port in a message.
pub const PORT_BYTES: usize = 10;

/// What a link costs that has no bandwidth to speak of, in units of a lane of the first generation.
const SLOWEST: u32 = 1 << 16;
/// No use is made of the link for data.
const EXCLUDED: u8 = 0x80;
/// Highest generation of PCI Express.
const MAX_SPEED: u8 = 6;
/// Most lanes.
const MAX_WIDTH: u8 = 32;

/// A port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Port {
    /// Hardware id of the neighbour; 0 while there is none.
    pub peer: u64,
    /// Generation of the link, 1 to 6.
    pub speed: u8,
    /// Lanes of the link, 1 to 32.
    pub width: u8,
    /// The administrator, or the power policy, wants no data to pass.
    pub excluded: bool,
}

impl Port {
    /// Nobody is there.
    pub const NONE: Self = Self {
        peer: 0,
        speed: 0,
        width: 0,
        excluded: false,
    };

    /// Whether somebody is there to talk to.
    pub fn is_up(&self) -> bool {
        self.peer != 0
    }

    /// What it costs to pass the link, or `None` if data do not pass it.
    ///
    /// A link that is half as fast costs twice as much, and each costs something, so that of two ways
    /// of equal speed the shorter one is the cheaper.
    pub fn cost(&self) -> Option<u32> {
        if !self.is_up() || self.excluded || self.speed == 0 || self.width == 0 {
            return None;
        }
        let lane = 1u32 << (self.speed.min(MAX_SPEED) - 1);
        let rate = lane * u32::from(self.width.min(MAX_WIDTH));
        Some(1 + SLOWEST.checked_div(rate)?)
    }

    /// Writes [`PORT_BYTES`].
    pub fn put(&self, w: &mut Writer<'_>) {
        w.u64(self.peer);
        w.u8(self.speed | if self.excluded { EXCLUDED } else { 0 });
        w.u8(self.width);
    }

    /// Reads a port. What it cannot be is read as a link that takes no data.
    pub fn get(r: &mut Reader<'_>) -> Result<Self, Short> {
        let peer = r.u64()?;
        let (speed, width) = (r.u8()?, r.u8()?);
        Ok(Self {
            peer,
            speed: (speed & !EXCLUDED).min(MAX_SPEED),
            width: width.min(MAX_WIDTH),
            excluded: speed & EXCLUDED != 0,
        })
    }
}
