// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Routes, as the network manager would have made them: the driver designs on them, and makes none itself.

use std::collections::{BTreeMap, BTreeSet};
use weft_proto::mr::inventory::{Component, End, Inventory, Link};

/// By which port of a switch traffic for a local id leaves it.
pub type Routes = BTreeMap<(u64, u32), u8>;

/// Routes of every switch to everything with a local id: shortest ones. Of those that are as short any is
/// chosen, by the seed and for each destination anew; with seed 0 it is the first, so that they stay the
/// same when something goes that is not on them.
pub fn routes(found: &Inventory<Vec<Component>, Vec<Link>>, seed: u64) -> Routes {
    let mut routes = Routes::new();
    let mut random = seed;
    let is_switch = |hwid| found.get(hwid).is_some_and(Component::is_switch);
    for target in found.components().iter().filter(|c| c.lid != 0) {
        let mut reached = BTreeSet::from([target.hwid]);
        loop {
            // All that is one link further; of several links to it, any.
            let mut next: Vec<End> = vec![];
            for link in found.links() {
                for [near, far] in [link.ends(), [link.ends()[1], link.ends()[0]]] {
                    let passes = near.hwid == target.hwid || is_switch(near.hwid);
                    let known = reached.contains(&far.hwid);
                    if passes && reached.contains(&near.hwid) && is_switch(far.hwid) && !known {
                        next.push(far);
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            while !next.is_empty() {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let end = next.remove(random as usize % next.len());
                routes.entry((end.hwid, target.lid)).or_insert(end.port);
                reached.insert(end.hwid);
            }
        }
    }
    routes
}
