// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The routes of one node, and their replacement without loops.
//!
//! New routes are *staged*: kept beside those in use. When every node has its own, the master has them
//! *committed* by length: first everywhere the routes of one link, then those of two, and so on. A node
//! that uses its new route to a destination thus sends to a node that does so as well. A node that does
//! not yet use it follows the old routes until they reach a node that does. Neither makes a loop, and no
//! destination is out of reach in between. The old routes may be any, as long as they had no loop
//! themselves, and the master may die at any time. This file is independent of how routes are computed.

use super::{
    super::bytes::{Reader, Writer},
    member::{Member, Members},
    message::{Differ, Moves, Taken, MAX_PIECE},
    path::MAX_HOPS,
    port::{Port, PORTS},
};

/// No route.
const NONE: u16 = 0xffff;
/// Bits of the port in a route.
const PORT_BITS: u32 = 4;
const _: () = assert!(PORTS <= 1 << PORT_BITS);
/// Bytes of a route in a piece.
const ROUTE_BYTES: usize = 2;
/// Bytes before a run: the routes to consecutive local ids.
const RUN_BYTES: usize = 5;
/// Most pieces of a table: there is a bit for each.
pub const MAX_PIECES: u8 = 32;

/// The actions on a change of routes.
pub trait Effects {
    /// Traffic for `lid` leaves by `port` from now on; `None` for none.
    fn route(&mut self, lid: u32, port: Option<u8>);
}

/// Routes to one node: those in use and those staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    lid: u32,
    active: u16,
    staged: u16,
}

impl Slot {
    /// Initial value for memory.
    pub const NONE: Self = Self {
        lid: 0,
        active: NONE,
        staged: NONE,
    };
}

/// Encodes a route: number of links and first port.
fn pack(hops: u32, port: u8) -> u16 {
    ((hops as u16) << PORT_BITS) | u16::from(port)
}

fn hops(route: u16) -> u32 {
    u32::from(route >> PORT_BITS)
}

fn port(route: u16) -> Option<u8> {
    (route != NONE).then_some((route & ((1 << PORT_BITS) - 1)) as u8)
}

fn is_route(route: u16) -> bool {
    route == NONE || (1..=MAX_HOPS as u32).contains(&hops(route))
}

/// Returns the bit of a route in [`Differ::hops`]. Routes that are removed go with those of one link.
fn bit(route: u16) -> u32 {
    if route == NONE {
        1
    } else {
        1u32.checked_shl(hops(route).saturating_sub(1)).unwrap_or(0)
    }
}

/// The routes of a node.
pub struct Table<T> {
    slots: T,
    /// Pieces of the staged routes that have come, one bit each.
    pieces: u32,
    /// Number of pieces, 0 if none has come.
    of: u8,
}

impl<T: AsRef<[Slot]> + AsMut<[Slot]>> Table<T> {
    /// Creates a table without routes. `memory` has two slots for each node that there can be: in the
    /// worst case all local ids change.
    pub fn new(memory: T) -> Self {
        let mut table = Self {
            slots: memory,
            pieces: 0,
            of: 0,
        };
        table.clear();
        table
    }

    /// Iterates over the routes in use: local id, number of links, port.
    pub fn routes(&self) -> impl Iterator<Item = (u32, u32, u8)> + '_ {
        let slots = self.slots.as_ref().iter();
        slots.filter_map(|s| Some((s.lid, hops(s.active), port(s.active)?)))
    }

    /// Removes the routes in use for which `gone` returns true (local id, port), and calls `then` for each.
    pub fn withdraw(&mut self, gone: impl Fn(u32, u8) -> bool, mut then: impl FnMut(u32)) {
        for slot in self.slots.as_mut() {
            if port(slot.active).is_some_and(|port| gone(slot.lid, port)) {
                slot.active = NONE;
                then(slot.lid);
            }
        }
    }

    /// Removes all routes.
    pub(super) fn clear(&mut self) {
        self.pieces = 0;
        self.of = 0;
        self.slots.as_mut().fill(Slot::NONE);
    }

    /// Discards the staged routes, because others will be staged.
    pub fn begin(&mut self) {
        self.pieces = 0;
        self.of = 0;
        for slot in self.slots.as_mut() {
            slot.staged = NONE;
            if slot.active == NONE {
                *slot = Slot::NONE;
            }
        }
    }

    /// Stages a piece. Returns whether all pieces have come now.
    pub fn stage(&mut self, piece: u8, of: u8, runs: &[u8]) -> Result<bool, Taken> {
        if piece >= of || of > MAX_PIECES || (self.of != 0 && self.of != of) {
            return Err(Taken::Order);
        }
        let mut r = Reader::new(runs);
        while !r.rest().is_empty() {
            let (Ok(first), Ok(count)) = (r.u32(), r.u8()) else {
                return Err(Taken::Order);
            };
            for n in 0..u32::from(count) {
                let lid = first.checked_add(n).ok_or(Taken::Order)?;
                let route = r.u16().map_err(|_| Taken::Order)?;
                if lid == 0 || !is_route(route) {
                    return Err(Taken::Order);
                }
                self.slot(lid).ok_or(Taken::NoRoom)?.staged = route;
            }
        }
        self.of = of;
        self.pieces |= 1u32.checked_shl(u32::from(piece)).unwrap_or(0);
        Ok(self.is_complete())
    }

    /// Returns whether all pieces of the staged routes have come.
    pub fn is_complete(&self) -> bool {
        self.of != 0 && self.pieces.count_ones() == u32::from(self.of)
    }

    /// Returns how the staged routes differ from those in use. `ports` are those of the node.
    pub fn differ(&self, ports: &[Port]) -> Differ {
        let slots = self.slots.as_ref().iter();
        let differing = slots.filter(|s| s.lid != 0 && s.active != s.staged);
        differing.fold(Differ::default(), |differ, s| {
            let moves = match (port(s.active), port(s.staged)) {
                (Some(from), Some(to)) if from != to => {
                    match ports.get(usize::from(from)).is_some_and(Port::is_up) {
                        true => Moves::Whole,
                        false => Moves::Broken,
                    }
                }
                _ => Moves::No,
            };
            Differ {
                hops: differ.hops | bit(s.staged),
                moves: differ.moves.max(moves),
            }
        })
    }

    /// Takes the staged routes of `hops` links into use; [`Taken::Order`] if not all pieces have come.
    pub fn commit(&mut self, hops: u8, fx: &mut impl Effects) -> Result<(), Taken> {
        if !self.is_complete() {
            return Err(Taken::Order);
        }
        let now = 1u32
            .checked_shl(u32::from(hops).wrapping_sub(1))
            .unwrap_or(0);
        for slot in self.slots.as_mut() {
            if slot.lid != 0 && slot.active != slot.staged && bit(slot.staged) & now != 0 {
                if port(slot.active) != port(slot.staged) {
                    fx.route(slot.lid, port(slot.staged));
                }
                slot.active = slot.staged;
            }
        }
        Ok(())
    }

    /// Returns the slot of `lid`, or a free one if there is none yet.
    fn slot(&mut self, lid: u32) -> Option<&mut Slot> {
        let slots = self.slots.as_mut();
        let at = match slots.iter().position(|s| s.lid == lid) {
            Some(at) => at,
            None => slots.iter().position(|s| s.lid == 0)?,
        };
        let slot = slots.get_mut(at)?;
        slot.lid = lid;
        Some(slot)
    }
}

/// A piece of a node's routes, as the master encodes it.
pub struct Runs {
    /// Number of bytes of the buffer that are used.
    pub bytes: usize,
    /// Number of pieces.
    pub of: u8,
}

impl<M: AsRef<[Member]> + AsMut<[Member]>> Members<M> {
    /// Writes piece number `wanted` of the routes that [`Self::routes_from`] has found from `source`.
    /// Nodes without a route are left out.
    pub fn runs(&self, source: usize, wanted: u8, buf: &mut [u8; MAX_PIECE]) -> Runs {
        let mut runs = Runs { bytes: 0, of: 1 };
        let mut at = 0;
        // Offset of the run's count, and the id that would extend the run.
        let mut run: Option<(usize, u32)> = None;
        let mut last = 0;
        while let Some((lid, route)) = self.after(last, source) {
            last = lid;
            let extends = run.is_some_and(|(_, next)| next == lid);
            let bytes = if extends { 0 } else { RUN_BYTES } + ROUTE_BYTES;
            if at + bytes > MAX_PIECE {
                runs.of = runs.of.saturating_add(1);
                at = 0;
                run = None;
            }
            let writes = runs.of - 1 == wanted;
            let count_at = match run {
                Some((count_at, next)) if next == lid => count_at,
                _ => {
                    if writes {
                        let mut w = Writer::new(buf.get_mut(at..).unwrap_or_default());
                        w.u32(lid);
                        w.u8(0);
                    }
                    at += RUN_BYTES;
                    at - 1
                }
            };
            if writes {
                Writer::new(buf.get_mut(at..).unwrap_or_default()).u16(route);
                if let Some(count) = buf.get_mut(count_at) {
                    *count = count.saturating_add(1);
                }
                runs.bytes = at + ROUTE_BYTES;
            }
            at += ROUTE_BYTES;
            run = lid.checked_add(1).map(|next| (count_at, next));
        }
        runs
    }

    /// Returns the lowest local id above `lid` to which there is a route, and the route.
    fn after(&self, lid: u32, source: usize) -> Option<(u32, u16)> {
        let all = self.all().iter().enumerate();
        let above = all.filter(|(at, m)| *at != source && m.known && m.info.lid > lid);
        let routed = above.filter_map(|(_, m)| Some((m.info.lid, m.route.hops()?, m.route.port)));
        let next = routed.min_by_key(|(lid, ..)| *lid);
        next.map(|(lid, hops, port)| (lid, pack(hops, port)))
    }
}
