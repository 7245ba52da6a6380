// SPDX-License-Identifier: GPL-2.0

//! The links of a node: which exist, operations on a link by its number, and what is shown of links in
//! sysfs and the log.
//!
//! What a link does is in `fabric::link`.

use super::Node;
use crate::{
    fabric::{
        host::{LinkHost, Spared},
        keyring::Keyring,
        link::{Link, LinkInfo, Session},
        Manager, Reason, LINK_DIRS,
    },
    hw::{Aim, LinkStatus, Port, MAX_LINKS},
    proto::{link::State, wire::Message},
    sys::{errno::EHOSTUNREACH, sysfs, trace},
};
use kernel::prelude::*;

impl LinkHost for Node {
    fn keyring(&self) -> Option<&Keyring> {
        self.manager().map(Manager::keyring)
    }

    fn has_message(&self, link: usize, f: &dyn Fn(&Message) -> bool) -> bool {
        self.inboxes.get(link).is_some_and(|inbox| inbox.has(f))
    }

    fn leads(&self, link: usize, hwid: u64) -> bool {
        self.far().is_some_and(|far| far.leads(link, hwid))
    }

    fn trace_sent(&self, link: usize, message: &Message, bytes: usize) {
        let kind = message.body.kind().into();
        trace::mbox_send(&self.dev(), link as u32, kind, bytes as u32);
    }

    fn link_changed(
        &self,
        link: usize,
        before: (State, LinkStatus),
        after: (State, LinkStatus),
        ended: Option<&'static CStr>,
    ) {
        if before.0 != after.0 {
            trace::link_state(&self.dev(), link as u32, before.0 as u32, after.0 as u32);
            if self.changes.pass().is_some() {
                let name = match after.0 {
                    State::Down => "down",
                    State::Hello => "up, waiting for the neighbour",
                    State::Ready => "ready",
                };
                match ended {
                    Some(why) => dev_info!(
                        self.dev(),
                        "link {}: {}; the session has ended by: {}\n",
                        link,
                        name,
                        why
                    ),
                    None => dev_info!(self.dev(), "link {}: {}\n", link, name),
                }
            }
        }
        if before.0 != after.0 {
            self.reaching.wake_all();
        }
        if before != after {
            let dir = LINK_DIRS.get(link).copied();
            sysfs::notify(&self.dev(), dir, c"state");
        }
    }
}

impl Node {
    /// Returns what there is to know of a link. `EINVAL`: there is no such link.
    pub(crate) fn link_info(&self, link: usize) -> Result<LinkInfo> {
        let port = self.port()?;
        let mut info = self.link(&**port, link)?.info(self, &**port);
        info.power = self.power.look(&**port, link);
        Ok(info)
    }

    /// Has the speed of a link follow its traffic, or be the highest possible. `EINVAL`: there is no
    /// such link; `EOPNOTSUPP`: it cannot.
    pub(crate) fn set_power(&self, link: usize, auto: bool) -> Result {
        let port = self.port()?;
        self.link(&**port, link)?;
        self.power.set(&**port, link, auto)?;
        self.hurry();
        Ok(())
    }

    /// Calls `f` with the session of a link that is READY. `EINVAL`: there is no such link; `ENOTCONN`:
    /// it is not READY.
    pub(crate) fn with_link<R>(
        &self,
        link: usize,
        f: impl FnOnce(&mut Session<'_>) -> Result<R>,
    ) -> Result<R> {
        let port = self.port()?;
        self.link(&**port, link)?.with(self, &**port, f)
    }

    /// Returns the number of the peer's `wake` doorbell, for callers that do not ring it with
    /// [`Node::ring_wake`].
    pub(crate) fn wake_bell(&self, link: usize) -> Option<u32> {
        Some(self.links.get(link)?.bells()?.0)
    }

    /// Rings the peer's `wake` doorbell. Any context.
    pub(crate) fn ring_wake(&self, port: &dyn Port, link: usize) {
        if let Some((wake, _)) = self.links.get(link).and_then(Link::bells) {
            port.ring(link, wake);
        }
    }

    /// Asks the peer to ring back when all that was written before has arrived. Any context.
    pub(crate) fn ring_echo(&self, port: &dyn Port, link: usize) {
        let Some(to) = self.links.get(link) else {
            return;
        };
        if let Some((_, echo)) = to.bells() {
            to.health.asked();
            port.expect(link);
            port.ring(link, echo);
        }
    }

    pub(super) fn links_down(&self, port: &dyn Port, reason: Reason) {
        // Also routed links without a destination: their arenas may still be in use.
        for (n, link) in self.links.iter().enumerate() {
            if port.arena(n).is_ok() {
                link.down(self, port, reason);
            }
        }
        if let Some(client) = self.client() {
            client.lost(port, reason);
        }
    }

    pub(super) fn links<'a>(&'a self, port: &'a dyn Port) -> impl Iterator<Item = &'a Link> {
        let all = self.links.iter().enumerate();
        all.filter(|(n, _)| port.has_link(*n)).map(|(_, link)| link)
    }

    pub(super) fn link(&self, port: &dyn Port, link: usize) -> Result<&Link> {
        let found = self.links.get(link).filter(|_| port.has_link(link));
        found.ok_or(EINVAL)
    }

    /// Sets the destination of the routed link `link`; `None`: it has none. If the local id changes,
    /// what is done over the link ends with [`Reason::Link`]. Sleeps; the errors are those of
    /// [`FarLinks::aim`](crate::hw::FarLinks::aim), `EBUSY`: the link is `spared`, and `ENODEV`.
    pub(crate) fn aim(&self, link: usize, aim: Option<Aim>, spared: Spared) -> Result {
        let port = self.port_at_work().ok_or(ENODEV)?;
        let to = self.links.get(link).ok_or(EINVAL)?;
        to.aim(self, &**port, aim, spared)?;
        match aim {
            Some(_) => to.look(self, &**port),
            None => to.clear(self, &**port),
        }
        self.reaching.wake_all();
        // Also makes the link's directory in sysfs, or removes it.
        self.hurry();
        Ok(())
    }

    /// Makes the loopback links exist, and come up. `EHOSTUNREACH`: the port cannot have them; `ENOMEM`;
    /// `ENODEV`. Sleeps.
    pub(super) fn open_loopback(&self) -> Result {
        let port = self.port()?;
        port.loopback().ok_or(EHOSTUNREACH)?.open()?;
        for link in port
            .loopback_links()
            .filter_map(|link| self.links.get(link))
        {
            link.look(self, &**port);
        }
        // Makes the directories in sysfs.
        self.hurry();
        Ok(())
    }

    /// Gives back the memory of routed links that lead nowhere, if that was not possible at once.
    pub(super) fn clear_links(&self, port: &dyn Port) {
        for link in port.far_links().filter_map(|link| self.links.get(link)) {
            link.clear(self, port);
        }
    }

    /// Returns how many bytes of memory the arenas of routed links have now.
    pub(crate) fn routed_bytes(&self) -> Result<u64> {
        let port = self.port()?;
        let arenas = port.far_links().filter_map(|link| port.arena(link).ok());
        Ok(arenas.map(|arena| arena.bytes() as u64).sum())
    }

    /// Has a directory in sysfs for each routed link that has a destination and for each loopback link that exists,
    /// and for no other. Returns false if this failed and has to be called again.
    pub(super) fn show_links(&self, port: &dyn Port) -> bool {
        let mut all = true;
        let mut shown = self.shown.lock();
        let before = *shown;
        for link in port.links()..MAX_LINKS {
            let (bit, has) = (1 << link, port.has_link(link));
            if (*shown & bit != 0) == has {
                continue;
            }
            let done = LINK_DIRS
                .get(link)
                // The port is entered, as `refresh` requires.
                .is_some_and(|dir| sysfs::refresh(&self.dev(), dir));
            if !done {
                all = false;
            } else {
                *shown ^= bit;
            }
        }
        if *shown != before {
            // A new directory notifies no program.
            sysfs::notify(&self.dev(), Some(c"manager"), c"routes");
        }
        all
    }

    /// Returns the numbers of all links, or `only` that one. `EINVAL`: there is no such link.
    pub(crate) fn link_numbers(&self, only: Option<usize>) -> Result<impl Iterator<Item = usize>> {
        let port = self.port()?;
        let mask = match only {
            Some(link) => 1u32
                .checked_shl(link as u32)
                .filter(|_| port.has_link(link)),
            None => Some(
                (0..MAX_LINKS)
                    .filter(|link| port.has_link(*link))
                    .fold(0, |mask, link| mask | 1 << link),
            ),
        };
        let mask = mask.ok_or(EINVAL)?;
        Ok((0..MAX_LINKS).filter(move |link| mask & 1 << link != 0))
    }

    /// Has the links, the client and the manager look at what may have changed at the port.
    pub(super) fn look(&self, port: &dyn Port) {
        for link in self.links(port) {
            link.look(self, port);
        }
        if let Some(client) = self.client() {
            client.looked(port);
        }
        self.hurry();
        self.manage();
    }
}
