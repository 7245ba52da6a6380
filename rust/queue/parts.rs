// SPDX-License-Identifier: GPL-2.0

//! Data that take more than a cell, part by part: how far they are, at either end of a queue pair.
//!
//! Each part has staging memory of its own. This must not know which way the data go; that is in
//! `pushes` and in `pulls`.

use super::lent::part;
use crate::proto::{
    request::{Extents, Part, Role},
    word::{Says, Word},
};

/// Parts of a transfer that may be lent, or put down, at a time.
pub(super) const PARTS: usize = 4;
/// The longest of them.
pub(super) const MOST_PART: u64 = 64 << 10;

/// Memory of the peer's, for parts of a transfer.
pub(super) type Parts = [Option<(Part, Extents)>; PARTS];

/// How far data are that were put down to be pulled.
#[derive(Clone, Copy, Default)]
pub(super) struct Offering {
    /// They were put down up to here,
    pub(super) offered: u64,
    /// in so many parts,
    pub(super) parts: u64,
    /// and so many of them were not read yet.
    pub(super) out: usize,
}

/// How far data are that the peer puts down for a read.
#[derive(Clone, Copy)]
pub(super) struct Pulling {
    /// It has done so up to here,
    pub(super) named: u64,
    /// in so many parts,
    pub(super) parts: u64,
    /// and so much was read.
    pub(super) done: u64,
}

impl Pulling {
    pub(super) const NONE: Self = Self {
        named: 0,
        parts: 0,
        done: 0,
    };
}

/// DONE for a part, to whoever is `to` in its request.
pub(super) fn done(to: Role, peer_qpn: u32, psn: u16, number: u64) -> Word {
    Word {
        qpn: peer_qpn,
        psn,
        says: Says::Done {
            to,
            part: part(number),
        },
    }
}
