// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `tree`: who is in the fabric, as a tree that begins here.

use super::{Context, End};
use crate::channel::Port;
use crate::tree::{Node, text};
use serde::Serialize;
use weft::Fabric;

#[derive(Serialize)]
struct Report {
    port: String,
    nodes: Vec<Node>,
    #[serde(skip)]
    fabric: Fabric,
}

pub fn run(context: &Context) -> Result<(), End> {
    let port = Port::open(&context.port()?)?;
    let fabric = port.fabric()?;
    let nodes = fabric.nodes.iter().map(Node::from).collect();
    let report = Report { port: port.info()?.port, nodes, fabric };
    context.print(&report, |report| text(&report.fabric))
}
