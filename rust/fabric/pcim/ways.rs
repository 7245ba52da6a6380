// SPDX-License-Identifier: GPL-2.0

//! The routes of hierarchies: those that the network manager has programmed, as far as assignments need
//! them, read from the route tables of the switches. At a host, it is the first step of the shortest
//! route.

use super::{bus::Bus, found::Found};
use crate::{
    proto::{
        mr::{
            assignment::Assignment,
            inventory::{Component, End},
            list::{Full, List},
            tree::{Reach, Tree, MAX_HOPS},
        },
        nm::path::Path,
    },
    sys::{errno::EHOSTUNREACH, ext, memory::Memory},
};
use kernel::prelude::*;

/// The most routes: one at each switch for each end of an assignment.
const MAX_WAYS: usize = 4096;

/// The port by which traffic for a local id leaves a switch, or a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    at: u64,
    lid: u32,
    /// `None`: there is no route.
    port: Option<u8>,
}

/// All routes that are known, sorted.
pub(super) struct Ways(List<Way, Memory<Way>>);

impl Ways {
    pub(super) fn new() -> Result<Self> {
        let none = Way {
            at: 0,
            lid: 0,
            port: None,
        };
        Ok(Self(List::new(Memory::new(none, MAX_WAYS)?)))
    }

    /// Returns the port by which traffic for `lid` leaves `at`.
    pub(super) fn port(&self, at: u64, lid: u32) -> Option<u8> {
        self.known(at, lid)?.port
    }

    fn known(&self, at: u64, lid: u32) -> Option<&Way> {
        let all = self.0.all();
        let place = all.partition_point(|way| (way.at, way.lid) < (at, lid));
        all.get(place).filter(|way| (way.at, way.lid) == (at, lid))
    }

    fn put(&mut self, at: u64, lid: u32, port: Option<u8>) -> Result {
        let way = Way { at, lid, port };
        self.0.insert(way).map_err(|Full| ENOSPC)
    }

    /// Reads the routes between the ends of all assignments, there and back. Returns false if a switch
    /// on one of them could not be asked.
    pub(super) fn learn(
        &mut self,
        bus: &Bus<'_>,
        found: &Found,
        assignments: &[Assignment],
        reach: &mut [Reach],
    ) -> Result<bool> {
        let mut whole = true;
        self.0.clear();
        for root in found.things.components().iter().filter(|c| c.is_root()) {
            let mut own = assignments
                .iter()
                .filter(|w| w.root == root.hwid)
                .peekable();
            if own.peek().is_none() {
                continue;
            }
            let Some(tree) = Tree::new(&found.things, root.hwid, reach) else {
                continue;
            };
            for assignment in own {
                let Some((endpoint, _)) = found.get(assignment.endpoint) else {
                    continue;
                };
                // `Tree::way` begins at the endpoint: the last step is that at the host.
                let Some(first) = tree.way(assignment.endpoint).last() else {
                    continue;
                };
                if endpoint.lid == 0 || root.lid == 0 {
                    continue;
                }
                if self.known(root.hwid, endpoint.lid).is_none() {
                    self.put(root.hwid, endpoint.lid, Some(first.upper.port))?;
                }
                let back = End {
                    hwid: endpoint.hwid,
                    port: 0,
                };
                whole &= self.follow(bus, found, first.upper, endpoint)?;
                whole &= self.follow(bus, found, back, root)?;
            }
        }
        Ok(whole)
    }

    /// Follows the route from a port towards a component, and reads the routes on it that are not known.
    /// Returns false if one could not be read.
    fn follow(&mut self, bus: &Bus<'_>, found: &Found, from: End, to: &Component) -> Result<bool> {
        let mut out = from;
        for _ in 0..MAX_HOPS {
            let far = found.things.at(out).and_then(|link| link.from(out.hwid));
            let next = far.and_then(|(_, far)| found.get(far.hwid));
            let Some((switch, contact)) = next.filter(|(c, _)| c.is_switch()) else {
                break;
            };
            let port = match self.known(switch.hwid, to.lid) {
                Some(way) => way.port,
                None => {
                    let port = match read(bus, &contact.path, to.lid) {
                        Err(e) if e == EHOSTUNREACH => return Ok(false),
                        done => done?,
                    };
                    self.put(switch.hwid, to.lid, port)?;
                    port
                }
            };
            let Some(port) = port else {
                break;
            };
            out = End {
                hwid: switch.hwid,
                port,
            };
        }
        Ok(true)
    }
}

fn read(bus: &Bus<'_>, path: &Path, lid: u32) -> Result<Option<u8>> {
    let said = bus.read(path, ext::WEFT_SPACE_ROUTE, lid)?;
    let valid = said & ext::WEFT_TABLE_VALID != 0;
    Ok(valid.then_some((said & ext::WEFT_TABLE_PORT) as u8))
}
