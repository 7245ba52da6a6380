// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Writes of a master to a node, whatever they carry: mastership, receiver, and result.
//!
//! The receiver decides whether the mastership is valid.

use super::super::{
    bytes::{Reader, Writer},
    mastership::Mastership,
};
use super::{check, truth, Error};

/// Head of every write of a master.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Write {
    /// Mastership of the writer.
    pub mastership: Mastership,
    /// Rises with each set of tables of that mastership.
    pub version: u32,
    /// Hardware id of the receiver: the path may lead to another node by now.
    pub to: u64,
    /// Incarnation of the receiver.
    pub life: u32,
}

/// Result of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is done.
    Yes = 0,
    /// The node does not obey this master: another node is master, or has to be.
    Stale = 1,
    /// There is no room for it.
    NoRoom = 2,
    /// It does not follow from what was written before.
    Order = 3,
    /// It will be done: the node has to release something first.
    Later = 4,
    /// The contents are invalid.
    Bad = 5,
}

/// How staged routes differ from those in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Differ {
    /// Bit n: routes of n + 1 links differ.
    pub hops: u32,
    /// A route in use will leave by another port.
    pub moves: bool,
}

impl Write {
    pub(super) fn put(&self, w: &mut Writer<'_>) {
        self.mastership.put(w);
        w.u32(self.version);
        w.u64(self.to);
        w.u32(self.life);
    }

    pub(super) fn get(r: &mut Reader<'_>) -> Result<Self, Error> {
        let write = Self {
            mastership: Mastership::get(r)?,
            version: r.u32()?,
            to: r.u64()?,
            life: r.u32()?,
        };
        check(write.mastership.term != 0 && write.mastership.master != 0)?;
        Ok(write)
    }
}

impl Taken {
    pub(super) fn put(self, w: &mut Writer<'_>) {
        w.u8(self as u8);
    }

    pub(super) fn get(r: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(match r.u8()? {
            0 => Self::Yes,
            1 => Self::Stale,
            2 => Self::NoRoom,
            3 => Self::Order,
            4 => Self::Later,
            5 => Self::Bad,
            _ => return Err(Error::Value),
        })
    }
}

impl Differ {
    pub(super) fn put(self, w: &mut Writer<'_>) {
        w.u32(self.hops);
        w.u8(u8::from(self.moves));
    }

    pub(super) fn get(r: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            hops: r.u32()?,
            moves: truth(r)?,
        })
    }
}
