// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Protection domains: what belongs together and may use each other. What is made in one says how, in
//! the module of its kind.

use crate::abi;
use crate::error::Result;
use crate::objects::{Handle, Objects};
use std::sync::Arc;

/// A protection domain. A queue pair reaches memory of its own domain only.
#[derive(Clone, Debug)]
pub struct Pd {
    pub(crate) handle: Arc<Handle>,
}

impl Pd {
    fn new(objects: &Objects) -> Result<Self> {
        let mut alloc = abi::weft_pd_alloc::default();
        objects.make("a protection domain", |l| l.pd_share, &mut alloc)?;
        Ok(Pd { handle: Arc::new(Handle::new(objects, alloc.pd)) })
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.handle.objects
    }
}

impl Objects {
    /// A protection domain.
    pub fn pd(&self) -> Result<Pd> {
        Pd::new(self)
    }
}
