// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What is told to a neighbour next: as much of what is due as a message carries.
//!
//! Each port goes round all entries by turns, so none waits for ever.

use super::{
    super::{
        super::{packet::MAX_BYTES, port::PORTS},
        area::Key,
        entry::bit,
        link::Link,
        store::Store,
        update::{Item, Says, Update, INF, ITEMS},
    },
    Effects, Entry, Routes, PART, REQUEST, WAY,
};

impl<S: Store<Entry>, L: AsRef<[Link]> + AsMut<[Link]>> Routes<S, L> {
    /// Sends what is due.
    pub(super) fn speak(&mut self, now: u64, fx: &mut impl Effects) {
        for port in 0..PORTS as u8 {
            let Some(link) = self
                .links
                .as_ref()
                .get(usize::from(port))
                .filter(|link| link.up)
            else {
                continue;
            };
            let (ready, owes) = (link.is_ready(), link.owes);
            let (mut items, mut sent) = ([Item::NONE; ITEMS], [(0, Key::NONE); ITEMS]);
            let count = if ready {
                self.collect(port, &mut items, &mut sent)
            } else {
                0
            };
            let lid = self.lid;
            let Some(link) = self.link_mut(port) else {
                continue;
            };
            let says = count != 0 || link.hello;
            if !says && !owes {
                continue;
            }
            let again = link.again && says && ready;
            let number = match says && ready {
                true => link.send(now, sent.get(..count).unwrap_or_default()),
                false if owes => 0,
                false => continue,
            };
            link.owes = false;
            let update = Update {
                number,
                seen: link.seen,
                lid,
                cost: link.cost,
                again,
                items: items.get(..count).unwrap_or_default(),
            };
            let mut buf = [0; MAX_BYTES];
            let len = update.encode(&mut buf);
            fx.send(port, buf.get(..len).unwrap_or_default());
        }
    }

    /// Takes what is due at a port, as much as a message carries. Returns how many items that is.
    pub(super) fn collect(
        &mut self,
        port: u8,
        items: &mut [Item; ITEMS],
        sent: &mut [(u8, Key); ITEMS],
    ) -> usize {
        let mask = bit(port);
        let (all, mut count) = (self.entries.all().len(), 0);
        let Some(link) = self.links.as_ref().get(usize::from(port)).copied() else {
            return 0;
        };
        let (mut due, mut place) = (link.due, link.place);
        for _ in 0..all {
            if due == 0 || count == ITEMS {
                break;
            }
            place = if place + 1 < all { place + 1 } else { 0 };
            let Some(entry) = self
                .entry(place)
                .filter(|e| e.due.iter().any(|d| d & mask != 0))
            else {
                continue;
            };
            let inside = self.scope(entry.key, entry.way.wide) & mask != 0;
            let Some(entry) = self.entry_mut(place) else {
                continue;
            };
            for kind in [WAY, REQUEST, PART] {
                let says = entry.due.get(kind).is_some_and(|due| due & mask != 0);
                let room = items.get_mut(count).zip(sent.get_mut(count));
                let (true, Some((item, key))) = (says, room) else {
                    continue;
                };
                if let Some(due) = entry.due.get_mut(kind) {
                    *due &= !mask;
                }
                due = due.saturating_sub(1);
                let way = &entry.way;
                *item = Item {
                    says: Says::Route,
                    key: entry.key,
                    seq: way.seq,
                    metric: if inside { way.metric } else { INF },
                    hops: way.hops,
                    anchor: way.anchor,
                };
                match kind {
                    WAY if item.metric == INF && entry.told & mask == 0 => continue,
                    WAY => {
                        if way.wide {
                            item.says = Says::Wide;
                        }
                        entry.told |= mask;
                        entry.flying |= mask;
                    }
                    REQUEST => {
                        item.says = Says::Request;
                        item.seq = entry.wanted;
                    }
                    _ => {
                        item.says = Says::Parted;
                        item.anchor = entry.other;
                    }
                }
                *key = (kind as u8, entry.key);
                count += 1;
            }
        }
        if let Some(link) = self.link_mut(port) {
            link.due = due;
            // An entry may have more to say than there was room for.
            link.place = place.saturating_sub(1);
        }
        count
    }
}
