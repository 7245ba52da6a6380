// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The system of Figs 10 to 12 in a real daemon: what a traversal by configuration
//! requests finds, which trees come of it, and that the tables that follow carry
//! traffic of each hierarchy and no other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::pcim::Pcim;
use common::queue::Queue;
use common::world::World;
use weft_fabric::wire::abi::*;
use weft_proto::mr::aperture::{Aperture, Apertures, Association};
use weft_proto::mr::design::Why;
use weft_proto::mr::inventory::Kind;
use weft_proto::mr::tree::{Reach, Tree};
use weft_proto::mr::vpd::{Error, Vpd};

const FIGURES: &str = include_str!("../../../Documentation/examples/figs10-12.toml");

/// Whose is what, as 0082 and 0083 say.
const ASSIGNMENTS: [(&str, &str); 6] = [
    ("ep2", "rc1"),
    ("ep4", "rc1"),
    ("ep5", "rc1"),
    ("ep1", "rc2"),
    ("ep3", "rc2"),
    ("ep6", "rc2"),
];

fn found() -> (World, Pcim) {
    let mut world = World::start(FIGURES, &["rc1", "rc2"]);
    let mut pcim = Pcim::new(0, 1);
    pcim.discover(&mut world);
    for (endpoint, root) in ASSIGNMENTS {
        pcim.assign(endpoint, 0, root);
    }
    (world, pcim)
}

/// A tree as people draw it, a component a line.
fn drawn(pcim: &Pcim, root: &str) -> String {
    let mut reach = [Reach::NONE; 32];
    let mut tree = Tree::new(&pcim.found, pcim.named(root), &mut reach).unwrap();
    for assignment in pcim.assignments.iter().filter(|w| w.root == pcim.named(root)) {
        tree.add(assignment.endpoint);
    }
    let lines = tree.walk().map(|v| {
        let name = String::from_utf8_lossy(v.component.vpd.serial.bytes()).into_owned();
        format!("{}{name}\n", "  ".repeat(v.depth as usize))
    });
    lines.collect()
}

#[test]
fn mr_1_a_traversal_finds_all_of_fig_10() {
    let (_world, pcim) = found();
    let count =
        |kind: fn(&Kind) -> bool| pcim.found.components().iter().filter(|c| kind(&c.kind)).count();
    assert_eq!(count(|k| matches!(k, Kind::Root)), 2);
    assert_eq!(count(|k| matches!(k, Kind::Switch { ports: 8 })), 3);
    assert_eq!(count(|k| matches!(k, Kind::Endpoint { ves: 2, functions: 1 })), 6);
    assert_eq!(pcim.found.links().len(), 11);
    assert!(pcim.found.components().iter().all(|c| (c.hwid >> 63 == 0) == c.is_root()));
}

#[test]
fn mr_1_vpd_that_are_damaged_are_none() {
    let mut world = World::start(FIGURES, &["rc1", "rc2"]);
    // A switch, an endpoint and a host, by the ports that lead there from rc1.
    let all: [(&str, &[u8]); 3] = [("sw1", &[0]), ("ep1", &[0, 1]), ("rc2", &[0, 2, 0])];
    let said = |world: &mut World| {
        all.map(|(_, path)| {
            let space = WEFT_SPACE_CONFIG;
            let mut word = |n| world.read(0, path, space, WEFT_CS_VPD + 4 * n).to_le_bytes();
            let bytes: Vec<u8> = (0..WEFT_CS_VPD_BYTES / 4).flat_map(&mut word).collect();
            Vpd::parse(&bytes).map(|vpd| String::from_utf8_lossy(vpd.serial.bytes()).into_owned())
        })
    };
    let whole = all.map(|(name, _)| Ok(name.to_owned()));
    assert_eq!(said(&mut world), whole);
    for (n, (name, _)) in all.iter().enumerate() {
        world.daemon.json(&["inject", "vpd", name]);
        let mut expected = whole.clone();
        expected[n] = Err(Error::Sum);
        assert_eq!(said(&mut world), expected);
        world.daemon.json(&["inject", "clear"]);
    }
    assert_eq!(said(&mut world), whole);
}

#[test]
fn mr_2_endpoints_are_told_which_host_they_sit_with() {
    let (mut world, mut pcim) = found();
    let resident = |name: &str| pcim.found.get(pcim.named(name)).unwrap().resident;
    let (rc1, rc2) = (pcim.named("rc1"), pcim.named("rc2"));
    let all = ["ep1", "ep2", "ep3", "ep4", "ep5", "ep6"].map(resident);
    assert_eq!(all, [rc1, rc2, 0, 0, 0, 0]);
    pcim.carry_out(&mut world);
    let status = world.daemon.json(&["status"]);
    let nodes = status["nodes"].as_array().unwrap();
    let told = nodes.iter().filter_map(|n| n["endpoint"]["resident"].as_u64());
    assert_eq!(told.collect::<Vec<_>>(), all);
}

#[test]
fn mr_3_the_trees_are_those_of_figs_11_and_12() {
    let (_world, pcim) = found();
    assert_eq!(
        drawn(&pcim, "rc1"),
        "\
rc1
  sw1
    sw2
      ep2
    sw3
      ep4
      ep5
"
    );
    assert_eq!(
        drawn(&pcim, "rc2"),
        "\
rc2
  sw2
    sw1
      ep1
    sw3
      ep3
      ep6
"
    );
}

#[test]
fn mr_4_every_space_has_a_place_for_all_that_belongs_there() {
    let (_world, pcim) = found();
    let (rc1, rc2, ep1) = (pcim.named("rc1"), pcim.named("rc2"), pcim.named("ep1"));
    let places = |space| {
        let mut places = Apertures::new(vec![Aperture::NONE; 64]);
        places.settle(&pcim.found, &pcim.assignments, space, |claim| panic!("{claim:?}")).unwrap();
        places
    };
    let association = |space, who| places(space).of(space, who, 0).map(|a| a.association);
    // 0084: EP1 is in two spaces, on its own blade and by assignment in that of host 2.
    assert_eq!(association(rc1, ep1), Some(Association::Physical));
    assert_eq!(association(rc2, ep1), Some(Association::Logical));
    // 0086, 0087: so is each root complex.
    for (space, other) in [(rc1, rc2), (rc2, rc1)] {
        assert_eq!(association(space, space), Some(Association::Own));
        assert_eq!(association(space, other), Some(Association::Peer));
    }
    assert_eq!(association(rc1, pcim.named("ep3")), None, "not its own, not its blade's");
}

#[test]
fn mr_7_each_root_complex_reaches_its_own_endpoints_and_no_other() {
    let (mut world, mut pcim) = found();
    pcim.carry_out(&mut world);
    let endpoints = ["ep1", "ep2", "ep3", "ep4", "ep5", "ep6"];
    for host in 0..2 {
        for endpoint in endpoints {
            world.hosts[host].want(pcim.lid(endpoint));
        }
    }
    for (endpoint, root) in ASSIGNMENTS {
        let (lid, host) = (pcim.lid(endpoint), usize::from(root == "rc2"));
        world.until(endpoint, |hosts| {
            hosts[host].seen.get(&lid).is_some_and(|seen| seen.apertures.len() == 1)
        });
    }
    // By now all that could come has: what was asked for before is answered before.
    for host in 0..2 {
        world.read(host, &[0], 0, 0);
        assert_eq!(world.hosts[host].seen.len(), 3);
        let tables = world.daemon.json(&["route", "show", ["rc1", "rc2"][host]]);
        let remotes = tables["remotes"].as_array().unwrap();
        let reached = remotes.iter().filter(|r| r["up"] == true);
        let mut names: Vec<_> = reached.map(|r| r["at"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, [["ep2", "ep4", "ep5"], ["ep1", "ep3", "ep6"]][host]);
    }
}

#[test]
fn mr_7_withdrawing_an_endpoint_gives_back_all_that_was_its_own() {
    let (mut world, mut pcim) = found();
    pcim.carry_out(&mut world);
    let full = pcim.entries.len();
    let assignment = pcim.assignments.remove(0);
    pcim.carry_out(&mut world);
    assert!(pcim.entries.len() < full);
    let ep2 = assignment.endpoint;
    assert!(pcim.entries.iter().all(|e| e.component() != ep2));
    assert_eq!(world.hosts[0].seen.len(), 2);
    pcim.assignments.clear();
    pcim.carry_out(&mut world);
    assert_eq!(pcim.entries, []);
    for switch in ["sw1", "sw2", "sw3"] {
        let tables = world.daemon.json(&["route", "show", switch]);
        assert_eq!(
            (&tables["routes"], &tables["vps"]),
            (&serde_json::json!([]), &serde_json::json!([]))
        );
    }
}

#[test]
fn mr_7_a_hierarchy_goes_by_routes_that_are_there_and_may_go_another_way_back() {
    let (mut world, mut pcim) = found();
    pcim.assignments.clear();
    pcim.assign("ep2", 0, "rc1");
    pcim.assign("ep3", 0, "rc1");
    // To EP2 straight from switch 1 to switch 2, and back over switch 3; to EP3 no way.
    let (ep2, rc1) = (pcim.lid("ep2"), world.hosts[0].lid);
    for (switch, lid, port) in
        [("sw1", ep2, 2), ("sw2", ep2, 1), ("sw2", rc1, 3), ("sw3", rc1, 0), ("sw1", rc1, 0)]
    {
        world.daemon.json(&["route", "set", switch, &lid.to_string(), &port.to_string()]);
    }
    pcim.take_routes(&mut world);
    let ep3 = pcim.assignments[1];
    assert_eq!(pcim.design().1, [(ep3, Why::NoWay)]);
    pcim.assignments.pop();
    pcim.carry_out(&mut world);
    let mut queue = Queue::of(&mut world, &pcim, "ep2", 0, 0, 1, 0, 0);
    queue.works(&world, 1);
    let cables = world.daemon.json(&["traffic"]);
    let passed = |a: &str, b: &str| {
        let cable =
            cables.as_array().unwrap().iter().find(|c| c["ends"] == serde_json::json!([a, b]));
        let traffic = cable.unwrap()["traffic"].as_array().unwrap().clone();
        traffic.iter().any(|t| t["tlps"].as_u64() > Some(0))
    };
    assert!(passed("sw1:3", "sw3:0") && passed("sw2:3", "sw3:1"), "what the endpoint sends");
    assert!(!passed("sw1:2", "sw2:2"), "that is the way of what the host sends, who is not traced");
}
