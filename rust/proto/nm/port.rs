// SPDX-License-Identifier: GPL-2.0 OR MIT

//! One port of a node: the neighbour at the other end of its link, and the bandwidth of the link.

use super::super::bytes::{Malformed, Member, Reader, Writer};

/// Ports of a host.
pub const HOST_PORTS: usize = 4;
/// Most ports of a node: a switch may have more than a host.
pub const PORTS: usize = 16;
/// Bytes of a port in a message.
pub const PORT_BYTES: usize = 10;

/// Cost of a link of one lane of the first generation, apart from the fixed part of 1.
const SLOWEST: u32 = 1 << 16;
/// Flag: the link is not used for data.
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
    /// The administrator, or the power policy, excludes the link from data.
    pub excluded: bool,
}

impl Port {
    /// A port without a neighbour.
    pub const NONE: Self = Self {
        peer: 0,
        speed: 0,
        width: 0,
        excluded: false,
    };

    /// Returns whether the port has a neighbour.
    pub fn is_up(&self) -> bool {
        self.peer != 0
    }

    /// Returns the cost of the link, or `None` if data do not pass it.
    ///
    /// A link that is half as fast costs twice as much. Each link has a fixed cost in addition, so that
    /// of two routes of equal speed the shorter one is the cheaper.
    pub fn cost(&self) -> Option<u32> {
        if !self.is_up() || self.excluded || self.speed == 0 || self.width == 0 {
            return None;
        }
        let lane = 1u32 << (self.speed.min(MAX_SPEED) - 1);
        let rate = lane * u32::from(self.width.min(MAX_WIDTH));
        Some(1 + SLOWEST.checked_div(rate)?)
    }
}

/// [`PORT_BYTES`] long. Speed and width above the highest valid value are read as that value.
impl Member<'_> for Port {
    fn put(&self, w: &mut Writer<'_>) {
        w.u64(self.peer);
        w.u8(self.speed | if self.excluded { EXCLUDED } else { 0 });
        w.u8(self.width);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Malformed> {
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
