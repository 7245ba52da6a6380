// SPDX-License-Identifier: GPL-2.0

//! The hardware id of the neighbour at a link, as the fabric attests it. This file must not know what the
//! neighbour says of itself.

use crate::{hw::Router, sys::clock};
use kernel::prelude::*;

/// How long nothing is asked after a request that was not answered in time: each may take a second, in
/// which the messages of all links wait.
const SILENT_MS: u64 = 3000;

/// What was attested last.
#[derive(Default)]
pub(super) struct Attested {
    /// How often the link had trained when that was read.
    trained: u32,
    /// 0: nothing was read yet.
    hwid: u64,
    silent_until: u64,
}

impl Attested {
    /// Returns the hardware id of the port at the other end of `link`, which has trained so often;
    /// `None`: the fabric does not say. Reads it once a training. May sleep for a second.
    pub(super) fn read(&mut self, router: &dyn Router, link: usize, trained: u32) -> Option<u64> {
        if self.hwid == 0 || self.trained != trained {
            if clock::now_ms() < self.silent_until {
                return None;
            }
            let read = router.hwid_at(&[link as u8]);
            if read == Err(ETIMEDOUT) {
                self.silent_until = clock::now_ms() + SILENT_MS;
            }
            self.trained = trained;
            self.hwid = read.unwrap_or(0);
        }
        (self.hwid != 0).then_some(self.hwid)
    }
}
