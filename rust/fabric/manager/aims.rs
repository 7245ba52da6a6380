// SPDX-License-Identifier: GPL-2.0

//! The destinations of the routed links of the port: hosts that a route leads to and that are no
//! neighbours.
//!
//! A host that stays keeps its link, and with it what users have open there. So does a host that only
//! does not answer, as long as its master has a route lead there. If there are more hosts than links,
//! the nearest hosts have them.

use super::{super::host::ManagerHost, Machine, View};
use crate::{
    hw::{Aim, Port, MAX_LINKS},
    proto::nm::kind::is_host,
};
use kernel::{prelude::*, sync::Mutex};

/// A host that a routed link is for.
#[derive(Clone, Copy)]
struct Target {
    hwid: u64,
    aim: Aim,
}

/// The destinations of the routed links, indexed by their number less that of the first.
#[derive(Default)]
pub(super) struct Aims {
    aimed: [Option<Target>; MAX_LINKS],
}

impl Aims {
    /// Sets the destinations of the links to the hosts that are there now. Returns true if something
    /// failed and is to be tried again.
    pub(super) fn follow(
        &mut self,
        node: &dyn ManagerHost,
        port: &dyn Port,
        machine: &Machine,
        view: &Mutex<View>,
    ) -> bool {
        let first = port.links();
        let count = port
            .far()
            .map_or(0, |far| far.count())
            .min(MAX_LINKS - first.min(MAX_LINKS));
        // While the manager still looks for nodes, a missing node may yet be found.
        if machine.found().is_none() {
            return false;
        }
        let mut wanted = [None; MAX_LINKS];
        let mut silent = [false; MAX_LINKS];
        let seen = view.lock();
        targets(machine, &seen, wanted.get_mut(..count).unwrap_or_default());
        for (silent, target) in silent.iter_mut().zip(&self.aimed) {
            *silent = target.is_some_and(|target| is_silent(&seen, &target));
        }
        drop(seen);
        let mut again = false;
        // First free the links that are to lead elsewhere, as no two links may lead to one port.
        for (n, place) in self.aimed.iter_mut().enumerate().take(count) {
            let Some(target) = *place else {
                continue;
            };
            let stays = wanted.iter_mut().find(|w: &&mut Option<Target>| {
                w.is_some_and(|w| w.hwid == target.hwid && w.aim.lid == target.aim.lid)
            });
            match stays {
                Some(assignment) => {
                    let now = assignment.take();
                    // If only the route has changed, the link goes on.
                    if now.map(|now| now.aim) != Some(target.aim) {
                        again |= aim(node, first + n, place, now);
                    }
                }
                None if silent.get(n) == Some(&true) => {}
                None => again |= aim(node, first + n, place, None),
            }
        }
        for assignment in wanted.into_iter().flatten() {
            let free = self.aimed.iter_mut().enumerate().take(count);
            let Some((n, place)) = free.into_iter().find(|(_, place)| place.is_none()) else {
                break;
            };
            again |= aim(node, first + n, place, Some(assignment));
        }
        again
    }
}

/// Sets the destination of a link. Returns true if that failed.
fn aim(
    node: &dyn ManagerHost,
    link: usize,
    place: &mut Option<Target>,
    target: Option<Target>,
) -> bool {
    let done = node.aim(link, target.map(|target| target.aim));
    match done {
        Ok(()) => *place = target,
        Err(why) => node.complain(fmt!(
            "link {} cannot be aimed at local id {}: {:?}; trying again",
            link,
            target.map_or(0, |target| target.aim.lid),
            why
        )),
    }
    done.is_err()
}

/// Returns whether a host has not answered this node, while its master still has a route lead there:
/// then it is the questions that were lost, as on a shared cable.
fn is_silent(view: &View, target: &Target) -> bool {
    let mut known = view.members().iter().filter(|m| m.known);
    let mut routes = view.routes().iter();
    known.all(|m| m.info.hwid != target.hwid) && routes.any(|(to, ..)| *to == target.aim.lid)
}

/// Writes to `places` the hosts that are to have a link, nearest first.
fn targets(machine: &Machine, view: &View, places: &mut [Option<Target>]) {
    let is_next_door = |hwid| machine.ports().iter().any(|port| port.peer == hwid);
    let others = view.members().iter().skip(1);
    let hosts = others.filter(|m| m.known && is_host(m.info.hwid) && !is_next_door(m.info.hwid));
    let reached = hosts.filter_map(|m| {
        let lid = m.info.lid;
        let (_, hops, _) = *view
            .routes()
            .iter()
            .find(|(to, ..)| lid != 0 && *to == lid)?;
        let (speed, width) = m.route.slowest;
        Some(Target {
            hwid: m.info.hwid,
            aim: Aim {
                lid,
                hops: hops.into(),
                speed: speed.into(),
                width: width.into(),
            },
        })
    });
    for (place, target) in places.iter_mut().zip(reached) {
        *place = Some(target);
    }
}
