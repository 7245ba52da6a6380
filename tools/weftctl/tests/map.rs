// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The picture of a fabric: some that are kept in `tests/map`, to be looked at by
//! eye; of any other, that no text stands on another and nothing is outside.
//! `WEFT_MAP=write` writes those that are kept anew.

#![allow(clippy::expect_used)]

use proptest::prelude::*;
use std::fs;
use std::path::Path;
use weftctl::map::fabric::{End, Kind, Link, Node, Role, State};
use weftctl::map::layout::{Rect, lay};
use weftctl::map::{Fabric, draw};

fn host(hwid: u64, lid: u32) -> Node {
    Node { hwid, lid: Some(lid), role: Some(Role::Standby), ..Node::default() }
}

fn switch(hwid: u64, name: &str) -> Node {
    Node {
        hwid,
        name: Some(name.into()),
        kind: Kind::Switch,
        lid: Some(hwid as u32),
        ..Node::default()
    }
}

fn link(a: (usize, u32), b: (usize, u32)) -> Link {
    let end = |(node, port)| End { node, port: Some(port) };
    Link { ends: [end(a), end(b)], speed: 4, width: 8, ..Link::default() }
}

/// Four hosts at two switches.
fn four() -> Fabric {
    let mut nodes = vec![host(1, 1), host(2, 4), host(3, 5), host(4, 6)];
    nodes[0].role = Some(Role::Master);
    nodes[0].here = true;
    nodes.extend([switch(0x101, "s1"), switch(0x102, "s2")]);
    let mut links = vec![
        link((0, 0), (4, 0)),
        link((1, 0), (4, 1)),
        link((4, 2), (5, 2)),
        link((2, 0), (5, 0)),
        link((3, 0), (5, 1)),
    ];
    links[2].speed = 5;
    links[2].width = 16;
    Fabric { nodes, links, hierarchies: vec![] }
}

/// A ring with a chord, where not everything is well.
fn ring() -> Fabric {
    let mut nodes: Vec<Node> = (0..5).map(|n| host(0x20 + n, n as u32 + 1)).collect();
    nodes[2].here = true;
    nodes[0].role = Some(Role::Master);
    let (name, trouble) = (Some("a<&\"b".into()), Some("does not answer".into()));
    nodes.push(Node { hwid: 0x99, name, trouble, ..Node::default() });
    let mut links: Vec<Link> = (0..5).map(|n| link((n, 0), ((n + 1) % 5, 1))).collect();
    links[0].state = State::Down;
    links[3].state = State::Excluded;
    links.push(link((0, 2), (3, 2)));
    links.push(link((0, 3), (3, 3)));
    links[6].speed = 0;
    Fabric { nodes, links, hierarchies: vec![] }
}

/// Two hosts, three switches and six endpoints, in two hierarchies: Figs 10 to 12.
fn hierarchies() -> Fabric {
    let mut nodes = vec![host(1, 1), host(2, 2)];
    nodes[0].here = true;
    nodes[0].role = Some(Role::Master);
    nodes.extend([switch(0x11, "s1"), switch(0x12, "s2"), switch(0x13, "s3")]);
    for n in 1..=6u64 {
        let name = Some(format!("ep{n}"));
        let lid = Some(0x20 + n as u32);
        nodes.push(Node { hwid: 0x20 + n, name, kind: Kind::Endpoint, lid, ..Node::default() });
    }
    let mut links = vec![
        link((0, 0), (2, 0)),
        link((1, 0), (3, 0)),
        link((2, 1), (3, 1)),
        link((2, 2), (4, 0)),
        link((3, 2), (4, 1)),
        link((2, 3), (5, 0)),
        link((3, 3), (6, 0)),
        link((3, 4), (7, 0)),
        link((4, 2), (8, 0)),
        link((4, 3), (9, 0)),
        link((4, 4), (10, 0)),
    ];
    let planes: [&[usize]; 11] =
        [&[0], &[1], &[0, 1], &[0], &[1], &[1], &[0], &[1], &[0], &[0], &[1]];
    for (link, planes) in links.iter_mut().zip(planes) {
        link.hierarchies = planes.to_vec();
    }
    let of: [&[usize]; 11] =
        [&[0], &[1], &[0, 1], &[0, 1], &[0, 1], &[1], &[0], &[1], &[0], &[0], &[1]];
    for (node, planes) in nodes.iter_mut().zip(of) {
        node.hierarchies = planes.to_vec();
    }
    Fabric { nodes, links, hierarchies: vec!["rc1".into(), "rc2".into()] }
}

#[test]
fn known_fabrics_look_as_they_did() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/map");
    let alone = Fabric { nodes: vec![Node { here: true, ..host(7, 1) }], ..Fabric::default() };
    let all =
        [("alone", alone), ("four", four()), ("ring", ring()), ("hierarchies", hierarchies())];
    for (name, fabric) in all {
        let path = dir.join(name).with_extension("svg");
        let drawn = draw(&fabric);
        if std::env::var_os("WEFT_MAP").is_some_and(|value| value == "write") {
            fs::write(&path, &drawn).expect("a picture");
        }
        let kept = fs::read_to_string(&path).expect("a picture");
        assert!(drawn == kept, "{name}: WEFT_MAP=write, then look at {}", path.display());
        sound(&fabric);
    }
}

#[test]
fn the_picture_is_said_in_words() {
    let drawn = draw(&ring());
    for said in [
        "<title id=\"title\">Weft fabric: 6 nodes, 7 links</title>",
        "host 0x22: LID 3, standby, this host.",
        "host 0x20 port 0 to host 0x21 port 1: down.",
        "host 0x23 port 0 to host 0x24 port 1: gen4 x8 excluded.",
        "host a&lt;&amp;&quot;b: 0x99, no LID, does not answer.",
    ] {
        assert!(drawn.contains(said), "{said}: {drawn}");
    }
    assert!(draw(&hierarchies()).contains("B: hierarchy of rc2"));
}

/// No text stands on another, or where a box or the edge cuts it.
fn sound(fabric: &Fabric) {
    let layout = lay(fabric);
    let page = Rect { x: layout.left, y: 0, w: layout.width, h: layout.height };
    let inside = |r: &Rect| {
        r.x >= page.x && r.y >= page.y && r.x + r.w <= page.x + page.w && r.y + r.h <= page.h
    };
    let mut texts = Vec::new();
    for b in &layout.boxes {
        for text in b.lines.iter().chain(&b.ports) {
            let fits = text.rect.x >= b.rect.x && text.rect.x + text.rect.w <= b.rect.x + b.rect.w;
            assert!(fits, "{text:?} is not in {:?}", b.rect);
            texts.push(text);
        }
    }
    for wire in &layout.wires {
        texts.push(&wire.label);
        for b in &layout.boxes {
            assert!(!wire.label.rect.meets(&b.rect), "{wire:?} is on {b:?}");
        }
    }
    for (n, text) in texts.iter().enumerate() {
        assert!(inside(&text.rect), "{text:?} is outside of {page:?}");
        for other in texts.iter().skip(n + 1) {
            assert!(!text.rect.meets(&other.rect), "{text:?} meets {other:?}");
        }
    }
    for (n, b) in layout.boxes.iter().enumerate() {
        assert!(inside(&b.rect), "{b:?} is outside of {page:?}");
        assert!(layout.boxes.iter().skip(n + 1).all(|other| !b.rect.meets(&other.rect)));
    }
    let valid = fabric.links.iter().filter(|link| fabric.nodes_of(link).is_some()).count();
    assert_eq!((layout.boxes.len(), layout.wires.len()), (fabric.nodes.len(), valid));
}

fn any_fabric() -> impl Strategy<Value = Fabric> {
    let node = (any::<u64>(), 0..3u8, prop::option::of("[a-z]{0,20}"), any::<bool>());
    let nodes = prop::collection::vec(node, 0..24);
    let joined =
        (0..24usize, 0..24usize, 0..4u8, 0..64u32, prop::collection::vec(0..30usize, 0..4));
    (nodes, prop::collection::vec(joined, 0..48)).prop_map(|(nodes, links)| {
        let node = |(hwid, kind, name, here)| {
            let kind = [Kind::Host, Kind::Switch, Kind::Endpoint][usize::from(kind)];
            Node { hwid, kind, name, here, ..Node::default() }
        };
        let link = |(a, b, state, port, hierarchies): (_, _, u8, _, _)| {
            let state = [State::Up, State::Down, State::Excluded, State::Up][usize::from(state)];
            let mut link = Link { state, hierarchies, ..link((a, port), (b, port / 3)) };
            link.ends[1].port = link.ends[1].port.filter(|port| port % 5 != 0);
            link
        };
        let nodes = nodes.into_iter().map(node).collect();
        Fabric { nodes, links: links.into_iter().map(link).collect(), hierarchies: vec![] }
    })
}

proptest! {
    #[test]
    fn no_text_stands_on_another(fabric in any_fabric()) {
        sound(&fabric);
        prop_assert_eq!(draw(&fabric), draw(&fabric));
    }
}
