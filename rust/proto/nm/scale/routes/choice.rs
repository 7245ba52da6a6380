// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which way to a destination is taken, and what has to be told of it, by which ports.
//!
//! A way is chosen in [`super::super::entry`]. This file must not know how anything is sent.

use super::{
    super::{
        super::port::PORTS,
        area::{area, Key},
        entry::{bit, is_newer, Way},
        link::Link,
        store::Store,
        update::INF,
    },
    Effects, Entry, Routes, LOOK_MS, REQUEST, WAY,
};

impl<S: Store<Entry>, L: AsRef<[Link]> + AsMut<[Link]>> Routes<S, L> {
    /// Returns the ports by which a destination is told.
    pub(super) fn scope(&self, key: Key, wide: bool) -> u16 {
        let within = key.its_area();
        let mut mask = 0;
        for (link, port) in self.links.as_ref().iter().zip(0u8..) {
            let inside = link.lid != 0 && area(link.lid) == within && area(self.lid) == within;
            if link.theirs.is_some() && (key.is_area() || wide || inside) {
                mask |= bit(port);
            }
        }
        mask
    }

    /// What this entry has to say by these ports is due.
    pub(super) fn due(&mut self, at: usize, kind: usize, ports: u16) {
        let Some(due) = self.entry_mut(at).and_then(|entry| entry.due.get_mut(kind)) else {
            return;
        };
        let new = ports & !*due;
        *due |= ports;
        for (link, port) in self.links.as_mut().iter_mut().zip(0u8..) {
            link.due += u32::from(new & bit(port) != 0);
        }
    }

    /// All ways are due at a port: the neighbour is new, or is in another area.
    pub(super) fn tell_all(&mut self, port: u8) {
        for at in 0..self.entries.all().len() {
            let Some((key, wide, told)) = self.entry(at).map(|e| (e.key, e.way.wide, e.told))
            else {
                return;
            };
            if (self.scope(key, wide) | told) & bit(port) != 0 {
                self.due(at, WAY, bit(port));
            }
        }
    }

    pub(super) fn refresh_all(&mut self, now: u64, fx: &mut impl Effects) {
        for at in 0..self.entries.all().len() {
            self.refresh(now, at, fx);
        }
        self.remove_idle();
        self.count_due();
    }

    /// Counts anew what is due at each link.
    pub(super) fn count_due(&mut self) {
        for (link, port) in self.links.as_mut().iter_mut().zip(0u8..) {
            let entries = self.entries.all().iter();
            let due = entries
                .flat_map(|e| e.due)
                .filter(|due| due & bit(port) != 0);
            link.due = due.count() as u32;
        }
    }

    /// Chooses the way to a destination anew, and does what follows from a change.
    pub(super) fn refresh(&mut self, now: u64, at: usize, fx: &mut impl Effects) {
        let Some(key) = self.entry(at).map(|entry| entry.key) else {
            return;
        };
        let here = self.is_here(key);
        let anchor = if here && key.is_area() {
            self.anchor()
        } else {
            0
        };
        let wide = self.apart.is_some() && !key.is_area();
        let Some(entry) = self.entries.all_mut().get_mut(at) else {
            return;
        };
        let before = entry.way;
        let links = self.links.as_ref();
        let cost = |port: u8| links.get(usize::from(port)).and_then(Link::both);
        if here {
            if entry.wants != 0 && is_newer(entry.wanted, entry.way.seq) {
                entry.way.seq = entry.wanted;
            }
            entry.originate(anchor, wide);
        } else {
            entry.choose(cost);
        }
        let parted = key.is_area() && entry.lower_anchor(cost).is_some();
        let (way, told, wanting) = (entry.way, entry.told, entry.wanting);
        let answers = match way.metric != INF && !is_newer(entry.wanted, way.seq) {
            true => core::mem::take(&mut entry.wants),
            false => 0,
        };
        let says = |way: &Way| (way.metric, way.anchor, way.wide);
        if says(&way) != says(&before) {
            self.due(at, WAY, self.scope(key, way.wide) | told);
        }
        self.due(at, WAY, answers);
        if wanting {
            self.ask(at);
        }
        let apart = self.apart.is_some() && key == Key::area(area(self.lid));
        if wanting || parted || (apart && way != before) {
            self.look.get_or_insert(now + LOOK_MS);
        }
        if way.port != before.port {
            let (first, last) = key.lids();
            fx.route(
                first,
                last,
                Some(way.port).filter(|port| usize::from(*port) < PORTS),
            );
        }
        // The part of the area may have another anchor.
        if !key.is_area() && self.lid != 0 && key.its_area() == area(self.lid) {
            if let Ok(area) = self.find(Key::area(area(self.lid))) {
                let anchor = self.anchor();
                let other = self.entry(area).is_some_and(|e| e.way.anchor != anchor);
                if other && self.apart.is_none() {
                    self.refresh(now, area, fx);
                }
            }
        }
    }

    /// Asks the neighbours that have a way that is not feasible for a newer one.
    pub(super) fn ask(&mut self, at: usize) {
        let Some(entry) = self.entry(at) else {
            return;
        };
        let ports = match entry.better {
            0 => self.scope(entry.key, entry.way.wide),
            better => better,
        };
        let want = entry.want();
        if let Some(entry) = self.entry_mut(at) {
            // An older request would be answered too soon.
            if entry.wants == 0 || is_newer(want, entry.wanted) {
                entry.wanted = want;
            }
        }
        self.due(at, REQUEST, ports);
    }
}
