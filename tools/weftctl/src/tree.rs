// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The fabric as people see it: its nodes as a tree that begins here, in the manner of
//! `lspci -t`. Knows nothing of how the nodes were asked for.

use serde::Serialize;
use weft::{Fabric, FabricNode, FabricPort};

/// A node, as shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    for (is, what) in [
        (node.own, "this host"),
        (node.master, "master"),
        (!node.known, "does not answer"),
        (node.known && !node.own && node.links.is_none(), "no route"),
    ] {
        if is {
            text.push_str(&format!(", {what}"));
        }
    }
    text
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

    #[test]
    fn each_node_is_shown_once_and_every_link_too() {
        // Two hosts at one switch, two ways to another, where one is that does not answer.
        let nodes = vec![
            node(2, 4, &[], &[(0, 0x101)]),
            node(0x101, 2, &[0], &[(0, 1), (1, 2), (4, 0x102), (5, 0x102)]),
            node(1, 1, &[0, 0], &[(3, 0x101)]),
            node(0x102, 3, &[0, 4], &[(1, 3), (6, 0x101), (7, 0x101)]),
            node(3, 0, &[0, 4, 1], &[]),
        ];
        let wanted = "\
host 0x2, LID 4, this host
 \\-0- gen4 x8 - switch 0x101, LID 2
     +-0- gen4 x8 - host 0x1, LID 1, master
     +-4- gen4 x8 - switch 0x102, LID 3
     |   +-1- gen4 x8 - host 0x3, no LID, does not answer
     |   \\-7- gen4 x8 - [0x101]
     \\-5- gen4 x8 - [0x102]
";
        assert_eq!(text(&Fabric { nodes }), wanted);
        assert_eq!(text(&Fabric::default()), "");
    }
}
