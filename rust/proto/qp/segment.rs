// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Segments of messages that take more than a cell: how far they are, at either end.
//!
//! Each segment has staging memory of its own. This must not know which way the data go; that is in
//! `push` and in `pull`.

use super::lease::told_number;
use crate::proto::{
    request::{Extents, Part, Role},
    word::{Says, Word},
};

/// Segments of a message that may be under way at a time.
pub(super) const SEGMENTS: usize = 4;
/// The longest of them, in bytes.
pub(super) const MAX_SEGMENT: u64 = 64 << 10;

/// Memory of the peer's, for segments of a message.
pub(super) type Segments = [Option<(Part, Extents)>; SEGMENTS];

/// Keeps memory that the peer has named, if it is for the segment `next` and has at most `left` bytes;
/// returns how many.
pub(super) fn keep(
    segments: &mut Segments,
    next: Part,
    left: u64,
    part: Part,
    extents: Extents,
) -> Option<u64> {
    let bytes = extents.bytes();
    if part != next || bytes == 0 || bytes > left {
        return None;
    }
    *segments.iter_mut().find(|free| free.is_none())? = Some((part, extents));
    Some(bytes)
}

/// How far data are that were posted locally for the peer to pull.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exposed {
    /// They were posted up to here,
    pub(super) bytes: u64,
    /// in so many segments,
    pub(super) segments: u64,
    /// and so many of these were not pulled yet.
    pub(super) under_way: usize,
}

/// How far data are that the peer posts for a read of this end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulling {
    /// The peer has posted up to here,
    pub(super) named: u64,
    /// in so many segments,
    pub(super) segments: u64,
    /// and so much was pulled.
    pub(super) done: u64,
}

impl Pulling {
    pub(super) const NONE: Self = Self {
        named: 0,
        segments: 0,
        done: 0,
    };
}

/// DONE for a segment; `to` is what its receiver is in the request.
pub(super) fn done(to: Role, peer_qpn: u32, psn: u16, number: u64) -> Word {
    Word {
        qpn: peer_qpn,
        psn,
        says: Says::Done {
            to,
            part: told_number(number),
        },
    }
}
