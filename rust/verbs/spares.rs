// SPDX-License-Identifier: GPL-2.0

//! Memory of requests that are done, for those that come next: the engine would ask the allocator for
//! each otherwise, at more than a message costs besides.

use crate::proto::qp::Request;
use kernel::prelude::*;

/// So many are kept.
const MOST: usize = 64;

/// Of one end of a link, for all its queue pairs. Has room for [`MOST`].
pub(super) struct Spares(KVec<KBox<Request>>);

impl Spares {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(KVec::with_capacity(MOST, GFP_KERNEL)?))
    }

    /// One that is to be filled in.
    pub(super) fn take(&mut self) -> Result<KBox<Request>> {
        match self.0.pop() {
            Some(kept) => Ok(kept),
            None => Ok(KBox::new(Request::BLANK, GFP_KERNEL)?),
        }
    }

    pub(super) fn give(&mut self, request: KBox<Request>) {
        // One too many is freed.
        let _ = self.0.push_within_capacity(request);
    }
}
