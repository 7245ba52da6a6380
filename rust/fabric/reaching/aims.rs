// SPDX-License-Identifier: GPL-2.0

//! Where the routed links of the port lead: aims them at hosts that programs connect to, or that call, and
//! keeps them there while routes and local ids change.
//!
//! Which link is taken, and for how long a link stays, `proto::reach` says.

use super::{
    super::host::{ManagerHost, Spared},
    Reaching, Ways,
};
use crate::{
    hw::{Aim, Port, MAX_FAR},
    proto::reach::{Counts, Reach, Use},
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

    /// Returns the host that a link leads to, and what it is aimed at.
    fn led(&self, link: usize) -> Option<(u64, Option<Aim>)> {
        let hwid = self.reach.host_at(link)?;
        Some((hwid, self.aims.get(link).copied().flatten()))
    }

    /// Aims a link anew that leads to a host. Returns false if it failed and is to be tried again.
    fn again(&mut self, node: &dyn ManagerHost, link: usize, aim: Option<Aim>) -> bool {
        let done = match aim {
            Some(_) => self.set(node, link, aim, Spared::Nothing),
            None => self.free(node, link, Spared::Nothing),
        };
        if let Err(why) = &done {
            node.complain(fmt!(
                "link {} cannot be aimed at local id {}: {:?}; trying again",
                self.first + link,
                aim.map_or(0, |aim| aim.lid),
                why
            ));
        }
        done.is_ok()
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

/// Returns whether a link to a neighbour leads to the host, to which a link could be aimed by `aim`, or will do so
/// when both drivers have met there.
pub(super) fn is_next_door(node: &dyn ManagerHost, port: &dyn Port, hwid: u64, aim: &Aim) -> bool {
    aim.hops == 1 || (0..port.links()).any(|link| node.peer_hwid(port, link) == Some(hwid))
}

impl Reaching {
    /// Follows the routes and local ids that there are now. Returns true if something failed and is to be
    /// tried again.
    pub(in crate::fabric) fn follow(&self, node: &dyn ManagerHost, ways: &dyn Ways) -> bool {
        let mut again = false;
        for link in 0..MAX_FAR {
            let Some((hwid, before)) = self.aims.lock().led(link) else {
                continue;
            };
            // Not with the lock held: it may take a while.
            let aim = ways.aim(hwid, before);
            let mut aims = self.aims.lock();
            if aim != before && aims.led(link) == Some((hwid, before)) {
                again |= !aims.again(node, link, aim);
            }
        }
        again
    }

    /// Returns whether any link leads to a host.
    pub(in crate::fabric) fn is_led(&self) -> bool {
        let aims = self.aims.lock();
        (0..MAX_FAR).any(|link| aims.led(link).is_some())
    }

    /// Notes that another port has taken the place of the one that was aimed: [`Self::follow`] aims its links.
    pub(in crate::fabric) fn forget(&self) {
        self.aims.lock().aims = [None; MAX_FAR];
    }

    /// Aims a routed link at the host `hwid`, if none leads there and one `may` be taken. Returns what `hold` makes
    /// of its number; the link is not aimed elsewhere before `hold` returns.
    ///
    /// `EHOSTUNREACH`: no route leads to such a host, or a link to a neighbour does, which is not READY; `ENOSPC`:
    /// all routed links are in use; and the errors of `may` and `hold`.
    pub(in crate::fabric) fn lead<T>(
        &self,
        node: &dyn ManagerHost,
        ways: &dyn Ways,
        hwid: u64,
        may: impl FnOnce(&dyn Port) -> Result,
        hold: impl FnOnce(&dyn Port, usize) -> Result<T>,
    ) -> Result<T> {
        let port = node.port_at_work().ok_or(EHOSTUNREACH)?;
        let aims = self.aims.lock();
        let first = aims.first;
        if let Some(link) = aims.reach.link_to(hwid) {
            return hold(&**port, first + link);
        }
        drop(aims);
        let aim = ways.aim(hwid, None);
        let aim = aim.filter(|aim| !is_next_door(node, &**port, hwid, aim));
        let aim = aim.ok_or(EHOSTUNREACH)?;
        may(&**port)?;
        let mut aims = self.aims.lock();
        // Another call may have been as fast.
        if let Some(link) = aims.reach.link_to(hwid) {
            return hold(&**port, first + link);
        }
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
