// SPDX-License-Identifier: GPL-2.0

//! The hierarchy of a host, made from what is designed for it: its tree, and for each virtual endpoint
//! that belongs to it the routes there and back and the place in the host's address space.

use super::found::Found;
use crate::{
    proto::mr::{
        aperture::{Aperture, Apertures},
        assignment::Assignment,
        hierarchy::{self, Gate, Given, Place, MAX_BYTES, MAX_PLACES},
        inventory::{Component, Kind},
        list::List,
        plan::Entry,
        tree::{Reach, Tree},
    },
    sys::memory::Memory,
};
use kernel::prelude::*;

/// The most places in the address space of one host.
const MAX_APERTURES: usize = 1024;

/// Makes hierarchies, in memory for one.
pub(super) struct Hierarchies {
    apertures: Apertures<Memory<Aperture>>,
    places: List<Place, Memory<Place>>,
    bytes: Memory<u8>,
}

impl Hierarchies {
    pub(super) fn new() -> Result<Self> {
        let nowhere = Place {
            depth: 0,
            kind: Kind::Root,
            port: 0,
            hwid: 0,
            lid: 0,
            given: None,
        };
        Ok(Self {
            apertures: Apertures::new(Memory::new(Aperture::NONE, MAX_APERTURES)?),
            places: List::new(Memory::new(nowhere, MAX_PLACES)?),
            bytes: Memory::new(0, MAX_BYTES)?,
        })
    }

    /// Makes the hierarchy of `root`, of number `vh`, with all `assignments` of it that are `given`.
    /// `entries`, which are sorted, say by which links and planes. `None`: there is no room for it.
    pub(super) fn make(
        &mut self,
        found: &Found,
        (root, vh): (&Component, u16),
        assignments: &[Assignment],
        given: impl Fn(usize) -> bool,
        entries: &[Entry],
        reach: &mut [Reach],
    ) -> Option<&[u8]> {
        let settled = self
            .apertures
            .settle(&found.things, assignments, root.hwid, |_| ());
        // An assignment that has found no place is detected below.
        let _ = settled;
        let mut tree = Tree::new(&found.things, root.hwid, reach)?;
        let own = || {
            let all = assignments.iter().enumerate();
            let given = all.filter(|(n, assignment)| assignment.root == root.hwid && given(*n));
            given.map(|(_, assignment)| assignment)
        };
        for assignment in own() {
            tree.add(assignment.endpoint);
        }
        self.places.clear();
        for visit in tree.walk() {
            let component = visit.component;
            let place = Place {
                depth: visit.depth as u8,
                kind: component.kind,
                port: visit.above.map_or(0, |end| end.port),
                hwid: component.hwid,
                lid: component.lid,
                given: None,
            };
            if !component.is_endpoint() {
                self.places.push(place).ok()?;
                continue;
            }
            for assignment in own().filter(|assignment| assignment.endpoint == component.hwid) {
                let at = self
                    .apertures
                    .of(root.hwid, assignment.endpoint, assignment.ve)?;
                let given = Given {
                    ve: assignment.ve,
                    out: way_out(entries, root.hwid, component.lid)?,
                    into: way_in(entries, root.hwid, component.lid)?,
                    base: at.base,
                    limit: at.limit,
                };
                let given = Some(given);
                self.places.push(Place { given, ..place }).ok()?;
            }
        }
        let has_any = own().next().is_some();
        let vh = if has_any { vh } else { 0 };
        let bytes = hierarchy::encode(vh, self.places.all(), self.bytes.as_mut())?;
        self.bytes.as_ref().get(..bytes)
    }
}

/// Returns the link and plane by which a host reaches a local id.
fn way_out(entries: &[Entry], host: u64, to: u32) -> Option<Gate> {
    entries.iter().find_map(|entry| match *entry {
        Entry::Own {
            root,
            lid,
            link,
            vp,
        } if (root, lid) == (host, to) => Some(Gate { link, vp }),
        _ => None,
    })
}

/// Returns the link and plane by which traffic from a local id comes in at a host.
fn way_in(entries: &[Entry], host: u64, of: u32) -> Option<Gate> {
    entries.iter().find_map(|entry| match *entry {
        Entry::Open {
            root,
            from,
            link,
            vp,
        } if (root, from) == (host, of) => Some(Gate { link, vp }),
        _ => None,
    })
}
