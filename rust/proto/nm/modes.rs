// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The manager of a node in a fabric of any size: as one in which every node explores, until the fabric has more
//! nodes than that carries, and as one of a large fabric from then on.
//!
//! A host that finds too many nodes changes the mode, and so does a node that hears a neighbour that has
//! changed it. A node keeps its local id, its assignments, and the routes that it has. A route that the large mode
//! finds takes the place of the former one to that local id for good. So a packet follows former routes until it meets
//! a node that has a new one, and new ones from there on: the neighbour that a new route leads to has one
//! as well. Neither goes round in circles, and what was in reach stays in reach. A former route by a link that goes down
//! is lost.
//!
//! A node does not change back: one that starts again begins anew, and is told by its neighbours.

use super::{
    allow::Allowed,
    member::Member,
    node,
    port::{Port, PORTS},
    scale::{self, area::area, letter, state, update, Memory},
    table::Slot,
};

/// The actions of the machine in either mode.
pub trait Effects: node::Effects {
    /// Traffic for the local ids from `first` to `last` leaves by `port` from now on, if there is no route
    /// to fewer ids; `None` for none. What [`super::table::Effects::route`] has set for them is over.
    fn routes(&mut self, first: u32, last: u32, port: Option<u8>);
    /// The mode has changed.
    fn grown(&mut self) {}
    /// See [`scale::Effects::found`].
    fn found(&mut self, _name: &letter::Name) {}
}

/// Effects of the large mode: also the ranges for which there are routes.
struct Acts<'a, E> {
    fx: &'a mut E,
    /// As many as one call can change at the most are no more than that: the rest is found by a look at all.
    ranges: [(u32, u32); 32],
    count: usize,
}

impl<E: Effects> scale::routes::Effects for Acts<'_, E> {
    fn send(&mut self, port: u8, message: &[u8]) {
        node::Effects::send(self.fx, port, message);
    }

    fn route(&mut self, first: u32, last: u32, port: Option<u8>) {
        self.fx.routes(first, last, port);
        if port.is_some() {
            if let Some(place) = self.ranges.get_mut(self.count) {
                *place = (first, last);
            }
            self.count += 1;
        }
    }
}

impl<E: Effects> scale::Effects for Acts<'_, E> {
    fn lid(&mut self, lid: u32) {
        node::Effects::lid(self.fx, lid);
    }

    fn found(&mut self, name: &letter::Name) {
        self.fx.found(name);
    }

    fn assignments(&mut self, version: u32) {
        node::Effects::assignments(self.fx, version);
    }
}

/// Memory for the large mode: routes, directory, assignments.
pub type Spare<H> = (
    <H as Memory>::Routes,
    (<H as Memory>::Names, <H as Memory>::Holders),
    <H as Memory>::Bytes,
);

/// The manager.
pub struct Modes<M, T, B, A, H: Memory> {
    small: node::Node<M, T, B, A>,
    large: Option<scale::Node<H>>,
    spare: Option<Spare<H>>,
    ports: [Port; PORTS],
}

impl<M, T, B, A, H> Modes<M, T, B, A, H>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
    H: Memory,
{
    /// Creates a manager in the small mode; `spare` is memory for the other one.
    pub fn new(small: node::Node<M, T, B, A>, spare: Spare<H>) -> Self {
        Self {
            small,
            large: None,
            spare: Some(spare),
            ports: [Port::NONE; PORTS],
        }
    }

    /// Returns the machine of the large mode, if that is the mode.
    pub fn large(&self) -> Option<&scale::Node<H>> {
        self.large.as_ref()
    }

    /// Returns the local id, 0 if it has none.
    pub fn lid(&self) -> u32 {
        let large = self.large.as_ref().map(scale::Node::lid);
        large.unwrap_or_else(|| self.small.info().lid)
    }

    /// Returns the port by which traffic for `lid` leaves; `None`: there is no route.
    pub fn lookup(&self, lid: u32) -> Option<u8> {
        let new = self
            .large
            .as_ref()
            .and_then(|large| large.routes().lookup(lid));
        let mut former = self.small.table().routes();
        new.or_else(|| former.find(|(to, ..)| *to == lid).map(|(.., port)| port))
    }

    /// Takes the new state of a port: up, down, faster, slower, or excluded.
    pub fn port(&mut self, now: u64, number: u8, port: Port, fx: &mut impl Effects) {
        if let Some(place) = self.ports.get_mut(usize::from(number)) {
            *place = port;
        }
        if self.large.is_none() {
            self.small.port(now, number, port, fx);
            self.change(now, false, fx);
            return;
        }
        if !port.is_up() {
            let table = self.small.table_mut();
            table.withdraw(|_, by| by == number);
        }
        let port = if self.allows(number) {
            port
        } else {
            Port::NONE
        };
        self.act(fx, |large, acts| large.port(now, number, port, acts));
    }

    /// Returns whether there is a neighbour at a port that may take part.
    fn allows(&self, port: u8) -> bool {
        let port = self.ports.get(usize::from(port));
        port.is_some_and(|port| Allowed(self.small.allowed()).has(port.peer))
    }

    /// Takes a message from the neighbour at `port`. To be followed by [`Self::tick`] when no more
    /// messages are there.
    pub fn receive(&mut self, now: u64, port: u8, bytes: &[u8], fx: &mut impl Effects) {
        let magics = [state::MAGIC, update::MAGIC, letter::MAGIC];
        let grown = magics.iter().any(|magic| bytes.get(..4) == Some(magic));
        if !grown {
            if self.large.is_none() {
                self.small.receive(now, port, bytes, fx);
                self.change(now, false, fx);
            }
            return;
        }
        if self.allows(port) {
            self.change(now, true, fx);
            self.act(fx, |large, acts| large.receive(now, port, bytes, acts));
        }
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: u64, fx: &mut impl Effects) {
        if self.large.is_some() {
            self.act(fx, |large, acts| large.tick(now, acts));
        } else {
            self.small.tick(now, fx);
            self.change(now, false, fx);
        }
    }

    /// Returns when [`Self::tick`] is to be called, if nothing happens before.
    pub fn due(&self, now: u64) -> Option<u64> {
        match &self.large {
            Some(large) => large.deadline(),
            None => self.small.due(now),
        }
    }

    /// Changes the mode, if there are too many nodes, or a neighbour has changed it.
    fn change(&mut self, now: u64, told: bool, fx: &mut impl Effects) {
        if self.large.is_some() || !(told || self.small.members().left_out().0) {
            return;
        }
        let Some((routes, directory, bytes)) = self.spare.take() else {
            return;
        };
        let me = *self.small.info();
        let ids = (me.lid, if me.lid == 0 { 0 } else { me.next_lid });
        let mut large = scale::Node::new(me.hwid, me.life, ids, routes, directory, bytes);
        let kept = self.small.assignments();
        large.keep(kept.version(), kept.bytes());
        self.large = Some(large);
        fx.grown();
        self.act(fx, |large, acts| large.begin(now, acts));
        for (number, port) in (0u8..).zip(self.ports) {
            if port.is_up() && self.allows(number) {
                self.act(fx, |large, acts| large.port(now, number, port, acts));
            }
        }
    }

    /// Has the machine of the large mode do something. What it finds a route for has no former one any more.
    fn act<E: Effects>(
        &mut self,
        fx: &mut E,
        what: impl FnOnce(&mut scale::Node<H>, &mut Acts<'_, E>),
    ) {
        let Some(large) = self.large.as_mut() else {
            return;
        };
        let mut acts = Acts {
            fx,
            ranges: [(0, 0); 32],
            count: 0,
        };
        what(large, &mut acts);
        let (ranges, count) = (acts.ranges, acts.count);
        if count == 0 {
            return;
        }
        let within = area(large.lid());
        let all = ranges.get(..count);
        self.small.table_mut().withdraw(|lid, _| match all {
            // A node of this area has a route of its own, or its former one.
            Some(all) => all.iter().any(|(first, last)| {
                (*first..=*last).contains(&lid) && (first == last || area(lid) != within)
            }),
            None => large.routes().lookup(lid).is_some(),
        });
    }
}
