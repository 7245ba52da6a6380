// SPDX-License-Identifier: GPL-2.0

//! What other modules see of the manager: the state of this node, the nodes of the fabric, and the
//! routes. What users are told of it.
//!
//! While the machine looks for nodes, this has what it had found before.

use super::Machine;
use crate::{
    proto::{
        mr::hierarchy::{self, Hierarchy},
        nm::{
            member::{Member, Members},
            node,
        },
        pace::Pace,
    },
    sys::{memory::Memory, sysfs, trace, uevent},
};
use kernel::{device::Device, prelude::*};

/// The role of a node, as in the user interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// It does not know yet.
    Unknown = 0,
    Standby = 1,
    Master = 2,
}

impl Role {
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Unknown => c"unknown",
            Self::Standby => c"standby",
            Self::Master => c"master",
        }
    }
}

/// The state of this node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) role: Role,
    /// Local id; 0: none.
    pub(crate) lid: u32,
    /// Hardware id; 0: none.
    pub(crate) master: u64,
    pub(crate) term: u32,
    /// How many nodes answer, this one included.
    pub(crate) nodes: u32,
    /// To how many local ids there is a route from here.
    pub(crate) routes: u32,
    /// Incremented when the host's hierarchy changes.
    pub(crate) hierarchy: u32,
}

impl Standing {
    /// The state of a node that has found no other yet.
    const NONE: Self = Self {
        role: Role::Unknown,
        lid: 0,
        master: 0,
        term: 0,
        nodes: 0,
        routes: 0,
        hierarchy: 0,
    };
}

/// What the manager publishes.
pub(crate) struct View {
    state: Standing,
    members: Members<Memory<Member>>,
    /// Incremented when the members are updated.
    serial: u32,
    /// The value of the machine's `found` for these members.
    found: Option<u32>,
    /// The routes in use: local id, number of links, first link.
    routes: Memory<(u32, u8, u8)>,
    /// The host's hierarchy, its length in bytes (0: none), and how often it has changed.
    hierarchy: Memory<u8>,
    hierarchy_bytes: usize,
    hierarchies: u32,
}

impl View {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            state: Standing::NONE,
            members: Members::new(Memory::new(Member::NONE, node::MAX_NODES)?),
            serial: 0,
            found: None,
            routes: Memory::new((0, 0, 0), node::MAX_NODES)?,
            hierarchy: Memory::new(0, hierarchy::MAX_BYTES)?,
            hierarchy_bytes: 0,
            hierarchies: 0,
        })
    }

    /// Returns the state of this node.
    pub(crate) fn standing(&self) -> Standing {
        self.state
    }

    /// Returns a number that changes with [`Self::members`].
    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    /// Returns all members, this node first, each with the path to it.
    pub(crate) fn members(&self) -> &[Member] {
        self.members.all()
    }

    /// Returns the routes in use: local id, number of links, and the link by which they begin.
    pub(crate) fn routes(&self) -> &[(u32, u8, u8)] {
        let count = self.state.routes as usize;
        self.routes.as_ref().get(..count).unwrap_or_default()
    }

    /// Returns the host's virtual hierarchy, if it has received one. Changes with
    /// [`Standing::hierarchy`].
    pub(crate) fn hierarchy(&self) -> Option<Hierarchy<'_>> {
        let bytes = self.hierarchy.as_ref().get(..self.hierarchy_bytes)?;
        Hierarchy::parse(bytes).ok()
    }

    /// Stores another hierarchy; no bytes: none.
    pub(super) fn set_hierarchy(&mut self, bytes: &[u8]) {
        let to = self.hierarchy.as_mut().get_mut(..bytes.len());
        self.hierarchy_bytes = to.map_or(0, |to| {
            to.copy_from_slice(bytes);
            bytes.len()
        });
        self.hierarchies = self.hierarchies.wrapping_add(1);
    }

    /// Takes over the present state of the machine.
    pub(super) fn update(&mut self, machine: &Machine) {
        let me = machine.info();
        if let Some(found) = machine.found().filter(|found| self.found != Some(*found)) {
            self.found = Some(found);
            self.serial = self.serial.wrapping_add(1);
            self.members.copy(machine.members());
        }
        let mut count = 0;
        for ((lid, links, port), place) in machine.table().routes().zip(self.routes.as_mut()) {
            *place = (lid, links as u8, port);
            count += 1;
        }
        let role = match machine.role() {
            node::Role::Unknown => None,
            node::Role::Master => Some(Role::Master),
            node::Role::Standby => Some(Role::Standby),
        };
        let known = self.members.all().iter().filter(|m| m.known);
        self.state = Standing {
            // A master that looks for new nodes is still the master.
            role: role.unwrap_or(self.state.role),
            lid: me.lid,
            master: role.map_or(self.state.master, |_| machine.master()),
            term: me.mastership.term,
            nodes: known.count() as u32,
            routes: count,
            hierarchy: self.hierarchies,
        };
    }
}

/// The most uevents in a second: a master, or a neighbour that flaps its link, can change the state of this node
/// far more often than udev can follow.
const EVENTS: usize = 4;

/// What uevents have said.
pub(super) struct Events {
    said: Standing,
    pace: Pace<EVENTS>,
}

impl Events {
    pub(super) const fn new() -> Self {
        Self {
            said: Standing::NONE,
            pace: Pace::new(),
        }
    }

    /// Sends a uevent if `state` is not what the last one has said. Returns after how many milliseconds to call
    /// this again, if it cannot be sent now: changes until then are one.
    pub(super) fn say(&mut self, dev: &Device, state: &Standing, now: u64) -> Option<u64> {
        if told(&self.said) == told(state) {
            return None;
        }
        let wait = self.pace.wait(now);
        if wait.is_none() {
            self.said = *state;
            send(dev, state);
        }
        wait
    }
}

/// Returns the part of the state whose changes send a uevent. The number of nodes and of routes is not
/// among it.
fn told(me: &Standing) -> (Role, u32, u64, u32, u32) {
    (me.role, me.lid, me.master, me.term, me.hierarchy)
}

/// Notifies readers of the files in sysfs that have changed.
pub(super) fn tell(dev: &Device, before: &Standing, after: &Standing) {
    let files = [
        (before.role != after.role, c"role"),
        (before.lid != after.lid, c"lid"),
        (before.master != after.master, c"master"),
        (before.term != after.term, c"term"),
        (before.nodes != after.nodes, c"nodes"),
        (before.routes != after.routes, c"routes"),
        (before.hierarchy != after.hierarchy, c"hierarchy"),
    ];
    for (_, file) in files.iter().filter(|(changed, _)| *changed) {
        sysfs::notify(dev, Some(c"manager"), file);
    }
    trace::manager(
        dev,
        after.role as u32,
        after.lid,
        after.master,
        after.term,
        after.nodes,
        after.routes,
    );
}

fn send(dev: &Device, state: &Standing) {
    uevent::change(
        dev,
        &[
            fmt!("WEFT_ROLE={}", state.role.name()),
            fmt!("WEFT_LID={}", state.lid),
            fmt!("WEFT_MASTER={:#018x}", state.master),
            fmt!("WEFT_TERM={}", state.term),
            fmt!("WEFT_HIERARCHY={}", state.hierarchy),
        ],
    );
}
