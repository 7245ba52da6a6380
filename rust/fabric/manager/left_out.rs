// SPDX-License-Identifier: GPL-2.0

//! What the manager has no room for: it logs the limit that was met, once.

use super::{
    super::host::ManagerHost,
    heap::{MAX_DESTINATIONS, MAX_NAMES},
    routes::Routes,
    Machine,
};
use crate::proto::nm::{node::MAX_NODES, path::MAX_HOPS};
use kernel::prelude::*;

/// What is left out: nodes in the mode of a small fabric for want of memory, and because they are too far away; at
/// scale destinations, and nodes in the directory, for want of memory.
#[derive(Clone, Copy, Default)]
pub(super) struct LeftOut {
    nodes: bool,
    far: bool,
    destinations: bool,
    names: bool,
}

impl LeftOut {
    /// Logs that nodes have no routes, or no names, when that begins, and why.
    pub(super) fn tell(&mut self, node: &dyn ManagerHost, machine: &Machine, routes: &mut Routes) {
        let before = *self;
        let (nodes, far) = machine.small().members().left_out();
        *self = match machine.large() {
            Some(large) => Self {
                destinations: large.routes().is_short(),
                names: large.directory().count() >= MAX_NAMES,
                ..Self::default()
            },
            None => Self {
                nodes,
                far,
                ..Self::default()
            },
        };
        if self.nodes && !before.nodes {
            node.complain(fmt!(
                "the fabric has more than {} nodes: there are no routes to the others",
                MAX_NODES
            ));
        }
        if self.far && !before.far {
            node.complain(fmt!(
                "the fabric has nodes behind more than {} links: there are no routes to them",
                MAX_HOPS
            ));
        }
        if self.destinations && !before.destinations {
            node.complain(fmt!(
                "the fabric has more than {} areas and near nodes, or there is no memory for them: there are no \
                 routes to some",
                MAX_DESTINATIONS
            ));
        }
        if self.names && !before.names {
            node.complain(fmt!(
                "the fabric has more than {} nodes: the others are not found by their hardware ids",
                MAX_NAMES
            ));
        }
        if let Some((first, last)) = routes.left_out() {
            node.complain(fmt!(
                "the route table of the port has {} entries: there is no route to local ids {} to {}",
                routes.count(),
                first,
                last
            ));
        }
    }
}
