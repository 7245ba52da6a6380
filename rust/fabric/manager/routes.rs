// SPDX-License-Identifier: GPL-2.0

//! The local id and the route table of the port: what they are to be, and what was written.
//!
//! One entry a local id; the order does not matter, for no two are for the same. Traffic of neighbours is
//! relayed like one's own, but not back to where it came from.

use super::memory::Memory;
use crate::{
    hw::{self, Router},
    proto::nm::node::MAX_NODES,
};
use kernel::prelude::*;

/// The virtual plane that managers use: that of the common hierarchy at switches.
const COMMON_VP: u32 = 0;

/// An entry of the port's route table.
#[derive(Clone, Copy)]
struct Entry {
    /// 0: it is free.
    lid: u32,
    /// Where it is to lead, if it is to be there.
    link: Option<usize>,
    /// The port has it so.
    written: bool,
}

const FREE: Entry = Entry {
    lid: 0,
    link: None,
    written: true,
};

/// The table, and the local id.
pub(super) struct Routes {
    entries: Memory<Entry>,
    links: usize,
    lid: u32,
    lid_written: bool,
    /// An entry could not be written, so no other is tried: each may take a second.
    stuck: bool,
}

impl Routes {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            entries: Memory::new(FREE, MAX_NODES)?,
            links: 0,
            lid: 0,
            lid_written: true,
            stuck: false,
        })
    }

    /// The port has forgotten all, and is to be told again by [`Self::mend`].
    pub(super) fn forget(&mut self) {
        self.lid_written = self.lid == 0;
        for entry in self.entries.as_mut() {
            if entry.link.is_none() {
                *entry = FREE;
            }
            entry.written = entry.link.is_none();
        }
    }

    /// Takes all away, also what somebody before has left.
    pub(super) fn clear(&mut self, router: &dyn Router) {
        self.entries.as_mut().fill(FREE);
        self.set_lid(router, 0);
        for n in 0..router.routes() {
            let _ = router.set_route(n, None);
        }
    }

    /// Gives the port its local id.
    pub(super) fn set_lid(&mut self, router: &dyn Router, lid: u32) {
        router.set_lid(lid);
        self.lid = lid;
        self.lid_written = true;
    }

    /// Has traffic for `lid` leave by `link`, or by none. Where that fails [`Self::mend`] does it later.
    pub(super) fn set(&mut self, router: &dyn Router, links: usize, lid: u32, link: Option<usize>) {
        self.links = links;
        let entries = self.entries.as_mut();
        let of = |lid: u32| move |entry: &Entry| entry.lid == lid;
        let at = entries.iter().position(of(lid));
        let at = at.or_else(|| entries.iter().position(of(0)));
        // With a node for each local id there is always one free.
        let Some((at, entry)) = at.and_then(|at| Some((at, entries.get_mut(at)?))) else {
            return;
        };
        *entry = Entry {
            lid,
            link,
            written: false,
        };
        if !self.stuck {
            self.stuck = write(router, links, at, entry).is_err();
        }
    }

    /// Writes what is not written. Tells of one that could not be; the others then wait as well.
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
    let route = entry.link.map(|link| hw::Route {
        first: entry.lid,
        last: entry.lid,
        link,
        vp: COMMON_VP,
        from_self: true,
        from_links: ((1 << links) - 1) & !(1 << link),
    });
    router.set_route(at, route)?;
    entry.written = true;
    if entry.link.is_none() {
        *entry = FREE;
    }
    Ok(())
}
