// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Multi-root management of a test: finds what there is by configuration requests of
//! its host, and carries out what `weft_proto::mr` designs. It is also in the place of the
//! network manager, and writes the routes that the designs stand on.

#[rustfmt::skip] // The other crate's.
#[path = "../../../proto/tests/mr/routes.rs"]
mod routes;

use self::routes::{Routes, routes};
use super::world::World;
use std::collections::BTreeMap;
use weft_fabric::wire::abi::*;
use weft_proto::mr::{
    assignment::Assignment,
    design::{Why, design},
    inventory::{Component, End, Inventory, Kind, Link},
    list::List,
    plan::{Change, Entry, changes},
    plane::{Hierarchy, Plane, Planes},
    tree::Reach,
    vpd::Vpd,
};

pub type Found = Inventory<Vec<Component>, Vec<Link>>;

pub struct Pcim {
    /// The host it runs on.
    pub host: usize,
    pub term: u32,
    pub found: Found,
    pub assignments: Vec<Assignment>,
    /// How each component is reached.
    paths: BTreeMap<u64, Vec<u8>>,
    planes: Planes<Vec<Hierarchy>, Vec<Plane>>,
    /// What the tables say, as far as this one has written them.
    pub entries: Vec<Entry>,
    lids: u32,
    /// Routes that it has written.
    pub routes: Routes,
    /// Routes of switches that another has programmed, if they are to be used.
    theirs: Option<Routes>,
}

impl Pcim {
    pub fn new(host: usize, term: u32) -> Self {
        Pcim {
            host,
            term,
            found: Self::nothing(),
            assignments: vec![],
            paths: BTreeMap::new(),
            planes: Planes::new(vec![Hierarchy::NONE; 16], vec![Plane::NONE; 256]),
            entries: vec![],
            lids: 300,
            routes: Routes::new(),
            theirs: None,
        }
    }

    fn nothing() -> Found {
        let none = Component::new(0, Kind::Root);
        Inventory::new(vec![none; 32], vec![Link::NONE; 64])
    }

    /// Goes over every link that is up, and gives endpoints without one a LID.
    pub fn discover(&mut self, world: &mut World) {
        let space = WEFT_SPACE_CONFIG;
        self.found = Self::nothing();
        self.paths.clear();
        let me = world.hosts[self.host].hwid;
        self.paths.insert(me, vec![]);
        let mut own = Component::new(me, Kind::Root);
        own.lid = world.hosts[self.host].lid;
        let mut todo = vec![vec![0u8]];
        let mut from = BTreeMap::from([(vec![0u8], End { hwid: me, port: 0 })]);
        while !todo.is_empty() {
            let path = todo.remove(0);
            let mut read = |address| world.read(self.host, &path, space, address);
            let (id, ports) = (read(WEFT_CS_ID), read(WEFT_CS_PORTS));
            let (low, high) = (read(WEFT_CS_HWID), read(WEFT_CS_HWID + 4));
            let hwid = u64::from(low) | (u64::from(high) << 32);
            let here = End { hwid, port: (ports >> 8) as u8 };
            let known = self.paths.contains_key(&hwid);
            if !known {
                let cap = read(WEFT_CS_CAP);
                let bytes: Vec<u8> = (0..WEFT_CS_VPD_BYTES / 4)
                    .flat_map(|n| read(WEFT_CS_VPD + 4 * n).to_le_bytes())
                    .collect();
                let kind = match id >> 16 {
                    WEFT_DEVICE_ID_PF => Kind::Root,
                    WEFT_DEVICE_ID_SWITCH => Kind::Switch { ports: ports as u8 },
                    WEFT_DEVICE_ID_ENDPOINT => {
                        Kind::Endpoint { ves: cap as u8, functions: (cap >> 8) as u8 }
                    }
                    other => panic!("device {other:#x}"),
                };
                let mut component = Component::new(hwid, kind);
                component.vpd = Vpd::parse(&bytes).unwrap();
                component.bytes = 1 << 20;
                component.window = (1 << 32, (1 << 36) - 1);
                component.lid = match kind {
                    Kind::Root => {
                        let lid = world.lid_of(hwid);
                        if world.is_fresh(hwid) {
                            self.forget(hwid);
                        }
                        lid
                    }
                    Kind::Switch { .. } => {
                        if world.read(self.host, &path, space, WEFT_CS_TERM) == 0 {
                            self.forget(hwid);
                        }
                        0
                    }
                    Kind::Endpoint { .. } => self.lid_for(world, &path, hwid),
                };
                self.found.found(component).unwrap();
                self.paths.insert(hwid, path.clone());
                if component.is_switch() {
                    for port in (0..ports as u8).filter(|port| *port != here.port) {
                        let group = WEFT_CS_PORT + WEFT_CS_PORT_STRIDE * u32::from(port);
                        if world.read(self.host, &path, space, group) & WEFT_LINK_UP != 0 {
                            let next = [path.clone(), vec![port]].concat();
                            from.insert(next.clone(), End { hwid, port });
                            todo.push(next);
                        }
                    }
                }
            }
            // Its own VPD as others see it.
            if hwid != me || !known {
                self.found.joined(from[&path], here).unwrap();
            }
        }
        own.vpd = self.vpd_of(world, &own);
        own.bytes = 1 << 20;
        own.window = (1 << 32, (1 << 36) - 1);
        self.found.found(own).unwrap();
    }

    /// A host's own data are there only by a way that leads back to it.
    fn vpd_of(&self, world: &mut World, own: &Component) -> Vpd {
        let back = self.found.links().iter().find_map(|l| l.from(own.hwid)).unwrap().1;
        let path = [self.paths[&back.hwid].clone(), vec![back.port]].concat();
        let bytes: Vec<u8> = (0..WEFT_CS_VPD_BYTES / 4)
            .flat_map(|n| {
                world.read(self.host, &path, WEFT_SPACE_CONFIG, WEFT_CS_VPD + 4 * n).to_le_bytes()
            })
            .collect();
        Vpd::parse(&bytes).unwrap()
    }

    /// The tables of a component are empty.
    fn forget(&mut self, hwid: u64) {
        self.entries.retain(|e| e.component() != hwid);
        self.routes.retain(|(switch, _), _| *switch != hwid);
    }

    fn lid_for(&mut self, world: &mut World, path: &[u8], hwid: u64) -> u32 {
        let at = WEFT_BASE_ENDPOINT | WEFT_BASE_LID;
        let there = world.read(self.host, path, WEFT_SPACE_BASE, at);
        if there != 0 {
            return there;
        }
        // It has just got power: nothing of what was written is there any more.
        self.forget(hwid);
        self.lids += 1;
        let done = world.config(self.host, path, WEFT_SPACE_BASE, at, Some((self.lids, self.term)));
        assert_eq!(done.0, WEFT_CFG_OK);
        self.lids
    }

    /// Takes the routes that switches have, and uses them from now on.
    pub fn take_routes(&mut self, world: &mut World) {
        let switches: Vec<_> = self.found.components().iter().filter(|c| c.is_switch()).collect();
        let lids: Vec<_> = self.found.components().iter().map(|c| c.lid).collect();
        let mut routes = Routes::new();
        for switch in switches {
            let path = &self.paths[&switch.hwid];
            for lid in lids.iter().filter(|lid| **lid != 0) {
                let entry = world.read(self.host, path, WEFT_SPACE_ROUTE, *lid);
                if entry & WEFT_TABLE_VALID != 0 {
                    routes.insert((switch.hwid, *lid), entry as u8);
                }
            }
        }
        self.theirs = Some(routes);
    }

    /// The routes that the assignments stand on: those to their ends.
    fn wanted(&self) -> Routes {
        if let Some(theirs) = &self.theirs {
            return theirs.clone();
        }
        let ends = self.assignments.iter().flat_map(|w| [w.endpoint, w.root]);
        let lids: Vec<_> = ends.filter_map(|hwid| Some(self.found.get(hwid)?.lid)).collect();
        let mut routes = routes(&self.found, 0);
        routes.retain(|(_, lid), _| lids.contains(lid));
        routes
    }

    /// Puts a route of a switch, or deletes it, if the switch is there.
    pub fn route(&self, world: &mut World, (switch, lid): (u64, u32), port: u8, put: bool) {
        let Some(path) = self.paths.get(&switch) else { return };
        let data = if put { WEFT_TABLE_VALID | u32::from(port) } else { 0 };
        let done = world.config(self.host, path, WEFT_SPACE_ROUTE, lid, Some((data, self.term)));
        assert_eq!(done.0, WEFT_CFG_OK, "{switch:x} {lid}");
    }

    /// Designs for the assignments; what can not be.
    pub fn design(&mut self) -> (Vec<Entry>, Vec<(Assignment, Why)>) {
        let mut entries = List::new(vec![Entry::NONE; 512]);
        let mut reach = [Reach::NONE; 32];
        let mut not = vec![];
        let routes = self.wanted();
        let (found, planes) = (&self.found, &mut self.planes);
        let by = |at: u64, lid: u32| match found.get(at) {
            Some(root) if root.is_root() => Some(0),
            _ => routes.get(&(at, lid)).copied(),
        };
        design(found, &by, &self.assignments, planes, &mut reach, &mut entries, |w, done| {
            not.extend(done.err().map(|why| (*w, why)));
        })
        .unwrap();
        (entries.all().to_vec(), not)
    }

    /// Writes what differs from what was written, and the co-residence fields.
    pub fn carry_out(&mut self, world: &mut World) {
        assert_eq!(self.design().1, []);
        self.carry_out_what_can_be(world);
    }

    /// The same, though not every assignment can be fulfilled.
    pub fn carry_out_what_can_be(&mut self, world: &mut World) {
        let (to_be, _) = self.design();
        // What is away keeps what it had.
        let is_there = |e: &Entry| self.found.get(e.component()).is_some();
        let (are, away): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.entries).into_iter().partition(is_there);
        let routes = if self.theirs.is_some() { Routes::new() } else { self.wanted() };
        let before = std::mem::take(&mut self.routes);
        for (at, port) in routes.iter().filter(|(at, port)| before.get(at) != Some(port)) {
            self.route(world, *at, *port, true);
        }
        for change in changes(&are, &to_be) {
            self.write(world, change);
        }
        for (at, port) in before.iter().filter(|(at, _)| !routes.contains_key(at)) {
            self.route(world, *at, *port, false);
        }
        self.routes = routes;
        self.entries = [to_be, away].concat();
        self.entries.sort_unstable();
        for component in self.found.components().iter().filter(|c| c.is_endpoint()) {
            for (register, half) in
                [(0, component.resident as u32), (4, (component.resident >> 32) as u32)]
            {
                let at = WEFT_BASE_ENDPOINT | (WEFT_BASE_RESIDENT + register);
                let path = &self.paths[&component.hwid];
                let done =
                    world.config(self.host, path, WEFT_SPACE_BASE, at, Some((half, self.term)));
                assert_eq!(done.0, WEFT_CFG_OK);
            }
        }
    }

    /// Writes one change; a host's own tables are its own to write.
    pub fn write(&self, world: &mut World, change: Change) {
        let (entry, put) = match change {
            Change::Put(entry) => (entry, true),
            Change::Take(entry) => (entry, false),
        };
        let valid = |data: u32| if put { WEFT_TABLE_VALID | data } else { 0 };
        let path = self.paths.get(&entry.component()).cloned();
        let mut config = |space, at, data| {
            // What is gone needs no writing.
            let Some(path) = &path else { return };
            let done = world.config(self.host, path, space, at, Some((data, self.term)));
            assert_eq!(done.0, WEFT_CFG_OK, "{change:?}");
        };
        match entry {
            Entry::Plane { port, vp, vh, .. } => {
                config(WEFT_SPACE_VP, (u32::from(port) << 8) | u32::from(vp), valid(vh.into()));
            }
            Entry::Base { ve, vp, root, .. } => {
                let ve = u32::from(ve) << 8;
                if put {
                    config(WEFT_SPACE_BASE, ve | WEFT_BASE_ROOT, root);
                }
                config(WEFT_SPACE_BASE, ve | WEFT_BASE_VE, valid(vp.into()));
            }
            Entry::Own { root, lid, vp, .. } => {
                if let Some(host) = world.host_of(root) {
                    world.hosts[host].route(lid, put.then_some(vp));
                    world.settle();
                    world.hosts[host].want(lid);
                }
            }
            Entry::Open { root, from, vp, .. } => {
                if let Some(host) = world.host_of(root) {
                    world.hosts[host].open(from, put.then_some(vp));
                    world.settle();
                }
            }
        }
    }

    /// Hardware id of a component, by its serial number.
    pub fn named(&self, serial: &str) -> u64 {
        let named = |c: &&Component| c.vpd.serial.bytes() == serial.as_bytes();
        self.found.components().iter().find(named).unwrap_or_else(|| panic!("no {serial}")).hwid
    }

    /// The hierarchy of a root complex.
    pub fn hierarchy(&self, serial: &str) -> u16 {
        self.hierarchy_of(self.named(serial))
    }

    pub fn hierarchy_of(&self, hwid: u64) -> u16 {
        self.planes.hierarchy(hwid).unwrap()
    }

    pub fn lid(&self, serial: &str) -> u32 {
        self.found.get(self.named(serial)).unwrap().lid
    }

    pub fn assign(&mut self, endpoint: &str, ve: u8, root: &str) {
        let assignment = Assignment { endpoint: self.named(endpoint), ve, root: self.named(root) };
        self.assignments.push(assignment);
    }
}
