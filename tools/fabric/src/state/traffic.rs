// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What has passed each cable, in each direction. Ports tell what they sent, now
//! and then and before a route of theirs changes; here it is counted at every
//! cable on the way. So a cable that routes share shows the sum of theirs.

use super::Fabric;
use super::remote::Caller;
use super::walk::Hop;
use crate::topology::{End, Node};
use crate::wire::{LINKS, Traffic};

impl Fabric {
    /// A port has sent this over a link or to a remote.
    pub(super) fn passed(&mut self, host: usize, link: u8, traffic: Traffic) {
        let hops = match link.checked_sub(LINKS as u8) {
            None => {
                let here = End { node: Node::Host(host), port: link };
                let hop = self.topology.trunk_at(here).map(|(trunk, side)| Hop { trunk, side });
                hop.into_iter().collect()
            }
            Some(remote) => {
                self.reach(Caller { host, remote }).map_or(vec![], |r| r.course.hops.clone())
            }
        };
        for hop in hops {
            for (cable, side) in self.cables_of(hop) {
                let total = &mut self.traffic[cable][side];
                total.tlps = total.tlps.saturating_add(traffic.tlps);
                total.bytes = total.bytes.saturating_add(traffic.bytes);
                total.doorbells = total.doorbells.saturating_add(traffic.doorbells);
            }
        }
    }

    /// The cables of a hop, each with the end at which it is entered.
    fn cables_of(&self, hop: Hop) -> Vec<(usize, usize)> {
        let trunk = &self.topology.trunks[hop.trunk];
        let mut at = trunk.ends[hop.side].node;
        let mut cables = trunk.cables.clone();
        if hop.side == 1 {
            cables.reverse();
        }
        let mut passed = vec![];
        for cable in cables {
            let ends = self.topology.cables[cable].ends;
            let side = usize::from(ends[0].node != at);
            passed.push((cable, side));
            at = ends[1 - side].node;
        }
        passed
    }
}
