// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Writes of a master to a node, whatever they carry: mastership, receiver, and result.
//!
//! The receiver decides whether the mastership is valid.

use super::super::{
    super::bytes::{check, members, Malformed, Member, Reader, Writer},
    mastership::Mastership,
};

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

numbered! {
    /// Result of a write.
    pub enum Taken: u8 {
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
}

numbered! {
    /// Whether routes in use will leave by another port.
    #[derive(PartialOrd, Ord, Default)]
    pub enum Moves: u8 {
        /// None will.
        #[default]
        No = 0,
        /// Some will, and all of those lead to a neighbour: nothing is lost yet.
        Whole = 1,
        /// Some will, and at least one of those leads nowhere: what is under way there is lost.
        Broken = 2,
    }
}

/// How staged routes differ from those in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Differ {
    /// Bit n: routes of n + 1 links differ.
    pub hops: u32,
    /// Whether routes in use will leave by another port.
    pub moves: Moves,
}

members! {
    Write { mastership, version, to, life }
        if |write| write.mastership.term != 0 && write.mastership.master != 0;
    Differ { hops, moves };
}

impl Member<'_> for Taken {
    fn put(&self, w: &mut Writer<'_>) {
        w.u8(*self as u8);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::of(r.u8()?).ok_or(Malformed::Value)
    }
}

impl Member<'_> for Moves {
    fn put(&self, w: &mut Writer<'_>) {
        w.u8(*self as u8);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::of(r.u8()?).ok_or(Malformed::Value)
    }
}
