// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The cheapest routes from one node to all others.
//!
//! Routes are compared by the cost of their links, then by the number of links. Each node's table comes
//! from its own search. The tables are consistent: the rest of a shortest route is a shortest route too,
//! and has one link less. This file is independent of how a table is distributed.

use super::{
    member::{Member, Members, Reach},
    path::MAX_HOPS,
};

/// Returns whether a link, by generation and lanes, carries less than another.
fn is_slower(a: (u8, u8), b: (u8, u8)) -> bool {
    let rate = |(speed, width): (u8, u8)| u32::from(width) << speed.min(16);
    rate(a) < rate(b)
}

impl<M: AsRef<[Member]> + AsMut<[Member]>> Members<M> {
    /// Computes [`Member::route`] of all members, from the member at index `source`. To be called after
    /// [`Self::join`].
    pub fn routes_from(&mut self, source: usize) {
        for member in self.all_mut() {
            member.route = Reach::NONE;
        }
        if let Some(member) = self.all_mut().get_mut(source) {
            member.route.length = (0, 0);
        }
        while let Some(at) = self.nearest() {
            let Some(member) = self.all_mut().get_mut(at) else {
                return;
            };
            member.route.settled = true;
            let here = *member;
            for ((next, port), number) in here.next.iter().zip(&here.ports).zip(0u8..) {
                let (Some(cost), Some(next)) =
                    (port.cost(), self.all_mut().get_mut(usize::from(*next)))
                else {
                    continue;
                };
                let (so_far, hops) = here.route.length;
                let length = (so_far.saturating_add(cost), hops + 1);
                if length < next.route.length {
                    let rate = (port.speed, port.width);
                    let before = here.route.slowest;
                    let (port, slowest) = if at == source {
                        (number, rate)
                    } else if is_slower(rate, before) {
                        (here.route.port, rate)
                    } else {
                        (here.route.port, before)
                    };
                    next.route = Reach {
                        length,
                        port,
                        slowest,
                        settled: false,
                    };
                }
            }
        }
        for member in self.all_mut() {
            if member.route.hops().is_some_and(|n| n > MAX_HOPS as u32) {
                member.route = Reach::NONE;
            }
        }
    }

    fn nearest(&self) -> Option<usize> {
        let open = self
            .all()
            .iter()
            .enumerate()
            .filter(|(_, m)| !m.route.settled && m.route.hops().is_some());
        open.min_by_key(|(_, m)| m.route.length).map(|(at, _)| at)
    }
}
