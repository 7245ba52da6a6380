// SPDX-License-Identifier: GPL-2.0

//! How a call of a user reaches a host: over a link that is READY, or one that is aimed for it. The host may be
//! this one.
//!
//! Which link that is, the manager says. This file must not know what the call opens then.

use super::{function::OfFunction, Node};
use crate::{
    fabric::{link::Link, reaching::Ways, turnstile::Inside, Manager},
    hw::Port,
    share::{Charge, Payer},
    sys::{
        clock,
        errno::{EHOSTUNREACH, ENOTCONN},
    },
};
use core::ops::Range;
use kernel::{prelude::*, time::Msecs};

/// Time after which a function without a manager asks again for a way that could not be told.
const AGAIN_MS: u64 = 50;

/// The host that a user wants to reach.
#[derive(Clone, Copy)]
pub(crate) struct Destination {
    /// Its hardware id, 0 for any.
    pub(crate) peer: u64,
    /// The link, `None` for any.
    pub(crate) link: Option<usize>,
    /// Which of the loopback links is taken if the host is this one, 0 or 1.
    pub(crate) end: usize,
}

impl Destination {
    /// Returns whether a link may be taken, if it leads to the host. A host of any hardware id is another one
    /// than this.
    fn may_take(&self, link: usize, loopback: &Range<usize>) -> bool {
        let is_end = self.peer != 0 && link == loopback.start + self.end;
        self.link.is_some() || !loopback.contains(&link) || is_end
    }
}

/// A link that counts as used until this is dropped, and so is not aimed elsewhere.
pub(crate) struct Held<'a> {
    link: &'a Link,
    /// Hardware id of the peer.
    pub(crate) peer: u64,
    /// Of a routed link: it counts for the user.
    charge: Option<Charge>,
}

impl<'a> Held<'a> {
    /// Errors are those of [`Payer::take_link`].
    fn new(link: &'a Link, peer: u64, payer: &Payer, port: &dyn Port) -> Result<Self> {
        let charge = payer.take_link(&port.far_links(), link.number())?;
        link.hold_on();
        Ok(Self { link, peer, charge })
    }

    /// Returns what counts for the user, to be kept as long as what it opens.
    pub(crate) fn take_charge(&mut self) -> Option<Charge> {
        self.charge.take()
    }

    /// Returns the number of the link.
    pub(crate) fn link(&self) -> usize {
        self.link.number()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.link.release();
    }
}

/// Returns the error that a wait ends a call with: that its time has passed is none.
fn waited(end: Result) -> Result {
    match end {
        Err(e) if e == ETIMEDOUT => Ok(()),
        Err(e) if e == ERESTARTSYS => Err(EINTR),
        other => other,
    }
}

impl Node {
    /// Notes that a user has something open on a link, for however short.
    pub(crate) fn touch(&self, link: usize) {
        if let Some(far) = self.far() {
            far.touch(link);
        }
    }

    /// Returns the first READY link to the wanted host, held. `EHOSTUNREACH`: there is none; `EINVAL`:
    /// there is no such link; `EDQUOT`: `payer` has its share of the routed links.
    pub(crate) fn find(&self, payer: &Payer, to: Destination) -> Result<Held<'_>> {
        let loopback = self.port()?.loopback_links();
        for number in self.link_numbers(to.link)? {
            if !to.may_take(number, &loopback) {
                continue;
            }
            let link = self.links.get(number).ok_or(EINVAL)?;
            let held = self.with_link(number, |session| {
                let peer = session.peer().map_or(0, |peer| peer.id.hwid);
                // With the link locked: from here on it is not aimed elsewhere.
                let is_it = to.peer == 0 || to.peer == peer;
                let held = is_it.then(|| Held::new(link, peer, payer, session.port()));
                held.transpose()
            });
            match held {
                Ok(Some(held)) => return Ok(held),
                Ok(None) => {}
                // A routed link may have been given back meanwhile.
                Err(e) if e == ENOTCONN || e == EINVAL => {}
                Err(e) => return Err(e),
            }
        }
        Err(EHOSTUNREACH.into())
    }

    /// Returns whether a link to this host is READY, of those that may be taken.
    fn is_ready_to(&self, to: Destination, loopback: &Range<usize>) -> bool {
        let links = self.links.iter();
        let mut ready =
            links.filter(|link| link.is_ready() && to.may_take(link.number(), loopback));
        ready.any(|link| link.peer_hwid() == Some(to.peer))
    }

    /// Has a link lead to the host `peer` soon: a routed link, which is returned, held; or a loopback link. Sleeps.
    /// Errors are those of [`Node::reach`].
    fn lead(&self, payer: &Payer, peer: u64) -> Result<Option<Held<'_>>> {
        if self.identity()?.hwid == peer {
            return self.open_loopback().map(|()| None);
        }
        let hold = |port: &dyn Port, link| {
            let link = self.links.get(link).ok_or(EINVAL)?;
            Held::new(link, peer, payer, port)
        };
        let may = |port: &dyn Port| payer.may_take_link(&port.far_links());
        let far = self.far().ok_or(EHOSTUNREACH)?;
        let own = OfFunction(self);
        let ways: &dyn Ways = match self.manager() {
            Some(manager) => manager,
            None => &own,
        };
        far.lead(self, ways, peer, may, hold).map(Some)
    }

    /// As [`Node::find`]; if no link leads to the wanted host, and the caller has not named one, aims a
    /// routed link and waits for up to `timeout` until it is READY. Sleeps.
    ///
    /// `EHOSTUNREACH` also: no route leads there, or the link has not become READY in time; `ENOSPC`: all
    /// routed links are in use; `EDQUOT`: `payer` has its share of
    /// them; `ENOMEM`: there is no memory for an arena; `EINTR`: a signal came.
    pub(crate) fn reach(
        &self,
        payer: &Payer,
        inside: &Inside<'_>,
        to: Destination,
        timeout: Msecs,
    ) -> Result<Held<'_>> {
        let unreached = Error::from(EHOSTUNREACH);
        let until = clock::now_ms() + u64::from(timeout);
        let loopback = self.port()?.loopback_links();
        let mut to = to;
        loop {
            match self.find(payer, to) {
                Err(e) if e == unreached => {}
                found => return found.inspect(|held| self.touch(held.link())),
            }
            if to.peer == 0 {
                return Err(unreached);
            }
            let counterpart = self.counterpart(&**self.port()?, to.peer);
            // Afterwards it is no host's.
            if let Ok(Some(peer)) = counterpart {
                to.peer = peer;
                continue;
            }
            let left = until.saturating_sub(clock::now_ms());
            if to.link.is_some() || left == 0 {
                return Err(unreached);
            }
            if counterpart.is_err_and(|e| e == ETIMEDOUT) {
                let wait = left.min(AGAIN_MS) as Msecs;
                waited(inside.asleep(|| self.reaching.wait_ms(|| self.is_closed(), wait)))?;
                continue;
            }
            let at_scale = |manager: &&Manager| manager.is_at_scale();
            if let Some(manager) = self.manager().filter(at_scale) {
                waited(inside.asleep(|| manager.seek(self, to.peer)))?;
            }
            // It counts as used while this call waits.
            let aimed = self.lead(payer, to.peer)?;
            let is_lost = |aimed: &Held<'_>| {
                let mut far = self.far().into_iter();
                !far.any(|far| far.leads(aimed.link(), to.peer))
            };
            // Another link may come to lead there: a cable is plugged in.
            let over = || {
                let lost = aimed.as_ref().is_some_and(is_lost);
                lost || self.is_ready_to(to, &loopback) || self.is_closed()
            };
            waited(inside.asleep(|| self.reaching.wait_ms(over, left as Msecs)))?;
        }
    }
}
