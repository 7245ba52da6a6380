// SPDX-License-Identifier: GPL-2.0

//! How many queues a port has, and how many it may have.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

/// Completion queues of a port.
pub(crate) const MAX_CQS: u32 = 16384;
/// Shared receive queues of a port.
pub(crate) const MAX_SRQS: u32 = 16384;

/// The queues of a port.
pub(crate) struct Counts {
    cqs: Atomic<u32>,
    srqs: Atomic<u32>,
}

impl Counts {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let counts = Self {
            cqs: Atomic::new(0),
            srqs: Atomic::new(0),
        };
        Ok(Arc::new(counts, GFP_KERNEL)?)
    }
}

/// What is counted.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Cq,
    Srq,
}

/// One that is counted while this lives.
pub(super) struct Counted {
    counts: Arc<Counts>,
    kind: Kind,
}

impl Counted {
    /// `ENOSPC`: there are as many as there may be.
    pub(super) fn new(counts: &Arc<Counts>, kind: Kind) -> Result<Self> {
        let most = match kind {
            Kind::Cq => MAX_CQS,
            Kind::Srq => MAX_SRQS,
        };
        let counted = Self {
            counts: counts.clone(),
            kind,
        };
        // Counted first, so that what is too much is counted off as everything else.
        if counted.counter().fetch_add(1, Relaxed) >= most {
            return Err(ENOSPC);
        }
        Ok(counted)
    }

    fn counter(&self) -> &Atomic<u32> {
        match self.kind {
            Kind::Cq => &self.counts.cqs,
            Kind::Srq => &self.counts.srqs,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counter().fetch_sub(1, Relaxed);
    }
}
