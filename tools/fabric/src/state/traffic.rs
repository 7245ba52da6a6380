// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What has passed each cable, in each direction. Ports tell what they sent, now
//! and then and before a route of theirs changes; here it is counted at every
//! cable on the way. So a cable that routes share shows the sum of theirs. Bytes are
//! counted at every link on the way besides, whether ports are traced or not, and
//! told the hosts at its ends: policies of power go by that.

use super::Fabric;
use super::remote::Caller;
use super::walk::Hop;
use crate::topology::{End, Node};
use crate::wire::{LINKS, ToPort, Traffic};

impl Fabric {
    /// The links that lie behind a link, or on the way to a remote, of a port.
    fn hops_of(&self, host: usize, link: u8) -> Vec<Hop> {
        match link.checked_sub(LINKS as u8) {
            None => {
                let here = End { node: Node::Host(host), port: link };
                let hop = self.topology.trunk_at(here).map(|(trunk, side)| Hop { trunk, side });
                hop.into_iter().collect()
            }
            Some(remote) => {
                self.reach(Caller { host, remote }).map_or(vec![], |r| r.course.hops.clone())
            }
        }
    }

    /// A port has moved so many bytes over a link or to a remote: out, and in.
    pub(super) fn moved(&mut self, host: usize, link: u8, bytes: [u64; 2]) {
        for hop in self.hops_of(host, link) {
            self.carried(hop, bytes);
        }
    }

    /// A link has carried so many bytes: from the end at which the hop begins, and to it.
    pub(super) fn carried(&mut self, hop: Hop, bytes: [u64; 2]) {
        for (side, bytes) in [(hop.side, bytes[0]), (1 - hop.side, bytes[1])] {
            let total = &mut self.carried[hop.trunk][side];
            *total = total.saturating_add(bytes);
        }
        let ends = self.topology.trunks[hop.trunk].ends;
        for (side, end) in ends.into_iter().enumerate() {
            let [out, into] = if side == hop.side { bytes } else { [bytes[1], bytes[0]] };
            let Node::Host(host) = end.node else { continue };
            let Some(session) = &mut self.nodes[host].session else { continue };
            let [all_out, all_in] = &mut session.carried[usize::from(end.port)];
            *all_out = all_out.saturating_add(out);
            *all_in = all_in.saturating_add(into);
            let message = ToPort::Moved { link: end.port, out: *all_out, into: *all_in };
            self.tell(host, message);
        }
    }

    /// A port has sent this over a link or to a remote.
    pub(super) fn passed(&mut self, host: usize, link: u8, traffic: Traffic) {
        for hop in self.hops_of(host, link) {
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
