// SPDX-License-Identifier: GPL-2.0

//! The network manager of a file's port, for the ioctls that need it.

use super::call::Call;
use crate::{
    fabric::{Manager, Role, View},
    sys::errno::{EOPNOTSUPP, EREMOTE},
};
use kernel::prelude::*;

/// Returns the network manager. `EOPNOTSUPP`: the port has none.
pub(super) fn manager<'a>(call: &Call<'a>) -> Result<&'a Manager> {
    call.file.node.manager().ok_or(EOPNOTSUPP.into())
}

/// Returns `manager` if this host is the master, else `EREMOTE`.
pub(super) fn as_master(manager: &Manager) -> Result<&Manager> {
    match manager.look(View::standing).role {
        Role::Master => Ok(manager),
        Role::Standby | Role::Unknown => Err(EREMOTE.into()),
    }
}
