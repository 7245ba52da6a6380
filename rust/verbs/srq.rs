// SPDX-License-Identifier: GPL-2.0

//! A shared receive queue: receive requests for all queue pairs that use it.
//!
//! It must not know which those are.

use super::posted::{Overposted, Posted};
use crate::{
    mem::{Pd, Use, Used, Users},
    proto::wqe::QueueShape,
    share::{Charge, Payer, Table},
    sys::{pages::Pages, words::Words},
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{Arc, SpinLock},
};

/// Shared receive queues that a port can have.
pub(crate) const MAX_SRQS: u32 = 16384;

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
    _charge: Charge,
}

impl Srq {
    /// Makes a shared receive queue. `ENOSPC`: the port has [`MAX_SRQS`]; `EDQUOT`: `payer` has its share;
    /// `ENOENT`: the domain is being destroyed.
    pub(crate) fn new(payer: &Payer, pd: Arc<Pd>, shape: QueueShape) -> Result<Arc<Self>> {
        let charge = payer.take(Table::Srqs, MAX_SRQS, 1)?;
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
                _charge: charge,
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
    pub(crate) fn take<R>(&self, f: impl FnOnce(Words<'_>) -> R) -> Result<Option<R>, Overposted> {
        self.inner.lock().take(f)
    }
}

impl Used for Srq {
    fn users(&self) -> &Users {
        &self.users
    }
}
