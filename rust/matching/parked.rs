// SPDX-License-Identifier: GPL-2.0

//! Messages that their targets have taken, and will pull when they are received: that may be never, and other operations
//! have to go on.
//!
//! When the places of an interface are used up, such a message moves behind them. There is room for [`PARKED`], which is
//! allocated as it is needed, and kept. This file must not know rings or lists.

use super::{
    operation::{Operation, Phase},
    state::State,
    CHUNKS, OPERATIONS, PARKED,
};
use crate::{proto::matching::retry::Pending, sys::random};
use kernel::prelude::*;

/// Room that is allocated at once.
const STEP: usize = 64;

impl Operation {
    /// Returns whether it is a message that its target has taken and not pulled.
    fn is_taken(&self) -> bool {
        self.phase == Phase::Taken && self.is_read()
    }
}

impl State {
    /// Moves a message that its target has taken behind the places, and returns which one is free now. `EBUSY`: there is
    /// no such message; `ENOSPC`: there is no room; `ENOMEM`.
    pub(super) fn park(&mut self) -> Result<usize> {
        // One whose bytes are asked for is over soon.
        let taken = |n: &usize| {
            let operation = self.operations.get(*n);
            operation.is_some_and(Operation::is_taken) && !self.asked.has(*n)
        };
        let n = self.operations.used().find(taken).ok_or(EBUSY)?;
        let at = match self.operations.free_behind() {
            Some(at) => at,
            None => {
                self.make_room()?;
                self.operations.free_behind().ok_or(ENOSPC)?
            }
        };
        let operation = self.operations.take(n).ok_or(EBUSY)?;
        if let Some(id) = operation.id {
            self.pending.renumber(id, at as u64);
        }
        self.operations.put(at, operation);
        Ok(n)
    }

    /// Makes room for more. `ENOSPC`: there is as much as there can be; `ENOMEM`.
    fn make_room(&mut self) -> Result {
        let had = self.operations.count();
        let count = (had + STEP).min(OPERATIONS + PARKED);
        if count == had {
            return Err(ENOSPC);
        }
        // The operations last: there is room for what goes with each of them then.
        let pending = Pending::free(random::nonzero32());
        self.pending.memory().grow(pending, count)?;
        let asks = count.saturating_sub(self.asks.len());
        self.asks
            .extend_with(asks, [None; CHUNKS], GFP_KERNEL_ACCOUNT)?;
        let flows = count.saturating_sub(self.flows.len());
        self.flows.reserve(flows, GFP_KERNEL_ACCOUNT)?;
        self.over.grow(count)?;
        self.asked.grow(count)?;
        self.operations.grow(count)
    }
}
