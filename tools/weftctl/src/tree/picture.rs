// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a picture of the fabric has to show: nodes, links, and the hierarchies that are on
//! them. Knows nothing of how it is drawn.

use super::{notes, trouble};
use crate::map;
use crate::multiroot::{Hierarchy, Hwid, Known, Names};
use std::collections::{BTreeMap, VecDeque};
use weft::{Fabric, FabricNode, FabricPort, NodeKind};

/// What a picture has to show, the hierarchies that are known included. Which two ports a link joins is not told where two nodes
/// have several: they are taken in their order.
pub fn picture(fabric: &Fabric, known: &Known) -> map::Fabric {
    let mut halves: BTreeMap<(usize, usize), VecDeque<&FabricPort>> = BTreeMap::new();
    for (n, node) in fabric.nodes.iter().enumerate() {
        for port in &node.ports {
            // None of that name: its node is not listed yet.
            let Some(other) = fabric.nodes.iter().position(|o| o.hwid == port.peer) else {
                continue;
            };
            halves.entry((n, other)).or_default().push_back(port);
        }
    }
    let mut links = Vec::new();
    let pairs: Vec<(usize, usize)> = halves.keys().copied().collect();
    for (a, b) in pairs {
        while let Some(port) = halves.get_mut(&(a, b)).and_then(VecDeque::pop_front) {
            let back = halves.get_mut(&(b, a)).and_then(VecDeque::pop_front);
            let end = |node, port: Option<&FabricPort>| map::fabric::End {
                node,
                port: port.map(|port| u32::from(port.number)),
            };
            links.push(map::fabric::Link {
                ends: [end(a, Some(port)), end(b, back)],
                speed: port.speed,
                width: port.width,
                ..Default::default()
            });
        }
    }
    let managed = fabric.master().is_some();
    let nodes = fabric.nodes.iter().map(|node| drawn(node, managed, known)).collect();
    let mut picture = map::Fabric { nodes, links, hierarchies: Vec::new() };
    for hierarchy in known.hierarchies.iter().filter(|hierarchy| hierarchy.number != 0) {
        put(&mut picture, hierarchy, known);
    }
    picture
}

/// Puts a hierarchy onto the nodes and links that it has.
fn put(picture: &mut map::Fabric, hierarchy: &Hierarchy, known: &Known) {
    let number = picture.hierarchies.len();
    let name = Names::new(known.components.as_deref()).of(hierarchy.root);
    picture.hierarchies.push(format!("host {name}"));
    let at = |picture: &map::Fabric, hwid: Hwid| {
        picture.nodes.iter().position(|node| node.hwid == hwid.0)
    };
    let mark = |all: &mut Vec<usize>| {
        if !all.contains(&number) {
            all.push(number);
        }
    };
    for (n, place) in hierarchy.places.iter().enumerate() {
        // What is only there is not in it.
        let only_there = place.kind == "endpoint" && place.given.is_none();
        let Some(node) = at(picture, place.hwid).filter(|_| !only_there) else { continue };
        mark(&mut picture.nodes[node].hierarchies);
        let above = hierarchy.above(n).and_then(|above| hierarchy.places.get(above));
        let Some(above) = above.and_then(|above| at(picture, above.hwid)) else { continue };
        let by = |link: &map::fabric::Link, strict: bool| {
            let [a, b] = link.ends;
            [(a, b), (b, a)].into_iter().any(|(from, to)| {
                let port = !strict || from.port == Some(place.port);
                from.node == above && to.node == node && port
            })
        };
        // Of several links that of the port; which it is may not be told.
        let links = &picture.links;
        let found = links.iter().position(|link| by(link, true));
        let found = found.or_else(|| links.iter().position(|link| by(link, false)));
        if let Some(link) = found {
            mark(&mut picture.links[link].hierarchies);
        }
    }
}

fn drawn(node: &FabricNode, managed: bool, known: &Known) -> map::fabric::Node {
    use map::fabric::{Kind, Role};
    let kind = match node.kind {
        NodeKind::Switch => Kind::Switch,
        NodeKind::Endpoint => Kind::Endpoint,
        _ => Kind::Host,
    };
    let name = Names::new(known.components.as_deref()).name(Hwid(node.hwid));
    let standby = managed && node.known && kind == Kind::Host;
    map::fabric::Node {
        hwid: node.hwid,
        name: name.map(String::from),
        kind,
        lid: node.lid,
        role: match node.master {
            true => Some(Role::Master),
            false => standby.then_some(Role::Standby),
        },
        here: node.own,
        trouble: trouble(node).map(String::from),
        notes: match kind {
            Kind::Endpoint => notes(node, known),
            _ => Vec::new(),
        },
        hierarchies: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn a_picture_has_each_link_once() {
        let words = picture(&example(), &Known::default()).words();
        let wanted = "\
host 0x2: LID 4, standby, this host. switch 0x101: LID 2. host 0x1: LID 1, master. \
switch 0x102: LID 3. host 0x3: no LID, does not answer. \
host 0x2 port 0 to switch 0x101 port 1: gen4 x8. \
switch 0x101 port 0 to host 0x1 port 3: gen4 x8. \
switch 0x101 port 4 to switch 0x102 port 6: gen4 x8. \
switch 0x101 port 5 to switch 0x102 port 7: gen4 x8. \
switch 0x102 port 1 to host 0x3: gen4 x8.";
        assert_eq!(words, wanted);
    }
}
