// SPDX-License-Identifier: GPL-2.0

//! Counts the completion queues and shared receive queues of a port, and limits them.

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

/// The counts of a port.
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

/// Counts one queue while this lives.
pub(super) struct Counted {
    counts: Arc<Counts>,
    kind: Kind,
}

impl Counted {
    /// Counts one more queue. `ENOSPC`: the limit is reached.
    pub(super) fn new(counts: &Arc<Counts>, kind: Kind) -> Result<Self> {
        let most = match kind {
            Kind::Cq => MAX_CQS,
            Kind::Srq => MAX_SRQS,
        };
        let counted = Self {
            counts: counts.clone(),
            kind,
        };
        // Counted first: if it is too much, `drop` uncounts it.
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
