// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The route of a node to one destination, and how it is chosen among those of its neighbours.
//!
//! A node takes the cheapest of the ways that its neighbours offer, but only one that is *feasible*: newer
//! than its bound, or cheaper than it. The bound is the lowest cost that the node's own route has ever had
//! with the newest sequence number. So bounds fall along every route, whatever messages are still on their
//! way, and no packet goes round in circles (the condition is that of RFC 8966, Babel). A node that has no
//! feasible way left, or a cheaper one that is not feasible, asks for a newer sequence number: the
//! destination alone gives them out. This file is independent of messages.

use super::{
    super::{path::MAX_HOPS, port::PORTS},
    area::Key,
    update::INF,
};

/// The port of no way.
pub const NOWHERE: u8 = 0xff;
/// The port of a destination that is this node, or this node's area.
pub const HERE: u8 = 0xfe;
/// Most neighbours whose ways to a destination are kept; of a node with more ports the best.
pub const HEARD: usize = 4;

/// A way to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// The port by which it leaves.
    pub port: u8,
    /// Its cost.
    pub metric: u32,
    /// Sequence number of the destination.
    pub seq: u16,
    /// Number of its links.
    pub hops: u8,
    /// See [`super::update::Item::anchor`].
    pub anchor: u8,
    /// It is told outside of the destination's area.
    pub wide: bool,
}

impl Way {
    /// No way.
    pub const NONE: Self = Self {
        port: NOWHERE,
        metric: INF,
        seq: 0,
        hops: 0,
        anchor: 0,
        wide: false,
    };
}

/// Returns whether sequence number `a` is newer than `b`.
pub fn is_newer(a: u16, b: u16) -> bool {
    (a.wrapping_sub(b) as i16) > 0
}

/// A destination.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The destination.
    pub key: Key,
    /// The way in use.
    pub way: Way,
    /// Newest sequence number and lowest cost with it; [`INF`]: no way was in use yet.
    bound: (u16, u32),
    /// What neighbours offer: the cost is theirs, the port that to them.
    heard: [Way; HEARD],
    /// A neighbour's way was left out of `heard`.
    more: bool,
    /// Neighbours whose ways are left out of `heard`, a bit a port, and the anchors of these: parts of an area
    /// are found by them.
    left: u16,
    anchors: [u8; PORTS],
    /// Neighbours that offer a way that is wanted and not feasible, a bit a port.
    pub better: u16,
    /// A way is wanted, whether or not a neighbour offers one.
    pub wanting: bool,
    /// The sequence number that neighbours want, and which of them.
    pub wanted: u16,
    /// Neighbours that want it, a bit a port.
    pub wants: u16,
    /// How often in a row the ways of two parts of an area were seen.
    pub parted: u8,
    /// Anchor of another part, to be told.
    pub other: u8,
    /// To be sent, a bit a port: the way, a request, that the area has come apart.
    pub due: [u16; 3],
    /// The way is on its way to these.
    pub flying: u16,
    /// These were told of a way.
    pub told: u16,
}

impl Entry {
    /// Creates an entry without a way.
    pub const fn new(key: Key) -> Self {
        Self {
            key,
            way: Way::NONE,
            bound: (0, INF),
            heard: [Way::NONE; HEARD],
            more: false,
            left: 0,
            anchors: [0; PORTS],
            better: 0,
            wanting: false,
            wanted: 0,
            wants: 0,
            parted: 0,
            other: 0,
            due: [0; 3],
            flying: 0,
            told: 0,
        }
    }

    /// Returns what neighbours offer.
    pub fn heard(&self) -> impl Iterator<Item = &Way> {
        self.heard.iter().filter(|way| way.port != NOWHERE)
    }

    /// Returns the sequence number to ask for.
    pub fn want(&self) -> u16 {
        self.bound.0.wrapping_add(1)
    }

    /// Returns whether nothing would be lost with the entry.
    pub fn is_idle(&self) -> bool {
        self.way.port == NOWHERE
            && self.heard().next().is_none()
            && self.due == [0; 3]
            && (self.flying | self.told | self.wants) == 0
    }

    /// Takes what the neighbour at `way.port` offers; with a cost of [`INF`] it offers nothing.
    pub fn hear(&mut self, way: Way) {
        self.left &= !bit(way.port);
        let mine = self.heard.iter().position(|h| h.port == way.port);
        if way.metric == INF {
            if let Some(place) = mine.and_then(|at| self.heard.get_mut(at)) {
                *place = Way::NONE;
            }
            return;
        }
        let free = || self.heard.iter().position(|h| h.port == NOWHERE);
        if let Some(place) = mine.or_else(free).and_then(|at| self.heard.get_mut(at)) {
            *place = way;
            return;
        }
        let others = self.heard.iter_mut();
        let others = others.filter(|h| h.port != self.way.port);
        let worst = others.max_by_key(|h| h.metric);
        let out = match worst.filter(|h| h.metric > way.metric) {
            Some(place) => core::mem::replace(place, way),
            None => way,
        };
        self.more = true;
        if let Some(anchor) = self.anchors.get_mut(usize::from(out.port)) {
            *anchor = out.anchor;
            self.left |= bit(out.port);
        }
    }

    /// The neighbour at `port` is gone.
    pub fn forget(&mut self, port: u8) {
        let mask = !bit(port);
        self.hear(Way { port, ..Way::NONE });
        for due in &mut self.due {
            *due &= mask;
        }
        self.wants &= mask;
        self.flying &= mask;
        self.told &= mask;
    }

    /// This node is the destination, or in it.
    pub fn originate(&mut self, anchor: u8, wide: bool) {
        self.way = Way {
            port: HERE,
            metric: 0,
            seq: match is_newer(self.bound.0, self.way.seq) {
                true => self.bound.0,
                false => self.way.seq,
            },
            hops: 0,
            anchor,
            wide,
        };
        self.bound = (self.way.seq, 0);
        self.better = 0;
        self.wanting = false;
    }

    /// Chooses a way. `cost` is that of the link at a port, if it carries data.
    pub fn choose(&mut self, cost: impl Fn(u8) -> Option<u32>) {
        let (newest, lowest) = self.bound;
        let mut best = Way::NONE;
        for heard in self.heard() {
            let metric = cost(heard.port).and_then(|cost| heard.metric.checked_add(cost));
            let Some(metric) = metric.filter(|m| *m != INF && heard.hops < MAX_HOPS as u8) else {
                continue;
            };
            let newer = lowest == INF || is_newer(heard.seq, newest);
            if !newer && (heard.seq != newest || heard.metric >= lowest) {
                continue;
            }
            // Of equal ways the one in use stays.
            let rank = |metric: u32, port: u8| (metric, port != self.way.port, port);
            if rank(metric, heard.port) < rank(best.metric, best.port) {
                best = Way {
                    metric,
                    hops: heard.hops + 1,
                    ..*heard
                };
            }
        }
        let offers = |h: &Way| cost(h.port).and_then(|cost| h.metric.checked_add(cost));
        let near = self.heard().filter(|h| h.hops < MAX_HOPS as u8);
        let better = near.filter(|h| offers(h).is_some_and(|m| m < best.metric));
        self.better = better.fold(0, |mask, h| mask | bit(h.port));
        self.wanting = self.better != 0 || (best.metric == INF && self.more);
        if best.metric != INF {
            let newer = lowest == INF || is_newer(best.seq, newest);
            let lowest = if newer { INF } else { lowest };
            self.bound = (best.seq, lowest.min(best.metric));
        } else {
            best.seq = self.way.seq;
        }
        self.way = best;
    }

    /// Returns the anchors of all ways that neighbours offer, and the ports to these.
    fn offered(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        let kept = self.heard().map(|h| (h.port, h.anchor));
        let left = (0u8..).zip(&self.anchors);
        let left = left.filter(|(port, _)| self.left & bit(*port) != 0);
        kept.chain(left.map(|(port, anchor)| (port, *anchor)))
    }

    /// Returns whether a neighbour offers a way with a lower anchor.
    pub fn hears_lower(&self, than: u8) -> bool {
        self.offered().any(|(_, anchor)| anchor < than)
    }

    /// Returns the lowest anchor that a neighbour offers, if it is lower than that of the way in use.
    pub fn lower_anchor(&self, cost: impl Fn(u8) -> Option<u32>) -> Option<u8> {
        let offered = self.offered().filter(|(port, _)| cost(*port).is_some());
        let lowest = offered.map(|(_, anchor)| anchor).min()?;
        let parted = self.way.port != NOWHERE && lowest < self.way.anchor;
        parted.then_some(lowest)
    }
}

/// Returns the bit of a port.
pub fn bit(port: u8) -> u16 {
    1u16.checked_shl(u32::from(port)).unwrap_or(0)
}
