// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The fabric as people see it: its nodes as a tree that begins here, in the manner of
//! `lspci -t`, and what a picture of it has to show. Knows nothing of how the nodes were
//! asked for.

use crate::map;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use weft::{Fabric, FabricNode, FabricPort, NodeKind};

/// A node, as shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Hardware id, hexadecimal.
    pub hwid: String,
    /// Local id, 0: none.
    pub lid: u32,
    /// host or switch.
    pub kind: String,
    /// It answers.
    pub known: bool,
    /// This port itself.
    pub own: bool,
    /// The master of the fabric.
    pub master: bool,
    /// How it was found: the port to leave by at each node.
    pub path: Vec<u8>,
    /// Links that data pass on their way there, 0: they do not get there.
    pub links: u32,
    /// Its ports at which somebody is.
    pub ports: Vec<Port>,
}

/// A port of a node, as shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Its number.
    pub port: u8,
    /// Hardware id of the node at the other end, hexadecimal.
    pub peer: String,
    /// Generation of the link.
    pub speed: u32,
    /// Its lanes.
    pub width: u32,
}

fn hex(hwid: u64) -> String {
    format!("{hwid:#x}")
}

impl From<&FabricNode> for Node {
    fn from(node: &FabricNode) -> Self {
        let port = |port: &FabricPort| Port {
            port: port.number,
            peer: hex(port.peer),
            speed: port.speed,
            width: port.width,
        };
        Node {
            hwid: hex(node.hwid),
            lid: node.lid.unwrap_or(0),
            kind: node.kind.to_string(),
            known: node.known,
            own: node.own,
            master: node.master,
            path: node.path.clone(),
            links: node.links.unwrap_or(0),
            ports: node.ports.iter().map(port).collect(),
        }
    }
}

/// A node in one line.
fn line(node: &FabricNode) -> String {
    let lid = node.lid.map_or("no LID".into(), |lid| format!("LID {lid}"));
    let mut text = format!("{} {}, {lid}", node.kind, hex(node.hwid));
    let said = [node.own.then_some("this host"), node.master.then_some("master"), trouble(node)];
    for what in said.into_iter().flatten() {
        text.push_str(&format!(", {what}"));
    }
    text
}

/// What is the matter with a node.
fn trouble(node: &FabricNode) -> Option<&'static str> {
    match (node.known, node.own, node.links) {
        (false, _, _) => Some("does not answer"),
        (true, false, None) => Some("no route"),
        _ => None,
    }
}

/// What a picture has to show. Which two ports a link joins is not told where two nodes
/// have several: they are taken in their order.
pub fn picture(fabric: &Fabric) -> map::Fabric {
    let mut halves: BTreeMap<(usize, usize), VecDeque<&FabricPort>> = BTreeMap::new();
    for (n, node) in fabric.nodes.iter().enumerate() {
        for port in &node.ports {
            // Nobody of that name: its node is not listed yet.
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
    let nodes = fabric.nodes.iter().map(|node| drawn(node, managed)).collect();
    map::Fabric { nodes, links, hierarchies: Vec::new() }
}

fn drawn(node: &FabricNode, managed: bool) -> map::fabric::Node {
    use map::fabric::{Kind, Role};
    let kind = match node.kind {
        NodeKind::Switch => Kind::Switch,
        _ => Kind::Host,
    };
    let standby = managed && node.known && kind == Kind::Host;
    map::fabric::Node {
        hwid: node.hwid,
        name: None,
        kind,
        lid: node.lid,
        role: match node.master {
            true => Some(Role::Master),
            false => standby.then_some(Role::Standby),
        },
        here: node.own,
        trouble: trouble(node).map(String::from),
        hierarchies: Vec::new(),
    }
}

/// The whole, from this port on. Each node is shown once, where it was found first; other links to it
/// name it by its hardware id in brackets.
pub fn text(fabric: &Fabric) -> String {
    let mut text = String::new();
    if let Some(root) = fabric.nodes.first() {
        text.push_str(&line(root));
        text.push('\n');
        branches(fabric, root, " ", &mut text);
    }
    text
}

fn branches(fabric: &Fabric, node: &FabricNode, indent: &str, text: &mut String) {
    let parent = node.path.split_last().and_then(|(_, way)| {
        fabric.nodes.iter().find(|other| other.path == way).map(|other| other.hwid)
    });
    // Of two links to the parent one is that by which the node was found.
    let mut back = parent;
    let shown = |port: &&FabricPort| {
        let found_by = back == Some(port.peer) && fabric.child(node, port.number).is_none();
        if found_by {
            back = None;
        }
        !found_by
    };
    let ports: Vec<_> = node.ports.iter().filter(shown).collect();
    for (n, port) in ports.iter().enumerate() {
        let last = n + 1 == ports.len();
        let rate = format!("gen{} x{}", port.speed, port.width);
        let corner = if last { "\\" } else { "+" };
        text.push_str(&format!("{indent}{corner}-{}- {rate} - ", port.number));
        match fabric.child(node, port.number) {
            Some(child) => {
                text.push_str(&line(child));
                text.push('\n');
                let bar = if last { "    " } else { "|   " };
                branches(fabric, child, &format!("{indent}{bar}"), text);
            }
            None => text.push_str(&format!("[{}]\n", hex(port.peer))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft::NodeKind;

    fn node(hwid: u64, lid: u32, path: &[u8], peers: &[(u8, u64)]) -> FabricNode {
        FabricNode {
            hwid,
            lid: (lid != 0).then_some(lid),
            kind: if hwid > 100 { NodeKind::Switch } else { NodeKind::Host },
            known: lid != 0,
            own: path.is_empty(),
            master: hwid == 1,
            path: path.to_vec(),
            links: (lid != 0 && !path.is_empty()).then_some(path.len() as u32),
            ports: peers
                .iter()
                .map(|&(number, peer)| FabricPort { number, peer, speed: 4, width: 8 })
                .collect(),
        }
    }

    /// Two hosts at one switch, two ways to another, where one is that does not answer.
    fn example() -> Fabric {
        let nodes = vec![
            node(2, 4, &[], &[(0, 0x101)]),
            node(0x101, 2, &[0], &[(0, 1), (1, 2), (4, 0x102), (5, 0x102)]),
            node(1, 1, &[0, 0], &[(3, 0x101)]),
            node(0x102, 3, &[0, 4], &[(1, 3), (6, 0x101), (7, 0x101)]),
            node(3, 0, &[0, 4, 1], &[]),
        ];
        Fabric { nodes }
    }

    #[test]
    fn a_picture_has_each_link_once() {
        let words = picture(&example()).words();
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

    #[test]
    fn each_node_is_shown_once_and_every_link_too() {
        let wanted = "\
host 0x2, LID 4, this host
 \\-0- gen4 x8 - switch 0x101, LID 2
     +-0- gen4 x8 - host 0x1, LID 1, master
     +-4- gen4 x8 - switch 0x102, LID 3
     |   +-1- gen4 x8 - host 0x3, no LID, does not answer
     |   \\-7- gen4 x8 - [0x101]
     \\-5- gen4 x8 - [0x102]
";
        assert_eq!(text(&example()), wanted);
        assert_eq!(text(&Fabric::default()), "");
    }
}
