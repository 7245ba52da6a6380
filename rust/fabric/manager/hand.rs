// SPDX-License-Identifier: GPL-2.0

//! Hierarchies that this host hands to others as the master: a call, which waits until it is done.

use super::{super::host::ManagerHost, Manager};
use crate::{
    proto::nm::node::{Failure, HAND_MS},
    sys::{
        clock,
        errno::{EHOSTUNREACH, ESTALE},
    },
};
use kernel::{prelude::*, time::Msecs};

/// The machine gives up before.
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
    /// Tells a host its hierarchy, as `proto::mr::hierarchy` writes it, and waits until it has taken it, and
    /// let go of what it loses. The host may be this one. Who has the same already notices nothing. Sleeps;
    /// not to be called with the port entered, for who takes that away would wait for it.
    ///
    /// `ESTALE`: this host is not the master, or not in the same term any more; `EHOSTUNREACH`: no such host
    /// answers, or it lives another life; `ETIMEDOUT`: it still uses something that it is to lose, or has to
    /// wait for the fabric, and may take it later; `ENOSPC`, `EINVAL`: it takes no such hierarchy;
    /// `ENODEV`: there is no port to do it with.
    pub(crate) fn hand(&self, node: &dyn ManagerHost, hwid: u64, bytes: &[u8]) -> Result {
        let _one = self.handing.lock();
        let begun = self.work(node, |machine, means| {
            machine.hand(clock::now_ms(), hwid, bytes, means)
        })?;
        begun.map_err(error)?;
        node.manage();
        let mut over = None;
        let waited = self.handed.wait_ms(
            || {
                over = self.inner.lock().machine.handed();
                over.is_some() || node.port_at_work().is_none()
            },
            LONGEST_MS,
        );
        match over {
            Some(over) => over.map_err(error),
            None => waited.and(Err(ENODEV)),
        }
    }

    /// Waiters look again.
    pub(in crate::fabric) fn wake(&self) {
        self.handed.wake_all();
    }
}
