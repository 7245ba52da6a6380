// SPDX-License-Identifier: GPL-2.0

//! Memory that a program has given out: protection domains, regions, windows.
//!
//! Who asks for it names it by an STag; whether he may is decided here, on each access, against
//! entries that nobody but this host writes. The rules are in `proto::tpt`. It must not know queues,
//! files or links.

// Until regions and queues use it all.
#![allow(dead_code, unused_imports)]

mod pd;
mod users;

pub(crate) use self::{
    pd::Pd,
    users::{Use, Used, Users},
};

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

/// Protection domains that a port can have.
pub(crate) const MAX_PDS: u32 = 16384;

/// The memory of a port.
pub(crate) struct Memory {
    pds: Atomic<u32>,
    last_pd: Atomic<u64>,
}

impl Memory {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                pds: Atomic::new(0),
                last_pd: Atomic::new(0),
            },
            GFP_KERNEL,
        )?)
    }

    /// Counts one more, unless there are `limit`. `ENOSPC`.
    fn count(counter: &Atomic<u32>, limit: u32) -> Result {
        let mut now = counter.load(Relaxed);
        while now < limit {
            match counter.cmpxchg(now, now + 1, Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => now = other,
            }
        }
        Err(ENOSPC)
    }
}
