// SPDX-License-Identifier: GPL-2.0

//! The ways to hosts for a function that has no routes of its own, a virtual one or the second of an endpoint: it
//! uses those of the endpoint's first function.
//!
//! A virtual function asks its owner, which may be another system's; a physical one asks the manager of the first
//! function, which this host has. This file must not know how the one or the other finds a way.

use super::Node;
use crate::{
    fabric::{keyring::Keyring, manager::Listing, reaching::Ways},
    hw::{identity_map, Aim, Guide, Port},
    proto::pair::{own_hwid, Way},
};
use kernel::prelude::*;

/// What answers virtual functions.
pub(super) static GUIDE: Listing = Listing;

/// The ways of a node without a manager.
pub(super) struct OfFunction<'a>(pub(super) &'a Node);

impl OfFunction<'_> {
    /// Returns the way to the function with this hardware id. Sleeps. `ETIMEDOUT`: that cannot be told now.
    fn way(&self, port: &dyn Port, hwid: u64) -> Result<Way> {
        if let Some(owner) = port.owner() {
            return owner.way(hwid);
        }
        let number = port.function();
        let first = own_hwid(port.identity().hwid, number);
        GUIDE.way(first, number, hwid).ok_or(ETIMEDOUT)
    }
}

impl Ways for OfFunction<'_> {
    fn aim(&self, hwid: u64, before: Option<Aim>) -> Option<Aim> {
        let Some(port) = self.0.port_at_work() else {
            return before;
        };
        match self.way(&**port, hwid) {
            // Routed links lead to functions with the number of this one.
            Ok(way) => Aim::by(&way).filter(|_| way.function == port.function()),
            Err(_) => before,
        }
    }

    fn keyring(&self) -> Option<&Keyring> {
        None
    }
}

impl Node {
    /// Returns the hardware id of the function that this one reaches at the host whose first function has the id
    /// `host`: that with its own number. `None`: this is a first function itself, or there is no such host.
    /// `ETIMEDOUT`: that cannot be told now. Sleeps.
    pub(super) fn counterpart(&self, port: &dyn Port, host: u64) -> Result<Option<u64>> {
        let number = port.function();
        if number == 0 || self.manager().is_some() || self.far().is_none() {
            return Ok(None);
        }
        let way = OfFunction(self).way(port, host)?;
        let there = (way.lid != 0 && way.function == 0).then(|| own_hwid(host, number));
        Ok(there.map(identity_map::carried))
    }
}
