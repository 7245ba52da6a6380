// SPDX-License-Identifier: GPL-2.0

//! Bytes that an interface has for a host: those of a buffer that a get has met, or what integers were before they were
//! changed. This file must not know rings or lists.

use super::{
    to::{Asked, To},
    CHUNKS,
};
use crate::proto::slot::Event;
use kernel::prelude::*;

/// In the number by which an interface knows a grant: it is none of an operation of its own.
const GRANT: u64 = 1 << 31;

/// Returns by what the initiator knows the grant in place `n` with a tag.
pub(super) fn number_of(n: usize, tag: u32) -> u64 {
    n as u64 | GRANT | (u64::from(tag) << 32)
}

/// Returns the place of the grant with a number, and its tag; `None`: it is no number of a grant.
pub(super) fn place_of(number: u64) -> Option<(usize, u32)> {
    let place = (number & (GRANT - 1)) as usize;
    (number & GRANT != 0).then_some((place, (number >> 32) as u32))
}

/// A grant.
pub(super) struct Grant {
    pub(super) tag: u32,
    pub(super) to: To,
    /// By which the initiator knows its operation.
    pub(super) cookie: u64,
    pub(super) address: u64,
    pub(super) length: u64,
    /// What integers were; else the bytes are in the memory of the process.
    pub(super) values: Option<KVVec<u8>>,
    /// The first bytes are on their way.
    pub(super) told: bool,
    /// How it has ended: an errno.
    pub(super) over: Option<u32>,
    pub(super) asked: [Option<Asked>; CHUNKS],
    /// What says so, and whether it is posted.
    pub(super) event: Event,
    pub(super) silent: bool,
}
