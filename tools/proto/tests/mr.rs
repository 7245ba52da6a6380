// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Multi-root management against random fabrics and assignments: what it designs is applied to tables that
//! pass traffic on as the hardware does, and which host reaches what is compared with what was assigned.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

#[path = "mr/fabric.rs"]
mod fabric;

use fabric::{
    assignments_of, empty, endpoint, picks, root, routes, shape, switch, Found, Routes, Shape,
    Tables, Trace, VES,
};
use proptest::{prelude::*, sample::Index};
use std::collections::{BTreeMap, BTreeSet};
use weft_proto::mr::{
    aperture::{Aperture, Apertures, Association, Claim},
    assignment::{self, Assignment, Assignments},
    design::{design, Why},
    inventory::{End, Found as News, Kind},
    list::{Full, List},
    plan::{changes, Change, Entry},
    plane::{Hierarchy, Plane, Planes},
    tree::{Reach, Tree},
    vpd::{Error, Text, Vpd},
};

/// A manager with room for everything.
struct Manager {
    planes: Planes<Vec<Hierarchy>, Vec<Plane>>,
    entries: List<Entry, Vec<Entry>>,
    /// Those on which it has designed last.
    routes: Routes,
}

type Told = BTreeMap<Assignment, Result<(), Why>>;

impl Manager {
    fn new() -> Self {
        Manager {
            planes: Planes::new(vec![Hierarchy::NONE; 16], vec![Plane::NONE; 1024]),
            entries: List::new(vec![Entry::NONE; 4096]),
            routes: Routes::new(),
        }
    }

    fn design(&mut self, found: &Found, assignments: &[Assignment]) -> Told {
        self.design_on(routes(found, 0), found, assignments)
    }

    fn design_on(&mut self, routes: Routes, found: &Found, assignments: &[Assignment]) -> Told {
        let mut told = Told::new();
        let mut reach = vec![Reach::NONE; found.components().len()];
        self.routes = routes;
        let by = |at: u64, lid: u32| match at {
            ..200 => Some(0),
            _ => self.routes.get(&(at, lid)).copied(),
        };
        let (planes, entries) = (&mut self.planes, &mut self.entries);
        design(
            found,
            &by,
            assignments,
            planes,
            &mut reach,
            entries,
            |assignment, done| {
                assert_eq!(told.insert(*assignment, done), None, "told twice");
            },
        )
        .expect("there is room");
        assert_eq!(told.len(), assignments.len(), "one answer each");
        assert!(entries.all().is_sorted());
        told
    }

    fn tables(&self) -> Tables {
        Tables {
            entries: self.entries.all().iter().copied().collect(),
            routes: self.routes.clone(),
        }
    }
}

/// The places of each address space.
type Spaces = BTreeMap<u64, Apertures<Vec<Aperture>>>;

/// Gives all that belongs into a space its place there. For which there was no room.
fn settle(spaces: &mut Spaces, found: &Found, assignments: &[Assignment]) -> Vec<(u64, u8)> {
    let mut without = vec![];
    for root in found.components().iter().filter(|c| c.is_root()) {
        let none = || Apertures::new(vec![Aperture::NONE; 256]);
        let space = spaces.entry(root.hwid).or_insert_with(none);
        let no_room = |claim: &Claim| without.push((claim.owner, claim.ve));
        space
            .settle(found, assignments, root.hwid, no_room)
            .unwrap();
    }
    without
}

type Traffic = BTreeMap<(Assignment, bool), Trace>;

/// Traffic of every pair, down and up.
fn traffic(found: &Found, tables: &Tables, shape: &Shape) -> Traffic {
    let mut all = BTreeMap::new();
    for endpoint in (0..shape.endpoints).map(|n| 300 + n) {
        for root in (0..shape.roots).map(|n| 100 + n) {
            for ve in 0..VES {
                let assignment = Assignment { endpoint, ve, root };
                all.insert((assignment, false), tables.down(found, root, endpoint, ve));
                all.insert((assignment, true), tables.up(found, endpoint, ve, root));
            }
        }
    }
    all
}

/// Without `entry`, what went by it goes no more, and all else as before.
fn stops_its_traffic(entry: Entry, before: &Traffic, after: &Traffic) -> Result<(), TestCaseError> {
    let mut stopped = 0;
    for (pair, trace) in before {
        let went = trace.as_ref().is_some_and(|t| t.contains(&entry));
        stopped += usize::from(went);
        prop_assert_eq!(&after[pair], if went { &None } else { trace });
    }
    prop_assert!(stopped > 0, "no entry is there for nothing: {:?}", entry);
    Ok(())
}

fn apply(tables: &mut Tables, change: Change) {
    match change {
        Change::Take(entry) => assert!(tables.entries.remove(&entry), "{entry:?} was not there"),
        Change::Put(entry) => assert!(tables.entries.insert(entry), "{entry:?} was there"),
    }
}

proptest! {
    /// Both directions work inside of a hierarchy and nowhere else, whatever a root complex sends.
    #[test]
    fn mr_7_reachability_is_exactly_the_assignments(shape in shape(), picks in picks()) {
        let found = shape.inventory(|_| false);
        let assignments = assignments_of(&shape, &picks);
        let mut manager = Manager::new();
        let told = manager.design(&found, &assignments);
        let tables = manager.tables();
        prop_assert!(told.values().all(Result::is_ok), "{told:?}");
        for ((assignment, _), trace) in traffic(&found, &tables, &shape) {
            prop_assert_eq!(trace.is_some(), assignments.contains(&assignment), "{:?}", assignment);
        }
        for root in (0..shape.roots).map(|n| 100 + n) {
            let ours = assignments.iter().filter(|w| w.root == root).map(|w| (w.endpoint, w.ve));
            prop_assert_eq!(tables.exposed(&found, root), ours.collect());
        }
    }

    /// Planes are unique on a link, the same at both of its ends, and no table has two entries in one
    /// place.
    #[test]
    fn mr_7_planes_are_of_the_link(shape in shape(), picks in picks()) {
        let found = shape.inventory(|_| false);
        let mut manager = Manager::new();
        manager.design(&found, &assignments_of(&shape, &picks));
        let mut places = BTreeMap::new();
        for entry in manager.entries.all() {
            if let Entry::Plane { switch, port, vp, vh } = *entry {
                prop_assert!((1..16).contains(&vp) && vh > 1, "not ours to give");
                prop_assert_eq!(places.insert((switch, port, vp), vh), None);
            }
        }
        for ((switch, port, vp), vh) in &places {
            prop_assert_eq!(places.iter().filter(|((s, p, _), h)| (s, p, *h) == (switch, port, vh)).count(), 1);
            let far = found.links().iter().find_map(|l| {
                l.from(*switch).filter(|(near, _)| near.port == *port).map(|(_, far)| far)
            });
            let far = far.unwrap();
            if far.hwid / 100 == 2 {
                prop_assert_eq!(places.get(&(far.hwid, far.port, *vp)), Some(vh));
            }
        }
    }

    /// The same on routes that may go another way back than there: each entry is needed.
    #[test]
    fn mr_7_hierarchies_go_by_the_routes_of_the_network_manager(
        shape in shape(), picks in picks(), seed: u64, which: Index,
    ) {
        let found = shape.inventory(|_| false);
        let assignments = assignments_of(&shape, &picks);
        let mut manager = Manager::new();
        let told = manager.design_on(routes(&found, seed), &found, &assignments);
        prop_assert!(told.values().all(Result::is_ok), "{told:?}");
        let mut tables = manager.tables();
        let before = traffic(&found, &tables, &shape);
        for ((assignment, _), trace) in &before {
            prop_assert_eq!(trace.is_some(), assignments.contains(assignment), "{:?}", assignment);
        }
        for root in (0..shape.roots).map(|n| 100 + n) {
            let ours = assignments.iter().filter(|w| w.root == root).map(|w| (w.endpoint, w.ve));
            prop_assert_eq!(tables.exposed(&found, root), ours.collect());
        }
        prop_assume!(!manager.entries.all().is_empty());
        let entry = *which.get(manager.entries.all());
        tables.entries.remove(&entry);
        stops_its_traffic(entry, &before, &traffic(&found, &tables, &shape))?;
        // Without routes nothing is fulfilled: all are behind switches.
        let none = manager.design_on(Routes::new(), &found, &assignments);
        prop_assert!(none.values().all(|done| *done == Err(Why::NoWay)));
    }

    /// Taking one entry away stops what went by it and nothing else.
    #[test]
    fn mr_7_an_entry_less_stops_exactly_its_traffic(shape in shape(), picks in picks(), which: Index) {
        let found = shape.inventory(|_| false);
        let mut manager = Manager::new();
        manager.design(&found, &assignments_of(&shape, &picks));
        let mut tables = manager.tables();
        prop_assume!(!tables.entries.is_empty());
        let before = traffic(&found, &tables, &shape);
        let entry = *which.get(manager.entries.all());
        tables.entries.remove(&entry);
        stops_its_traffic(entry, &before, &traffic(&found, &tables, &shape))?;
    }

    /// The tree has the switches that are on a way and no others, each once, and below each what is
    /// reached by it.
    #[test]
    fn mr_3_the_tree_is_the_union_of_the_ways(shape in shape(), picks in picks()) {
        let found = shape.inventory(|_| false);
        let assignments = assignments_of(&shape, &picks);
        for root in (0..shape.roots).map(|n| 100 + n) {
            let mut reach = vec![Reach::NONE; 64];
            let mut tree = Tree::new(&found, root, &mut reach).unwrap();
            let mut links = BTreeSet::new();
            for assignment in assignments.iter().filter(|w| w.root == root) {
                tree.add(assignment.endpoint);
                links.extend(tree.way(assignment.endpoint).map(|s| (s.upper, s.lower)));
            }
            let visits: Vec<_> = tree.walk().collect();
            prop_assert_eq!(visits[0].component.hwid, root);
            prop_assert_eq!(visits[0].above, None);
            let below: BTreeSet<_> = visits.iter().skip(1).map(|v| (v.above.unwrap(), v.component.hwid)).collect();
            prop_assert_eq!(below.len(), visits.len() - 1, "each once");
            prop_assert_eq!(below, links.iter().map(|(upper, lower)| (*upper, lower.hwid)).collect());
            // What comes after is one deeper, a sibling, or beside one of those above.
            for pair in visits.windows(2) {
                prop_assert!(pair[1].depth <= pair[0].depth + 1);
                if pair[1].depth == pair[0].depth + 1 {
                    prop_assert_eq!(pair[1].above.unwrap().hwid, pair[0].component.hwid);
                }
            }
            let leaves = visits.iter().filter(|v| v.component.is_endpoint()).count();
            let endpoints: BTreeSet<_> = assignments.iter().filter(|w| w.root == root).map(|w| w.endpoint).collect();
            prop_assert_eq!(leaves, endpoints.len());
        }
    }

    /// A second look changes nothing, and a plan makes of any tables those that are to be.
    #[test]
    fn mr_7_a_plan_leads_there_and_then_is_empty(shape in shape(), picks in prop::collection::vec(picks(), 2..5)) {
        let found = shape.inventory(|_| false);
        let mut manager = Manager::new();
        let mut tables = Tables::default();
        for picks in picks {
            let assignments = assignments_of(&shape, &picks);
            let are: Vec<_> = tables.entries.iter().copied().collect();
            manager.design(&found, &assignments);
            for change in changes(&are, manager.entries.all()) {
                apply(&mut tables, change);
            }
            prop_assert_eq!(&tables.entries, &manager.tables().entries);
            manager.design(&found, &assignments);
            prop_assert_eq!(&tables.entries, &manager.tables().entries);
            prop_assert_eq!(changes(&are, &are).count(), 0);
        }
    }

    /// A host that keeps its endpoint keeps it without a break at any step of a plan, and no host gets at
    /// what is neither his before nor after.
    #[test]
    fn hp_2_a_change_of_assignments_touches_no_other_host(shape in shape(), before in picks(), after in picks()) {
        let found = shape.inventory(|_| false);
        let (before, after) = (assignments_of(&shape, &before), assignments_of(&shape, &after));
        let mut manager = Manager::new();
        manager.design(&found, &before);
        let mut tables = manager.tables();
        let are: Vec<_> = tables.entries.iter().copied().collect();
        manager.design(&found, &after);
        let both: Vec<_> = before.iter().filter(|w| after.contains(w)).collect();
        for change in changes(&are, manager.entries.all()) {
            apply(&mut tables, change);
            for assignment in &both {
                let Assignment { endpoint, ve, root } = **assignment;
                prop_assert!(tables.down(&found, root, endpoint, ve).is_some(), "{:?} at {:?}", assignment, change);
                prop_assert!(tables.up(&found, endpoint, ve, root).is_some(), "{:?} at {:?}", assignment, change);
            }
            for root in (0..shape.roots).map(|n| 100 + n) {
                for (endpoint, ve) in tables.exposed(&found, root) {
                    let assignment = Assignment { endpoint, ve, root };
                    prop_assert!(before.contains(&assignment) || after.contains(&assignment), "{:?} at {:?}", assignment, change);
                }
            }
        }
    }

    /// A component that goes takes what went by it along, and nothing else is written for the others;
    /// when it is back, everything is as it was.
    #[test]
    fn hp_2_a_host_that_goes_and_comes_touches_no_other(shape in shape(), picks in picks(), who: Index) {
        let all = shape.components();
        let gone = who.get(&all).hwid;
        let whole = shape.inventory(|_| false);
        let rest = shape.inventory(|hwid| hwid == gone);
        let assignments = assignments_of(&shape, &picks);
        let mut manager = Manager::new();
        manager.design(&whole, &assignments);
        let tables = manager.tables();
        let are: Vec<_> = manager.entries.all().to_vec();
        let crosses = |assignment: &Assignment| {
            let Assignment { endpoint, ve, root } = *assignment;
            let down = tables.down(&whole, root, endpoint, ve).unwrap();
            let up = tables.up(&whole, endpoint, ve, root).unwrap();
            root == gone || down.union(&up).any(|e| e.component() == gone)
        };
        let told = manager.design(&rest, &assignments);
        // The network manager has routed around it before.
        let mut left = Tables { routes: manager.routes.clone(), ..tables.clone() };
        let plan: Vec<_> = changes(&are, manager.entries.all()).collect();
        for change in &plan {
            apply(&mut left, *change);
            for assignment in assignments.iter().filter(|w| !crosses(w)) {
                prop_assert!(left.down(&rest, assignment.root, assignment.endpoint, assignment.ve).is_some(), "{:?}", change);
                prop_assert!(left.up(&rest, assignment.endpoint, assignment.ve, assignment.root).is_some(), "{:?}", change);
            }
        }
        for (assignment, done) in &told {
            let Assignment { endpoint, ve, root } = *assignment;
            prop_assert_eq!(left.down(&rest, root, endpoint, ve).is_some(), done.is_ok(), "{:?}", assignment);
            let leaf = gone == root || gone == endpoint;
            prop_assert!(!leaf || done.is_err());
            prop_assert!(crosses(assignment) || done.is_ok(), "{:?}: {:?}", assignment, done);
        }
        prop_assert!(left.entries.iter().all(|e| e.component() != gone));
        manager.design(&whole, &assignments);
        for ((assignment, _), trace) in traffic(&whole, &manager.tables(), &shape) {
            prop_assert_eq!(trace.is_some(), assignments.contains(&assignment), "{:?}", assignment);
        }
    }

    /// What could not be written while it was out of reach is written when it is back.
    #[test]
    fn hp_2_what_was_out_of_reach_is_written_when_it_is_back(
        shape in shape(), before in picks(), meanwhile in picks(), who: Index,
    ) {
        let away = who.get(&shape.components()).hwid;
        let (whole, rest) = (shape.inventory(|_| false), shape.inventory(|hwid| hwid == away));
        let mut manager = Manager::new();
        let mut tables = Tables::default();
        for (found, picks) in [(&whole, &before), (&rest, &meanwhile), (&whole, &meanwhile)] {
            manager.design(found, &assignments_of(&shape, picks));
            // What the tables say is known of those that are there; the others keep what they had.
            let is_there = |e: &&Entry| found.get(e.component()).is_some();
            let are: Vec<_> = tables.entries.iter().filter(is_there).copied().collect();
            for change in changes(&are, manager.entries.all()) {
                apply(&mut tables, change);
            }
            let now: BTreeSet<_> = tables.entries.iter().filter(is_there).copied().collect();
            prop_assert_eq!(&now, &manager.tables().entries);
        }
        prop_assert_eq!(&tables.entries, &manager.tables().entries);
    }

    /// Places in one address space are apart, inside of it, and stay where they are.
    #[test]
    fn mr_4_places_are_apart_and_stay(shape in shape(), before in picks(), after in picks()) {
        let found = shape.inventory(|_| false);
        let mut spaces = Spaces::new();
        let mut places: Vec<Aperture> = vec![];
        for assignments in [assignments_of(&shape, &before), assignments_of(&shape, &after)] {
            let without = settle(&mut spaces, &found, &assignments);
            prop_assert!(without.is_empty(), "{without:?}");
            let all: Vec<_> = spaces.values().flat_map(|space| space.all()).copied().collect();
            for a in &all {
                prop_assert_eq!(a.base & (a.limit - a.base), 0, "aligned to its size");
                for b in all.iter().filter(|b| b.space == a.space && *b != a) {
                    prop_assert!(a.limit < b.base || b.limit < a.base, "{:?} and {:?}", a, b);
                }
                if a.association != Association::Own {
                    prop_assert!(fabric::WINDOW.0 <= a.base && a.limit <= fabric::WINDOW.1);
                }
                let moved = places.iter().find(|b| (b.space, b.owner, b.ve) == (a.space, a.owner, a.ve));
                prop_assert!(moved.is_none_or(|b| b == a), "{:?} moved to {:?}", moved, a);
            }
            let logical = all.iter().filter(|a| a.association == Association::Logical);
            let logical: BTreeSet<_> = logical.map(|a| Assignment { endpoint: a.owner, ve: a.ve, root: a.space }).collect();
            prop_assert_eq!(logical, assignments.iter().copied().collect());
            let roots = shape.roots as usize;
            prop_assert_eq!(all.iter().filter(|a| a.owner < 200).count(), roots * roots, "each in each space");
            places = all;
        }
    }

    /// Assignments that are saved are restored, and text that is none changes nothing.
    #[test]
    fn mr_3_assignments_are_saved_and_restored(
        all in prop::collection::btree_map((1u64.., any::<u8>()), 1u64.., 0..20),
        noise in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let assignments: Vec<_> = all.iter().map(|((endpoint, ve), root)| {
            Assignment { endpoint: *endpoint, ve: *ve, root: *root }
        }).collect();
        let lines: Vec<_> = assignments.iter().map(|w| format!("{:x}.{:x} {:x}\n", w.endpoint, w.ve, w.root)).collect();
        let text = lines.concat();
        let mut read = Assignments::new(vec![Assignment::NONE; 20]);
        prop_assert_eq!(read.read(text.as_bytes()), Ok(()));
        prop_assert_eq!(read.all(), &assignments);
        if read.read(&noise).is_err() {
            prop_assert_eq!(read.all(), &assignments);
        }
    }

    /// Whatever a component answers as its vital product data.
    #[test]
    fn mr_1_any_vpd_is_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Vpd::parse(&bytes);
    }

    /// No single bit can change unnoticed up to the checksum.
    #[test]
    fn mr_1_vpd_with_a_bit_turned_is_none(at: Index, bit in 0u8..8) {
        let good = vpd_bytes(&[(b"PN", b"WEFT-COPY"), (b"SN", b"7"), (b"V0", b"A")]);
        let mut bad = good.clone();
        bad[at.index(good.len())] ^= 1 << bit;
        prop_assert!(Vpd::parse(&bad).is_err());
    }
}

fn vpd_bytes(fields: &[(&[u8; 2], &[u8])]) -> Vec<u8> {
    let mut inner = vec![];
    for (key, value) in fields {
        inner.extend(*key);
        inner.push(value.len() as u8);
        inner.extend(*value);
    }
    let mut vpd = vec![0x82, 2, 0, b'E', b'P', 0x90];
    vpd.extend((inner.len() as u16 + 4).to_le_bytes());
    vpd.extend(inner);
    vpd.extend(b"RV\x01");
    let sum = vpd.iter().fold(0u8, |sum, b| sum.wrapping_add(*b));
    vpd.extend([sum.wrapping_neg(), 0x78]);
    vpd
}

#[test]
fn mr_1_vpd_says_what_a_component_is() {
    let bytes = vpd_bytes(&[
        (b"PN", b"WEFT-COPY"),
        (b"SN", b"0815"),
        (b"V0", b"blade A"),
        (b"V1", b"1"),
        (b"VX", b"another's"),
    ]);
    let vpd = Vpd::parse(&bytes).unwrap();
    assert_eq!(vpd.part.bytes(), b"WEFT-COPY");
    assert_eq!(vpd.serial.bytes(), b"0815");
    assert_eq!(vpd.blade.bytes(), b"blade A");
    assert!(vpd.sockets && vpd.resident.is_empty());
    for no in [&b"0"[..], b"", b"11"] {
        let vpd = Vpd::parse(&vpd_bytes(&[(b"V1", no)])).unwrap();
        assert!(!vpd.sockets, "S-3: {no:?}");
    }
    assert_eq!(Vpd::parse(&bytes[..bytes.len() - 1]), Err(Error::Short));
    let long = vpd_bytes(&[(b"SN", &[b'x'; 33])]);
    assert_eq!(Vpd::parse(&long), Err(Error::Long));
}

fn text(bytes: &[u8]) -> Text {
    Text::new(bytes).unwrap()
}

#[test]
fn mr_2_an_endpoint_sits_on_the_blade_of_its_vpd_or_of_its_switch() {
    let mut found = empty();
    let (mut a, mut b) = (root(0), root(1));
    (a.vpd.blade, b.vpd.blade) = (text(b"A"), text(b"B"));
    let mut s = switch(0);
    s.vpd.resident = text(b"B");
    let (mut says, silent, mut elsewhere) = (endpoint(0), endpoint(1), endpoint(2));
    (says.vpd.blade, elsewhere.vpd.blade) = (text(b"A"), text(b"C"));
    for component in [a, b, s, says, silent, elsewhere] {
        assert_eq!(found.found(component), Ok(News::New));
    }
    for n in 0..3 {
        let far = End {
            hwid: s.hwid,
            port: n,
        };
        found
            .joined(
                End {
                    hwid: 300 + u64::from(n),
                    port: 0,
                },
                far,
            )
            .unwrap();
    }
    let resident = |found: &Found, n: u64| found.get(300 + n).unwrap().resident;
    assert_eq!(resident(&found, 0), a.hwid, "its own word counts");
    assert_eq!(resident(&found, 1), b.hwid, "the switch in front says");
    assert_eq!(resident(&found, 2), 0, "there is none");
    // Physically associated: in the space of its blade's root complex without any assignment.
    let mut spaces = Spaces::new();
    assert_eq!(settle(&mut spaces, &found, &[]), []);
    let near = spaces[&a.hwid].of(a.hwid, 300, 0).unwrap();
    assert_eq!(near.association, Association::Physical);
    assert!(spaces[&b.hwid].of(b.hwid, 300, 0).is_none());
    // The blade is pulled, and not found again: none is left beside it.
    found.clear();
    for component in [b, s, says] {
        found.found(component).unwrap();
    }
    assert_eq!(resident(&found, 0), 0);
}

#[test]
fn mr_1_what_was_kept_tells_a_return_from_a_replacement() {
    let mut found = empty();
    let mut one = endpoint(0);
    one.vpd.serial = text(b"1");
    assert_eq!(found.found(one), Ok(News::New));
    assert_eq!(found.found(one), Ok(News::Known));
    one.vpd.serial = text(b"2");
    assert_eq!(found.found(one), Ok(News::Replaced));
    one.kind = Kind::Endpoint {
        ves: 1,
        functions: 1,
    };
    assert_eq!(found.found(one), Ok(News::Replaced));
}

#[test]
fn mr_3_each_assignment_that_cannot_be_has_its_reason() {
    let mut found = empty();
    let mut lonely = endpoint(1);
    lonely.lid = 0;
    for component in [root(0), switch(0), endpoint(0), lonely, endpoint(2)] {
        found.found(component).unwrap();
    }
    let ports = [(100, 0), (300, 1), (301, 2)];
    for (hwid, port) in ports {
        found
            .joined(End { hwid, port: 0 }, End { hwid: 200, port })
            .unwrap();
    }
    let assignment = |endpoint, ve, root| Assignment { endpoint, ve, root };
    let expected = [
        (assignment(300, 0, 100), Ok(())),
        (assignment(300, VES, 100), Err(Why::NoVe)),
        (assignment(301, 0, 100), Err(Why::NoLid)),
        (assignment(302, 0, 100), Err(Why::NoWay)),
        (assignment(399, 0, 100), Err(Why::NoEndpoint)),
        (assignment(300, 1, 199), Err(Why::NoRoot)),
        (assignment(300, 2, 200), Err(Why::NoRoot)),
    ];
    let assignments: Vec<_> = expected.iter().map(|(assignment, _)| *assignment).collect();
    let told = Manager::new().design(&found, &assignments);
    assert_eq!(told, expected.into_iter().collect());
}

#[test]
fn mr_7_a_link_has_fifteen_planes_to_give_and_the_sixteenth_assignment_says_so() {
    // Sixteen root complexes at one switch, an endpoint behind another.
    let mut found = empty();
    let kind = Kind::Endpoint {
        ves: 16,
        functions: 1,
    };
    let shared = weft_proto::mr::inventory::Component {
        lid: 300,
        ..endpoint(0)
    };
    let shared = weft_proto::mr::inventory::Component { kind, ..shared };
    for component in [switch(0), switch(1), shared] {
        found.found(component).unwrap();
    }
    let end = |hwid, port| End { hwid, port };
    found.joined(end(200, 31), end(201, 31)).unwrap();
    found.joined(end(201, 0), end(300, 0)).unwrap();
    let mut assignments = vec![];
    for n in 0..16 {
        found.found(root(n)).unwrap();
        found.joined(end(100 + n, 0), end(200, n as u8)).unwrap();
        assignments.push(Assignment {
            endpoint: 300,
            ve: n as u8,
            root: 100 + n,
        });
    }
    let mut manager = Manager::new();
    let told = manager.design(&found, &assignments);
    let refused: Vec<_> = told.iter().filter(|(_, done)| done.is_err()).collect();
    assert_eq!(refused, [(&assignments[15], &Err(Why::NoPlane))]);
    let others = manager.entries.all().iter().any(|e| e.component() == 115);
    assert!(!others, "nothing is left of it");
    // One goes, and the one that waited has its turn; the rest keep their planes.
    let before = manager.tables();
    assignments.remove(3);
    let told = manager.design(&found, &assignments);
    assert!(told.values().all(Result::is_ok));
    let kept = before
        .entries
        .intersection(&manager.tables().entries)
        .count();
    // Of the one that went: 2 entries at home, 2 planes at each switch, and its base.
    assert_eq!(before.entries.len() - kept, 2 + 2 + 2 + 1);
}

#[test]
fn mr_4_a_space_that_is_full_names_the_host() {
    let mut found = empty();
    let mut small = root(0);
    small.window = (1 << 32, (1 << 32) + (2 << 16) - 1);
    for component in [small, endpoint(0)] {
        found.found(component).unwrap();
    }
    let assignments: Vec<_> = (0..3)
        .map(|ve| Assignment {
            endpoint: 300,
            ve,
            root: 100,
        })
        .collect();
    let mut spaces = Spaces::new();
    assert_eq!(settle(&mut spaces, &found, &assignments), [(300, 2)]);
    assert_eq!(settle(&mut spaces, &found, &assignments[1..]), []);
    assert_eq!(spaces[&100].of(100, 300, 2).unwrap().base, 1 << 32);
}

#[test]
fn mr_7_too_little_memory_is_said_and_not_guessed() {
    let found = {
        let mut found = empty();
        for component in [root(0), switch(0), endpoint(0)] {
            found.found(component).unwrap();
        }
        for (hwid, port) in [(100, 0), (300, 1)] {
            found
                .joined(End { hwid, port: 0 }, End { hwid: 200, port })
                .unwrap();
        }
        found
    };
    let assignments = [Assignment {
        endpoint: 300,
        ve: 0,
        root: 100,
    }];
    // As documented, there and back by the same way: 3 entries, and 2 for the switch.
    let routes = routes(&found, 0);
    for (room, reach, expected) in [(5, 3, Ok(())), (4, 3, Err(Full)), (5, 2, Err(Full))] {
        let mut planes = Planes::new(vec![Hierarchy::NONE; 1], vec![Plane::NONE; 2]);
        let mut entries = List::new(vec![Entry::NONE; room]);
        let mut reach = vec![Reach::NONE; reach];
        let done = design(
            &found,
            &|at, lid| (at < 200).then_some(0).or(routes.get(&(at, lid)).copied()),
            &assignments,
            &mut planes,
            &mut reach,
            &mut entries,
            |_, _| (),
        );
        assert_eq!(done, expected, "{room} entries");
    }
}

#[test]
fn mr_3_a_text_of_assignments_says_which_line_is_none() {
    let mut assignments = Assignments::new(vec![Assignment::NONE; 2]);
    let text = b"# mine\n\n  3e8.1   a \n3e8.0 b\n";
    assert_eq!(assignments.read(text), Ok(()));
    let assignment = |ve, root| Assignment {
        endpoint: 0x3e8,
        ve,
        root,
    };
    assert_eq!(assignments.all(), [assignment(0, 11), assignment(1, 10)]);
    for (bad, why) in [
        (&b"3e8.1 a\n3e8 b\n"[..], assignment::Error::Line(2)),
        (b"3e8.100 b", assignment::Error::Line(1)),
        (b"0.1 b", assignment::Error::Line(1)),
        (b"1.1 b c", assignment::Error::Line(1)),
        (b"1.1 b\n\n1.1 c", assignment::Error::Twice(3)),
        (b"1.1 b\n1.2 b\n1.3 b", assignment::Error::Full(3)),
    ] {
        assert_eq!(assignments.read(bad), Err(why));
        assert_eq!(assignments.all().len(), 2, "as before");
    }
}

#[test]
fn mr_1_a_node_that_says_what_cannot_be_is_no_component() {
    let ep = |functions| Kind::Endpoint { ves: 4, functions };
    let switch = |ports| Kind::Switch { ports };
    for (kind, ports, port) in [
        (Kind::Root, 1, 0),
        (Kind::Root, 4, 3),
        (switch(16), 16, 15),
        (ep(1), 1, 0),
    ] {
        assert!(kind.can_be(ports, port), "{kind:?} {ports} {port}");
    }
    // A host would take no hierarchy with one of these in it.
    for (kind, ports, port) in [
        (Kind::Root, 5, 0),
        (Kind::Root, 2, 2),
        (switch(0), 0, 0),
        (switch(16), 16, 16),
        (switch(17), 17, 0),
        (switch(255), 255, 200),
        (ep(0), 1, 0),
        (ep(1), 1, 1),
        (ep(1), 2, 1),
    ] {
        assert!(!kind.can_be(ports, port), "{kind:?} {ports} {port}");
    }
}
