// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Letters: messages to the master by the tree, their answers back by the way they came, and messages between
//! neighbours about the assignments.
//!
//! Each node that a letter passes records the port by which it came. So the answer needs no local id, and
//! no node keeps anything of a letter that passes it. This file is independent of what follows from a letter.

use super::{
    super::{
        super::bytes::{check, members, Malformed, Member, Reader, Writer},
        message::Piece,
        packet::{Error, MAX_BYTES},
        path::{Path, MAX_HOPS},
    },
    sum,
};

/// First four bytes: "WFND". No other message between neighbours begins with them.
pub const MAGIC: [u8; 4] = *b"WFND";
/// Version of these messages.
pub const VERSION: u8 = 1;

/// A node and its local id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Name {
    /// Hardware id of the node.
    pub hwid: u64,
    /// Its local id; 0: it has none, or there is no such node.
    pub lid: u32,
}

members! {
    Name { hwid, lid } if |name| name.hwid != 0;
}

/// What a letter is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Letter<'a> {
    /// To the master in this incarnation: this is the sender's local id.
    Register(u32, Name),
    /// Answers: the master has noted it, or another node has that local id.
    Registered(u32, Name, bool),
    /// To the master: which local id has the node with this hardware id?
    Find(Name),
    /// Answers.
    Found(Name),
    /// To a neighbour: the assignments are wanted, from this offset on.
    Fetch(u16),
    /// Answers.
    Part(Piece<'a>),
}

impl Letter<'_> {
    /// Returns whether it is for the master.
    pub fn is_for_master(&self) -> bool {
        matches!(self, Self::Register(..) | Self::Find(_))
    }

    /// Encodes the letter, with the ports by which it came, or is to leave. Returns its length in bytes.
    pub fn encode(&self, path: &Path, buf: &mut [u8; MAX_BYTES]) -> usize {
        let mut w = Writer::new(buf);
        w.put(&MAGIC);
        w.u8(VERSION);
        w.u8(match self {
            Self::Register(..) => 1,
            Self::Registered(..) => 2,
            Self::Find(_) => 3,
            Self::Found(_) => 4,
            Self::Fetch(_) => 5,
            Self::Part(_) => 6,
        });
        w.u8(path.hops() as u8);
        w.u8(0);
        w.u32(0);
        w.put(path.ports());
        match self {
            Self::Find(name) | Self::Found(name) => name.put(&mut w),
            Self::Register(life, name) => {
                life.put(&mut w);
                name.put(&mut w);
            }
            Self::Registered(life, name, noted) => {
                life.put(&mut w);
                name.put(&mut w);
                noted.put(&mut w);
            }
            Self::Fetch(offset) => w.u16(*offset),
            Self::Part(piece) => piece.put(&mut w),
        }
        let bytes = w.finish().unwrap_or(0);
        sum::put(buf.get_mut(..bytes).unwrap_or_default());
        bytes
    }

    /// Decodes a letter, and its path.
    pub fn parse(buf: &[u8]) -> Result<(Path, Letter<'_>), Error> {
        let mut r = Reader::new(buf);
        if r.array()? != MAGIC {
            return Err(Error::Magic);
        }
        let version = r.u8()?;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let (kind, hops, rest) = (r.u8()?, r.u8()?, r.u8()?);
        if r.u32()? != sum::sum(buf) {
            return Err(Error::Checksum);
        }
        check(rest == 0 && usize::from(hops) <= MAX_HOPS)?;
        let mut path = Path::EMPTY;
        for _ in 0..hops {
            path = path.then(r.u8()?).ok_or(Error::Value)?;
        }
        let letter = match kind {
            1 => Letter::Register(r.u32()?, Name::get(&mut r)?),
            2 => Letter::Registered(r.u32()?, Name::get(&mut r)?, bool::get(&mut r)?),
            3 => Letter::Find(Name::get(&mut r)?),
            4 => Letter::Found(Name::get(&mut r)?),
            5 => Letter::Fetch(r.u16()?),
            6 => Letter::Part(Piece::get(&mut r)?),
            _ => return Err(Error::Value),
        };
        check(r.rest().is_empty())?;
        Ok((path, letter))
    }
}
