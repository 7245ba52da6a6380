// SPDX-License-Identifier: GPL-2.0

//! Memory of completed requests, kept for later requests: to allocate one costs more than the rest of
//! a message. And memory for the receive request that is being carried out, which is too large for the
//! stack, and would be copied from call to call.

use crate::proto::{qp::Request, wqe::RecvWqe};
use kernel::prelude::*;

/// How many are kept.
const MOST: usize = 64;

/// The spare memory of one end of a link, for all its queue pairs. Has room for [`MOST`].
pub(super) struct Spares {
    requests: KVec<KBox<Request>>,
    /// The receive request that was taken last.
    pub(super) recv: KBox<RecvWqe>,
}

impl Spares {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            requests: KVec::with_capacity(MOST, GFP_KERNEL)?,
            recv: KBox::new(RecvWqe::BLANK, GFP_KERNEL)?,
        })
    }

    /// Returns memory for a request, which the caller is to fill in.
    pub(super) fn take(&mut self) -> Result<KBox<Request>> {
        match self.requests.pop() {
            Some(kept) => Ok(kept),
            None => Ok(KBox::new(Request::BLANK, GFP_KERNEL)?),
        }
    }

    pub(super) fn give(&mut self, request: KBox<Request>) {
        // One that has no room is freed.
        let _ = self.requests.push_within_capacity(request);
    }
}
