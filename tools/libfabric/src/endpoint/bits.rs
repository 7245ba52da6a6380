// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What match bits and numbers of operations say. Tagged messages and others are told apart by a match bit, as is
//! whether a message has data for the completion queue.

use crate::fi::*;
use crate::regions::KEYS;
use weft::matching::Criteria;

/// Match bits: a tagged message,
pub const TAGGED: u64 = 1 << 63;
/// one with data for the completion queue, which matters to no receive,
pub const DATA: u64 = 1 << 62;
/// and what is left for tags.
pub const TAG: u64 = DATA - 1;
/// Without a tag: it is for a region, whose key is in the lower bits,
pub const REMOTE: u64 = 1 << 61;
/// and has data for the completion queue.
pub const WITH_DATA: u64 = 1 << 60;

const _: () = assert!(KEYS < WITH_DATA);

/// Of two queues, the one of what has a tag.
pub const WITH_TAG: usize = 1;

/// What an atomic operation tells its target: that its initiator is told what there was.
pub const FETCHES: u64 = 1;

/// Numbers that are not operations: a slab, a region, and the command that begins.
pub const SLAB: u64 = 1 << 63;
pub const REGION: u64 = 1 << 62;
pub const BEGIN: u64 = u64::MAX;

/// What a receive, or a search, is for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// FI_MSG or FI_TAGGED.
    pub kind: u64,
    pub tag: u64,
    pub ignore: u64,
    pub source: Option<(u64, u16)>,
}

impl Wanted {
    pub fn criteria(&self) -> Criteria {
        let tagged = self.kind == FI_TAGGED;
        Criteria {
            bits: if tagged { TAGGED | (self.tag & TAG) } else { 0 },
            ignore: DATA | if tagged { self.ignore & TAG } else { 0 },
            source: self.source,
        }
    }
}
