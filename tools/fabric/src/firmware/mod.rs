// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What runs in a node without a host: the very network manager that the driver has
//! (`rust/proto/nm`), which obeys here and is never master, and the same policy of
//! power. Port-path packets that neighbours send come in, and what is to be done comes
//! out as [`Action`]s. It must not know what kind of node it runs in, nor how its
//! neighbours are reached.

pub mod heap;

use heap::Heap;
use weft_proto::mac::Mac;
use weft_proto::nm::{
    assignments::MAX_ASSIGNMENTS,
    mastership::Mastership,
    member::Member,
    modes::{self, Modes},
    node::{Effects, MAX_NODES, Node, Role, There},
    path::Path,
    port::{PORTS, Port},
    power::{Governor, Rate, Seen},
    table::{self, Slot},
};

/// What the node is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a message to the neighbour at a port.
    Send(u8, Vec<u8>),
    /// Traffic for a local id leaves by this port from now on, or by none.
    Route(u32, Option<u8>),
    /// The same for the local ids from the first to the last to which there is no route of their own.
    Area(u32, u32, Option<u8>),
}

/// The manager, which has no members, as it does not explore, and no list of hosts.
type Manager = Modes<[Member; 0], Vec<Slot>, Vec<u8>, [u64; 0], Heap>;

/// The manager of a node.
pub struct Firmware {
    node: Manager,
    /// One a port.
    governors: [Governor; PORTS],
}

/// What the node is in.
pub trait Surroundings {
    /// The hardware id of the node at the end of a path from here, if there is one.
    fn there(&self, path: &[u8]) -> Option<u64>;
    /// Whether that is true, and not only what nodes say of themselves.
    fn attests(&self) -> bool;
    /// Whether a mastership may write to the node; then it has.
    fn admits(&mut self, mastership: &Mastership) -> bool;
    /// Whether any host may manage the node: in the mode of a large fabric no host is attested.
    fn admits_all(&self) -> bool;
}

/// Those of a node to which nothing was written.
struct Nowhere;

impl Surroundings for Nowhere {
    fn there(&self, _path: &[u8]) -> Option<u64> {
        None
    }

    fn attests(&self) -> bool {
        true
    }

    fn admits(&mut self, _mastership: &Mastership) -> bool {
        false
    }

    fn admits_all(&self) -> bool {
        false
    }
}

/// What the manager wants done.
struct Done<'a> {
    actions: Vec<Action>,
    around: &'a mut dyn Surroundings,
}

impl table::Effects for Done<'_> {
    fn route(&mut self, lid: u32, port: Option<u8>) {
        self.actions.push(Action::Route(lid, port));
    }
}

/// A node without a host has no key.
impl Mac for Done<'_> {}

impl Effects for Done<'_> {
    fn send(&mut self, port: u8, message: &[u8]) {
        self.actions.push(Action::Send(port, message.to_vec()));
    }

    fn role(&mut self, _role: Role, _mastership: &Mastership) {}

    fn lid(&mut self, _lid: u32) {}

    fn assignments(&mut self, _version: u32) {}

    fn there(&mut self, path: &Path) -> There {
        self.around.there(path.ports()).map_or(There::Nothing, There::Node)
    }

    fn attests(&self) -> bool {
        self.around.attests()
    }

    fn admits(&mut self, mastership: &Mastership) -> bool {
        self.around.admits(mastership)
    }
}

impl modes::Effects for Done<'_> {
    fn routes(&mut self, first: u32, last: u32, port: Option<u8>) {
        self.actions.push(match first == last {
            true => Action::Route(first, port),
            false => Action::Area(first, last, port),
        });
    }

    fn may_grow(&mut self) -> bool {
        self.around.admits_all()
    }
}

impl Firmware {
    /// Of a node whose ports are all down. No two lives of a node have the same number.
    pub fn new(hwid: u64, life: u32) -> Self {
        let (slots, assignments) = (vec![Slot::NONE; 2 * MAX_NODES], vec![0; 2 * MAX_ASSIGNMENTS]);
        // What has no host has no hierarchy of its own.
        let bytes = [assignments, vec![], vec![]];
        let node = Node::new(hwid, life, [], slots, bytes, []);
        let node = Modes::new(node, Heap::parts());
        Firmware { node, governors: [Governor::default(); PORTS] }
    }

    /// Its local id, 0 if it has none.
    pub fn lid(&self) -> u32 {
        self.node.lid()
    }

    /// The neighbour at a port, and how fast the link is.
    pub fn port(&mut self, now: u64, number: u8, port: Port) -> Vec<Action> {
        self.work(&mut Nowhere, |node, fx| node.port(now, number, port, fx))
    }

    /// A message has come in by a port.
    pub fn receive(
        &mut self,
        now: u64,
        port: u8,
        bytes: &[u8],
        around: &mut dyn Surroundings,
    ) -> Vec<Action> {
        self.work(around, |node, fx| {
            node.receive(now, port, bytes, fx);
            // What that has it tell its neighbours has no time of its own.
            if node.large().is_some() {
                node.tick(now, fx);
            }
        })
    }

    /// Time has passed.
    pub fn tick(&mut self, now: u64) -> Vec<Action> {
        self.work(&mut Nowhere, |node, fx| node.tick(now, fx))
    }

    /// When [`Self::tick`] is to be called.
    pub fn due(&self, now: u64) -> Option<u64> {
        self.node.due(now)
    }

    /// How the link at a port is, or `None` if it is down or is not to follow its traffic.
    /// To be called when that changes, and when [`Self::watches`] says.
    pub fn watch(&mut self, now: u64, number: u8, seen: Option<Seen>) {
        if let Some(governor) = self.governors.get_mut(usize::from(number)) {
            governor.set(seen.is_some());
            governor.look(now, seen);
        }
    }

    /// When it wants to be told again how the link at a port is.
    pub fn watches(&self, number: u8) -> Option<u64> {
        self.governors.get(usize::from(number))?.due()
    }

    /// What it wants the link at a port to be, if not the most that it can.
    pub fn wants(&self, number: u8) -> Option<Rate> {
        self.governors.get(usize::from(number))?.target()
    }

    /// A master has written to the node by other means, by right of this mastership.
    pub fn accept(&mut self, mastership: Mastership) {
        self.node.small_mut().accept(mastership);
    }

    /// Whether it is in the mode of a large fabric.
    pub fn is_large(&self) -> bool {
        self.node.large().is_some()
    }

    fn work(
        &mut self,
        around: &mut dyn Surroundings,
        what: impl FnOnce(&mut Manager, &mut Done<'_>),
    ) -> Vec<Action> {
        let mut done = Done { actions: vec![], around };
        what(&mut self.node, &mut done);
        done.actions
    }
}
