// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A path through the fabric: the ports by which a packet leaves, one node after the other.

use super::port::PORTS;

/// Most links of a path. The limit of the device is the same: its routes and configuration requests pass
/// no more links than this.
pub const MAX_HOPS: usize = 32;

/// A list of ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    len: u8,
    ports: [u8; MAX_HOPS],
}

impl Path {
    /// The path from a node to itself.
    pub const EMPTY: Self = Self {
        len: 0,
        ports: [0; MAX_HOPS],
    };

    /// Creates the path by `ports`; `None` if it is too long or names a port that no node has.
    pub fn new(ports: &[u8]) -> Option<Self> {
        let mut path = Self::EMPTY;
        for port in ports {
            path = path.then(*port)?;
        }
        Some(path)
    }

    /// Returns the ports, in the order in which they are passed.
    pub fn ports(&self) -> &[u8] {
        self.ports.get(..self.hops()).unwrap_or_default()
    }

    /// Returns the number of links of the path.
    pub fn hops(&self) -> usize {
        usize::from(self.len)
    }

    /// Returns the first port.
    pub fn first(&self) -> Option<u8> {
        self.ports().first().copied()
    }

    /// Extends the path by `port`; `None` if it is too long or no node has such a port.
    pub fn then(mut self, port: u8) -> Option<Self> {
        if usize::from(port) >= PORTS {
            return None;
        }
        *self.ports.get_mut(usize::from(self.len))? = port;
        self.len += 1;
        Some(self)
    }

    /// Returns the ports in reverse order.
    pub fn reversed(mut self) -> Self {
        let len = self.hops();
        if let Some(ports) = self.ports.get_mut(..len) {
            ports.reverse();
        }
        self
    }
}
