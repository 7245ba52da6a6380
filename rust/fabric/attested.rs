// SPDX-License-Identifier: GPL-2.0

//! The hardware id of the neighbour at a link, as the fabric attests it. This file must not know what the
//! neighbour says of itself.

use super::witness::Witness;
use crate::hw::Router;

/// What was attested last.
#[derive(Default)]
pub(super) struct Attested {
    /// How often the link had trained when that was read.
    trained: u32,
    /// 0: nothing was read yet.
    hwid: u64,
    witness: Witness,
}

impl Attested {
    /// Returns the hardware id of the port at the other end of `link`, which has trained so often;
    /// `None`: the fabric does not say. Reads it once a training. May sleep for a second.
    pub(super) fn read(&mut self, router: &dyn Router, link: usize, trained: u32) -> Option<u64> {
        if self.hwid == 0 || self.trained != trained {
            self.trained = trained;
            self.hwid = self.witness.hwid_at(router, &[link as u8]).unwrap_or(0);
        }
        (self.hwid != 0).then_some(self.hwid)
    }
}
