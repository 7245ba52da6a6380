// SPDX-License-Identifier: GPL-2.0

//! What the fabric attests: which node is at the end of a path. It answers configuration requests by
//! itself, so no host can change what it says. This file must not know what that is used for.

use crate::{hw::Router, sys::clock};
use kernel::prelude::*;

/// How long nothing is asked after a request that was not answered in time: each may take a second, for
/// which its caller holds a lock.
const SILENT_MS: u64 = 3000;

/// The fabric, as a witness.
#[derive(Default)]
pub(super) struct Witness {
    silent_until: u64,
}

impl Witness {
    /// Returns the hardware id of the node at the end of `path`. Errors as [`Router::hwid_at`];
    /// `ETIMEDOUT` also for a while after a request that was not answered in time. May sleep for a second.
    pub(super) fn hwid_at(&mut self, router: &dyn Router, path: &[u8]) -> Result<u64> {
        if clock::now_ms() < self.silent_until {
            return Err(ETIMEDOUT);
        }
        let read = router.hwid_at(path);
        if read == Err(ETIMEDOUT) {
            self.silent_until = clock::now_ms() + SILENT_MS;
        }
        read
    }
}
