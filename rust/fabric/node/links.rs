// SPDX-License-Identifier: GPL-2.0

//! A node and its links: which there are, what others ask of one by its number, and what people are told
//! of it.
//!
//! What a link does is its own business, in `fabric::link`.

use super::{
    timer::{SHOW_MS, WATCH_MS},
    Node,
};
use crate::{
    fabric::{
        host::LinkHost,
        link::{Link, LinkInfo, Session},
        Reason, LINK_DIRS,
    },
    hw::{Aim, LinkStatus, Port, MAX_LINKS},
    proto::{
        link::{State, TICK_MS},
        wire::Message,
    },
    sys::{sysfs, trace},
};
use kernel::{prelude::*, time::Msecs};

impl LinkHost for Node {
    fn trace_sent(&self, link: usize, message: &Message, bytes: usize) {
        let kind = message.body.kind().into();
        trace::mbox_send(&self.pci(), link as u32, kind, bytes as u32);
    }

    fn link_changed(&self, link: usize, before: (State, LinkStatus), after: (State, LinkStatus)) {
        if before.0 != after.0 {
            trace::link_state(&self.pci(), link as u32, before.0 as u32, after.0 as u32);
            if self.throttle.pass().is_some() {
                let name = match after.0 {
                    State::Down => "down",
                    State::Hello => "up, waiting for the neighbour",
                    State::Ready => "ready",
                };
                dev_info!(self.pci(), "link {}: {}\n", link, name);
            }
        }
        if before != after {
            let dir = LINK_DIRS.get(link).copied();
            sysfs::notify(&self.pci(), dir, c"state");
        }
    }
}

impl Node {
    /// `EINVAL`: there is no such link.
    pub(crate) fn link_info(&self, link: usize) -> Result<LinkInfo> {
        let port = self.port()?;
        let mut info = self.link(&**port, link)?.info(self, &**port);
        info.power = self.power.look(&**port, link);
        Ok(info)
    }

    /// Has a link follow its traffic, or run at the most that it can. `EINVAL`: there is no such link;
    /// `EOPNOTSUPP`: it cannot.
    pub(crate) fn set_power(&self, link: usize, auto: bool) -> Result {
        let port = self.port()?;
        self.link(&**port, link)?;
        self.power.set(&**port, link, auto)?;
        self.hurry();
        Ok(())
    }

    /// Does something over a link that is READY. `EINVAL`: there is no such link, `ENOTCONN`: it is
    /// not READY.
    pub(crate) fn with_link<R>(
        &self,
        link: usize,
        f: impl FnOnce(&mut Session<'_>) -> Result<R>,
    ) -> Result<R> {
        let port = self.port()?;
        self.link(&**port, link)?.with(self, &**port, f)
    }

    /// The peer's `wake`, for who rings it by other means.
    pub(crate) fn wake_bell(&self, link: usize) -> Option<u32> {
        Some(self.links.get(link)?.bells()?.0)
    }

    /// Rings the peer's `wake`. Any context.
    pub(crate) fn ring_wake(&self, port: &dyn Port, link: usize) {
        if let Some((wake, _)) = self.links.get(link).and_then(Link::bells) {
            port.ring(link, wake);
        }
    }

    /// Asks the peer to ring back when what was written before has arrived. Any context.
    pub(crate) fn ring_echo(&self, port: &dyn Port, link: usize) {
        let Some(to) = self.links.get(link) else {
            return;
        };
        if let Some((_, echo)) = to.bells() {
            to.health.asked();
            port.ring(link, echo);
        }
    }

    pub(super) fn links_down(&self, port: &dyn Port, reason: Reason) {
        // Also those that are aimed at no port any more: of their arenas something may be in use.
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

    /// Aims the far link `link` at a port, or at none. To another one than before, what is done over the
    /// link ends with [`Reason::Link`]. Sleeps; the errors are those of [`crate::hw::FarLinks::aim`], and `ENODEV`.
    pub(crate) fn aim(&self, link: usize, aim: Option<Aim>) -> Result {
        let port = self.port_at_work().ok_or(ENODEV)?;
        let to = self.links.get(link).ok_or(EINVAL)?;
        to.aim(self, &**port, aim)?;
        if aim.is_some() {
            to.look(self, &**port);
        }
        let shown = self.show_links(&**port);
        self.run_in(if shown { TICK_MS as Msecs } else { SHOW_MS });
        Ok(())
    }

    /// Sees to it that the far links that are aimed have a directory in sysfs, and no others have. False:
    /// that is still to be done.
    pub(super) fn show_links(&self, port: &dyn Port) -> bool {
        let far =
            port.links()..(port.links() + port.far().map_or(0, |far| far.count())).min(MAX_LINKS);
        let mut all = true;
        let mut shown = self.shown.lock();
        let before = *shown;
        for link in far {
            let (bit, has) = (1 << link, port.has_link(link));
            if (*shown & bit != 0) == has {
                continue;
            }
            let done = LINK_DIRS
                .get(link)
                // The port is entered, as this asks for.
                .is_some_and(|dir| sysfs::refresh(&self.pci(), dir));
            if !done {
                all = false;
            } else {
                *shown ^= bit;
            }
        }
        if *shown != before {
            // A directory that comes is not told of.
            sysfs::notify(&self.pci(), Some(c"manager"), c"routes");
        }
        all
    }

    /// The numbers of the links that there are, or that one alone: `EINVAL` if it is none.
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

    /// Has the links, and the client, look at what may have changed of the port.
    pub(super) fn look(&self, port: &dyn Port) {
        let mut again = false;
        for link in self.links(port) {
            again |= link.look(self, port);
        }
        if let Some(client) = self.client() {
            client.looked(port);
        }
        let delay = if again { TICK_MS as Msecs } else { WATCH_MS };
        self.run_in(delay);
        self.manage();
    }
}
