// SPDX-License-Identifier: GPL-2.0

//! A protection domain: queue pairs reach memory of their own domain only.

use super::{Memory, Used, Users, MAX_PDS};
use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc},
};

/// A protection domain.
pub(crate) struct Pd {
    memory: Arc<Memory>,
    /// No other one of the port has it.
    id: u64,
    users: Users,
}

impl Pd {
    /// `ENOSPC`: the port has [`MAX_PDS`].
    pub(crate) fn new(memory: &Arc<Memory>) -> Result<Arc<Self>> {
        Memory::count(&memory.pds, MAX_PDS)?;
        let pd = Self {
            memory: memory.clone(),
            // Not used up in a life: no number comes again.
            id: memory.last_pd.fetch_add(1, Relaxed).wrapping_add(1),
            users: Users::new(),
        };
        // What cannot be kept is dropped, and counted off.
        Ok(Arc::new(pd, GFP_KERNEL_ACCOUNT)?)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Used for Pd {
    fn users(&self) -> &Users {
        &self.users
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        self.memory.pds.fetch_sub(1, Relaxed);
    }
}
