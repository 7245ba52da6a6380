// SPDX-License-Identifier: GPL-2.0

//! The ways that the manager has found: for the routed links of its own port, and for the other functions of the
//! endpoint, which have no routes of their own.
//!
//! A host that only does not answer keeps its link as long as its master has a route lead there. At scale no list has
//! the hosts: the master's directory is asked ([`Names`](crate::proto::nm::scale::names::Names)), and a link stays
//! where it is until that has answered.

use super::{
    super::{host::ManagerHost, reaching::Ways},
    Keyring, Manager, Mode, View,
};
use crate::{
    hw::{identity_map, Aim, Guide},
    proto::{
        nm::{kind::is_host, member::Member},
        pair::{number_of, own_hwid, Way},
    },
    sys::{
        clock,
        registry::{self, Listed},
    },
};
use core::any::Any;
use kernel::{prelude::*, time::Msecs};

/// Returns whether a host has not answered this node, while its master still has a route lead there:
/// then it is the questions that were lost, as on a shared cable.
fn is_silent(view: &View, hwid: u64, aim: Option<Aim>) -> bool {
    let mut known = view.members().iter().filter(|m| m.known);
    let mut routes = view.routes().iter();
    known.all(|m| m.info.hwid != hwid)
        && aim.is_some_and(|aim| routes.any(|route| route.lid == aim.lid))
}

/// Returns the way to function `function` of a host.
fn way_to(view: &View, host: &Member, function: u8) -> Way {
    let lid = host.info.lid;
    let mut routes = view.routes().iter();
    let Some(route) = routes.find(|route| lid != 0 && route.lid == lid) else {
        return Way::default();
    };
    let (speed, width) = host.route.slowest;
    Way {
        lid,
        function,
        hops: route.hops,
        speed,
        width,
    }
}

/// Returns the way to the function with this hardware id, which may be that of another host's.
fn way(view: &View, hwid: u64) -> Way {
    let hwid = identity_map::carrier(hwid);
    // The first one is this host.
    let others = view.members().iter().skip(1);
    let hosts = others.filter(|m| m.known && is_host(m.info.hwid));
    let mut found = hosts.filter_map(|m| Some((m, number_of(m.info.hwid, hwid)?)));
    let way = found
        .next()
        .map(|(host, function)| way_to(view, host, function));
    way.unwrap_or_default()
}

/// How long a caller waits for the answer of the directory.
const SEEK_MS: Msecs = 3000;

impl Manager {
    /// Returns the local id of a host as the directory knows it, 0: there is no such host; `None`: it has not
    /// answered yet.
    fn lid_at_scale(&self, hwid: u64) -> Option<u32> {
        self.names.lock().look(clock::now_ms(), hwid)
    }

    /// Returns the way to a local id, if a route leads there.
    fn way_at_scale(&self, lid: u32) -> Option<Way> {
        let hops = self.look(|view| view.hops_to(lid)).filter(|_| lid != 0);
        hops.map(|hops| Way {
            lid,
            hops,
            ..Way::default()
        })
    }

    /// Returns the way for function `number` of this port, which has links to functions of that number, and looks for
    /// first ones: the directory has these alone. An id that another host's function has is looked for there. `None`:
    /// it has not answered yet, or there is none; a link that leads there is found out by its silence.
    fn way_of_function(&self, number: u8, hwid: u64) -> Option<Way> {
        let hwid = identity_map::carrier(hwid);
        let mut all = [(own_hwid(hwid, number), number), (hwid, 0)].into_iter();
        all.find_map(|(first, function)| {
            let lid = self.lid_at_scale(first)?;
            Some(Way {
                function,
                ..self.way_at_scale(lid)?
            })
        })
    }

    /// Returns whether the mode is that of a large fabric.
    pub(in crate::fabric) fn is_at_scale(&self) -> bool {
        self.look(|view| view.standing().mode) == Mode::Scale
    }

    /// Waits until the directory has answered which local id a host has. `ETIMEDOUT`: it has not, for as long as that
    /// may take; `ERESTARTSYS`: a signal came. Sleeps; not to be called with the port entered.
    pub(in crate::fabric) fn seek(&self, node: &dyn ManagerHost, hwid: u64) -> Result {
        if self.lid_at_scale(hwid).is_some() {
            return Ok(());
        }
        node.manage();
        let known = || self.lid_at_scale(hwid).is_some() || node.port_at_work().is_none();
        self.named.wait_ms(known, SEEK_MS)
    }
}

impl Ways for Manager {
    fn aim(&self, hwid: u64, before: Option<Aim>) -> Option<Aim> {
        if self.is_at_scale() {
            let lid = match (self.lid_at_scale(hwid), before) {
                (None, _) => return before,
                // The directory of a new master does not have all hosts yet. One that is gone is found out by its silence.
                (Some(0), Some(aim)) => aim.lid,
                (Some(lid), _) => lid,
            };
            // A route that is lost may be replaced soon; if not, the link ends as one that leads to a silent host.
            let kept = before.filter(|aim| aim.lid == lid);
            return self.way_at_scale(lid).map_or(kept, |way| Aim::by(&way));
        }
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
    fn way(&self, port: u64, number: u8, hwid: u64) -> Option<Way> {
        registry::find(|listed| {
            let manager = listed.as_any().downcast_ref::<Manager>()?;
            let is_it = |view: &View| view.members().first().map(|own| own.info.hwid) == Some(port);
            if port == 0 || !manager.look(is_it) {
                return None;
            }
            match manager.is_at_scale() {
                true => manager.way_of_function(number, hwid),
                false => manager.look(|view| Some(way(view, hwid))),
            }
        })
    }
}
