// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Shared endpoints as weftctl shows them: the system of Figs 10 to 12, as its master is
//! told of it. The picture of it is kept in `tests/map`; `WEFT_MAP=write` writes it anew.

#![allow(clippy::expect_used)]

use std::fs;
use std::path::Path;
use weft::{Fabric, FabricNode, FabricPort, NodeKind};
use weftctl::map::draw;
use weftctl::multiroot::{Assignment, Component, Given, Hierarchy, Hwid, Known, Place, State, vh};
use weftctl::tree::{Node, picture, text};

const RC: [u64; 2] = [1, 2];
const SW: [u64; 3] = [0x8000_0000_0000_0011, 0x8000_0000_0000_0012, 0x8000_0000_0000_0013];

fn ep(n: usize) -> u64 {
    0xc000_0000_0000_0020 + n as u64
}

/// All nodes with local id, way from rc1, and what is at which port.
fn fabric() -> Fabric {
    let node = |hwid: u64, lid: u32, path: &[u8], ports: &[(u8, u64)]| FabricNode {
        hwid,
        lid: Some(lid),
        kind: match hwid >> 62 {
            3 => NodeKind::Endpoint,
            2 => NodeKind::Switch,
            _ => NodeKind::Host,
        },
        known: true,
        own: hwid == RC[0],
        master: hwid == RC[0],
        scale: false,
        path: path.to_vec(),
        links: (hwid != RC[0]).then_some(path.len() as u32),
        ports: ports
            .iter()
            .map(|&(number, peer)| FabricPort { number, peer, speed: 4, width: 8 })
            .collect(),
    };
    let sw1 = [(0, RC[0]), (1, ep(1)), (2, SW[1]), (3, SW[2])];
    let sw2 = [(0, RC[1]), (1, ep(2)), (2, SW[0]), (3, SW[2])];
    let sw3 = [(0, SW[0]), (1, SW[1]), (2, ep(3)), (3, ep(4)), (4, ep(5)), (5, ep(6))];
    Fabric {
        nodes: vec![
            node(RC[0], 1, &[], &[(0, SW[0])]),
            node(SW[0], 2, &[0], &sw1),
            node(ep(1), 3, &[0, 1], &[(0, SW[0])]),
            node(SW[1], 4, &[0, 2], &sw2),
            node(SW[2], 5, &[0, 3], &sw3),
            node(RC[1], 6, &[0, 2, 0], &[(0, SW[1])]),
            node(ep(2), 7, &[0, 2, 1], &[(0, SW[1])]),
            node(ep(3), 8, &[0, 3, 2], &[(0, SW[2])]),
            node(ep(4), 9, &[0, 3, 3], &[(0, SW[2])]),
            node(ep(5), 10, &[0, 3, 4], &[(0, SW[2])]),
            node(ep(6), 11, &[0, 3, 5], &[(0, SW[2])]),
        ],
    }
}

/// A hierarchy: depth, port of the one above, and what is there.
fn hierarchy(number: u32, places: &[(u32, u32, u64)]) -> Hierarchy {
    let lid = |hwid| fabric().node(hwid).and_then(|node| node.lid).unwrap_or(0);
    let kind = |hwid: u64| ["host", "host", "switch", "endpoint"][(hwid >> 62) as usize];
    let mut base = 1u64 << 40;
    let mut given = |hwid: u64| {
        let (first, limit) = (base, base + (1 << 30) - 1);
        (hwid >> 62 == 3).then(|| {
            base = limit + 1;
            Given { ve: 0, functions: 1, plane: number - 1, base: first, limit }
        })
    };
    let place = |&(depth, port, hwid): &(u32, u32, u64)| Place {
        kind: kind(hwid).into(),
        hwid: Hwid(hwid),
        lid: lid(hwid),
        depth,
        port,
        given: given(hwid),
    };
    let root = Hwid(places[0].2);
    Hierarchy { root, number, places: places.iter().map(place).collect() }
}

fn known() -> Known {
    let component = |hwid: u64, name: &str, blade: &str| Component {
        kind: ["host", "host", "switch", "endpoint"][(hwid >> 62) as usize].into(),
        hwid: Hwid(hwid),
        there: true,
        vpd_in_order: true,
        ves: if hwid >> 62 == 3 { 2 } else { 0 },
        functions: 1,
        part: if hwid >> 62 == 3 { "WEFT-COPY" } else { "" }.into(),
        serial_number: name.into(),
        blade: blade.into(),
        ..Component::default()
    };
    let blade = ["host system 1", "host system 2", ""];
    let mut components = vec![component(1, "rc1", blade[0]), component(2, "rc2", blade[1])];
    components.extend((0..3).map(|n| component(SW[n], &format!("sw{}", n + 1), blade[n])));
    components.extend((1..7).map(|n| component(ep(n), &format!("ep{n}"), blade[(n - 1).min(2)])));
    let assignment = |(n, root)| Assignment {
        endpoint: Hwid(ep(n)),
        ve: 0,
        root: Hwid(root),
        state: Some(State::Done),
    };
    let assignments = [(1, 2), (2, 1), (3, 2), (4, 1), (5, 1), (6, 2)].map(assignment);
    let vh1 = [
        (0, 0, RC[0]),
        (1, 0, SW[0]),
        (2, 2, SW[1]),
        (3, 1, ep(2)),
        (2, 3, SW[2]),
        (3, 3, ep(4)),
        (3, 4, ep(5)),
    ];
    let vh2 = [
        (0, 0, RC[1]),
        (1, 0, SW[1]),
        (2, 2, SW[0]),
        (3, 1, ep(1)),
        (2, 3, SW[2]),
        (3, 2, ep(3)),
        (3, 5, ep(6)),
    ];
    Known {
        assignments: assignments.to_vec(),
        components: Some(components),
        hierarchies: vec![hierarchy(2, &vh1), hierarchy(3, &vh2)],
    }
}

#[test]
fn mr_3_the_tree_says_whose_each_virtual_endpoint_is() {
    let mut known = known();
    known.assignments[2].state = Some(State::NoLid);
    let ep6 = known.components.as_mut().and_then(|all| all.last_mut()).expect("ep6");
    ep6.sockets = true;
    let wanted = "\
host rc1 0x1, LID 1, this host, master
 \\-0- gen4 x8 - switch sw1 0x8000000000000011, LID 2
     +-1- gen4 x8 - endpoint ep1 0xc000000000000021, LID 3, WEFT-COPY, on host system 1, .0 of rc2, .1 free
     +-2- gen4 x8 - switch sw2 0x8000000000000012, LID 4
     |   +-0- gen4 x8 - host rc2 0x2, LID 6
     |   +-1- gen4 x8 - endpoint ep2 0xc000000000000022, LID 7, WEFT-COPY, on host system 2, .0 of rc1, .1 free
     |   \\-3- gen4 x8 - [0x8000000000000013]
     \\-3- gen4 x8 - switch sw3 0x8000000000000013, LID 5
         +-1- gen4 x8 - [0x8000000000000012]
         +-2- gen4 x8 - endpoint ep3 0xc000000000000023, LID 8, WEFT-COPY, .0 not yet of rc2, .1 free
         +-3- gen4 x8 - endpoint ep4 0xc000000000000024, LID 9, WEFT-COPY, .0 of rc1, .1 free
         +-4- gen4 x8 - endpoint ep5 0xc000000000000025, LID 10, WEFT-COPY, .0 of rc1, .1 free
         \\-5- gen4 x8 - endpoint ep6 0xc000000000000026, LID 11, WEFT-COPY, sockets, .0 of rc2, .1 free
";
    assert_eq!(text(&fabric(), &known), wanted);
}

#[test]
fn mr_7_elsewhere_a_host_knows_what_is_its_own() {
    let mut known = known();
    known.components = None;
    known.hierarchies.remove(0);
    for assignment in &mut known.assignments {
        assignment.state = None;
    }
    let shown = text(&fabric(), &known);
    let line = |hwid: &str| shown.lines().find(|line| line.contains(hwid)).expect("a line");
    assert!(line("0xc000000000000021").ends_with("endpoint 0xc000000000000021, LID 3, .0 of 0x2"));
    assert!(line("0xc000000000000022").ends_with("endpoint 0xc000000000000022, LID 7"));
    // Nor is more than that drawn.
    let drawn = picture(&fabric(), &known);
    assert_eq!(drawn.hierarchies, ["host 0x2"]);
    assert!(drawn.nodes.iter().all(|node| node.name.is_none()));
}

#[test]
fn mr_3_a_hierarchy_is_a_tree() {
    let known = known();
    let shown: Vec<_> = known.hierarchies.iter().map(|tree| vh::text(tree, &known)).collect();
    let wanted = "\
host rc1 0x1, LID 1, hierarchy 2
 \\-0- switch sw1 0x8000000000000011, LID 2
     +-2- switch sw2 0x8000000000000012, LID 4
     |   \\-1- endpoint ep2 0xc000000000000022, VE 0, LID 7, 1 function, plane 1, 0x10000000000-0x1003fffffff
     \\-3- switch sw3 0x8000000000000013, LID 5
         +-3- endpoint ep4 0xc000000000000024, VE 0, LID 9, 1 function, plane 1, 0x10040000000-0x1007fffffff
         \\-4- endpoint ep5 0xc000000000000025, VE 0, LID 10, 1 function, plane 1, 0x10080000000-0x100bfffffff
";
    assert_eq!(shown[0], wanted);
    let order: Vec<&str> =
        shown[1].lines().filter_map(|line| line.split("- ").nth(1)?.split(' ').nth(1)).collect();
    assert_eq!(order, ["sw2", "sw1", "ep1", "sw3", "ep3", "ep6"]);

    let alone = Hierarchy { number: 0, ..hierarchy(2, &[(0, 0, RC[0])]) };
    assert_eq!(vh::text(&alone, &known), "host rc1 0x1, LID 1, no endpoint is its own\n");
}

#[test]
fn the_picture_has_a_colour_and_a_letter_for_each_hierarchy() {
    let drawn = picture(&fabric(), &known());
    let svg = draw(&drawn);
    for said in [
        "endpoint ep1: 0xc000000000000021, LID 3, in B, WEFT-COPY, on host system 1, .0 of rc2, .1 free.",
        "host rc1 port 0 to switch sw1 port 0: gen4 x8 A.",
        "switch sw1 port 2 to switch sw2 port 2: gen4 x8 A B.",
        "switch sw1 port 3 to switch sw3 port 0: gen4 x8 A.",
        "switch sw2 port 3 to switch sw3 port 1: gen4 x8 B.",
        "A is the hierarchy of host rc1. B is the hierarchy of host rc2.",
    ] {
        assert!(drawn.words().contains(said), "{said}: {}", drawn.words());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/map/shared.svg");
    if std::env::var_os("WEFT_MAP").is_some_and(|value| value == "write") {
        fs::write(&path, &svg).expect("a picture");
    }
    let kept = fs::read_to_string(&path).expect("a picture");
    assert!(svg == kept, "WEFT_MAP=write, then look at {}", path.display());
}

#[test]
fn json_says_the_same_and_is_read_back() {
    let known = known();
    let node = Node::new(fabric().node(ep(2)).expect("ep2"), &known);
    let json = serde_json::to_value(&node).expect("JSON");
    assert_eq!(json["name"], "ep2");
    assert_eq!((&json["kind"], &json["part"]), (&"endpoint".into(), &"WEFT-COPY".into()));
    assert_eq!(
        json["ves"],
        serde_json::json!([{"ve": 0, "root": "0x1", "state": "done"},
            {"ve": 1, "root": null, "state": null}])
    );
    assert_eq!(serde_json::from_value::<Node>(json).expect("a node"), node);
    let json = serde_json::to_string(&known).expect("JSON");
    assert!(json.contains("\"root\":\"0x1\",\"state\":\"done\""), "{json}");
    assert_eq!(serde_json::from_str::<Known>(&json).expect("read back"), known);
}
