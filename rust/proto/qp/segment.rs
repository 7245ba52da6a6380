// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Segments of messages that take more than a cell: their progress, at either end.
//!
//! Each segment has its own staging memory. This file is independent of the direction of the data, which
//! is in `push` and in `pull`.

use super::lease::told_number;
use crate::proto::{
    request::{Extents, Part, Role},
    word::{Says, Word},
};

/// Most segments of a message that are under way at a time.
pub(super) const SEGMENTS: usize = 4;
/// Most long messages of a queue pair that are under way at a time, where data are pushed.
pub(super) const MESSAGES: usize = 8;
/// Most segments of all long messages of a queue pair for which memory is granted at a time. A message
/// that is alone gets no more than [`SEGMENTS`]: its end would wait for more of them at once.
pub(super) const GRANTS: usize = 8;
/// Most bytes of a segment.
pub(super) const MAX_SEGMENT: u64 = 64 << 10;

/// Memory of the peer for a segment: granted for one of several messages or, if data are pulled, exposed
/// for a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    /// Low bits of the number of the request.
    pub(super) psn: u16,
    pub(super) part: Part,
    pub(super) extents: Extents,
}

/// Memory that the peer has granted and that is not written yet, or has exposed and that is not read yet,
/// oldest first.
pub(super) struct Grants {
    grants: [Option<Grant>; GRANTS],
    first: usize,
    count: usize,
}

impl Grants {
    pub(super) const NONE: Self = Self {
        grants: [None; GRANTS],
        first: 0,
        count: 0,
    };

    /// Adds a grant. Returns false if there are too many.
    pub(super) fn push(&mut self, grant: Grant) -> bool {
        if self.count == GRANTS {
            return false;
        }
        if let Some(place) = self.grants.get_mut((self.first + self.count) % GRANTS) {
            *place = Some(grant);
            self.count += 1;
        }
        true
    }

    /// Returns how many there are.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Returns the oldest grant.
    pub(super) fn first(&self) -> Option<&Grant> {
        let first = self.grants.get(self.first)?.as_ref();
        first.filter(|_| self.count > 0)
    }

    /// Removes the oldest grant.
    pub(super) fn pop(&mut self) {
        if self.count > 0 {
            self.first = (self.first + 1) % GRANTS;
            self.count -= 1;
        }
    }
}

/// Memory of the peer for segments of a message.
pub(super) type Segments = [Option<(Part, Extents)>; SEGMENTS];

/// Returns how many bytes memory has that the peer has exposed, if it is for the segment `next` and has at
/// most `left` bytes.
pub(super) fn fitting(next: Part, left: u64, part: Part, extents: &Extents) -> Option<u64> {
    let bytes = extents.bytes();
    (part == next && bytes != 0 && bytes <= left).then_some(bytes)
}

/// Records memory that the peer has exposed, if it is [`fitting`] and there is a place. Returns how many
/// bytes it has.
pub(super) fn keep(
    segments: &mut Segments,
    next: Part,
    left: u64,
    part: Part,
    extents: Extents,
) -> Option<u64> {
    let bytes = fitting(next, left, part, &extents)?;
    *segments.iter_mut().find(|free| free.is_none())? = Some((part, extents));
    Some(bytes)
}

/// Progress of data that are posted locally for the peer to pull.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exposed {
    /// Bytes that were posted.
    pub(super) bytes: u64,
    /// Segments that were posted.
    pub(super) segments: u64,
    /// Segments that were posted and not pulled yet.
    pub(super) under_way: usize,
}

/// Progress of data that the peer posts for a read of this end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulling {
    /// Bytes that the peer has posted.
    pub(super) named: u64,
    /// Segments that the peer has posted.
    pub(super) segments: u64,
    /// Bytes that were pulled.
    pub(super) done: u64,
}

impl Pulling {
    pub(super) const NONE: Self = Self {
        named: 0,
        segments: 0,
        done: 0,
    };
}

/// Returns DONE for a segment; `to` is the role of the word's receiver in the request.
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
