// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tables as people see and change them. The administrator changes those of
//! switches without regard to terms; those of hosts are their kernels' own.

use super::walk::{Course, Hop, Stop};
use super::withdrawal::Waiter;
use super::{Effect, Event, Fabric, Refusal};
use crate::firmware::Firmware;
use crate::topology::{Node, split_end};
use crate::wire::VPS;
use crate::wire::abi::*;
use serde::{Deserialize, Serialize};

/// The tables of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStatus {
    /// As in the topology.
    pub node: String,
    /// `host`, `endpoint` or `switch`.
    pub kind: String,
    /// Of a host, an endpoint, or a switch that routes; 0: none.
    pub lid: u32,
    /// In the order in which they are looked at.
    pub routes: Vec<RouteStatus>,
    /// Of a switch.
    pub vps: Vec<VpStatus>,
    /// What a host reaches, or tries to reach, by routes.
    pub remotes: Vec<RemoteStatus>,
}

impl TableStatus {
    /// What kind of node it is, with its article.
    pub fn a_kind(&self) -> String {
        let article = if self.kind == "endpoint" { "an" } else { "a" };
        format!("{article} {}", self.kind)
    }
}

/// An entry of a route table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteStatus {
    /// First LID.
    pub first: u32,
    /// Last LID.
    pub last: u32,
    /// Port to leave by.
    pub port: u8,
    /// VP to leave on; a switch takes that of the hierarchy.
    pub vp: Option<u8>,
    /// Of a host: for its own traffic.
    pub own: bool,
    /// Of a host: for traffic that comes in by these links,
    pub from_links: u8,
    /// on these VPs.
    pub from_vps: u16,
}

/// An entry of a VP table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct VpStatus {
    pub port: u8,
    pub vp: u8,
    pub vh: u16,
}

/// What a host reaches by a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteStatus {
    /// The LID it wants.
    pub lid: u32,
    /// It has got there.
    pub up: bool,
    /// Links passed.
    pub hops: u8,
    /// The host it got to, or the node that stops it.
    pub at: String,
    /// Why it stops there.
    pub why: Option<String>,
}

/// A route, walked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkStatus {
    /// The links passed.
    pub hops: Vec<HopStatus>,
    /// The host it reaches, or the node where it ends.
    pub at: String,
    /// Of the link it comes in by, at the host it reaches.
    pub vp: Option<u8>,
    /// Why it does not reach one.
    pub why: Option<String>,
}

/// A link passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct HopStatus {
    pub from: String,
    pub to: String,
}

/// What a `WEFT_STOP_*` is called.
pub fn reason(why: u32) -> &'static str {
    match why {
        WEFT_STOP_CHANGING => "changing",
        WEFT_STOP_ROUTE => "no_route",
        WEFT_STOP_VP => "no_vp",
        WEFT_STOP_LINK => "link_down",
        WEFT_STOP_HOPS => "too_many_hops",
        WEFT_STOP_BUSY => "no_channel",
        _ => "unknown",
    }
}

impl Fabric {
    /// The tables of a node.
    pub fn tables(&self, name: &str) -> Result<TableStatus, Refusal> {
        let node = self.node_named(name)?;
        let mut status = TableStatus {
            node: name.into(),
            kind: self.topology.kind(node).into(),
            lid: 0,
            routes: vec![],
            vps: vec![],
            remotes: vec![],
        };
        match node {
            Node::Host(host) => {
                let Some(session) = self.session(host) else { return Ok(status) };
                status.lid = session.lid;
                status.routes.extend(session.routes.values().map(|r| RouteStatus {
                    first: *r.lids.start(),
                    last: *r.lids.end(),
                    port: r.link,
                    vp: Some(r.vp),
                    own: r.own,
                    from_links: r.from_links,
                    from_vps: r.from_vps,
                }));
                let remotes = self.remotes_of(host);
                status.remotes = remotes.into_iter().map(|r| self.remote_status(r)).collect();
            }
            Node::Switch(n) => {
                let tables = &self.switches[n];
                status.lid = tables.firmware.as_ref().map_or(0, Firmware::lid);
                status.routes.extend(tables.all_routes().map(|(first, last, port)| RouteStatus {
                    first,
                    last,
                    port,
                    vp: None,
                    own: false,
                    from_links: 0,
                    from_vps: 0,
                }));
                let vps = tables.vps.iter();
                status.vps.extend(vps.map(|(&(port, vp), &vh)| VpStatus { port, vp, vh }));
            }
        }
        Ok(status)
    }

    /// Walks the route of a host's traffic to a LID.
    pub fn walk_route(&self, host: &str, lid: u32) -> Result<WalkStatus, Refusal> {
        let host = self.host_named(host)?;
        let (hops, end) = self.trace_route(host, lid);
        let hop = |Hop { trunk, side }| {
            let ends = self.topology.trunks[trunk].ends;
            let [from, to] = [ends[side], ends[1 - side]].map(|e| self.topology.end_name(e));
            HopStatus { from, to }
        };
        let hops = hops.into_iter().map(hop).collect();
        Ok(match end {
            Ok((owner, gate)) => WalkStatus {
                hops,
                at: self.topology.hosts[owner].name.clone(),
                vp: Some(gate % VPS),
                why: None,
            },
            Err(stop) => WalkStatus {
                hops,
                at: self.topology.name(stop.node).into(),
                vp: None,
                why: Some(reason(stop.why).into()),
            },
        })
    }

    /// Sets or takes away an entry of a switch's route table. When what this broke
    /// is let go of, an [`Effect::Withdrawn`] of the request follows.
    pub fn change_route(
        &mut self,
        name: &str,
        lid: u32,
        port: Option<u8>,
        request: u64,
    ) -> Result<(), Refusal> {
        let n = self.routing_switch(name)?;
        let ports = self.topology.switches[n].ports;
        let change = self.set_route(n, lid, port).map_err(|code| {
            Refusal(match code {
                WEFT_CFG_FULL => format!("the route table of {name} is full; take entries out"),
                _ if lid == 0 => "LID 0 is no node's; give another".into(),
                _ => format!("{name} has ports 0 to {}; use one of them", ports - 1),
            })
        })?;
        self.commanded(n, change, request);
        Ok(())
    }

    /// The same for a VP table.
    pub fn change_vp(
        &mut self,
        end: &str,
        vp: u8,
        vh: Option<u16>,
        request: u64,
    ) -> Result<(), Refusal> {
        let (name, port) = split_end(end).map_err(Refusal)?;
        let n = self.routing_switch(name)?;
        let ports = self.topology.switches[n].ports;
        let change = self.set_vp(n, port, vp, vh).map_err(|_| {
            Refusal(if port >= ports {
                format!("{name} has ports 0 to {}; use one of them", ports - 1)
            } else if vp >= VPS {
                format!("VP {vp}; a link has VPs 0 to {}", VPS - 1)
            } else if vh == Some(0) {
                "VH 0 is none; give another".into()
            } else {
                format!("that VH has another VP at {end} already; take that one away first")
            })
        })?;
        self.commanded(n, change, request);
        Ok(())
    }

    /// Those that have not let go of what a command took from them; it waits no
    /// longer.
    pub fn give_up(&mut self, request: u64) -> Vec<String> {
        let names = self.command_waits(request);
        self.forget_command(request);
        names
    }

    /// Changes a route table; tells in words what was done.
    pub(super) fn set_route(
        &mut self,
        switch: usize,
        lid: u32,
        port: Option<u8>,
    ) -> Result<String, u32> {
        self.switches[switch].set_route(lid, port)?;
        Ok(match port {
            Some(port) => format!("LID {lid} by port {port}"),
            None => format!("LID {lid} by no port"),
        })
    }

    /// Changes a route table for local ids without routes of their own; tells in words what was done.
    pub(super) fn set_area(
        &mut self,
        switch: usize,
        (first, last): (u32, u32),
        port: Option<u8>,
    ) -> Result<String, u32> {
        self.switches[switch].set_area((first, last), port)?;
        Ok(match port {
            Some(port) => format!("LIDs {first} to {last} by port {port}"),
            None => format!("LIDs {first} to {last} by no port"),
        })
    }

    /// Changes a VP table; tells in words what was done.
    pub(super) fn set_vp(
        &mut self,
        switch: usize,
        port: u8,
        vp: u8,
        vh: Option<u16>,
    ) -> Result<String, u32> {
        self.switches[switch].set_vp(port, vp, vh)?;
        Ok(match vh {
            Some(vh) => format!("VP {vp} of port {port} in VH {vh}"),
            None => format!("VP {vp} of port {port} in no VH"),
        })
    }

    fn commanded(&mut self, switch: usize, change: String, request: u64) {
        let node = self.topology.switches[switch].name.clone();
        self.effects.push(Effect::Event(Event::Table { node, change, master: 0, term: 0 }));
        self.tables_changed(Node::Switch(switch), Waiter::Command(request));
    }

    fn remote_status(&self, (lid, state): (u32, Result<&Course, Stop>)) -> RemoteStatus {
        match state {
            Ok(course) => RemoteStatus {
                lid,
                up: true,
                hops: course.hops.len() as u8,
                at: self.topology.hosts[course.owner].name.clone(),
                why: None,
            },
            Err(stop) => RemoteStatus {
                lid,
                up: false,
                hops: stop.hops,
                at: self.topology.name(stop.node).into(),
                why: Some(reason(stop.why).into()),
            },
        }
    }

    pub(super) fn node_named(&self, name: &str) -> Result<Node, Refusal> {
        self.topology.node(name).ok_or_else(|| {
            Refusal(format!(
                "no host, endpoint or switch is called \"{name}\"; see them with: \
                 weft-fabric status"
            ))
        })
    }

    fn routing_switch(&self, name: &str) -> Result<usize, Refusal> {
        match self.node_named(name)? {
            Node::Host(host) => Err(Refusal(match self.topology.hosts[host].endpoint {
                None => format!(
                    "{name} is a host, whose tables are its kernel's; change those of a switch"
                ),
                Some(_) => format!(
                    "{name} is an endpoint, which has the tables that its master gives it; change \
                     those of a switch"
                ),
            })),
            Node::Switch(n) if !self.topology.switches[n].routes => Err(Refusal(format!(
                "switch {name} only joins two links; give it \"routes = true\" in the topology"
            ))),
            Node::Switch(n) => Ok(n),
        }
    }
}
