// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The fabric, as the manager of a port knows it: nodes, their ports, and routes to them.

use crate::abi;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use crate::told::{self, Told};
use std::fmt;
use std::os::fd::BorrowedFd;

/// Kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeKind {
    /// A port of a host.
    Host,
    /// A switch.
    Switch,
    /// An endpoint that hosts share.
    Endpoint,
    /// A kind that this library does not know.
    Other(u32),
}

impl From<u32> for NodeKind {
    fn from(number: u32) -> Self {
        match number {
            abi::WEFT_NODE_HOST => NodeKind::Host,
            abi::WEFT_NODE_SWITCH => NodeKind::Switch,
            abi::WEFT_NODE_ENDPOINT => NodeKind::Endpoint,
            other => NodeKind::Other(other),
        }
    }
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            NodeKind::Host => "host",
            NodeKind::Switch => "switch",
            NodeKind::Endpoint => "endpoint",
            NodeKind::Other(_) => "unknown",
        })
    }
}

/// A port of a node that has a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricPort {
    /// Its number.
    pub number: u8,
    /// Hardware id of the node at the other end.
    pub peer: u64,
    /// Generation of the link.
    pub speed: u32,
    /// Its lanes.
    pub width: u32,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricNode {
    /// Hardware id.
    pub hwid: u64,
    /// Local id, if it has one.
    pub lid: Option<u32>,
    /// What it is.
    pub kind: NodeKind,
    /// It answers; else only a neighbour says that it is there.
    pub known: bool,
    /// This port itself.
    pub own: bool,
    /// The master of the fabric.
    pub master: bool,
    /// Of this port's own: nodes that are no neighbours are not listed, but found by their hardware ids.
    pub scale: bool,
    /// How it was found: the port to leave by at each node, this one first.
    pub path: Vec<u8>,
    /// Links of the way that data take, if there is one.
    pub links: Option<u32>,
    /// Its ports that have neighbours.
    pub ports: Vec<FabricPort>,
}

/// The nodes of a fabric in the order in which they were found; this port is the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fabric {
    /// All of them.
    pub nodes: Vec<FabricNode>,
}

impl Fabric {
    /// A node, by its hardware id.
    pub fn node(&self, hwid: u64) -> Option<&FabricNode> {
        self.nodes.iter().find(|node| node.hwid == hwid)
    }

    /// Whether there are nodes that are not listed: they are found by their hardware ids.
    pub fn is_at_scale(&self) -> bool {
        self.nodes.iter().any(|node| node.scale)
    }

    /// The master, if it is known.
    pub fn master(&self) -> Option<&FabricNode> {
        self.nodes.iter().find(|node| node.master)
    }

    /// The node that was found by way of a port of a node.
    pub fn child(&self, of: &FabricNode, port: u8) -> Option<&FabricNode> {
        let found = |node: &&FabricNode| {
            node.path.split_last().is_some_and(|(last, way)| *last == port && way == of.path)
        };
        self.nodes.iter().find(found)
    }
}

/// A route of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricRoute {
    /// For this local id.
    pub lid: u32,
    /// It passes so many links,
    pub hops: u16,
    /// and begins with this one.
    pub link: u16,
}

impl From<&abi::weft_fabric_nodes> for FabricNode {
    fn from(told: &abi::weft_fabric_nodes) -> Self {
        let is = |bit| told.state & bit != 0;
        let ports = told.ports.iter().zip(0u8..).filter(|(port, _)| port.peer != 0);
        FabricNode {
            hwid: told.hwid,
            lid: (told.lid != 0).then_some(told.lid),
            kind: NodeKind::from(told.kind),
            known: is(abi::WEFT_NODE_KNOWN),
            own: is(abi::WEFT_NODE_SELF),
            master: is(abi::WEFT_NODE_MASTER),
            scale: is(abi::WEFT_NODE_SCALE),
            path: told.path.iter().copied().take(told.hops as usize).collect(),
            links: (told.links != 0).then_some(told.links),
            ports: ports
                .map(|(port, number)| FabricPort {
                    number,
                    peer: port.peer,
                    speed: port.speed,
                    width: port.width,
                })
                .collect(),
        }
    }
}

/// All nodes, as they were at one time.
pub fn fabric(port: BorrowedFd<'_>) -> Result<Option<Fabric>> {
    let nodes = told::all("asking who is in the fabric", |index| {
        let mut call = abi::weft_fabric_nodes { index, ..Default::default() };
        call.call(port)?;
        Ok(Told { value: FabricNode::from(&call), count: call.nodes, serial: call.serial })
    });
    Ok(nodes?.map(|nodes| Fabric { nodes }))
}

/// All routes.
pub fn routes(port: BorrowedFd<'_>) -> Result<Option<Vec<FabricRoute>>> {
    let mut routes = Vec::new();
    loop {
        let first = routes.len() as u32;
        let mut call = abi::weft_fabric_routes { first, ..Default::default() };
        match call.call(port) {
            Ok(()) => {}
            Err(e) if told::unmanaged(&e) => return Ok(None),
            Err(e) => return Err(Error::os("asking for the routes", e)),
        }
        let told = call.route.iter().take(call.count as usize);
        routes.extend(told.map(|r| FabricRoute { lid: r.lid, hops: r.hops, link: r.link }));
        if call.count == 0 || routes.len() as u32 >= call.routes {
            routes.sort_by_key(|route| route.lid);
            routes.dedup_by_key(|route| route.lid);
            return Ok(Some(routes));
        }
    }
}
