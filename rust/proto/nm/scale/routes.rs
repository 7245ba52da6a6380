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

mod choice;
mod hear;
mod parts;
mod speak;

use super::{
    super::port::PORTS,
    area::{area, Key},
    entry::{bit, Entry},
    link::Link,
    store::Store,
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

/// The routes. `S` is memory for them, `L` for links, one for each port.
pub struct Routes<S, L> {
    lid: u32,
    entries: S,
    links: L,
    /// The next look.
    look: Option<u64>,
    /// This part of the area is not found by the area: until when at least.
    apart: Option<u64>,
    /// A destination was left out for want of memory; when neighbours are to tell all again.
    short: bool,
    again: Option<u64>,
}

impl<S: Store<Entry>, L: AsRef<[Link]> + AsMut<[Link]>> Routes<S, L> {
    /// Creates a table that has not begun.
    pub fn new(entries: S, links: L) -> Self {
        Self {
            lid: 0,
            entries,
            links,
            look: None,
            apart: None,
            short: false,
            again: None,
        }
    }

    /// Begins without routes, with all links down.
    pub fn begin(&mut self) {
        self.lid = 0;
        self.entries.clear();
        self.links.as_mut().fill(Link::DOWN);
        self.look = None;
        self.apart = None;
        self.short = false;
        self.again = None;
    }

    /// Returns the port by which traffic for `lid` leaves; `None`: there is no route.
    pub fn lookup(&self, lid: u32) -> Option<u8> {
        // A node that has lost its route does not use that of the area: the area's may lead back here.
        let of_area = || self.port_to(Key::area(area(lid)));
        leaves(self.port_to(Key::node(lid)).or_else(of_area))
    }

    /// Returns the same by the node's own destination, and by no area's.
    pub fn lookup_node(&self, lid: u32) -> Option<u8> {
        leaves(self.port_to(Key::node(lid)))
    }

    /// Returns the port of the entry of a destination, which is none if the route is lost.
    fn port_to(&self, key: Key) -> Option<u8> {
        let entry = self.find(key).ok().and_then(|at| self.entry(at));
        entry.map(|entry| entry.way.port)
    }

    /// Returns the destinations.
    pub fn entries(&self) -> &[Entry] {
        self.entries.all()
    }

    /// Returns the number of destinations.
    #[cfg_attr(MODULE, expect(dead_code, reason = "used by weft-sim"))]
    pub fn count(&self) -> usize {
        self.entries.all().len()
    }

    /// Returns whether a destination was left out for want of memory.
    pub fn is_short(&self) -> bool {
        self.short || self.again.is_some()
    }

    /// Returns when [`Self::tick`] is to be called, if nothing happens before.
    pub fn deadline(&self) -> Option<u64> {
        let again = self.links.as_ref().iter().filter_map(Link::deadline);
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
        for link in self.links.as_mut().iter_mut().filter(|link| link.up) {
            (link.again, link.hello) = (true, true);
        }
    }

    /// Returns whether there is a neighbour at a port.
    pub fn is_up(&self, port: u8) -> bool {
        let link = self.links.as_ref().get(usize::from(port));
        link.is_some_and(|link| link.up)
    }

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
        self.links.as_mut().get_mut(usize::from(port))
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

    /// Returns the ports of the neighbours that are in the area of this node.
    fn inside(&self) -> u16 {
        let links = self.links.as_ref().iter().zip(0u8..);
        let inside = links.filter(|(link, _)| link.lid != 0 && area(link.lid) == area(self.lid));
        inside.fold(0, |mask, (_, port)| mask | bit(port))
    }

    /// Returns whether this node is the destination, or in it.
    fn is_here(&self, key: Key) -> bool {
        self.lid != 0
            && match key.is_area() {
                true => key == Key::area(area(self.lid)) && self.apart.is_none(),
                false => key == Key::node(self.lid),
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
}

/// Returns the port by which a route leaves, if it has one.
fn leaves(port: Option<u8>) -> Option<u8> {
    port.filter(|port| usize::from(*port) < PORTS)
}

/// Returns the destinations that a node with a local id is, or is in.
fn own(lid: u32) -> impl Iterator<Item = Key> {
    let keys = [Key::node(lid), Key::area(area(lid))];
    keys.into_iter().filter(move |_| lid != 0)
}
