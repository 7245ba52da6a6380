// SPDX-License-Identifier: GPL-2.0

//! A queue pair of a file, with the engine and the kick page that it was made with.

use crate::{
    mem::Users,
    verbs::{Engine, KickPage, Qp},
};
use kernel::{prelude::*, sync::Arc};

/// A queue pair of a file.
pub(super) struct OpenQp {
    pub(super) qp: Arc<Qp>,
    pub(super) engine: Arc<Engine>,
    pub(super) users: Users,
    pub(super) kick: Option<(Arc<KickPage>, u32)>,
}

impl OpenQp {
    /// Closes the queue pair, which no object needs. `ENOENT`: it was closed before.
    pub(super) fn close(&self) -> Result {
        self.users.close()
    }

    /// Frees the bit in the kick page and destroys the queue pair.
    pub(super) fn destroy(&self) {
        if let Some((page, bit)) = &self.kick {
            page.remove(*bit);
        }
        self.engine.destroy(&self.qp);
    }
}
