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
    member::{Member, Members, NO_MEMBER},
    message::{Info, Page},
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
        while let Some(member) = self.all().get(self.expanded).copied() {
            if !member.ask.is_over() {
                return false;
            }
            self.expanded += 1;
            if !member.known {
                continue;
            }
            for (port, at) in member.ports.iter().zip(0u8..) {
                if !port.is_up() || !allowed.has(port.peer) || self.find(port.peer).is_some() {
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
                if !self.push(found) {
                    self.too_many = true;
                }
            }
        }
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
