// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What is remembered of a socket of AF_VSOCK that stands for a TCP socket, in the socket itself: the largest size that
//! its buffer may be given (`SO_VM_SOCKETS_BUFFER_MAX_SIZE`), which programs that know of no AF_VSOCK never ask for, and
//! which the transport limits anyway. It stays over `fork`, `exec` and `dup`, goes with a descriptor that is passed to
//! another process, and sockets that are accepted inherit it.

use std::net::{IpAddr, Ipv4Addr};

use libc::c_int;

use crate::{address::Inet, sys};

const BUFFER_MAX_SIZE: c_int = 2;
/// In the high 24 bits.
const MAGIC: u64 = 0x57_4654 << 40;
const MAGIC_MASK: u64 = 0xff_ffff << 40;
const INET6: u64 = 1 << 32;
const V6ONLY: u64 = 1 << 33;
const PEER_V4: u64 = 1 << 34;
const PEER_V6: u64 = 1 << 35;

/// Whose address the peer has, as far as a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It is not known.
    Unknown,
    /// This one.
    V4(Ipv4Addr),
    /// One whose low 32 bits are these.
    V6(u32),
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The program has a socket of INET6.
    pub inet6: bool,
    /// It takes IPv6 alone.
    pub v6only: bool,
    /// Of a connection.
    pub peer: Peer,
}

impl Mark {
    /// Returns the same mark with the address of the peer.
    pub fn with_peer(self, peer: Option<Inet>) -> Self {
        let peer = match peer.map(|inet| inet.ip) {
            None => Peer::Unknown,
            Some(IpAddr::V4(ip)) => Peer::V4(ip),
            Some(IpAddr::V6(ip)) => Peer::V6(ip.to_bits() as u32),
        };
        Self { peer, ..self }
    }

    /// Returns it as a number, never 0.
    pub fn to_bits(self) -> u64 {
        let peer = match self.peer {
            Peer::Unknown => 0,
            Peer::V4(ip) => PEER_V4 | u64::from(ip.to_bits()),
            Peer::V6(low) => PEER_V6 | u64::from(low),
        };
        let flag = |set, bit| if set { bit } else { 0 };
        MAGIC | flag(self.inet6, INET6) | flag(self.v6only, V6ONLY) | peer
    }

    /// Returns what a number says; `None` if it is none of a mark.
    pub fn from_bits(bits: u64) -> Option<Self> {
        if bits & MAGIC_MASK != MAGIC {
            return None;
        }
        let low = bits as u32;
        let peer = match bits & (PEER_V4 | PEER_V6) {
            PEER_V4 => Peer::V4(Ipv4Addr::from_bits(low)),
            PEER_V6 => Peer::V6(low),
            _ => Peer::Unknown,
        };
        Some(Self { inet6: bits & INET6 != 0, v6only: bits & V6ONLY != 0, peer })
    }

    /// Puts the mark on a socket of AF_VSOCK.
    pub fn put(self, fd: c_int) -> bool {
        sys::set_option(fd, libc::AF_VSOCK, BUFFER_MAX_SIZE, &self.to_bits())
    }

    /// Returns the mark of a descriptor, `None` if it is no socket of AF_VSOCK that stands for another one.
    pub fn of(fd: c_int) -> Option<Self> {
        sys::option(fd, libc::AF_VSOCK, BUFFER_MAX_SIZE).and_then(Self::from_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_as_they_were() {
        for peer in [Peer::Unknown, Peer::V4(Ipv4Addr::new(10, 87, 0, 2)), Peer::V6(0xfe00_0002)] {
            for (inet6, v6only) in [(false, false), (true, false), (true, true)] {
                let mark = Mark { inet6, v6only, peer };
                assert_eq!(Mark::from_bits(mark.to_bits()), Some(mark));
            }
        }
    }

    #[test]
    fn sizes_that_programs_set_are_no_marks() {
        for bits in [0, 256 << 10, u64::MAX, 1 << 40, MAGIC >> 1] {
            assert_eq!(Mark::from_bits(bits), None);
        }
    }
}
