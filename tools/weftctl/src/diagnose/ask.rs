// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What no file of a host says, and its driver has to be asked by the device file:
//! the nodes of the fabric, and the hosts of its endpoints. Adds it to a snapshot of this very host.

use super::snapshot::{Snapshot, Unseen};
use crate::channel::Port;
use crate::failure::Failure;
use crate::multiroot::Known;
use crate::tree::Node;
use std::path::Path;

/// Asks the driver, of each port that has a manager.
pub fn ask(snapshot: &mut Snapshot) {
    let ports = snapshot.functions.iter_mut().filter_map(|function| function.port.as_mut());
    for port in ports.filter(|port| port.manager.is_some()) {
        let path = Path::new("/dev").join(&port.name);
        match nodes(&path) {
            Ok((nodes, known)) => {
                let master = nodes.iter().any(|node| node.own && node.master);
                if known.components.is_none() && master {
                    let what = format!("what the master has found in the fabric of {}", port.name);
                    let why = "it takes CAP_SYS_ADMIN: run it as root".into();
                    snapshot.unseen.push(Unseen { what, why });
                }
                (port.nodes, port.known) = (nodes, known);
            }
            Err(failure) => {
                let what = format!("who is in the fabric of {}", port.name);
                snapshot.unseen.push(Unseen { what, why: failure.message });
            }
        }
    }
}

/// The nodes, and over how many links they are reached by the routes that are in use.
/// And what is known of endpoints.
fn nodes(path: &Path) -> Result<(Vec<Node>, Known), Failure> {
    let port = Port::open(path)?;
    let (fabric, routes, known) = (port.fabric()?, port.routes()?, port.known()?);
    let mut nodes: Vec<Node> = fabric.nodes.iter().map(|node| Node::new(node, &known)).collect();
    for node in &mut nodes {
        // A way that there is need not have been programmed.
        let route = routes.iter().find(|route| node.lid != 0 && route.lid == node.lid);
        node.links = route.map_or(0, |route| route.hops.into());
    }
    Ok((nodes, known))
}
