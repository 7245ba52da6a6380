// SPDX-License-Identifier: GPL-2.0

//! The hosts that may take part, as the administrator says.

use kernel::prelude::*;

/// The most entries of the list.
const MOST: usize = 64;

/// A list of hardware ids. If it is empty, all hosts may take part.
pub(super) struct Allow {
    ids: [u64; MOST],
    count: usize,
}

impl Allow {
    pub(super) const fn new() -> Self {
        Self {
            ids: [0; MOST],
            count: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Adds a hardware id. `ENOSPC`: there are [`MOST`] already.
    pub(super) fn add(&mut self, hwid: u64) -> Result {
        if self.as_ref().contains(&hwid) {
            return Ok(());
        }
        *self.ids.get_mut(self.count).ok_or(ENOSPC)? = hwid;
        self.count += 1;
        Ok(())
    }

    /// Clears the list: all hosts may take part.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

impl AsRef<[u64]> for Allow {
    fn as_ref(&self) -> &[u64] {
        self.ids.get(..self.count).unwrap_or_default()
    }
}
