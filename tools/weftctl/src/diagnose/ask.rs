// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What no file of a host says, and its driver has to be asked by the device file:
//! who is in the fabric. Adds it to a snapshot of this very host.

use super::snapshot::{Snapshot, Unseen};
use crate::channel::Port;
use crate::failure::Failure;
use crate::tree::Node;
use std::path::Path;

/// Asks the driver, of each port that has a manager.
pub fn ask(snapshot: &mut Snapshot) {
    let ports = snapshot.functions.iter_mut().filter_map(|function| function.port.as_mut());
    for port in ports.filter(|port| port.manager.is_some()) {
        let path = Path::new("/dev").join(&port.name);
        match nodes(&path) {
            Ok(nodes) => port.nodes = nodes,
            Err(failure) => {
                let what = format!("who is in the fabric of {}", port.name);
                snapshot.unseen.push(Unseen { what, why: failure.message });
            }
        }
    }
}

/// The nodes, and over how many links they are reached by the routes that are in use.
fn nodes(path: &Path) -> Result<Vec<Node>, Failure> {
    let port = Port::open(path)?;
    let (fabric, routes) = (port.fabric()?, port.routes()?);
    let mut nodes: Vec<Node> = fabric.nodes.iter().map(Node::from).collect();
    for node in &mut nodes {
        // A way that there is need not have been programmed.
        let route = routes.iter().find(|route| node.lid != 0 && route.lid == node.lid);
        node.links = route.map_or(0, |route| route.hops.into());
    }
    Ok(nodes)
}
