// SPDX-License-Identifier: GPL-2.0

//! What the fabric attests: which node is at the end of a path. It answers configuration requests by
//! itself, so no host can change what it says. This file must not know what that is used for.

use crate::{
    hw::Router,
    proto::nm::{node::There, path::Path},
    sys::{clock, errno::EHOSTUNREACH},
};
use kernel::prelude::*;

/// How long nothing is asked after a request that was not answered in time: each may take a second, for
/// which the manager is locked.
const SILENT_MS: u64 = 3000;

/// The fabric, as a witness.
#[derive(Default)]
pub(super) struct Witness {
    silent_until: u64,
}

impl Witness {
    /// Returns what is at the end of `path`.
    pub(super) fn there(&mut self, router: &dyn Router, path: &Path) -> There {
        if clock::now_ms() < self.silent_until {
            return There::Unknown;
        }
        match router.hwid_at(path.ports()) {
            Ok(hwid) => There::Node(hwid),
            Err(e) if e == EHOSTUNREACH || e == EINVAL => There::Nothing,
            Err(e) => {
                if e == ETIMEDOUT {
                    self.silent_until = clock::now_ms() + SILENT_MS;
                }
                There::Unknown
            }
        }
    }
}
