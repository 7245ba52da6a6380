// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Links that follow their traffic and have no host at either end: the firmware of both
//! nodes is shown what the link carries, and the link is what the slower of the two wants,
//! within what the administrator allows. Of a link that leads to a host it is the host
//! that says how fast it should be; the same traffic would tell its neighbour nothing else.

#[cfg(test)]
mod tests;

use super::{Effect, Event, Fabric};
use crate::topology::{End, Power};
use weft_proto::nm::power::{Rate, Seen};

impl Fabric {
    /// Has the nodes at the ends of such links look at them. True: one runs at another rate.
    pub(super) fn watch_links(&mut self) -> bool {
        let now = self.now_ms();
        let mut changed = false;
        for trunk in 0..self.topology.trunks.len() {
            if !self.topology.is_inner(&self.topology.trunks[trunk]) {
                continue;
            }
            let [before, _] = self.trunk_rates(trunk);
            for side in 0..2 {
                let end = self.topology.trunks[trunk].ends[side];
                let seen = self.seen(trunk, side);
                if let Some(firmware) = self.firmware_mut(end.node) {
                    firmware.watch(now, end.port, seen);
                }
            }
            let [rate @ (speed, width), _] = self.trunk_rates(trunk);
            if rate != before && self.trunk_up(trunk) {
                let ends = self.topology.trunks[trunk].ends.map(|e| self.topology.end_name(e));
                self.effects.push(Effect::Event(Event::LinkRate { ends, speed, width }));
                changed = true;
            }
        }
        changed
    }

    /// Has the links looked at that are due. What the ports have reported until then is to be read before:
    /// read later, it would count for less time than it took, as the traffic of a faster link.
    pub fn sample(&mut self) {
        let now = self.now_ms();
        if self.watches_due().is_some_and(|due| due <= now) && self.watch_links() {
            self.tell_firmware();
        }
    }

    /// When one of them wants to look again, in milliseconds.
    pub(super) fn watches_due(&self) -> Option<u64> {
        let inner = self.topology.trunks.iter().filter(|t| self.topology.is_inner(t));
        let ends = inner.flat_map(|trunk| trunk.ends);
        ends.filter_map(|end| self.firmware(end.node)?.watches(end.port)).min()
    }

    /// What a node wants the link at an end of it to be, if not the most that it can.
    pub(super) fn wanted_rate(&self, end: End) -> Option<Rate> {
        self.firmware(end.node)?.wants(end.port)
    }

    /// A link as one end sees it, if it is up and to follow its traffic by the cable there.
    fn seen(&self, trunk: usize, side: usize) -> Option<Seen> {
        let cable = self.topology.cable_at(self.topology.trunks[trunk].ends[side])?;
        if self.cables[cable].power != Power::Auto || !self.trunk_up(trunk) {
            return None;
        }
        let rate = |(speed, width)| Rate { speed, width };
        let [is, most] = self.trunk_rates(trunk).map(rate);
        let carried = [side, 1 - side].map(|from| self.carried[trunk][from]);
        // Nothing goes down without being looked at then, and so begins anew.
        Some(Seen { most, is, trained: 0, carried })
    }
}
