// SPDX-License-Identifier: GPL-2.0

//! Hands hierarchies to hosts, as the master: a call that waits until the host has taken its own.

use super::{super::host::ManagerHost, Manager};
use crate::{
    proto::nm::node::{Failure, HAND_MS},
    sys::{
        clock,
        errno::{EHOSTUNREACH, ESTALE},
    },
};
use kernel::{prelude::*, time::Msecs};

/// The longest wait; the machine gives up earlier.
const LONGEST_MS: Msecs = HAND_MS as Msecs + 5000;

fn error(failure: Failure) -> Error {
    match failure {
        Failure::Silent => EHOSTUNREACH.into(),
        Failure::Late => ETIMEDOUT,
        Failure::Stale => ESTALE.into(),
        Failure::NoRoom => ENOSPC,
        Failure::Bad => EINVAL,
    }
}

impl Manager {
    /// Hands a host its hierarchy, as `proto::mr::hierarchy` writes it, and waits until the host has
    /// taken it and released what it loses. The host may be this one. If the host has the same hierarchy
    /// already, nothing happens there. Sleeps. Not to be called with the port entered: removal of the
    /// port would wait for this call.
    ///
    /// `ESTALE`: this host is not the master, or not in the same term any more; `EHOSTUNREACH`: no such
    /// host answers, or it has restarted; `ETIMEDOUT`: it still uses something that it is to lose, or
    /// has to wait for the fabric, and may take the hierarchy later; `ENOSPC`, `EINVAL`: it takes no
    /// such hierarchy; `ENODEV`: there is no port.
    pub(crate) fn hand(&self, node: &dyn ManagerHost, hwid: u64, bytes: &[u8]) -> Result {
        let _one = self.handing.lock();
        let begun = self.work(node, |machine, means| match machine.large() {
            // At scale no host hands out hierarchies.
            Some(_) => Err(Failure::Stale),
            None => {
                let now = clock::now_ms();
                machine.small_mut().hand(now, hwid, bytes, means)
            }
        })?;
        begun.map_err(error)?;
        node.manage();
        let mut over = None;
        let waited = self.handed.wait_ms(
            || {
                let machine = &self.inner.lock().machine;
                over = match machine.large() {
                    Some(_) => Some(Err(Failure::Stale)),
                    None => machine.small().handed(),
                };
                over.is_some() || node.port_at_work().is_none()
            },
            LONGEST_MS,
        );
        match over {
            Some(over) => over.map_err(error),
            None => waited.and(Err(ENODEV)),
        }
    }

    /// Wakes the caller of [`Self::hand`], if there is one, to look again.
    pub(in crate::fabric) fn wake(&self) {
        self.handed.wake_all();
    }
}
