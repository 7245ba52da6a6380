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
//! A way may be another one then. So a node changes the mode when nothing is under way over its routes, and begins
//! nothing until its routes have not changed for [`CALM_MS`]. No route to a node changes before the node has changed the
//! mode, so nothing is under way at either end of a way that changes; a node that does not come to rest in
//! [`REST_WHOLE_MS`] may lose something.
//!
//! A node does not change back: one that starts again begins anew, and is told by its neighbours.

use super::{
    allow::Allowed,
    member::Member,
    message::Taken,
    node::{self, rest::REST_WHOLE_MS, Role, TICK_MS},
    port::{Port, PORTS},
    scale::{self, area::area, letter, state, update, Memory, Parts},
    table::{Slot, Table},
};

/// Time without a change of routes after which a node goes on that has changed the mode.
pub const CALM_MS: u64 = 1000;
/// Time after which it goes on in any case: before the quiesce ends by itself.
pub const CALM_WHOLE_MS: u64 = 2500;
const _: () = assert!(CALM_WHOLE_MS < node::LEASE_MS && REST_WHOLE_MS < node::LEASE_MS);

/// First bytes of messages of the large mode.
pub const MAGICS: [[u8; 4]; 3] = [state::MAGIC, update::MAGIC, letter::MAGIC];

/// The actions of the machine in either mode.
pub trait Effects: node::Effects {
    /// Traffic for the local ids from `first` to `last` leaves by `port` from now on, if there is no route
    /// to fewer ids; `None` for none.
    fn routes(&mut self, first: u32, last: u32, port: Option<u8>);
    /// Returns whether the mode may change, as it is about to.
    fn may_grow(&mut self) -> bool {
        true
    }
    /// The mode has changed.
    fn grown(&mut self) {}
    /// See [`scale::Effects::found`].
    fn found(&mut self, _name: &letter::Name) {}
}

/// Effects of the large mode: what it finds a route for has no former one any more.
struct Acts<'a, E, T> {
    fx: &'a mut E,
    former: &'a mut Table<T>,
    /// The area of the node.
    within: u32,
    /// A route has changed.
    moved: bool,
}

impl<E: Effects, T: AsRef<[Slot]> + AsMut<[Slot]>> scale::routes::Effects for Acts<'_, E, T> {
    fn send(&mut self, port: u8, message: &[u8]) {
        node::Effects::send(self.fx, port, message);
    }

    fn route(&mut self, first: u32, last: u32, port: Option<u8>) {
        self.fx.routes(first, last, port);
        self.moved = true;
        // A node of this area has a route of its own, or its former one.
        if port.is_none() || (first != last && area(first) == self.within) {
            return;
        }
        let fx = &mut *self.fx;
        self.former.withdraw(
            |lid, _| (first..=last).contains(&lid),
            |lid| {
                if first != last {
                    fx.route(lid, None);
                }
            },
        );
    }
}

impl<E: Effects, T: AsRef<[Slot]> + AsMut<[Slot]>> scale::Effects for Acts<'_, E, T> {
    fn lid(&mut self, lid: u32) {
        self.within = area(lid);
        node::Effects::lid(self.fx, lid);
    }

    fn found(&mut self, name: &letter::Name) {
        self.fx.found(name);
    }

    fn assignments(&mut self, version: u32) {
        node::Effects::assignments(self.fx, version);
    }
}

/// The manager.
pub struct Modes<M, T, B, A, H: Memory> {
    small: node::Node<M, T, B, A>,
    large: scale::Node<H>,
    /// The mode is the large one.
    grown: bool,
    /// Most nodes in the small mode; 0: the mode does not change.
    limit: usize,
    ports: [Port; PORTS],
    /// The mode is to change when nothing is under way: until when that is waited for.
    growing: Option<u64>,
    /// The mode has changed, and routes are quiesced: until when, if they do not change again, and at the latest.
    calm: Option<(u64, u64)>,
}

impl<M, T, B, A, H> Modes<M, T, B, A, H>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
    H: Memory,
{
    /// Creates a manager in the small mode, which changes it when there are more nodes than `small` has memory for;
    /// `parts` is memory for the other one.
    pub fn new(small: node::Node<M, T, B, A>, parts: Parts<H>) -> Self {
        Self {
            small,
            large: scale::Node::new(parts),
            grown: false,
            limit: usize::MAX,
            ports: [Port::NONE; PORTS],
            growing: None,
            calm: None,
        }
    }

    /// Begins a new incarnation, in the small mode: see [`node::Node::begin`].
    pub fn begin(&mut self, hwid: u64, life: u32) {
        self.small.begin(hwid, life);
        // Nothing of what it was is left in memory.
        self.large.begin(0, 0, (0, 0));
        self.grown = false;
        self.ports = [Port::NONE; PORTS];
        self.growing = None;
        self.calm = None;
    }

    /// Returns the machine of the small mode, which does nothing in the other one.
    pub fn small(&self) -> &node::Node<M, T, B, A> {
        &self.small
    }

    /// Returns the machine of the small mode, to be changed by what is not in the other one.
    pub fn small_mut(&mut self) -> &mut node::Node<M, T, B, A> {
        &mut self.small
    }

    /// Returns the machine of the large mode, if that is the mode.
    pub fn large(&self) -> Option<&scale::Node<H>> {
        self.grown.then_some(&self.large)
    }

    /// Returns the hardware id.
    pub fn hwid(&self) -> u64 {
        self.small.info().hwid
    }

    /// Returns the local id, 0 if it has none.
    pub fn lid(&self) -> u32 {
        let large = self.large().map(scale::Node::lid);
        large.unwrap_or_else(|| self.small.info().lid)
    }

    /// Returns the neighbours at the ports of the node.
    pub fn ports(&self) -> &[Port; PORTS] {
        &self.ports
    }

    /// Returns the role of the node.
    pub fn role(&self) -> Role {
        match self.large() {
            Some(large) if !large.is_settled() => Role::Unknown,
            Some(large) if large.leads() => Role::Master,
            Some(_) => Role::Standby,
            None => self.small.role(),
        }
    }

    /// Returns the hardware id of the master as far as the node knows, 0 if it does not know; and the term that it
    /// obeys.
    pub fn master(&self) -> (u64, u32) {
        match self.large() {
            Some(large) => {
                let obeyed = large.mastership();
                let settled = large.is_settled();
                (if settled { obeyed.master } else { 0 }, obeyed.term)
            }
            None => (self.small.master(), self.small.info().mastership.term),
        }
    }

    /// Returns the version of the assignments, and the assignments.
    pub fn assignments(&self) -> (u32, &[u8]) {
        match self.large() {
            Some(large) => (large.assignments().version(), large.assignments().bytes()),
            None => {
                let kept = self.small.assignments();
                (kept.version(), kept.bytes())
            }
        }
    }

    /// Takes new assignments of the administrator. Returns whether it took them: only a master does, if
    /// it has room for them.
    pub fn set_assignments(&mut self, now: u64, bytes: &[u8], fx: &mut impl Effects) -> bool {
        if !self.grown {
            return self.small.set_assignments(now, bytes, fx);
        }
        let mut taken = false;
        self.act(now, fx, |large, acts| {
            taken = large.set_assignments(now, bytes, acts);
        });
        taken
    }

    /// Asks the master for a change of the assignments: see [`node::Node::amend`]. At scale none is made (`Bad`): no
    /// master there can tell which host asks.
    pub fn amend(&mut self, now: u64, change: &[u8], fx: &mut impl Effects) -> Taken {
        match self.grown {
            true => Taken::Bad,
            false => self.small.amend(now, change, fx),
        }
    }

    /// Asks the master for the local id of the node with a hardware id: see [`scale::Node::find`]. In the small mode
    /// nothing is asked.
    pub fn find(&mut self, now: u64, hwid: u64, fx: &mut impl Effects) {
        if self.grown {
            self.act(now, fx, |large, acts| large.find(now, hwid, acts));
        }
    }

    /// Returns the port by which traffic for `lid` leaves; `None`: there is no route.
    #[cfg_attr(MODULE, expect(dead_code, reason = "used by weft-sim"))]
    pub fn lookup(&self, lid: u32) -> Option<u8> {
        let large = self.large().map(scale::Node::routes);
        let node = large.and_then(|routes| routes.lookup_node(lid));
        let mut former = self.small.table().routes();
        // As ports look up: a former route of the small mode is one to a node, and before all those to areas.
        node.or_else(|| former.find(|(to, ..)| *to == lid).map(|(.., port)| port))
            .or_else(|| large?.lookup(lid))
    }

    /// Returns the most nodes in the small mode; 0: the mode does not change.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Sets the most nodes in the small mode, as [`Self::tick`] then finds; 0: the mode does not change.
    pub fn set_limit(&mut self, most: usize) {
        self.limit = most;
    }

    /// Takes the new state of a port: up, down, faster, slower, or excluded.
    pub fn port(&mut self, now: u64, number: u8, port: Port, fx: &mut impl Effects) {
        if !self.grown {
            if let Some(place) = self.ports.get_mut(usize::from(number)) {
                *place = port;
            }
            self.small.port(now, number, port, fx);
            self.change(now, false, fx);
            return;
        }
        let port = if Allowed(self.small.allowed()).has(port.peer) {
            port
        } else {
            Port::NONE
        };
        let Some(place) = self.ports.get_mut(usize::from(number)) else {
            return;
        };
        if core::mem::replace(place, port) == port {
            return;
        }
        if !port.is_up() {
            let table = self.small.table_mut();
            table.withdraw(|_, by| by == number, |lid| fx.route(lid, None));
        }
        self.act(now, fx, |large, acts| large.port(now, number, port, acts));
    }

    /// Returns whether there is a neighbour at a port that may take part.
    fn allows(&self, port: u8) -> bool {
        let port = self.ports.get(usize::from(port));
        port.is_some_and(|port| Allowed(self.small.allowed()).has(port.peer))
    }

    /// Takes a message from the neighbour at `port`. To be followed by [`Self::tick`] when no more
    /// messages are there.
    pub fn receive(&mut self, now: u64, port: u8, bytes: &[u8], fx: &mut impl Effects) {
        if !is_large(bytes) {
            if !self.grown {
                self.small.receive(now, port, bytes, fx);
                self.change(now, false, fx);
            }
            return;
        }
        if self.allows(port) {
            self.change(now, true, fx);
            self.act(now, fx, |large, acts| large.receive(now, port, bytes, acts));
        }
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: u64, fx: &mut impl Effects) {
        if self.grown {
            self.act(now, fx, |large, acts| large.tick(now, acts));
            if self
                .calm
                .is_some_and(|(until, last)| now >= until.min(last))
            {
                self.calm = None;
                fx.rest(false);
            }
        } else {
            self.small.tick(now, fx);
            self.change(now, false, fx);
        }
    }

    /// Returns when [`Self::tick`] is to be called, if nothing happens before.
    pub fn due(&self, now: u64) -> Option<u64> {
        let (due, more) = match self.large() {
            Some(large) => {
                let calm = self.calm.map(|(until, last)| until.min(last));
                (large.deadline(), calm)
            }
            None => (self.small.due(now), self.growing.map(|_| now + TICK_MS)),
        };
        due.into_iter().chain(more).min()
    }

    /// Changes the mode, if there are too many nodes, or a neighbour has changed it, as soon as nothing is under way
    /// over routes.
    fn change(&mut self, now: u64, told: bool, fx: &mut impl Effects) {
        if self.grown {
            return;
        }
        let members = self.small.members();
        let many = || members.left_out().0 || members.all().len() > self.limit;
        if self.growing.is_none() && self.limit != 0 && (told || many()) && fx.may_grow() {
            self.growing = Some(now + REST_WHOLE_MS);
            fx.rest(true);
        }
        if self
            .growing
            .is_some_and(|until| now >= until || fx.is_at_rest())
        {
            self.growing = None;
            self.grow(now, fx);
        }
    }

    fn grow(&mut self, now: u64, fx: &mut impl Effects) {
        let me = *self.small.info();
        let ids = (me.lid, if me.lid == 0 { 0 } else { me.next_lid });
        self.large.begin(me.hwid, me.life, ids);
        let kept = self.small.assignments();
        self.large.keep(kept.version(), kept.bytes());
        self.grown = true;
        // The lease begins anew.
        fx.rest(true);
        self.calm = Some((now + CALM_MS, now + CALM_WHOLE_MS));
        fx.grown();
        self.act(now, fx, |large, acts| large.enter(now, acts));
        for number in 0..PORTS as u8 {
            let allowed = self.allows(number);
            let Some(port) = self.ports.get_mut(usize::from(number)) else {
                break;
            };
            if !allowed {
                *port = Port::NONE;
            }
            let port = *port;
            if port.is_up() {
                self.act(now, fx, |large, acts| large.port(now, number, port, acts));
            }
        }
    }

    /// Has the machine of the large mode do something, if that is the mode.
    fn act<E: Effects>(
        &mut self,
        now: u64,
        fx: &mut E,
        what: impl FnOnce(&mut scale::Node<H>, &mut Acts<'_, E, T>),
    ) {
        if !self.grown {
            return;
        }
        let within = area(self.large.lid());
        let mut acts = Acts {
            fx,
            former: self.small.table_mut(),
            within,
            moved: false,
        };
        what(&mut self.large, &mut acts);
        if let Some((until, _)) = self.calm.as_mut().filter(|_| acts.moved) {
            *until = now + CALM_MS;
        }
    }
}

/// Returns whether a message is one of the large mode.
pub fn is_large(message: &[u8]) -> bool {
    MAGICS.iter().any(|magic| message.get(..4) == Some(magic))
}
