// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Random fabrics, and tables that pass traffic on as the hardware does.

#[path = "routes.rs"]
mod routes;

use proptest::{prelude::*, sample::Index};
pub use routes::{routes, Routes};
use std::collections::BTreeSet;
use weft_proto::mr::{
    assignment::{Assignment, Assignments},
    inventory::{Component, End, Inventory, Kind, Link},
    plan::Entry,
};

pub type Found = Inventory<Vec<Component>, Vec<Link>>;

/// Virtual endpoints of every endpoint.
pub const VES: u8 = 3;
pub const WINDOW: (u64, u64) = (1 << 32, (1 << 36) - 1);

pub fn empty() -> Found {
    let none = Component::new(0, Kind::Root);
    Inventory::new(vec![none; 64], vec![Link::NONE; 128])
}

pub fn root(n: u64) -> Component {
    let kind = Kind::Root;
    Component {
        lid: 100 + n as u32,
        bytes: 1 << 30,
        window: WINDOW,
        ..Component::new(100 + n, kind)
    }
}

pub fn switch(n: u64) -> Component {
    Component::new(200 + n, Kind::Switch { ports: 32 })
}

pub fn endpoint(n: u64) -> Component {
    let kind = Kind::Endpoint {
        ves: VES,
        functions: 1,
    };
    Component {
        lid: 300 + n as u32,
        bytes: 1 << 16,
        ..Component::new(300 + n, kind)
    }
}

/// What is joined to what; ports are given in this order.
#[derive(Clone, Debug)]
pub struct Shape {
    pub roots: u64,
    pub switches: u64,
    pub endpoints: u64,
    /// Of switches, beyond a chain of all.
    pub more: Vec<(Index, Index)>,
    /// The switch of each root complex and endpoint.
    pub at: Vec<Index>,
}

pub fn shape() -> impl Strategy<Value = Shape> {
    let more = prop::collection::vec(any::<(Index, Index)>(), 0..6);
    let at = prop::collection::vec(any::<Index>(), 16);
    (1u64..5, 1u64..6, 1u64..7, more, at).prop_map(|(roots, switches, endpoints, more, at)| Shape {
        roots,
        switches,
        endpoints,
        more,
        at,
    })
}

impl Shape {
    pub fn components(&self) -> Vec<Component> {
        let roots = (0..self.roots).map(root);
        let switches = (0..self.switches).map(switch);
        roots
            .chain(switches)
            .chain((0..self.endpoints).map(endpoint))
            .collect()
    }

    pub fn links(&self) -> Vec<[End; 2]> {
        let mut used = vec![0u8; self.switches as usize];
        let mut port = |n: usize| {
            used[n] += 1;
            End {
                hwid: 200 + n as u64,
                port: used[n] - 1,
            }
        };
        let count = self.switches as usize;
        let mut links = vec![];
        let chain = (1..count).map(|n| (n - 1, n));
        let more = self
            .more
            .iter()
            .map(|(a, b)| (a.index(count), b.index(count)));
        for (a, b) in chain.chain(more).filter(|(a, b)| a != b) {
            links.push([port(a), port(b)]);
        }
        let roots = (0..self.roots).map(|n| 100 + n);
        let leaves = roots.chain((0..self.endpoints).map(|n| 300 + n));
        for (hwid, at) in leaves.zip(&self.at) {
            links.push([End { hwid, port: 0 }, port(at.index(count))]);
        }
        links
    }

    /// All but those for which `without` holds.
    pub fn inventory(&self, without: impl Fn(u64) -> bool) -> Found {
        let mut found = empty();
        for component in self.components() {
            if !without(component.hwid) {
                found.found(component).expect("there is room");
            }
        }
        for [a, b] in self.links() {
            if !without(a.hwid) && !without(b.hwid) {
                found.joined(a, b).expect("there is room");
            }
        }
        found
    }
}

/// Entries in force, and the network manager's routes.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Tables {
    pub entries: BTreeSet<Entry>,
    pub routes: Routes,
}

/// Traffic that arrived, and the entries it went by.
pub type Trace = Option<BTreeSet<Entry>>;

impl Tables {
    /// Where traffic for `lid` comes to that leaves by a port on a plane: the port at its end, the
    /// plane there, and the entries it went by.
    fn pass(
        &self,
        found: &Found,
        mut out: End,
        mut vp: u8,
        lid: u32,
    ) -> Option<(End, u8, BTreeSet<Entry>)> {
        let mut used = BTreeSet::new();
        for _ in 0..32 {
            let (_, far) = found
                .links()
                .iter()
                .find_map(|l| l.from(out.hwid).filter(|(near, _)| *near == out))?;
            if !found.get(far.hwid)?.is_switch() {
                return Some((far, vp, used));
            }
            let plane = |e: &&Entry| {
                matches!(e, Entry::Plane { switch, port, vp: v, .. }
                if (*switch, *port, *v) == (far.hwid, far.port, vp))
            };
            let enters = self.entries.iter().find(plane)?;
            let Entry::Plane { vh, .. } = *enters else {
                return None;
            };
            let by = *self.routes.get(&(far.hwid, lid))?;
            let leaving = |e: &&Entry| {
                matches!(e, Entry::Plane { switch, port, vh: h, .. }
                if (*switch, *port, *h) == (far.hwid, by, vh))
            };
            let leaves = self.entries.iter().find(leaving)?;
            let Entry::Plane { vp: next, .. } = *leaves else {
                return None;
            };
            used.extend([*enters, *leaves]);
            (out, vp) = (
                End {
                    hwid: far.hwid,
                    port: by,
                },
                next,
            );
        }
        None
    }

    /// A root complex uses a virtual endpoint, by its own table.
    pub fn down(&self, found: &Found, root: u64, endpoint: u64, ve: u8) -> Trace {
        let lid = found.get(endpoint)?.lid;
        let own =
            |e: &&Entry| matches!(e, Entry::Own { root: r, lid: l, .. } if (*r, *l) == (root, lid));
        let own = self.entries.iter().find(own)?;
        let Entry::Own { link, vp, .. } = *own else {
            return None;
        };
        let (end, vp, mut used) = self.pass(
            found,
            End {
                hwid: root,
                port: link,
            },
            vp,
            lid,
        )?;
        let from = found.get(root)?.lid;
        let base = self.base(endpoint, ve).filter(|_| end.hwid == endpoint)?;
        let Entry::Base {
            vp: on, root: of, ..
        } = base
        else {
            return None;
        };
        used.extend([*own, base]);
        ((on, of) == (vp, from)).then_some(used)
    }

    /// A virtual endpoint writes to the root complex it works for.
    pub fn up(&self, found: &Found, endpoint: u64, ve: u8, root: u64) -> Trace {
        let base = self.base(endpoint, ve)?;
        let Entry::Base { vp, root: lid, .. } = base else {
            return None;
        };
        let (end, vp, mut used) = self.pass(
            found,
            End {
                hwid: endpoint,
                port: 0,
            },
            vp,
            lid,
        )?;
        let from = found.get(endpoint)?.lid;
        let open = Entry::Open {
            root: end.hwid,
            from,
            link: end.port,
            vp,
        };
        used.extend([base, open]);
        (end.hwid == root && self.entries.contains(&open)).then_some(used)
    }

    /// The virtual endpoints that a root complex can get at by whatever it sends: any local id on any
    /// plane, in any name.
    pub fn exposed(&self, found: &Found, root: u64) -> BTreeSet<(u64, u8)> {
        let mut all = BTreeSet::new();
        for to in found.components() {
            for vp in 0..16 {
                let Some((end, vp, _)) = self.pass(
                    found,
                    End {
                        hwid: root,
                        port: 0,
                    },
                    vp,
                    to.lid,
                ) else {
                    continue;
                };
                let on = self.entries.iter().filter_map(|e| match *e {
                    Entry::Base {
                        endpoint,
                        ve,
                        vp: on,
                        ..
                    } if (endpoint, on) == (end.hwid, vp) => Some((endpoint, ve)),
                    _ => None,
                });
                all.extend(on);
            }
        }
        all
    }

    fn base(&self, endpoint: u64, ve: u8) -> Option<Entry> {
        let ours = |e: &&Entry| matches!(e, Entry::Base { endpoint: p, ve: v, .. } if (*p, *v) == (endpoint, ve));
        self.entries.iter().find(ours).copied()
    }
}

/// Assignments for virtual endpoints of the shape.
pub fn assignments_of(shape: &Shape, picks: &[(Index, u8, Index)]) -> Vec<Assignment> {
    let mut assignments = Assignments::new(vec![Assignment::NONE; 64]);
    for (endpoint, ve, root) in picks {
        let endpoint = 300 + endpoint.index(shape.endpoints as usize) as u64;
        let root = 100 + root.index(shape.roots as usize) as u64;
        let ve = ve % VES;
        assignments
            .assign(Assignment { endpoint, ve, root })
            .unwrap();
    }
    assignments.all().to_vec()
}

/// What they are made of.
pub fn picks() -> impl Strategy<Value = Vec<(Index, u8, Index)>> {
    prop::collection::vec(any::<(Index, u8, Index)>(), 0..20)
}
