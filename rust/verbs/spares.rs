// SPDX-License-Identifier: GPL-2.0

//! Memory of completed requests, kept for later requests: to allocate one costs more than the rest of
//! a message.

use crate::proto::qp::Request;
use kernel::prelude::*;

/// How many are kept.
const MOST: usize = 64;

/// The spare memory of one end of a link, for all its queue pairs. Has room for [`MOST`].
pub(super) struct Spares(KVec<KBox<Request>>);

impl Spares {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(KVec::with_capacity(MOST, GFP_KERNEL)?))
    }

    /// Returns memory for a request, which the caller is to fill in.
    pub(super) fn take(&mut self) -> Result<KBox<Request>> {
        match self.0.pop() {
            Some(kept) => Ok(kept),
            None => Ok(KBox::new(Request::BLANK, GFP_KERNEL)?),
        }
    }

    pub(super) fn give(&mut self, request: KBox<Request>) {
        // One that has no room is freed.
        let _ = self.0.push_within_capacity(request);
    }
}
