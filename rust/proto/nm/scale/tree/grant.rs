// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Grants of local ids: the master makes one, each node takes an id of it and passes on the others.

use super::{
    super::{
        super::kind::is_host,
        area::{first, last, AREA_LIDS, MAX_AREA},
        group::{choose, gather, Group, LIMITS},
        state::{Grant, Report},
    },
    Effects, Peer, Tree,
};

/// Areas that fabrics use while they are small.
const FEW: u32 = 256;

/// Returns a number that has no more to do with those of other hardware ids than chance has.
fn scatter(hwid: u64) -> u32 {
    (hwid.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32
}

impl<P: AsRef<[Peer]> + AsMut<[Peer]>> Tree<P> {
    /// Gives children that come later, with few nodes without an id, some of the spare ids: half of them are for
    /// the nodes that may come after these.
    pub(super) fn give_spares(&mut self) {
        if self.lid == 0 {
            return;
        }
        let limit = LIMITS.len() - 1;
        for port in 0..self.peers.as_ref().len() {
            let Some(peer) = self
                .peers
                .as_ref()
                .get(port)
                .filter(|peer| self.is_child(peer))
            else {
                continue;
            };
            let (number, next) = (peer.number, self.next);
            let Some(report) = peer.state.report.filter(|report| report.fresh != 0) else {
                continue;
            };
            let group = report.groups.get(limit).copied().unwrap_or_default();
            let (from, spares) = self.spare;
            let open = u32::from(group.open);
            if group.areas != 0 || open != report.fresh || spares < 2 * open {
                continue;
            }
            let more = (spares - open) / 2;
            self.spare = (from + open + more, spares - open - more);
            let grant = Grant {
                limit: limit as u8,
                lid: from,
                open: group.open,
                spare: from + open,
                spares: more as u16,
                area: 0,
                areas: 0,
                next: next.max(report.next),
                answers: number,
            };
            self.give(port, grant);
        }
    }

    /// Gives ids to all nodes below a child that have none: it does not report these again.
    pub(super) fn give(&mut self, port: usize, grant: Grant) {
        let Some(peer) = self.peers.as_mut().get_mut(port) else {
            return;
        };
        peer.granted = Some(grant);
        if let Some(report) = peer.state.report.as_mut() {
            report.fresh = 0;
            report.groups = [Group::default(); LIMITS.len()];
            report.next = report.next.max(grant.next);
        }
    }

    /// Returns about how many areas the nodes with a local id are in: they hold eight nodes at the least, but for
    /// those of single nodes that came later.
    pub(super) fn areas_of(&self, report: &Report) -> u32 {
        let have = report.total.saturating_sub(report.fresh);
        have.min(report.next) / 8
    }

    /// Makes the grant of the master for all nodes.
    pub(super) fn grant_all(&mut self, report: &Report) -> Option<Grant> {
        // A node alone is in no fabric, and needs no local id.
        if !is_host(self.hwid) || report.total == 1 {
            return None;
        }
        // Small fabrics all begin with the same ids. A large one keeps away from those of others, that it may be
        // joined with.
        let next = match report.next {
            next if next <= FEW && report.total >= AREA_LIDS => {
                FEW + 1 + scatter(self.hwid) % (MAX_AREA / 2)
            }
            next => next,
        };
        let used = self.areas_of(report);
        let areas = report.groups.map(|group| group.areas.saturating_add(used));
        let limit = choose(report.total, areas);
        let group = report.groups.get(limit)?;
        let own = u32::from(group.open != 0);
        let wanted = own.checked_add(group.areas)?;
        let (next, end) = match next.checked_add(wanted) {
            Some(end) if end <= MAX_AREA + 1 => (next, end),
            _ => {
                let free = self.free.filter(|_| self.lack == wanted);
                self.lack = wanted;
                let free = free?;
                let end = free.checked_add(wanted)?;
                self.free = Some(end);
                (free, end)
            }
        };
        self.lack = 0;
        (end <= MAX_AREA + 1).then(|| {
            let lid = first(next);
            let spare = lid + u32::from(group.open);
            Grant {
                limit: limit as u8,
                lid,
                open: group.open,
                spare,
                spares: (last(next) + 1).saturating_sub(spare) as u16 * own as u16,
                area: next + own,
                areas: group.areas,
                next: end.max(report.next),
                answers: 0,
            }
        })
    }

    /// Takes a grant from the parent, or makes it if this node is the master.
    pub(super) fn take_grant(&mut self, report: &Report, fx: &mut impl Effects) {
        if report.fresh == 0 {
            return;
        }
        let grant = match self.parent {
            None => self.grant_all(report),
            Some(port) => {
                let parent = self.peers.as_ref().get(usize::from(port));
                let parent = parent.filter(|parent| parent.state.mastership == self.mastership);
                // The grant has to answer this report, not a former one.
                let parent = parent.filter(|parent| parent.told.report.as_ref() == Some(report));
                let sent = parent.map(|parent| parent.sent);
                let grant = parent.and_then(|parent| parent.state.grant);
                let grant = grant.filter(|grant| Some(grant.answers) == sent);
                grant.filter(|grant| self.taken != Some(*grant))
            }
        };
        let Some(grant) = grant else {
            return;
        };
        let limit = usize::from(grant.limit);
        let wanted = report.groups.get(limit).copied().unwrap_or_default();
        if (grant.open, grant.areas) != (wanted.open, wanted.areas) {
            return;
        }
        self.taken = Some(grant);
        self.next = self.next.max(grant.next);
        self.hand_out(&grant, fx);
        // The parent knows what it has granted: the new state is not sent to it.
        let state = self.parent.and_then(|port| self.state(port));
        let parent = self
            .parent
            .and_then(|port| self.peers.as_mut().get_mut(usize::from(port)));
        if let (Some(state), Some(parent)) = (state, parent) {
            parent.told = state;
        }
    }

    /// Takes an id of a grant, if the node has none, and gives the others to the children.
    pub(super) fn hand_out(&mut self, grant: &Grant, fx: &mut impl Effects) {
        let limit = usize::from(grant.limit);
        let below = self.below(limit);
        let most = LIMITS.get(limit).copied().unwrap_or_default();
        let (_, joined) = gather(most, self.lid != 0, &below);
        let (mut lid, mut spare, mut next) = (grant.lid, grant.spare, grant.area);
        let share = grant.spares.checked_div(grant.open).unwrap_or(0);
        if self.lid == 0 {
            self.lid = lid;
            self.spare = (spare, u32::from(share));
            lid += 1;
            spare += u32::from(share);
            fx.lid(self.lid);
        }
        for (port, group) in below.iter().enumerate() {
            let Some(group) = group else {
                continue;
            };
            let mut grant = Grant {
                open: group.open,
                areas: group.areas,
                answers: self.peers.as_ref().get(port).map_or(0, |peer| peer.number),
                ..*grant
            };
            let open = u32::from(group.open);
            if joined & (1 << port) != 0 {
                (grant.lid, grant.spare) = (lid, spare);
                grant.spares = share.saturating_mul(group.open);
                lid += open;
                spare += u32::from(grant.spares);
            } else if open != 0 {
                grant.lid = first(next);
                grant.spare = grant.lid + open;
                grant.spares = (last(next) + 1).saturating_sub(grant.spare) as u16;
                next += 1;
            } else {
                grant.spares = 0;
            }
            grant.area = next;
            next += group.areas;
            let fresh = self
                .peers
                .as_ref()
                .get(port)
                .and_then(|peer| peer.state.report);
            if fresh.is_some_and(|report| report.fresh != 0) {
                self.give(port, grant);
            }
        }
    }
}
