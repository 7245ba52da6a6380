// SPDX-License-Identifier: GPL-2.0

//! What other modules see of the manager: the state of this node, the nodes of the fabric, and the
//! routes. What users are told of it.
//!
//! While the machine looks for nodes, this has what it had found before.

use super::{
    allow::Allow,
    heap::{Heap, MAX_DESTINATIONS},
    Machine,
};
use crate::{
    proto::{
        mr::hierarchy::{self, Hierarchy},
        nm::{
            member::{Member, Members},
            message::Info,
            node,
            port::{Port, PORTS},
            scale, table,
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

/// How the fabric is managed, as in the user interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Every host explores the whole fabric.
    Full,
    /// No host but the master knows all nodes.
    Scale,
}

impl Mode {
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Full => c"full",
            Self::Scale => c"scale",
        }
    }
}

/// The state of this node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) mode: Mode,
    pub(crate) role: Role,
    /// Local id; 0: none.
    pub(crate) lid: u32,
    /// Hardware id; 0: none.
    pub(crate) master: u64,
    pub(crate) term: u32,
    /// How many nodes answer, this one included; at scale, of a standby: that it has a route of their own to.
    pub(crate) nodes: u32,
    /// To how many local ids, and ranges of them, there is a route from here.
    pub(crate) routes: u32,
    /// Incremented when the host's hierarchy changes.
    pub(crate) hierarchy: u32,
}

impl Standing {
    /// The state of a node that has found no other yet.
    const NONE: Self = Self {
        mode: Mode::Full,
        role: Role::Unknown,
        lid: 0,
        master: 0,
        term: 0,
        nodes: 0,
        routes: 0,
        hierarchy: 0,
    };
}

/// A route in use.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    /// First local id.
    pub(crate) lid: u32,
    /// Last local id.
    pub(crate) last: u32,
    /// The number of links, to the nearest if it leads to several nodes.
    pub(crate) hops: u8,
    /// The link by which it begins.
    pub(crate) link: u8,
}

impl Route {
    const NONE: Self = Self {
        lid: 0,
        last: 0,
        hops: 0,
        link: 0,
    };
}

/// What the manager publishes.
pub(crate) struct View {
    state: Standing,
    members: Members<Memory<Member>>,
    /// At scale: the neighbours that the only member has.
    ports: [Port; PORTS],
    /// Incremented when the members are updated.
    serial: u32,
    /// The value of the machine's `found` for these members.
    found: Option<u32>,
    /// The routes in use, those to single nodes first.
    routes: Memory<Route>,
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
            ports: [Port::NONE; PORTS],
            serial: 0,
            found: None,
            routes: Memory::new(Route::NONE, node::MAX_NODES + MAX_DESTINATIONS)?,
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

    /// Returns the routes in use, those to single nodes first.
    fn all_routes(&self) -> &[Route] {
        let count = self.state.routes as usize;
        self.routes.as_ref().get(..count).unwrap_or_default()
    }

    /// Returns the routes in use to single nodes.
    pub(crate) fn routes(&self) -> &[Route] {
        let all = self.all_routes();
        let single = all.iter().take_while(|route| route.lid == route.last);
        all.get(..single.count()).unwrap_or_default()
    }

    /// Returns the number of links of the route to a local id, if there is one. Where that is not known it is
    /// more than the distance to the nearest node that the same route leads to.
    pub(super) fn hops_to(&self, lid: u32) -> Option<u8> {
        let mut all = self.all_routes().iter();
        let route = all.find(|route| (route.lid..=route.last).contains(&lid))?;
        Some(match route.lid == route.last {
            true => route.hops,
            false => route.hops.saturating_add(1),
        })
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
        if let Some(large) = machine.large() {
            self.update_large(machine, large);
            return;
        }
        let machine = machine.small();
        let me = machine.info();
        if let Some(found) = machine.found().filter(|found| self.found != Some(*found)) {
            self.found = Some(found);
            self.serial = self.serial.wrapping_add(1);
            self.members.copy(machine.members());
        }
        let mut count = 0;
        for (route, place) in former(machine).zip(self.routes.as_mut()) {
            *place = route;
            count += 1;
        }
        let role = role_of(machine.role());
        let known = self.members.all().iter().filter(|m| m.known);
        self.state = Standing {
            mode: Mode::Full,
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

    /// As [`Self::update`], at scale: of the nodes this one alone is a member.
    fn update_large(&mut self, machine: &Machine, large: &scale::Node<Heap>) {
        let lid = machine.lid();
        if self.state.mode == Mode::Full || self.state.lid != lid || self.ports != *machine.ports()
        {
            self.ports = *machine.ports();
            let info = Info {
                lid,
                ..*machine.small().info()
            };
            self.members.isolate(info, self.ports);
            self.found = None;
            self.serial = self.serial.wrapping_add(1);
        }
        let entries = large.routes().entries().iter();
        let found = entries.filter(|entry| usize::from(entry.way.port) < PORTS);
        let found = found.map(|entry| {
            let (lid, last) = entry.key.lids();
            Route {
                lid,
                last,
                hops: entry.way.hops,
                link: entry.way.port,
            }
        });
        let single = found.clone().filter(|route| route.lid == route.last);
        let areas = found.filter(|route| route.lid != route.last);
        let all = Iterator::chain(single, former(machine.small()));
        let all = Iterator::chain(all, areas);
        let (mut count, mut nodes) = (0, 1);
        for (route, place) in all.zip(self.routes.as_mut()) {
            *place = route;
            count += 1;
            nodes += u32::from(route.lid == route.last);
        }
        let (master, term) = machine.master();
        let role = role_of(machine.role());
        self.state = Standing {
            mode: Mode::Scale,
            role: role.unwrap_or(self.state.role),
            lid,
            master: role.map_or(self.state.master, |_| master),
            term,
            nodes: large.tree().total().unwrap_or(nodes),
            routes: count,
            hierarchy: self.hierarchies,
        };
    }
}

/// Returns the role as in the user interface; `None`: the node does not know yet.
fn role_of(role: node::Role) -> Option<Role> {
    match role {
        node::Role::Unknown => None,
        node::Role::Master => Some(Role::Master),
        node::Role::Standby => Some(Role::Standby),
    }
}

/// Returns the routes in use that the mode of a small fabric has found.
fn former(
    machine: &node::Node<Memory<Member>, Memory<table::Slot>, Memory<u8>, Allow>,
) -> impl Iterator<Item = Route> + '_ {
    let all = machine.table().routes();
    all.map(|(lid, links, link)| Route {
        lid,
        last: lid,
        hops: links as u8,
        link,
    })
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
        (before.mode != after.mode, c"mode"),
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
