// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The routes of a node: one to each node of its area, and one to each other area.
//!
//! Neighbours tell each other the cost of their routes ([`super::update`]), and each takes the best
//! ([`super::entry`]). The death of a node, or of a link, changes the routes that pass it and no others.
//! Routes do not depend on the master.
//!
//! *An area that has come apart.* Of two parts only one can be found by the area. A part is known by its
//! *anchor*, the lowest id that is in it. A node at which ways to two parts meet for [`PARTED`] looks has the
//! part with the higher anchor told so. The nodes of that part stop being found by the area; they are told
//! by themselves, also outside. The reverse follows when that reason is gone.

use super::{
    super::{packet::MAX_BYTES, port::PORTS},
    area::{area, first, Key},
    entry::{bit, is_newer, Entry, Way, NOWHERE},
    link::Link,
    store::Store,
    update::{Item, Says, Update, INF, ITEMS},
};

/// Time between looks at what has to be asked for again, and at areas that have come apart.
pub const LOOK_MS: u64 = 200;
/// Number of looks after which an area has come apart: news need some time.
pub const PARTED: u8 = 5;
/// Time after which neighbours are to tell all again, if there was no memory for some of it.
pub const SHORT_MS: u64 = 5000;
/// Time for which a part is not found by its area though no way to another part is seen.
const APART_MS: u64 = 3000;

const WAY: usize = 0;
const REQUEST: usize = 1;
const PART: usize = 2;

/// The actions on a change of routes, and the way to neighbours.
pub trait Effects {
    /// Sends to the neighbour at `port`; the message may get lost.
    fn send(&mut self, port: u8, message: &[u8]);
    /// Traffic for the local ids from `first` to `last` leaves by `port` from now on, if there is no route
    /// to fewer ids; `None` for none.
    fn route(&mut self, first: u32, last: u32, port: Option<u8>);
}

/// The routes. `S` is memory for them.
pub struct Routes<S> {
    lid: u32,
    entries: S,
    links: [Link; PORTS],
    /// The next look.
    look: Option<u64>,
    /// This part of the area is not found by the area: until when at least.
    apart: Option<u64>,
    /// A destination was left out for want of memory; when neighbours are to tell all again.
    short: bool,
    again: Option<u64>,
}

impl<S: Store<Entry>> Routes<S> {
    /// Creates a table without routes, with all links down.
    pub fn new(entries: S) -> Self {
        Self {
            lid: 0,
            entries,
            links: [Link::DOWN; PORTS],
            look: None,
            apart: None,
            short: false,
            again: None,
        }
    }

    /// Returns the port by which traffic for `lid` leaves; `None`: there is no route.
    pub fn lookup(&self, lid: u32) -> Option<u8> {
        let port = |key| {
            let entry = self.find(key).ok().and_then(|at| self.entry(at));
            entry.map(|entry| entry.way.port)
        };
        // A node that has lost its route does not use that of the area: the area's may lead back here.
        let port = port(Key::node(lid)).or_else(|| port(Key::area(area(lid))));
        port.filter(|port| usize::from(*port) < PORTS)
    }

    /// Returns the destinations.
    pub fn entries(&self) -> &[Entry] {
        self.entries.all()
    }

    /// Returns the number of destinations.
    pub fn count(&self) -> usize {
        self.entries.all().len()
    }

    /// Returns whether a destination was left out for want of memory.
    pub fn is_short(&self) -> bool {
        self.short || self.again.is_some()
    }

    /// Returns when [`Self::tick`] is to be called, if nothing happens before.
    pub fn deadline(&self) -> Option<u64> {
        let again = self.links.iter().filter_map(Link::deadline);
        again.chain(self.look).chain(self.again).min()
    }

    /// The node has another local id; 0: none.
    pub fn set_lid(&mut self, now: u64, lid: u32, fx: &mut impl Effects) {
        if self.lid == lid {
            return;
        }
        let before = self.lid;
        self.lid = lid;
        self.apart = None;
        for key in own(lid) {
            self.place(key);
        }
        for key in own(before).chain(own(lid)) {
            if let Ok(at) = self.find(key) {
                self.refresh(now, at, fx);
            }
        }
        for port in 0..PORTS as u8 {
            if let Some(link) = self.link_mut(port).filter(|link| link.up) {
                link.hello = true;
                self.tell_all(port);
            }
        }
        self.speak(now, fx);
    }

    /// Takes note that a link is up, at this cost (0: it carries no data), or down (`None`).
    pub fn port(&mut self, now: u64, port: u8, cost: Option<u32>, fx: &mut impl Effects) {
        let Some(link) = self.link_mut(port) else {
            return;
        };
        match cost {
            Some(cost) if link.up && link.cost == cost => return,
            Some(cost) => {
                link.up = true;
                link.cost = cost;
                link.hello = true;
            }
            None if !link.up => return,
            None => *link = Link::DOWN,
        }
        if cost.is_none() {
            for entry in self.entries.all_mut() {
                entry.forget(port);
            }
        }
        self.refresh_all(now, fx);
        self.speak(now, fx);
    }

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

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: u64, fx: &mut impl Effects) {
        for port in 0..PORTS as u8 {
            let lost = self.link_mut(port).and_then(|link| link.lost(now));
            let Some((flight, count)) = lost else {
                continue;
            };
            for (kind, key) in flight.iter().take(count) {
                if let Ok(at) = self.find(*key) {
                    if usize::from(*kind) == WAY {
                        if let Some(entry) = self.entry_mut(at) {
                            entry.flying &= !bit(port);
                        }
                    }
                    self.due(at, usize::from(*kind), bit(port));
                }
            }
        }
        if self.look.is_some_and(|at| now >= at) {
            self.look(now, fx);
        }
        if self.again.is_some_and(|at| now >= at) {
            self.try_again(now, fx);
        }
        if self.short {
            self.again.get_or_insert(now + SHORT_MS);
        }
        self.speak(now, fx);
    }

    /// Has all that there was no memory for told again.
    fn try_again(&mut self, now: u64, fx: &mut impl Effects) {
        self.short = false;
        self.again = None;
        for key in own(self.lid) {
            if let Some(at) = self.place(key) {
                self.refresh(now, at, fx);
            }
        }
        for link in self.links.iter_mut().filter(|link| link.up) {
            (link.again, link.hello) = (true, true);
        }
    }

    // ---- entries -------------------------------------------------------------------------------

    fn find(&self, key: Key) -> Result<usize, usize> {
        self.entries.all().binary_search_by_key(&key, |e| e.key)
    }

    fn entry(&self, at: usize) -> Option<&Entry> {
        self.entries.all().get(at)
    }

    fn entry_mut(&mut self, at: usize) -> Option<&mut Entry> {
        self.entries.all_mut().get_mut(at)
    }

    fn link_mut(&mut self, port: u8) -> Option<&mut Link> {
        self.links.get_mut(usize::from(port))
    }

    /// Returns where the entry of a destination is, which is created if there is memory for it.
    fn place(&mut self, key: Key) -> Option<usize> {
        match self.find(key) {
            Ok(at) => Some(at),
            Err(at) => {
                let room = self.entries.insert(at, Entry::new(key));
                self.short |= !room;
                room.then_some(at)
            }
        }
    }

    /// Returns whether this node is the destination, or in it.
    fn is_here(&self, key: Key) -> bool {
        self.lid != 0
            && match key.is_area() {
                true => key == Key::area(area(self.lid)) && self.apart.is_none(),
                false => key == Key::node(self.lid),
            }
    }

    /// Returns the lowest local id of this node's part of its area, without the bits of the area.
    fn anchor(&self) -> u8 {
        let all = self.entries.all();
        let start = Key::node(first(area(self.lid)));
        let start = all.partition_point(|entry| entry.key < start);
        let own = Key::node(self.lid);
        let mut nodes = all.iter().skip(start).take_while(|entry| entry.key <= own);
        let lowest =
            nodes.find(|entry| entry.key == own || (entry.way.metric != INF && !entry.way.wide));
        lowest.map_or(own, |entry| entry.key).number() as u8
    }

    /// Returns the ports by which a destination is told.
    fn scope(&self, key: Key, wide: bool) -> u16 {
        let within = key.its_area();
        let mut mask = 0;
        for (link, port) in self.links.iter().zip(0u8..) {
            let inside = link.lid != 0 && area(link.lid) == within && area(self.lid) == within;
            if link.theirs.is_some() && (key.is_area() || wide || inside) {
                mask |= bit(port);
            }
        }
        mask
    }

    /// What this entry has to say by these ports is due.
    fn due(&mut self, at: usize, kind: usize, ports: u16) {
        let Some(due) = self.entry_mut(at).and_then(|entry| entry.due.get_mut(kind)) else {
            return;
        };
        let new = ports & !*due;
        *due |= ports;
        for (link, port) in self.links.iter_mut().zip(0u8..) {
            link.due += u32::from(new & bit(port) != 0);
        }
    }

    /// All ways are due at a port: the neighbour is new, or is in another area.
    fn tell_all(&mut self, port: u8) {
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

    fn refresh_all(&mut self, now: u64, fx: &mut impl Effects) {
        for at in 0..self.entries.all().len() {
            self.refresh(now, at, fx);
        }
        self.remove_idle();
        self.count_due();
    }

    /// Counts anew what is due at each link.
    fn count_due(&mut self) {
        for (link, port) in self.links.iter_mut().zip(0u8..) {
            let entries = self.entries.all().iter();
            let due = entries
                .flat_map(|e| e.due)
                .filter(|due| due & bit(port) != 0);
            link.due = due.count() as u32;
        }
    }

    fn remove_idle(&mut self) {
        let mut at = self.entries.all().len();
        while at > 0 {
            at -= 1;
            if self.entry(at).is_some_and(Entry::is_idle) {
                self.entries.remove(at);
            }
        }
    }

    /// Chooses the way to a destination anew, and does what follows from a change.
    fn refresh(&mut self, now: u64, at: usize, fx: &mut impl Effects) {
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
        let links = &self.links;
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
    fn ask(&mut self, at: usize) {
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

    // ---- messages ------------------------------------------------------------------------------

    fn item(&mut self, now: u64, port: u8, item: &Item, fx: &mut impl Effects) {
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
    fn renew(&mut self, now: u64, at: usize, seq: u16, fx: &mut impl Effects) {
        let Some(entry) = self.entry_mut(at) else {
            return;
        };
        let key = entry.key;
        entry.way.seq = seq;
        self.refresh(now, at, fx);
        if key.is_area() {
            let within = key.its_area();
            let inside = |link: &Link| link.lid != 0 && area(link.lid) == within;
            let links = self
                .links
                .iter()
                .zip(0u8..)
                .filter(|(link, _)| inside(link));
            let ports = links.fold(0, |mask, (_, port)| mask | bit(port));
            self.due(at, WAY, ports);
        }
    }

    /// A neighbour wants a newer sequence number.
    fn request(&mut self, now: u64, port: u8, item: &Item, fx: &mut impl Effects) {
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

    /// There is another part of an area, with this anchor.
    fn part(&mut self, now: u64, from: Option<u8>, key: Key, anchor: u8, fx: &mut impl Effects) {
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
        let inside = self.links.iter().zip(0u8..);
        let inside = inside.filter(|(link, _)| link.lid != 0 && area(link.lid) == area(self.lid));
        let ports = inside.fold(0, |mask, (_, port)| mask | bit(port));
        self.due(at, PART, ports);
        // First each node by itself, then no more by the area.
        for key in own(self.lid) {
            if let Ok(at) = self.find(key) {
                self.refresh(now, at, fx);
            }
        }
    }

    /// An item has arrived.
    fn landed(&mut self, port: u8, kind: usize, key: Key) {
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

    /// Asks again for what is still wanted, and finds areas that have come apart.
    fn look(&mut self, now: u64, fx: &mut impl Effects) {
        self.look = None;
        let mut again = false;
        for at in 0..self.entries.all().len() {
            let links = &self.links;
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
            let other = whole.and_then(|at| self.entry(at)).is_some_and(|entry| {
                let outside = entry.heard().filter(|h| h.anchor < anchor);
                outside.count() != 0
            });
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

    /// Sends what is due.
    fn speak(&mut self, now: u64, fx: &mut impl Effects) {
        for port in 0..PORTS as u8 {
            let Some(link) = self.links.get(usize::from(port)).filter(|link| link.up) else {
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
    fn collect(
        &mut self,
        port: u8,
        items: &mut [Item; ITEMS],
        sent: &mut [(u8, Key); ITEMS],
    ) -> usize {
        let mask = bit(port);
        let (all, mut count) = (self.entries.all().len(), 0);
        let Some(link) = self.links.get(usize::from(port)).copied() else {
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

/// Returns the destinations that a node with a local id is, or is in.
fn own(lid: u32) -> impl Iterator<Item = Key> {
    let keys = [Key::node(lid), Key::area(area(lid))];
    keys.into_iter().filter(move |_| lid != 0)
}
