// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a node reports to its parent on the nodes below it.

use super::{
    super::{
        super::port::PORTS,
        area::area,
        group::{gather, Group, LIMITS},
        state::Report,
    },
    Peer, Tree,
};

impl<P: AsRef<[Peer]> + AsMut<[Peer]>> Tree<P> {
    /// Returns whether the neighbour at a port is a child.
    pub(super) fn is_child(&self, peer: &Peer) -> bool {
        peer.up && peer.state.mastership == self.mastership && peer.state.child
    }

    /// Returns the groups below, for one of [`LIMITS`].
    pub(super) fn below(&self, limit: usize) -> [Option<Group>; PORTS] {
        let mut below = [None; PORTS];
        for (place, peer) in below.iter_mut().zip(self.peers.as_ref()) {
            let report = peer.state.report.as_ref().filter(|_| self.is_child(peer));
            *place = report.and_then(|report| report.groups.get(limit)).copied();
        }
        below
    }

    /// Returns the report on the nodes below, if all children have reported.
    pub(super) fn report(&self) -> Option<Report> {
        let has_id = self.lid != 0;
        let mut all = Report {
            total: 1,
            fresh: u32::from(!has_id),
            next: self.next,
            groups: [Group::default(); LIMITS.len()],
        };
        if has_id {
            all.next = all.next.max(area(self.lid) + 1);
        }
        for (port, peer) in (0u8..).zip(self.peers.as_ref()) {
            if !peer.up || self.parent == Some(port) {
                continue;
            }
            if peer.wanted.is_some() {
                return None;
            }
            if peer.number == 0 {
                continue;
            }
            if peer.state.mastership != self.mastership {
                return None;
            }
            if !peer.state.child {
                continue;
            }
            let report = peer.state.report.as_ref()?;
            all.total = all.total.checked_add(report.total)?;
            all.fresh = all.fresh.checked_add(report.fresh)?;
            all.next = all.next.max(report.next);
        }
        for ((at, group), limit) in all.groups.iter_mut().enumerate().zip(LIMITS) {
            *group = gather(limit, has_id, &self.below(at)).0;
        }
        Some(all)
    }
}
