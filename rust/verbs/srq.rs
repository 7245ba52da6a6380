// SPDX-License-Identifier: GPL-2.0

//! A shared receive queue: receive requests for all queue pairs that use it.
//!
//! It must not know which those are.

use super::{
    counts::{Counted, Counts, Kind},
    posted::{Overposted, Posted},
};
use crate::{
    mem::{Pd, Use, Used, Users},
    proto::wqe::QueueShape,
    sys::pages::Pages,
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{Arc, SpinLock},
};

/// A shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    #[pin]
    inner: SpinLock<Posted>,
    /// The memory of `inner`, to be mapped without its lock.
    memory: Arc<Pages>,
    shape: QueueShape,
    pd: Use<Pd>,
    users: Users,
    _counted: Counted,
}

impl Srq {
    /// Makes a shared receive queue. `ENOSPC`: the port has `MAX_SRQS`; `ENOENT`: the domain is being
    /// destroyed.
    pub(crate) fn new(counts: &Arc<Counts>, pd: Arc<Pd>, shape: QueueShape) -> Result<Arc<Self>> {
        let counted = Counted::new(counts, Kind::Srq)?;
        let pd = Use::new(pd)?;
        let memory = Arc::new(Pages::new(shape.bytes())?, GFP_KERNEL_ACCOUNT)?;
        let posted = Posted::new(memory.clone(), 0, shape)?;
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_spinlock!(posted, "weft srq"),
                memory,
                shape,
                pd,
                users: Users::new(),
                _counted: counted,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the memory of the queue, for mapping.
    pub(crate) fn memory(&self) -> &Pages {
        &self.memory
    }

    pub(crate) fn shape(&self) -> &QueueShape {
        &self.shape
    }

    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns whether there is a receive request.
    pub(crate) fn has_any(&self) -> Result<bool, Overposted> {
        Ok(self.inner.lock().pending()? > 0)
    }

    /// Takes the oldest receive request and returns the result of `f` for it. Does not sleep, and `f`
    /// must not.
    pub(crate) fn take<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Overposted> {
        self.inner.lock().take(f)
    }
}

impl Used for Srq {
    fn users(&self) -> &Users {
        &self.users
    }
}
