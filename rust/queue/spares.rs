// SPDX-License-Identifier: GPL-2.0

//! Memory of requests that are done, for those that come next: the engine would ask the allocator for
//! each otherwise, at more than a message costs besides.

use super::initiator::Request;
use kernel::prelude::*;

/// So many are kept.
const MOST: usize = 64;

/// Of one end of a link, for all its queue pairs.
pub(super) struct Spares {
    kept: [Option<KBox<Request>>; MOST],
    count: usize,
}

impl Spares {
    pub(super) const fn new() -> Self {
        Self {
            kept: [const { None }; MOST],
            count: 0,
        }
    }

    /// One that is to be filled in.
    pub(super) fn take(&mut self) -> Result<KBox<Request>> {
        if let Some(last) = self.count.checked_sub(1) {
            self.count = last;
            if let Some(kept) = self.kept.get_mut(last).and_then(Option::take) {
                return Ok(kept);
            }
        }
        KBox::init(Request::blank(), GFP_KERNEL)
    }

    pub(super) fn give(&mut self, request: KBox<Request>) {
        if let Some(place) = self.kept.get_mut(self.count) {
            *place = Some(request);
            self.count += 1;
        }
    }
}
