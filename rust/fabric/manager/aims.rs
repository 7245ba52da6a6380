// SPDX-License-Identifier: GPL-2.0

//! Where the routed links of the port lead: aims them at hosts that programs connect to, or that call, and
//! keeps them there while routes and local ids change.
//!
//! Which link is taken, and for how long a link stays, `proto::reach` says. A host that only does not answer
//! keeps its link as long as its master has a route lead there.

use super::{
    super::host::{ManagerHost, Spared},
    Machine, Manager, View,
};
use crate::{
    hw::{Aim, Port, MAX_FAR},
    proto::{
        nm::kind::is_host,
        reach::{Counts, Reach, Use},
    },
    sys::{clock, errno::EHOSTUNREACH},
};
use kernel::prelude::*;

/// The longest time that an idle link is kept if it is limited, in seconds.
const MAX_IDLE: u64 = 24 * 60 * 60;

/// The routed links, numbered from 0, less the number of the first.
pub(super) struct Aims {
    pub(super) reach: Reach<MAX_FAR>,
    /// As they were set last.
    aims: [Option<Aim>; MAX_FAR],
    /// The number of the first link.
    first: usize,
}

impl Aims {
    /// Makes the state of `count` links, of which the first has the number `first`.
    pub(super) fn new(first: usize, count: usize) -> Self {
        Self {
            first,
            reach: Reach::new(count),
            aims: [None; MAX_FAR],
        }
    }

    /// Returns what tells what uses each link.
    pub(super) fn uses<'a>(&self, node: &'a dyn ManagerHost) -> impl Fn(usize) -> Use + Copy + 'a {
        let first = self.first;
        move |link| node.uses(first + link)
    }

    /// Sets the destination of a link that is not `spared`.
    pub(super) fn set(
        &mut self,
        node: &dyn ManagerHost,
        link: usize,
        aim: Option<Aim>,
        spared: Spared,
    ) -> Result {
        node.aim(self.first + link, aim, spared)?;
        if let Some(place) = self.aims.get_mut(link) {
            *place = aim;
        }
        Ok(())
    }

    /// Has a link lead nowhere.
    fn free(&mut self, node: &dyn ManagerHost, link: usize, spared: Spared) -> Result {
        self.set(node, link, None, spared)?;
        self.reach.free(link);
        Ok(())
    }

    /// Follows the routes and local ids that there are now. Returns true if something failed and is to be
    /// tried again.
    fn follow(&mut self, node: &dyn ManagerHost, manager: &Manager) -> bool {
        let mut again = false;
        for link in 0..MAX_FAR {
            let Some(hwid) = self.reach.host_at(link) else {
                continue;
            };
            let before = self.aims.get(link).copied().flatten();
            let aim = manager.look(|view| match target(view, hwid) {
                None if is_silent(view, hwid, before) => before,
                found => found,
            });
            if aim == before {
                continue;
            }
            let done = match aim {
                Some(_) => self.set(node, link, aim, Spared::Nothing),
                None => self.free(node, link, Spared::Nothing),
            };
            if let Err(why) = done {
                again = true;
                node.complain(fmt!(
                    "link {} cannot be aimed at local id {}: {:?}; trying again",
                    self.first + link,
                    aim.map_or(0, |aim| aim.lid),
                    why
                ));
            }
        }
        again
    }

    /// Aims a link at a host to which none leads. Returns the link.
    fn take(&mut self, node: &dyn ManagerHost, hwid: u64, aim: Aim) -> Result<usize, Untaken> {
        // A link that is used meanwhile is another one that is not idle.
        for _ in 0..MAX_FAR {
            let link = self.reach.choose(self.uses(node)).map_err(Untaken::Full)?;
            match self.set(node, link, Some(aim), Spared::Own) {
                Ok(()) => {
                    self.reach.lead(link, hwid, false, clock::now_ms());
                    return Ok(link);
                }
                Err(e) if e == EBUSY => {}
                Err(e) => return Err(Untaken::Failed(e)),
            }
        }
        Err(Untaken::Failed(EAGAIN))
    }
}

/// Reason why no link was taken.
enum Untaken {
    Full(Counts),
    Failed(Error),
}

/// Returns whether a host has not answered this node, while its master still has a route lead there:
/// then it is the questions that were lost, as on a shared cable.
fn is_silent(view: &View, hwid: u64, aim: Option<Aim>) -> bool {
    let mut known = view.members().iter().filter(|m| m.known);
    let mut routes = view.routes().iter();
    known.all(|m| m.info.hwid != hwid)
        && aim.is_some_and(|aim| routes.any(|(to, ..)| *to == aim.lid))
}

/// Returns what a link to a host is to be aimed at; `None`: no such host, or no route leads there.
pub(super) fn target(view: &View, hwid: u64) -> Option<Aim> {
    let mut others = view.members().iter().skip(1);
    let m = others.find(|m| m.known && is_host(m.info.hwid) && m.info.hwid == hwid)?;
    let lid = m.info.lid;
    let mut routes = view.routes().iter();
    let (_, hops, _) = *routes.find(|(to, ..)| lid != 0 && *to == lid)?;
    let (speed, width) = m.route.slowest;
    Some(Aim {
        lid,
        hops: hops.into(),
        speed: speed.into(),
        width: width.into(),
    })
}

/// Returns whether a link to a neighbour leads to the host, to which a link could be aimed by `aim`, or will do so
/// when both drivers have met there.
pub(super) fn is_next_door(node: &dyn ManagerHost, port: &dyn Port, hwid: u64, aim: &Aim) -> bool {
    aim.hops == 1 || (0..port.links()).any(|link| node.peer_hwid(port, link) == Some(hwid))
}

impl Manager {
    /// Has the aims follow what the manager has found. Returns true if this has to be called again.
    pub(super) fn follow_aims(&self, node: &dyn ManagerHost, machine: &Machine) -> bool {
        // While the manager still looks for nodes, a missing node may yet be found.
        machine.found().is_some() && self.aims.lock().follow(node, self)
    }

    /// Aims a routed link at the host `hwid`, if none leads there and one `may` be taken. Returns what `hold` makes
    /// of its number; the link is not aimed elsewhere before `hold` returns.
    ///
    /// `EHOSTUNREACH`: no route leads to such a host, or a link to a neighbour does, which is not READY; `ENOSPC`:
    /// all routed links are in use; and the errors of `may` and `hold`.
    pub(in crate::fabric) fn lead<T>(
        &self,
        node: &dyn ManagerHost,
        hwid: u64,
        may: impl FnOnce(&dyn Port) -> Result,
        hold: impl FnOnce(&dyn Port, usize) -> Result<T>,
    ) -> Result<T> {
        let port = node.port_at_work().ok_or(EHOSTUNREACH)?;
        let mut aims = self.aims.lock();
        let first = aims.first;
        if let Some(link) = aims.reach.link_to(hwid) {
            return hold(&**port, first + link);
        }
        let aim = self.look(|view| target(view, hwid));
        let aim = aim.filter(|aim| !is_next_door(node, &**port, hwid, aim));
        let aim = aim.ok_or(EHOSTUNREACH)?;
        may(&**port)?;
        match aims.take(node, hwid, aim) {
            Ok(link) => hold(&**port, first + link),
            Err(Untaken::Failed(why)) => Err(why),
            Err(Untaken::Full(full)) => {
                tell_full(node, hwid, full);
                Err(ENOSPC)
            }
        }
    }

    /// Returns the number of routed links, and how many are in use.
    pub(in crate::fabric) fn routed(&self, node: &dyn ManagerHost) -> (usize, Counts) {
        let aims = self.aims.lock();
        (aims.reach.count(), aims.reach.counts(aims.uses(node)))
    }

    /// Notes that something of this host uses a link, if it is a routed one.
    pub(in crate::fabric) fn touch(&self, link: usize) {
        let mut aims = self.aims.lock();
        if let Some(link) = link.checked_sub(aims.first) {
            aims.reach.touch(link, clock::now_ms());
        }
    }

    /// Returns after how many seconds an idle link is given back; 0: it is not.
    pub(crate) fn routed_idle(&self) -> u64 {
        self.aims.lock().reach.keep() / 1000
    }

    /// Sets that time. `EINVAL`: it is more than a day.
    pub(crate) fn set_routed_idle(&self, seconds: u64) -> Result {
        if seconds > MAX_IDLE {
            return Err(EINVAL);
        }
        self.aims.lock().reach.set_keep(1000 * seconds);
        Ok(())
    }

    /// Returns whether a link is aimed at the host `hwid`.
    pub(in crate::fabric) fn leads(&self, link: usize, hwid: u64) -> bool {
        let aims = self.aims.lock();
        let link = link.checked_sub(aims.first);
        link.and_then(|link| aims.reach.host_at(link)) == Some(hwid)
    }

    /// Notes what is in use, and gives back what has been idle for long. Called again and again.
    pub(in crate::fabric) fn keep_aims(&self, node: &dyn ManagerHost) {
        let now = clock::now_ms();
        let mut aims = self.aims.lock();
        let uses = aims.uses(node);
        aims.reach.note(uses, now);
        while let Some(link) = aims.reach.due(uses, now) {
            // In use again, or it cannot be: the next call finds out.
            if aims.free(node, link, Spared::Used).is_err() {
                break;
            }
        }
    }
}

/// Logs that a host cannot be reached because all links are in use.
fn tell_full(node: &dyn ManagerHost, hwid: u64, full: Counts) {
    node.complain(fmt!(
        "no routed link is left for host {:#018x}: of {} this host uses {}, and other hosts use {}; end a \
         program that uses one: its user is in users of the link's directory",
        hwid,
        full.own + full.peers,
        full.own,
        full.peers
    ));
}
