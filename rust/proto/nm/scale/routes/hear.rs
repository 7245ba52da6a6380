// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a node does with the routes, requests and acknowledgements of its neighbours.

use super::{
    super::{
        area::Key,
        entry::{bit, is_newer, Way, NOWHERE},
        link::Link,
        store::Store,
        update::{Item, Says, Update, INF, ITEMS},
    },
    Effects, Entry, Routes, LOOK_MS, REQUEST, WAY,
};

impl<S: Store<Entry>, L: AsRef<[Link]> + AsMut<[Link]>> Routes<S, L> {
    /// Takes a message from the neighbour at `port`. To be followed by [`Self::tick`].
    pub fn receive(&mut self, now: u64, port: u8, bytes: &[u8], fx: &mut impl Effects) {
        let mut items = [Item::NONE; ITEMS];
        let Ok(update) = Update::parse(bytes, &mut items) else {
            return;
        };
        let Some(link) = self.link_mut(port).filter(|link| link.up) else {
            return;
        };
        if let Some((flight, count)) = link.acknowledged(update.seen) {
            for (kind, key) in flight.iter().take(count) {
                self.landed(port, usize::from(*kind), *key);
            }
        }
        let Some(link) = self.link_mut(port) else {
            return;
        };
        if update.number == 0 {
            return;
        }
        link.owes = true;
        if update.number <= link.seen {
            return;
        }
        link.seen = update.number;
        let known = (link.theirs, link.lid);
        link.theirs = Some(update.cost);
        link.lid = update.lid;
        if known.0 != link.theirs {
            self.refresh_all(now, fx);
        }
        if known != (Some(update.cost), update.lid) || update.again {
            self.tell_all(port);
        }
        for item in update.items {
            self.item(now, port, item, fx);
        }
    }

    pub(super) fn item(&mut self, now: u64, port: u8, item: &Item, fx: &mut impl Effects) {
        match item.says {
            Says::Route | Says::Wide => {
                let at = match item.metric {
                    INF => self.find(item.key).ok(),
                    _ => self.place(item.key),
                };
                let Some(at) = at else {
                    return;
                };
                let sync = self.is_here(item.key) && item.key.is_area();
                let Some(entry) = self.entry_mut(at) else {
                    return;
                };
                entry.hear(Way {
                    port,
                    metric: item.metric,
                    seq: item.seq,
                    hops: item.hops,
                    anchor: item.anchor,
                    wide: item.says == Says::Wide,
                });
                // The nodes of an area give out its sequence numbers together.
                if sync && item.metric == 0 && is_newer(item.seq, entry.way.seq) {
                    self.renew(now, at, item.seq, fx);
                }
                self.refresh(now, at, fx);
                if self.entry(at).is_some_and(Entry::is_idle) {
                    self.entries.remove(at);
                }
            }
            Says::Request => self.request(now, port, item, fx),
            Says::Parted => self.part(now, Some(port), item.key, item.anchor, fx),
        }
    }

    /// The destination, which is here, has a newer sequence number.
    pub(super) fn renew(&mut self, now: u64, at: usize, seq: u16, fx: &mut impl Effects) {
        let Some(entry) = self.entry_mut(at) else {
            return;
        };
        let key = entry.key;
        entry.way.seq = seq;
        self.refresh(now, at, fx);
        if key.is_area() {
            self.due(at, WAY, self.inside());
        }
    }

    /// A neighbour wants a newer sequence number.
    pub(super) fn request(&mut self, now: u64, port: u8, item: &Item, fx: &mut impl Effects) {
        let Ok(at) = self.find(item.key) else {
            return;
        };
        let here = self.is_here(item.key);
        let Some(entry) = self.entry_mut(at) else {
            return;
        };
        if here && is_newer(item.seq, entry.way.seq) {
            self.renew(now, at, item.seq, fx);
            self.due(at, WAY, bit(port));
            return;
        }
        if entry.way.port != NOWHERE && !is_newer(item.seq, entry.way.seq) {
            self.due(at, WAY, bit(port));
            return;
        }
        if entry.way.port == port {
            return;
        }
        let asked = entry.wants != 0 && !is_newer(item.seq, entry.wanted);
        entry.wants |= bit(port);
        if asked {
            return;
        }
        entry.wanted = item.seq;
        let onward = match entry.way.port {
            NOWHERE => entry.heard().fold(0, |mask, way| mask | bit(way.port)),
            out => bit(out),
        };
        self.due(at, REQUEST, onward & !bit(port));
        self.look.get_or_insert(now + LOOK_MS);
    }

    /// An item has arrived.
    pub(super) fn landed(&mut self, port: u8, kind: usize, key: Key) {
        let Ok(at) = self.find(key) else {
            return;
        };
        let mask = bit(port);
        let way = self.entry(at).map_or(Way::NONE, |entry| entry.way);
        let inside = self.scope(key, way.wide) & mask != 0;
        if let Some(entry) = self.entry_mut(at).filter(|_| kind == WAY) {
            entry.flying &= !mask;
            let [due, ..] = entry.due;
            if due & mask == 0 && (way.metric == INF || !inside) {
                entry.told &= !mask;
            }
        }
        if self.entry(at).is_some_and(Entry::is_idle) {
            self.entries.remove(at);
        }
    }
}
