// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Packets that are routed from neighbour to neighbour by a list of ports.
//!
//! The header is that of the seed's Table 2, behind an envelope for the mailbox. Each node that a packet
//! passes records the port by which it came, so that the receiver knows the path back. This file is
//! independent of what is in a packet, and of the state of the nodes that it passes.

use super::{
    super::{
        bytes::{check, Malformed, Member, Reader, Writer},
        crc::crc32c,
        mac::Mac,
    },
    path::{Path, MAX_HOPS},
    port::PORTS,
    seal::{Origin, Receiver, Seal, SEAL_BYTES},
};

/// Bytes of the longest message that a mailbox carries.
pub const MAX_BYTES: usize = 256;
/// First four bytes: "WFNM". No other message between neighbours begins with them.
pub const MAGIC: [u8; 4] = *b"WFNM";
/// Version of the protocol between managers.
pub const VERSION: u8 = 2;
/// Bytes before the header.
pub const ENVELOPE_BYTES: usize = 12;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 6 + 2 * MAX_HOPS;
/// Bytes of the longest payload: a seal has to fit as well.
pub const MAX_PAYLOAD: usize = MAX_BYTES - ENVELOPE_BYTES - HEADER_BYTES - SEAL_BYTES;
/// Flag in the envelope: a seal follows the payload.
const SEALED: u8 = 1;

/// Routing method: by ports.
const METHOD_PORTS: u8 = 0;

numbered! {
    /// Direction of a packet, with the seed's numbers.
    pub enum Direction: u8 {
        /// Before the master is known.
        Unknown = 0,
        /// From the master.
        FromMaster = 1,
        /// To the master.
        ToMaster = 2,
    }
}

/// Reason why bytes are not a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The bytes end too soon.
    Short,
    /// Another kind of mailbox message.
    Magic,
    /// Another version.
    Version(u8),
    /// The checksum does not match.
    Checksum,
    /// A member has an invalid value.
    Value,
}

impl From<Malformed> for Error {
    fn from(why: Malformed) -> Self {
        match why {
            Malformed::Short => Self::Short,
            Malformed::Value => Self::Value,
        }
    }
}

/// What is to be done with a packet that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// It is at its destination.
    Here,
    /// It is to be relayed by this port.
    Relay(u8),
}

/// A packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Its direction.
    pub direction: Direction,
    /// Its seal, if it has one. Nodes on the way send it on as it is.
    pub seal: Option<Seal>,
    forward: Path,
    /// The ports by which it came into the nodes that it has reached.
    backward: Path,
    len: usize,
    payload: [u8; MAX_PAYLOAD],
}

impl Packet {
    /// Creates a packet that has not been sent yet. `None` if `forward` is empty or the payload is too
    /// long.
    pub fn new(direction: Direction, forward: Path, payload: &[u8]) -> Option<Self> {
        forward.first()?;
        let mut packet = Self {
            direction,
            seal: None,
            forward,
            backward: Path::EMPTY,
            len: payload.len(),
            payload: [0; MAX_PAYLOAD],
        };
        packet
            .payload
            .get_mut(..payload.len())?
            .copy_from_slice(payload);
        Some(packet)
    }

    /// Seals the packet for a receiver, if there is a key.
    pub fn seal(&mut self, mac: &impl Mac, origin: Origin, to: Receiver) {
        self.seal = Seal::new(mac, origin, to, self.direction as u8, self.payload());
    }

    /// Returns the origin that the packet's seal shows to this receiver; `None` if it has no valid seal.
    pub fn origin(&self, mac: &impl Mac, to: Receiver) -> Option<Origin> {
        let direction = self.direction as u8;
        let seal = self.seal.as_ref();
        let seal = seal.filter(|seal| seal.is_valid(mac, to, direction, self.payload()))?;
        Some(seal.origin)
    }

    /// Returns the payload.
    pub fn payload(&self) -> &[u8] {
        self.payload.get(..self.len).unwrap_or_default()
    }

    /// Returns the port by which it leaves the node where it is; `None` at its destination.
    pub fn out(&self) -> Option<u8> {
        self.forward.ports().get(self.backward.hops()).copied()
    }

    /// Returns the path back to the sender, from where it is.
    pub fn way_back(&self) -> Path {
        self.backward.reversed()
    }

    /// Records that it has come in by `port`. `None` if its path would be too long, or `port` is
    /// invalid.
    pub fn arrive(&mut self, port: u8) -> Option<Arrival> {
        self.backward = self.backward.then(port)?;
        Some(self.out().map_or(Arrival::Here, Arrival::Relay))
    }

    /// Encodes the packet and returns its length in bytes.
    pub fn encode(&self, buf: &mut [u8; MAX_BYTES]) -> usize {
        let sealed = self.seal.map_or(0, |_| SEAL_BYTES);
        let all = ENVELOPE_BYTES + HEADER_BYTES + self.len + sealed;
        let mut w = Writer::new(buf);
        w.put(&MAGIC);
        w.u8(VERSION);
        w.u8(self.seal.map_or(0, |_| SEALED));
        w.u16(all as u16);
        w.u32(0);
        w.u8(METHOD_PORTS);
        w.u8(self.direction as u8);
        w.u8(self.forward.hops() as u8);
        w.u8(self.backward.hops() as u8);
        for path in [&self.forward, &self.backward] {
            w.put(path.ports());
            let rest = [0; MAX_HOPS];
            w.put(rest.get(path.hops()..).unwrap_or_default());
        }
        w.u16(self.len as u16);
        w.put(self.payload());
        if let Some(seal) = &self.seal {
            seal.put(&mut w);
        }
        let body = buf.get(ENVELOPE_BYTES..all).unwrap_or_default();
        let sum = crc32c(body.iter().copied());
        if let Some(at) = buf.get_mut(8..ENVELOPE_BYTES) {
            at.copy_from_slice(&sum.to_le_bytes());
        }
        all
    }

    /// Decodes a packet that comes from a neighbour. `buf` may be longer.
    pub fn parse(buf: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new(buf);
        if r.array()? != MAGIC {
            return Err(Error::Magic);
        }
        let version = r.u8()?;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let flags = r.u8()?;
        check(flags & !SEALED == 0)?;
        let all = usize::from(r.u16()?);
        let sum = r.u32()?;
        let body = buf.get(ENVELOPE_BYTES..all).ok_or(Error::Short)?;
        if crc32c(body.iter().copied()) != sum {
            return Err(Error::Checksum);
        }

        let mut r = Reader::new(body);
        check(r.u8()? == METHOD_PORTS)?;
        let direction = Direction::of(r.u8()?).ok_or(Error::Value)?;
        let (hops, passed) = (usize::from(r.u8()?), usize::from(r.u8()?));
        // A packet on a link has not reached the last node yet.
        check(passed < hops)?;
        let forward = path(r.array()?, hops)?;
        let backward = path(r.array()?, passed)?;
        let len = usize::from(r.u16()?);
        let payload = r.rest().get(..len).ok_or(Error::Value)?;
        let mut packet = Self::new(direction, forward, payload).ok_or(Error::Value)?;
        packet.backward = backward;
        let mut r = Reader::new(r.rest().get(len..).unwrap_or_default());
        if flags & SEALED != 0 {
            packet.seal = Some(Seal::get(&mut r)?);
        }
        check(r.rest().is_empty())?;
        Ok(packet)
    }
}

fn path(bytes: [u8; MAX_HOPS], hops: usize) -> Result<Path, Error> {
    let ports = bytes.get(..hops).ok_or(Error::Value)?;
    check(ports.iter().all(|port| usize::from(*port) < PORTS))?;
    Path::new(ports).ok_or(Error::Value)
}
