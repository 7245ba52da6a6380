// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Areas that have come apart: how a node sees it, and what the nodes of a part do.

use super::{
    super::{
        super::port::PORTS,
        area::{area, first, Key},
        entry::{bit, NOWHERE},
        link::Link,
        store::Store,
        update::INF,
    },
    own, Effects, Entry, Routes, APART_MS, LOOK_MS, PART, PARTED, REQUEST,
};

impl<S: Store<Entry>, L: AsRef<[Link]> + AsMut<[Link]>> Routes<S, L> {
    /// Returns the lowest local id of this node's part of its area, without the bits of the area.
    pub(super) fn anchor(&self) -> u8 {
        let all = self.entries.all();
        let start = Key::node(first(area(self.lid)));
        let start = all.partition_point(|entry| entry.key < start);
        let own = Key::node(self.lid);
        let mut nodes = all.iter().skip(start).take_while(|entry| entry.key <= own);
        let lowest =
            nodes.find(|entry| entry.key == own || (entry.way.metric != INF && !entry.way.wide));
        lowest.map_or(own, |entry| entry.key).number() as u8
    }

    /// There is another part of an area, with this anchor.
    pub(super) fn part(
        &mut self,
        now: u64,
        from: Option<u8>,
        key: Key,
        anchor: u8,
        fx: &mut impl Effects,
    ) {
        let Ok(at) = self.find(key) else {
            return;
        };
        let mine = self.anchor();
        let here = self.is_here(key);
        let Some(entry) = self.entry_mut(at) else {
            return;
        };
        if !here {
            let out = entry.way.port;
            if usize::from(out) < PORTS && Some(out) != from {
                entry.other = anchor;
                self.due(at, PART, bit(out));
            }
            return;
        }
        if anchor >= mine {
            return;
        }
        entry.other = anchor;
        self.apart = Some(now + APART_MS);
        self.look.get_or_insert(now + LOOK_MS);
        self.due(at, PART, self.inside());
        // First each node by itself, then no more by the area.
        for key in own(self.lid) {
            if let Ok(at) = self.find(key) {
                self.refresh(now, at, fx);
            }
        }
    }

    /// Asks again for what is still wanted, and finds areas that have come apart.
    pub(super) fn look(&mut self, now: u64, fx: &mut impl Effects) {
        self.look = None;
        let mut again = false;
        for at in 0..self.entries.all().len() {
            let links = self.links.as_ref();
            let cost = |port: u8| links.get(usize::from(port)).and_then(Link::both);
            let Some(entry) = self.entries.all_mut().get_mut(at) else {
                break;
            };
            let lower = match entry.key.is_area() {
                true => entry.lower_anchor(cost),
                false => None,
            };
            entry.parted = match lower {
                Some(_) => entry.parted.saturating_add(1),
                None => 0,
            };
            let (key, parted, out) = (entry.key, entry.parted, entry.way.port);
            // A neighbour does not wait for a node whose route leads by the neighbour.
            entry.wants &= !bit(out);
            if out == NOWHERE && entry.heard().next().is_none() {
                // No neighbour could answer.
                entry.wants = 0;
            }
            let (wants, wanting) = (entry.wants, entry.wanting);
            if let Some(anchor) = lower.filter(|_| parted >= PARTED) {
                entry.parted = 0;
                self.part(now, None, key, anchor, fx);
            }
            if wanting {
                self.ask(at);
            } else if wants != 0 && usize::from(out) < PORTS {
                self.due(at, REQUEST, bit(out) & !wants);
            }
            again |= wanting || wants != 0 || lower.is_some();
        }
        if let Some(until) = self.apart {
            let whole = self.find(Key::area(area(self.lid))).ok();
            let anchor = self.anchor();
            let whole = whole.and_then(|at| self.entry(at));
            let other = whole.is_some_and(|entry| entry.hears_lower(anchor));
            again |= now < until;
            if now >= until && !other {
                self.apart = None;
                for key in own(self.lid) {
                    self.place(key);
                    if let Ok(at) = self.find(key) {
                        self.refresh(now, at, fx);
                    }
                }
            }
        }
        self.remove_idle();
        if again {
            self.look = Some(now + LOOK_MS);
        }
    }
}
