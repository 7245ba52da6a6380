// SPDX-License-Identifier: GPL-2.0

//! The ways that the manager has found: for the routed links of its own port, and for the other functions of the
//! endpoint, which have no routes of their own.
//!
//! A host that only does not answer keeps its link as long as its master has a route lead there.

use super::{super::reaching::Ways, Keyring, Manager, View};
use crate::{
    hw::{Aim, Guide},
    proto::{
        nm::{kind::is_host, member::Member},
        pair::{number_of, Way},
    },
    sys::registry::{self, Listed},
};
use core::any::Any;

/// Returns whether a host has not answered this node, while its master still has a route lead there:
/// then it is the questions that were lost, as on a shared cable.
fn is_silent(view: &View, hwid: u64, aim: Option<Aim>) -> bool {
    let mut known = view.members().iter().filter(|m| m.known);
    let mut routes = view.routes().iter();
    known.all(|m| m.info.hwid != hwid)
        && aim.is_some_and(|aim| routes.any(|(to, ..)| *to == aim.lid))
}

/// Returns the way to function `function` of a host.
fn way_to(view: &View, host: &Member, function: u8) -> Way {
    let lid = host.info.lid;
    let mut routes = view.routes().iter();
    let Some((_, hops, _)) = routes.find(|(to, ..)| lid != 0 && *to == lid) else {
        return Way::default();
    };
    let (speed, width) = host.route.slowest;
    Way {
        lid,
        function,
        hops: *hops,
        speed,
        width,
    }
}

/// Returns the way to the function with this hardware id.
fn way(view: &View, hwid: u64) -> Way {
    // The first one is this host.
    let others = view.members().iter().skip(1);
    let hosts = others.filter(|m| m.known && is_host(m.info.hwid));
    let mut found = hosts.filter_map(|m| Some((m, number_of(m.info.hwid, hwid)?)));
    let way = found
        .next()
        .map(|(host, function)| way_to(view, host, function));
    way.unwrap_or_default()
}

impl Ways for Manager {
    fn aim(&self, hwid: u64, before: Option<Aim>) -> Option<Aim> {
        self.look(|view| match way(view, hwid) {
            // Routed links lead to functions with the number of this one.
            way if way.lid != 0 => Aim::by(&way).filter(|_| way.function == 0),
            _ if is_silent(view, hwid, before) => before,
            _ => None,
        })
    }

    fn keyring(&self) -> Option<&Keyring> {
        Some(self.keyring())
    }
}

impl Listed for Manager {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The manager of the port whose first function has a hardware id, if this host has it.
pub(crate) struct Listing;

impl Guide for Listing {
    fn way(&self, port: u64, hwid: u64) -> Option<Way> {
        registry::find(|listed| {
            let manager = listed.as_any().downcast_ref::<Manager>()?;
            manager.look(|view| {
                let own = view.members().first()?;
                (port != 0 && own.info.hwid == port).then(|| way(view, hwid))
            })
        })
    }
}
