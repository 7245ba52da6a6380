// SPDX-License-Identifier: GPL-2.0

//! The local id and the route table of the port: what they are to be, and what was written.
//!
//! The first entries are the routes of the host's own hierarchy, each on a virtual plane of its own and
//! for the host's traffic alone. The entries of the manager follow, on the common plane and also for
//! traffic that neighbours send on. Of the entries for a local id the first counts. So the manager's entries for
//! single local ids are taken from the front, and those for ranges of them from the back; none of the latter is in
//! front of one of the former. Within each part the order does not matter, as no two entries are for the same local
//! ids. Traffic of neighbours is relayed like the host's own, but not back to where it came from.

use super::heap::MAX_DESTINATIONS;
use crate::{
    hw::{self, Router},
    proto::{
        mr::{
            hierarchy::{Gate, MAX_ENDPOINTS},
            plane::COMMON_VP,
        },
        nm::node::MAX_NODES,
    },
    sys::memory::Memory,
};
use kernel::prelude::*;

/// Entries for the host's hierarchy. The others are the manager's.
const OWN: usize = MAX_ENDPOINTS;

/// The most entries that are used.
const MAX_ENTRIES: usize = OWN + MAX_DESTINATIONS;

/// An entry of the port's route table.
#[derive(Clone, Copy)]
struct Entry {
    /// First local id; 0: the entry is free.
    lid: u32,
    /// Last local id.
    last: u32,
    /// Where the route is to lead, if the entry is to exist.
    out: Option<Gate>,
    /// It is not in the hierarchy any more, but a function may still use it.
    stale: bool,
    /// The port's table has the entry as it is here.
    written: bool,
}

const FREE: Entry = Entry {
    lid: 0,
    last: 0,
    out: None,
    stale: false,
    written: true,
};

/// The table, and the local id.
pub(super) struct Routes {
    entries: Memory<Entry>,
    links: usize,
    lid: u32,
    lid_written: bool,
    /// An entry could not be written: no other is tried, as each may take a second.
    stuck: bool,
    /// Local ids that found no free entry since [`Self::left_out`] was called last.
    left_out: Option<(u32, u32)>,
}

impl Routes {
    /// Makes the state of a table with so many entries.
    pub(super) fn new(entries: usize) -> Result<Self> {
        Ok(Self {
            entries: Memory::new(FREE, entries.clamp(OWN + MAX_NODES, MAX_ENTRIES))?,
            links: 0,
            lid: 0,
            lid_written: true,
            stuck: false,
            left_out: None,
        })
    }

    /// The port has lost its local id and its routes: [`Self::mend`] is to write them again.
    pub(super) fn forget(&mut self) {
        self.lid_written = self.lid == 0;
        for entry in self.entries.as_mut() {
            if entry.out.is_none() {
                *entry = FREE;
            }
            entry.written = entry.out.is_none();
        }
    }

    /// Clears the table of the port, including entries that a driver before has left.
    pub(super) fn clear(&mut self, router: &dyn Router) {
        self.entries.as_mut().fill(FREE);
        self.set_lid(router, 0);
        for n in 0..router.routes() {
            let _ = router.set_route(n, None);
        }
    }

    /// Gives the port its local id; 0: none.
    pub(super) fn set_lid(&mut self, router: &dyn Router, lid: u32) {
        router.set_lid(lid);
        self.lid = lid;
        self.lid_written = true;
    }

    /// Has traffic for the local ids from `lid` to `last` leave by `link`, or by none. If that fails, [`Self::mend`]
    /// does it later.
    pub(super) fn set(
        &mut self,
        router: &dyn Router,
        links: usize,
        (lid, last): (u32, u32),
        link: Option<usize>,
    ) {
        self.links = links;
        let known = |entry: &Entry| (entry.lid, entry.last) == (lid, last);
        let at = self.entries.as_ref().iter().skip(OWN).position(known);
        let at = at.map(|at| OWN + at);
        // While every node explores there is room for all.
        let Some(at) = at.or_else(|| link.and_then(|_| self.free(lid != last))) else {
            if link.is_some() {
                self.left_out = Some((lid, last));
            }
            return;
        };
        let out = link.map(|link| Gate {
            link: link as u8,
            vp: COMMON_VP,
        });
        let same = |entry: &Entry| (entry.lid, entry.last, entry.out) == (lid, last, out);
        if !self.entries.as_ref().get(at).is_some_and(same) {
            self.change(router, at, (lid, last), out);
        }
    }

    /// Returns a free entry for a single local id, or for a range of them.
    fn free(&self, is_range: bool) -> Option<usize> {
        let mut all = self.entries.as_ref().iter().enumerate().skip(OWN);
        match is_range {
            false => {
                let at = all.find(|(_, entry)| entry.lid == 0 || entry.lid != entry.last);
                at.filter(|(_, entry)| entry.lid == 0).map(|(at, _)| at)
            }
            true => {
                let mut all = all.rev();
                let at = all.find(|(_, entry)| entry.lid == 0 || entry.lid == entry.last);
                at.filter(|(_, entry)| entry.lid == 0).map(|(at, _)| at)
            }
        }
    }

    /// Returns local ids to which there is no route for want of an entry, if that is new.
    pub(super) fn left_out(&mut self) -> Option<(u32, u32)> {
        self.left_out.take()
    }

    /// Returns the number of entries.
    pub(super) fn count(&self) -> usize {
        self.entries.as_ref().len()
    }

    /// Has the host's own traffic leave for these local ids by these links and planes. Routes that are
    /// not wanted any more stay until [`Self::sweep`], as far as there is room. [`Self::mend`] does
    /// later what fails.
    pub(super) fn lead(
        &mut self,
        router: &dyn Router,
        links: usize,
        wanted: impl Iterator<Item = (u32, Gate)> + Clone,
    ) {
        self.links = links;
        for entry in self.entries.as_mut().iter_mut().take(OWN) {
            let stays = wanted.clone().any(|(lid, _)| lid == entry.lid);
            entry.stale = entry.out.is_some() && !stays;
        }
        for (lid, out) in wanted {
            let own = self.entries.as_ref().iter().enumerate().take(OWN);
            let mut same = own.clone().filter(|(_, entry)| entry.lid == lid);
            let free = || own.clone().find(|(_, entry)| entry.lid == 0);
            // An entry that could not be removed yet is to go anyway.
            let done = |entry: &Entry| entry.stale || entry.out.is_none();
            let spare = || own.clone().find(|(_, entry)| done(entry));
            let Some((at, entry)) = same.next().or_else(free).or_else(spare) else {
                return;
            };
            if (entry.lid, entry.out) != (lid, Some(out)) {
                self.change(router, at, (lid, lid), Some(out));
            }
        }
    }

    /// Removes the routes that are not in the hierarchy. Nothing may use them any more.
    pub(super) fn sweep(&mut self, router: &dyn Router) {
        for at in 0..OWN {
            let stale = self.entries.as_ref().get(at).filter(|entry| entry.stale);
            if let Some(lid) = stale.map(|entry| entry.lid) {
                self.change(router, at, (lid, lid), None);
            }
        }
    }

    /// Returns whether there is something for [`Self::sweep`].
    pub(super) fn has_stale(&self) -> bool {
        self.entries.as_ref().iter().any(|entry| entry.stale)
    }

    /// Returns whether the routes of the hierarchy are in force, and no others of it.
    pub(super) fn is_led(&self) -> bool {
        let mut own = self.entries.as_ref().iter().take(OWN);
        own.all(|entry| entry.written && !entry.stale)
    }

    fn change(
        &mut self,
        router: &dyn Router,
        at: usize,
        (lid, last): (u32, u32),
        out: Option<Gate>,
    ) {
        let Some(entry) = self.entries.as_mut().get_mut(at) else {
            return;
        };
        *entry = Entry {
            lid,
            last,
            out,
            stale: false,
            written: false,
        };
        if !self.stuck {
            self.stuck = write(router, self.links, at, entry).is_err();
        }
    }

    /// Writes the entries that are not written yet. Returns the local id of an entry that could not be
    /// written, and why; the entries after it then wait as well.
    pub(super) fn mend(&mut self, router: &dyn Router) -> Option<(u32, Error)> {
        self.stuck = false;
        if !self.lid_written {
            self.set_lid(router, self.lid);
        }
        let entries = self.entries.as_mut().iter_mut().enumerate();
        for (at, entry) in entries.filter(|(_, entry)| !entry.written) {
            let lid = entry.lid;
            if let Err(why) = write(router, self.links, at, entry) {
                self.stuck = true;
                return Some((lid, why));
            }
        }
        None
    }
}

fn write(router: &dyn Router, links: usize, at: usize, entry: &mut Entry) -> Result {
    let route = entry.out.map(|out| {
        let all = (1 << links) - 1;
        hw::Route {
            first: entry.lid,
            last: entry.last,
            link: out.link.into(),
            vp: out.vp.into(),
            from_self: true,
            from_links: if at < OWN { 0 } else { all & !(1 << out.link) },
        }
    });
    router.set_route(at, route)?;
    entry.written = true;
    if entry.out.is_none() {
        *entry = FREE;
    }
    Ok(())
}
