// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The fabric as people see it: its nodes as a tree that begins here, in the manner of
//! `lspci -t`; [`picture`] is what a picture of it has to show. Knows nothing of how the nodes were
//! asked for.

mod picture;

pub use picture::picture;

use crate::multiroot::{Component, Hwid, Known, Names, State, assignment};
use crate::twig::Twig;
use serde::{Deserialize, Serialize};
use weft::{Fabric, FabricNode, FabricPort, NodeKind};

/// A node, as shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// What it is called on the command line: a serial number, or its hardware id.
    pub name: String,
    /// Hardware id, hexadecimal.
    pub hwid: String,
    /// Local id, 0: none.
    pub lid: u32,
    /// host, switch or endpoint.
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
    /// Its ports that have neighbours.
    pub ports: Vec<Port>,
    /// Part number, as far as it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// The hardware unit that it sits on, likewise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub blade: String,
    /// Of an endpoint, whose its virtual endpoints are, as far as it is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ves: Vec<Ve>,
}

/// A virtual endpoint, as shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ve {
    /// Its number.
    pub ve: u32,
    /// Hardware id of the host whose it is, or is to be; none: it is free.
    pub root: Option<Hwid>,
    /// What became of the assignment.
    #[serde(default, with = "assignment::named")]
    pub state: Option<State>,
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

impl Node {
    /// A node, with what else is known of it.
    pub fn new(node: &FabricNode, known: &Known) -> Self {
        let port = |port: &FabricPort| Port {
            port: port.number,
            peer: hex(port.peer),
            speed: port.speed,
            width: port.width,
        };
        let hwid = Hwid(node.hwid);
        let component = known.component(hwid);
        let said = |of: fn(&Component) -> &String| component.map(of).cloned().unwrap_or_default();
        Node {
            name: Names::new(known.components.as_deref()).of(hwid),
            hwid: hex(node.hwid),
            lid: node.lid.unwrap_or(0),
            kind: node.kind.to_string(),
            known: node.known,
            own: node.own,
            master: node.master,
            path: node.path.clone(),
            links: node.links.unwrap_or(0),
            ports: node.ports.iter().map(port).collect(),
            part: said(|component| &component.part),
            blade: said(|component| &component.blade),
            ves: ves(node, known),
        }
    }
}

/// Whose the virtual endpoints of a node are, if it is an endpoint.
fn ves(node: &FabricNode, known: &Known) -> Vec<Ve> {
    match node.kind {
        NodeKind::Endpoint => {
            let owners = known.owners(Hwid(node.hwid)).into_iter();
            owners.map(|o| Ve { ve: o.ve, root: o.root, state: o.state }).collect()
        }
        _ => Vec::new(),
    }
}

/// A node in one line.
fn line(node: &FabricNode, known: &Known) -> String {
    let names = Names::new(known.components.as_deref());
    let lid = node.lid.map_or("no LID".into(), |lid| format!("LID {lid}"));
    let mut text = format!("{}, {lid}", names.called(&node.kind.to_string(), Hwid(node.hwid)));
    let said = [node.own.then_some("this host"), node.master.then_some("master"), trouble(node)];
    let said = said.into_iter().flatten().map(String::from);
    let more = match node.kind {
        NodeKind::Endpoint => notes(node, known),
        _ => Vec::new(),
    };
    for what in said.chain(more) {
        text.push_str(&format!(", {what}"));
    }
    text
}

/// What else is known of an endpoint: its part, where it sits, whose it is.
fn notes(node: &FabricNode, known: &Known) -> Vec<String> {
    let names = Names::new(known.components.as_deref());
    let component = known.component(Hwid(node.hwid));
    let said = |of: fn(&Component) -> &String| component.map(of).filter(|text| !text.is_empty());
    let mut notes: Vec<String> = said(|c| &c.part).cloned().into_iter().collect();
    notes.extend(said(|c| &c.blade).map(|blade| format!("on {blade}")));
    notes.extend(component.filter(|c| c.sockets).map(|_| "sockets".into()));
    notes.extend(ves(node, known).iter().map(|ve| match (ve.root, ve.state) {
        (None, _) => format!(".{} free", ve.ve),
        (Some(root), None | Some(State::Done)) => format!(".{} of {}", ve.ve, names.of(root)),
        (Some(root), Some(_)) => format!(".{} not yet of {}", ve.ve, names.of(root)),
    }));
    notes
}

/// What is the matter with a node.
fn trouble(node: &FabricNode) -> Option<&'static str> {
    match (node.known, node.own, node.links) {
        (false, _, _) => Some("does not answer"),
        (true, false, None) => Some("no route"),
        _ => None,
    }
}

/// The line about a large fabric.
const AT_SCALE: &str =
    "the fabric is managed at scale: other nodes are found by their hardware ids\n";

/// The whole, from this port on. Each node is shown once, where it was found first; other links to it
/// name it by its hardware id in brackets.
pub fn text(fabric: &Fabric, known: &Known) -> String {
    let mut text = String::new();
    if let Some(root) = fabric.nodes.first() {
        text.push_str(&line(root, known));
        text.push('\n');
        branches(fabric, known, root, &Twig::root(), &mut text);
    }
    if fabric.is_at_scale() {
        text.push_str(AT_SCALE);
    }
    text
}

fn branches(fabric: &Fabric, known: &Known, node: &FabricNode, twig: &Twig, text: &mut String) {
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
        let next = twig.next(n + 1 == ports.len());
        let rate = format!("gen{} x{}", port.speed, port.width);
        text.push_str(&format!("{}{}- {rate} - ", next.corner(), port.number));
        match fabric.child(node, port.number) {
            Some(child) => {
                text.push_str(&line(child, known));
                text.push('\n');
                branches(fabric, known, child, &next, text);
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
            scale: false,
            path: path.to_vec(),
            links: (lid != 0 && !path.is_empty()).then_some(path.len() as u32),
            ports: peers
                .iter()
                .map(|&(number, peer)| FabricPort { number, peer, speed: 4, width: 8 })
                .collect(),
        }
    }

    /// Two hosts at one switch, two ways to another, where one is that does not answer.
    pub fn example() -> Fabric {
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
        assert_eq!(text(&example(), &Known::default()), wanted);
        assert_eq!(text(&Fabric::default(), &Known::default()), "");
    }

    #[test]
    fn at_scale_it_says_that_other_nodes_are_not_listed() {
        let own = FabricNode { scale: true, ..node(2, 4, &[], &[(0, 0x101)]) };
        let wanted = "\
host 0x2, LID 4, this host
 \\-0- gen4 x8 - [0x101]
the fabric is managed at scale: other nodes are found by their hardware ids
";
        assert_eq!(text(&Fabric { nodes: vec![own] }, &Known::default()), wanted);
    }
}
