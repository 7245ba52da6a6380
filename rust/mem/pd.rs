// SPDX-License-Identifier: GPL-2.0

//! A protection domain: queue pairs reach memory of their own domain only.

use super::{Memory, Used, Users, MAX_PDS};
use crate::share::{Charge, Payer, Table};
use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc},
};

/// A protection domain.
pub(crate) struct Pd {
    /// Unique in the port.
    id: u64,
    users: Users,
    _charge: Charge,
}

impl Pd {
    /// Makes a protection domain. `ENOSPC`: the port has [`MAX_PDS`]; `EDQUOT`: `payer` has its share.
    pub(crate) fn new(memory: &Memory, payer: &Payer) -> Result<Arc<Self>> {
        let charge = payer.take(Table::Pds, MAX_PDS, 1)?;
        let pd = Self {
            // 64 bits do not wrap: no id is used again.
            id: memory.last_pd.fetch_add(1, Relaxed).wrapping_add(1),
            users: Users::new(),
            _charge: charge,
        };
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
