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
    /// Unique in the port.
    id: u64,
    users: Users,
}

impl Pd {
    /// Makes a protection domain. `ENOSPC`: the port has [`MAX_PDS`].
    pub(crate) fn new(memory: &Arc<Memory>) -> Result<Arc<Self>> {
        Memory::count(&memory.pds, MAX_PDS)?;
        let pd = Self {
            memory: memory.clone(),
            // 64 bits do not wrap: no id is used again.
            id: memory.last_pd.fetch_add(1, Relaxed).wrapping_add(1),
            users: Users::new(),
        };
        // If the allocation fails, `drop` decrements the count.
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
