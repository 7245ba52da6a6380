// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Breadth-first search over port lists, until no new hardware id appears.
//!
//! Questions overlap, but answers are processed in the order in which nodes were found: the result is
//! that of a search that asks one node at a time, whatever order the answers come in. This file is
//! independent of elections.

use super::{
    allow::Allowed,
    ask::{Ask, State},
    doubt::Doubts,
    mastership::Mastership,
    member::{Member, Members, NO_MEMBER},
    message::{Info, Listed, Page},
    port::{Port, PORTS},
    seal::Origin,
};

impl<M: AsRef<[Member]> + AsMut<[Member]>> Members<M> {
    /// Begins an exploration from the node that `me` describes, with these ports.
    pub fn begin(&mut self, me: Info, ports: [Port; PORTS]) {
        self.clear();
        let mut first = Member {
            info: me,
            ports,
            known: true,
            ..Member::NONE
        };
        first.ask.state = State::Done;
        self.push(first);
        self.placed = 1;
    }

    /// Begins an exploration as [`Self::begin`] does. What the last one has found is kept until this one is
    /// complete: a node that the master has found unchanged ([`Self::listed`]) need not be asked.
    pub fn recall(&mut self, me: Info, ports: [Port; PORTS]) {
        let Some((first, others)) = self.all_mut().split_first_mut() else {
            return self.begin(me, ports);
        };
        (first.info, first.ports, first.ask) = (me, ports, Ask::DONE);
        for member in others {
            member.fresh = false;
            member.ask = Ask::DONE;
        }
        self.placed = 1;
        self.rewind();
    }

    /// Takes what the master, in this mastership, has found of a node.
    pub fn listed(&mut self, mastership: Mastership, node: &Listed) {
        let same = |m: &&mut Member| {
            m.known
                && m.info.hwid == node.hwid
                && m.info.life == node.life
                && m.info.change == node.change
        };
        if let Some(member) = self.all_mut().iter_mut().find(same) {
            member.fresh = true;
            member.info.lid = node.lid;
            member.info.mastership = mastership;
        }
    }

    /// Adds a node that this exploration has found behind those that it has found before. Returns whether
    /// there was room.
    fn place(&mut self, found: Member) -> bool {
        let place = self.placed;
        let known = self.find(found.info.hwid).filter(|at| *at >= place);
        let others = self.all_mut().get_mut(place..).unwrap_or_default();
        match (known, others.first().copied()) {
            (Some(at), _) => others.swap(0, at - place),
            (None, None) if !self.push(found) => return false,
            (None, None) => {}
            // The one that is in the place goes to the end, or is asked if it is found.
            (None, Some(other)) => _ = self.push(other),
        }
        if let Some(member) = self.all_mut().get_mut(place) {
            *member = match known {
                Some(_) if member.fresh => Member {
                    path: found.path,
                    piece: 0,
                    ..*member
                },
                _ => found,
            };
        }
        self.placed += 1;
        true
    }

    /// Takes the answer of a node to question `xid`. If its ports do not fit into one page, the next
    /// page is due to be asked for. Ports that change meanwhile do no harm: the change is reported, and
    /// the exploration begins again. `origin` is that of the answer.
    pub fn answer(&mut self, xid: u32, info: &Info, page: &Page, origin: Origin) {
        // Another node may be at the end of the path by now: then this is no answer.
        let member = self
            .all_mut()
            .iter_mut()
            .find(|m| m.info.hwid == info.hwid && !m.known);
        let Some(member) = member else {
            return;
        };
        if !member.ask.answer(xid) {
            return;
        }
        if member.piece == 0 {
            member.info = *info;
        }
        member.origin = origin;
        for (port, told) in member.ports.iter_mut().zip(&page.ports) {
            if told.is_up() {
                *port = *told;
            }
        }
        if u16::from(page.next) > member.piece {
            member.piece = u16::from(page.next);
            member.ask = Ask::DUE;
        } else {
            member.piece = 0;
            member.known = true;
        }
    }

    /// Processes the answers that are next in turn. Returns true if no node is left to ask.
    pub fn expand<A: AsRef<[u64]>>(&mut self, allowed: &Allowed<A>, doubts: &Doubts) -> bool {
        while self.expanded < self.placed {
            let Some(member) = self.all().get(self.expanded).copied() else {
                break;
            };
            if !member.ask.is_over() {
                return false;
            }
            self.expanded += 1;
            if !member.known {
                continue;
            }
            for (port, at) in member.ports.iter().zip(0u8..) {
                let is_found = self.find(port.peer).is_some_and(|at| at < self.placed);
                if !port.is_up() || !allowed.has(port.peer) || is_found {
                    continue;
                }
                let Some(path) = member.path.then(at) else {
                    self.too_far = true;
                    continue;
                };
                let mut found = Member {
                    path,
                    ..Member::NONE
                };
                found.info.hwid = port.peer;
                if doubts.has(port.peer) {
                    found.ask = Ask::BRIEF;
                }
                if !self.place(found) {
                    self.too_many = true;
                }
            }
        }
        self.truncate(self.placed);
        true
    }

    /// Computes [`Member::next`]: the neighbour at each port, if both ends report the link for data.
    pub fn join(&mut self) {
        for at in 0..self.all().len() {
            let Some(member) = self.all().get(at).copied() else {
                return;
            };
            let mut next = [NO_MEMBER; PORTS];
            for (next, port) in next.iter_mut().zip(&member.ports) {
                let peer = port.cost().and_then(|_| self.find(port.peer));
                let agreed = peer.and_then(|peer| self.all().get(peer)).is_some_and(|m| {
                    let mut back = m.ports.iter();
                    m.known && back.any(|p| p.peer == member.info.hwid && p.cost().is_some())
                });
                if let (true, true, Some(peer)) = (member.known, agreed, peer) {
                    *next = peer as u16;
                }
            }
            if let Some(member) = self.all_mut().get_mut(at) {
                member.next = next;
            }
        }
    }
}
