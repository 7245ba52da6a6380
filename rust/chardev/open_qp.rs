// SPDX-License-Identifier: GPL-2.0

//! A queue pair of a file: what its file has of it, and gives back with it.

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
    /// Nobody needs one: for one caller, `ENOENT` if it was closed before.
    pub(super) fn close(&self) -> Result {
        self.users.close()
    }

    /// Takes it from the engine.
    pub(super) fn destroy(&self) {
        if let Some((page, bit)) = &self.kick {
            page.remove(*bit);
        }
        self.engine.destroy(&self.qp);
    }
}
