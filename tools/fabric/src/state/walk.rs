// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Where a route leads. It is walked as a TLP would be: the source's route table
//! names a link and a VP; each switch takes the VP for a virtual hierarchy by the
//! VP table of the port it comes in by, looks its LID up, and sends it on, on the
//! VP that the hierarchy has at that port; each host that is not the destination
//! passes it on only by an entry of its route table that says so.

use super::Fabric;
use crate::topology::{End, Node};
use crate::wire::abi::{WEFT_STOP_HOPS, WEFT_STOP_LINK, WEFT_STOP_ROUTE, WEFT_STOP_VP};
use crate::wire::{LINKS, MAX_HOPS, RouteEntry, VPS};

/// `Stop::link` of traffic that has not left its source.
pub const OWN: u8 = LINKS as u8;

/// A link passed, and with which of its ends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index in `Topology::trunks`.
    pub trunk: usize,
    /// Index of the end at which it was entered.
    pub side: usize,
}

/// A route that reaches a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// At least one, at most `MAX_HOPS`.
    pub hops: Vec<Hop>,
    /// The host it ends at.
    pub owner: usize,
    /// Link and VP it comes in by there.
    pub gate: u8,
}

/// Where a route ends that reaches none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// What stops it.
    pub node: Node,
    /// By which port it came in there; [`OWN`] at its source.
    pub port: u8,
    /// Links passed until there.
    pub hops: u8,
    /// `WEFT_STOP_*`.
    pub why: u32,
}

/// Traffic on its way: where it has come to.
#[derive(Clone, Copy)]
struct Here {
    at: Node,
    port: u8,
    vp: u8,
}

impl Fabric {
    /// The route of `source`'s own traffic to `lid`.
    pub(super) fn walk(&self, source: usize, lid: u32) -> Result<Course, Stop> {
        let (hops, end) = self.trace_route(source, lid);
        end.map(|(owner, gate)| Course { hops, owner, gate })
    }

    /// The links it passes, and the owner and gate it comes to, or where it ends.
    pub(super) fn trace_route(
        &self,
        source: usize,
        lid: u32,
    ) -> (Vec<Hop>, Result<(usize, u8), Stop>) {
        let mut hops = vec![];
        let end = self.follow(source, lid, &mut hops);
        (hops, end)
    }

    fn follow(&self, source: usize, lid: u32, hops: &mut Vec<Hop>) -> Result<(usize, u8), Stop> {
        let mut here = Here { at: Node::Host(source), port: OWN, vp: 0 };
        loop {
            let passed = hops.len();
            let stop = |why| Stop { node: here.at, port: here.port, hops: passed as u8, why };
            let (port, vp) = match here.at {
                Node::Host(host) if here.port != OWN && self.lid_of(host) == Some(lid) => {
                    return Ok((host, here.port * VPS + here.vp));
                }
                Node::Host(host) => {
                    self.host_route(host, lid, here).ok_or(stop(WEFT_STOP_ROUTE))?
                }
                Node::Switch(switch) => self.switch_route(switch, lid, here).map_err(stop)?,
            };
            if passed == MAX_HOPS {
                return Err(stop(WEFT_STOP_HOPS));
            }
            let next = self.topology.trunk_at(End { node: here.at, port });
            let Some((trunk, side)) = next.filter(|(trunk, _)| self.trunk_up(*trunk)) else {
                return Err(stop(WEFT_STOP_LINK));
            };
            let far = self.topology.trunks[trunk].ends[1 - side];
            hops.push(Hop { trunk, side });
            here = Here { at: far.node, port: far.port, vp };
        }
    }

    fn lid_of(&self, host: usize) -> Option<u32> {
        self.session(host).map(|s| s.lid).filter(|lid| *lid != 0)
    }

    /// The first entry of a host's route table that is for this traffic.
    fn host_route(&self, host: usize, lid: u32, here: Here) -> Option<(u8, u8)> {
        let fits = |entry: &&RouteEntry| {
            let from = if here.port == OWN {
                entry.own
            } else {
                entry.from_links & (1 << here.port) != 0 && entry.from_vps & (1 << here.vp) != 0
            };
            from && entry.lids.contains(&lid)
        };
        self.session(host)?.routes.values().find(fits).map(|entry| (entry.link, entry.vp))
    }

    fn switch_route(&self, switch: usize, lid: u32, here: Here) -> Result<(u8, u8), u32> {
        let tables = &self.switches[switch];
        let vh = tables.entered(here.port, here.vp).ok_or(WEFT_STOP_VP)?;
        let port = tables.route(lid).ok_or(WEFT_STOP_ROUTE)?;
        let vp = tables.left(port, vh).ok_or(WEFT_STOP_VP)?;
        Ok((port, vp))
    }

    /// Traffic can pass.
    pub(super) fn trunk_up(&self, trunk: usize) -> bool {
        match self.topology.trunks[trunk].path {
            Some(path) => self.paths[path].up,
            None => self.trunk_down(trunk).is_none(),
        }
    }

    /// A route passes this node, or begins or ends there.
    pub(super) fn passes(&self, course: &Course, node: Node) -> bool {
        let ends = course.hops.iter().flat_map(|h| self.topology.trunks[h.trunk].ends);
        ends.into_iter().any(|end| end.node == node)
    }
}
