// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The fabric as a state machine: messages of ports and requests of the
//! administrator in, [`Effect`]s out. No sockets, no descriptors, no clock: a
//! port is a [`PortId`], and its descriptors are "those of port so-and-so", so
//! that everything here can be driven at random by tests.

mod base;
mod command;
mod config;
mod effect;
mod fault;
mod firmware;
mod inbound;
mod injection;
mod link;
mod mail;
mod node;
mod plug;
mod power;
mod remote;
#[cfg(test)]
mod routes;
mod status;
mod switch;
mod tables;
#[cfg(test)]
mod tests;
mod traffic;
mod vpd;
mod walk;
mod withdrawal;

pub use base::{EndpointStatus, VeStatus};
pub use effect::{AdminState, Effect, Event, PortId};
pub use fault::{Fault, FaultState, FaultStatus, Spoil};
pub use plug::SlotStatus;
pub use status::{CableStatus, LinkStatus, NodeStatus, Status, SwitchStatus, TrafficStatus};
pub use tables::{HopStatus, RemoteStatus, RouteStatus, TableStatus, VpStatus, WalkStatus};

use crate::firmware::Firmware;
use crate::topology::{Host, HostEnd, Node as TopologyNode, Topology};
use crate::wire::{Complaint, FromPort, LINKS, LinkInfo, ToPort, Traffic, abi};
use injection::Active;
use link::{CableState, Pathway};
use mail::{Late, Mail};
use node::Session;
use remote::Caller;
use std::collections::VecDeque;
use switch::SwitchState;
use weft_proto::nm::kind::is_host;
use withdrawal::{Waiter, Withdrawal};

/// Refused a request of the administrator; says what to do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Refusal(pub String);

/// All state of a fabric.
pub struct Fabric {
    topology: Topology,
    /// One a host, in the topology's order.
    nodes: Vec<Node>,
    /// One a cable.
    cables: Vec<CableState>,
    /// One a path.
    paths: Vec<Pathway>,
    /// One a switch.
    switches: Vec<SwitchState>,
    /// One a cable: from its first end, and from its second.
    traffic: Vec<[Traffic; 2]>,
    /// Bytes that a link has carried, one a trunk: from its first end, and from its second.
    carried: Vec<[u64; 2]>,
    /// Changes of tables that are not over.
    withdrawals: Vec<Withdrawal>,
    /// Writes to base functions that their endpoints have not confirmed.
    unconfirmed: Vec<base::Unconfirmed>,
    /// The last generation given to a port, or life to a link or a remote.
    generation: u32,
    /// The last sequence number given to a forwarded change.
    ticket: u32,
    /// Name and reason of the last connection refused: a port that is refused
    /// tries again several times a second.
    refused: Option<(String, String)>,
    faults: Vec<Active>,
    /// The last number given to a fault.
    fault_number: u32,
    /// Messages corrupted so far.
    spoilt: u64,
    /// Paths that train anew, and until when.
    training: Vec<(usize, u64)>,
    /// On slow links, in the order they were sent.
    late: VecDeque<Late>,
    /// The time, as [`Self::pass`] was told last.
    now_us: u64,
    effects: Vec<Effect>,
}

/// A host of the topology, connected or not.
struct Node {
    /// It is there.
    plugged: bool,
    session: Option<Session>,
    traced: bool,
    /// The seed of adversarial mode.
    adversarial: Option<u64>,
    /// The last generation it had, 0 before the first.
    generation: u32,
}

impl Node {
    fn new(host: &Host) -> Self {
        Node {
            plugged: host.plugged,
            session: None,
            traced: false,
            adversarial: None,
            generation: 0,
        }
    }
}

/// Which path ends at a link of a host, and with which of its ends.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    path: usize,
    side: usize,
}

impl Fabric {
    /// A fabric to which no port is connected; generations begin after `generation`.
    pub fn new(topology: Topology, generation: u32) -> Self {
        let mut fabric = Fabric {
            nodes: topology.hosts.iter().map(Node::new).collect(),
            cables: topology.cables.iter().map(CableState::new).collect(),
            paths: topology.paths.iter().map(|_| Pathway::default()).collect(),
            switches: vec![],
            traffic: topology.cables.iter().map(|_| Default::default()).collect(),
            carried: vec![[0; 2]; topology.trunks.len()],
            withdrawals: vec![],
            unconfirmed: vec![],
            topology,
            generation,
            ticket: 0,
            refused: None,
            faults: vec![],
            fault_number: 0,
            spoilt: 0,
            training: vec![],
            late: VecDeque::new(),
            now_us: 0,
            effects: vec![],
        };
        for n in 0..fabric.topology.switches.len() {
            let switch = fabric.new_switch(n);
            fabric.switches.push(switch);
        }
        fabric.tell_firmware();
        fabric
    }

    /// A switch as it is when it gets power, unless the topology has it out.
    fn new_switch(&mut self, n: usize) -> SwitchState {
        let life = self.next_generation();
        let switch = &self.topology.switches[n];
        let firmware = switch.routes.then(|| Firmware::new(switch.hwid, life));
        SwitchState::new(switch, firmware)
    }

    /// What the fabric was made from.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The last generation given to a port.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// What has to be done because of what came in, in this order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The port connected as host `name`.
    pub fn port_of(&self, name: &str) -> Option<PortId> {
        self.nodes[self.topology.host(name)?].session.as_ref().map(|s| s.port)
    }

    /// What a port is called, if it has said hello.
    pub fn name_of(&self, port: PortId) -> Option<&str> {
        self.host_of(port).map(|host| self.topology.hosts[host].name.as_str())
    }

    /// A message of `port`. One that does not fit the state costs the connection.
    pub fn message(&mut self, port: PortId, message: FromPort) {
        let done = match (message, self.host_of(port)) {
            (FromPort::Hello { version, hwid, ram, name }, None) => {
                if let Err(why) = self.hello(port, version, hwid, ram, &name) {
                    self.refuse(port, name, why);
                }
                Ok(())
            }
            (FromPort::Hello { .. }, Some(_)) => Err("a second HELLO".into()),
            (_, None) => Err("a message before HELLO".into()),
            (message, Some(host)) => self.dispatch(host, message),
        };
        if let Err(why) = done {
            self.close(port, why);
        }
    }

    /// Turns a connection away before it is a port.
    pub fn refuse(&mut self, port: PortId, name: String, why: String) {
        let refused = Some((name.clone(), why.clone()));
        if self.refused != refused {
            self.refused = refused;
            self.effects.push(Effect::Event(Event::Refused { node: name, why: why.clone() }));
        }
        self.effects.push(Effect::Refuse { port, why });
    }

    /// Ends the connection of a port that broke the protocol.
    pub fn close(&mut self, port: PortId, why: Complaint) {
        if let Some(name) = self.name_of(port) {
            let node = name.to_owned();
            self.effects.push(Effect::Event(Event::Complaint { node, why: why.clone() }));
        }
        self.effects.push(Effect::Close { port, why: why.clone() });
        self.gone(port, why);
    }

    /// The connection of `port` has ended, by whatever cause.
    pub fn gone(&mut self, port: PortId, why: String) {
        let Some(host) = self.host_of(port) else { return };
        let generation = self.nodes[host].generation;
        self.remotes_lost(host, true);
        self.forget_waiter(host);
        self.base_gone(host);
        self.nodes[host].session = None;
        let node = self.topology.hosts[host].name.clone();
        self.effects.push(Effect::Event(Event::Gone { node, generation, why }));
        self.settle();
    }

    fn hello(
        &mut self,
        port: PortId,
        version: u64,
        wanted: u64,
        ram: u64,
        name: &str,
    ) -> Result<(), String> {
        let ours = u64::from(abi::WEFT_FAB_VERSION);
        if version != ours {
            return Err(format!(
                "the port speaks version {version} of the protocol, the fabric {ours}; \
                 build both from one source"
            ));
        }
        let host = self
            .topology
            .host(name)
            .ok_or_else(|| format!("no host is called \"{name}\"; {}", self.known_hosts()))?;
        if !self.nodes[host].plugged {
            return Err(format!(
                "{name} is not plugged in; plug it in with: weft-fabric plug {name}"
            ));
        }
        if let Some(session) = &self.nodes[host].session {
            return Err(format!(
                "{name} is connected already, as generation {}; end that port or use \
                 another name",
                session.generation
            ));
        }
        let hwid = self.hwid_for(host, wanted)?;
        self.nodes[host].session = Some(Session::new(port, hwid, ram));
        self.refused = None;
        self.welcome(host);
        if self.topology.hosts[host].endpoint.is_some() {
            let life = self.nodes[host].generation;
            self.session_mut(host, |s| s.firmware = Some(Firmware::new(s.hwid, life)));
        }
        self.tell_faults(host);
        let generation = self.nodes[host].generation;
        self.effects.push(Effect::Event(Event::Connected { node: name.into(), generation, hwid }));
        self.settle();
        Ok(())
    }

    fn known_hosts(&self) -> String {
        let names: Vec<_> = self.topology.hosts.iter().map(|h| h.name.as_str()).collect();
        format!("the topology names {}", names.join(", "))
    }

    fn hwid_for(&self, host: usize, wanted: u64) -> Result<u64, String> {
        let Host { name, hwid, hwid_given, .. } = &self.topology.hosts[host];
        if wanted == 0 || wanted == *hwid {
            return Ok(*hwid);
        }
        if !is_host(wanted) {
            return Err(format!(
                "{name} wants hwid {wanted}; those with bit 63 set are of no host, give it another"
            ));
        }
        if *hwid_given {
            return Err(format!(
                "{name} has hwid {hwid} in the topology, the port wants {wanted}; \
                 take one of them out"
            ));
        }
        let taken = |&other: &usize| {
            let live = self.nodes[other].session.as_ref().map(|s| s.hwid);
            other != host && live.unwrap_or(self.topology.hosts[other].hwid) == wanted
        };
        match (0..self.nodes.len()).find(taken) {
            None => Ok(wanted),
            Some(other) => Err(format!(
                "{name} wants hwid {wanted}, which {} has; give it another",
                self.topology.hosts[other].name
            )),
        }
    }

    /// Of ports, and lives of links and remotes: a port is to know which of those are
    /// from before its own.
    fn next_generation(&mut self) -> u32 {
        // 0 is no generation. In the year 2106 the numbers begin again.
        self.generation = self.generation.wrapping_add(1).max(1);
        self.generation
    }

    /// Gives the host its next generation and tells its port.
    fn welcome(&mut self, host: usize) {
        self.next_generation();
        let node = &mut self.nodes[host];
        node.generation = self.generation;
        let (traced, seed) = (node.traced, node.adversarial);
        let Some(session) = &mut node.session else { return };
        session.generation = self.generation;
        let (generation, hwid) = (session.generation, session.hwid);
        let links = self.topology.links_of(host);
        let attests = self.topology.attests;
        self.tell(host, ToPort::Welcome { generation, hwid, links, traced, attests, seed });
        for link in 0..links {
            let info = self.link_info(host, link);
            self.tell_info(host, link, info);
        }
    }

    fn dispatch(&mut self, host: usize, message: FromPort) -> Result<(), Complaint> {
        match message {
            FromPort::Hello { .. } => {}
            FromPort::Enable(on) => {
                self.session_mut(host, |s| s.enabled = on);
                self.settle();
            }
            FromPort::Reset => self.reset(host),
            FromPort::LinkCtrl { link, disable, speed, width } => {
                self.session_mut(host, |s| {
                    s.ctrl[usize::from(link)] = link::Ctrl { disable, speed, width }
                });
                self.settle();
            }
            FromPort::Inbound(part) => self.inbound(host, part)?,
            FromPort::InboundAck { link, entry, sequence } => {
                self.inbound_ack(host, link, entry, sequence)?;
            }
            FromPort::Mbox { link, to, from, data } => {
                self.carry(host, link, Mail { to, from, data });
            }
            FromPort::RoutedMbox { lid, to, from, data } => {
                self.carry_routed(host, lid, Mail { to, from, data });
            }
            FromPort::Denied { link, offset, kind, count, to } if usize::from(link) >= LINKS => {
                let remote = link - LINKS as u8;
                self.remote_denied(Caller { host, remote }, offset, (kind, count, to));
            }
            FromPort::Denied { link, offset, kind, count, to } => {
                if let Some(far) = self.up_neighbour(host, link) {
                    let link = far.link;
                    self.tell(far.host, ToPort::Denied { link, offset, kind, count, to });
                }
            }
            FromPort::FunctionReset { function } => {
                // Of the same count as the port's own, so that none comes twice.
                let generation = self.next_generation();
                self.tell(host, ToPort::Generation { generation, function });
            }
            FromPort::FaultUsed { link, kind } => self.fault_used(host, link, kind),
            FromPort::Counters { request, values } => {
                self.effects.push(Effect::Counters { host, request, values });
            }
            FromPort::Route { entry, sequence, route } => {
                self.session_mut(host, |s| match route {
                    Some(route) => drop(s.routes.insert(entry, route)),
                    None => drop(s.routes.remove(&entry)),
                });
                let who = Waiter::Route { host, entry, sequence };
                self.tables_changed(TopologyNode::Host(host), who);
            }
            FromPort::Lid(lid) => {
                self.session_mut(host, |s| s.lid = lid);
                self.resolve();
            }
            FromPort::Want { remote, lid } => self.want(Caller { host, remote }, lid)?,
            FromPort::RemoteAck { remote, ticket } => {
                self.remote_ack(Caller { host, remote }, ticket);
            }
            FromPort::Traffic { link, traffic } => self.passed(host, link, traffic),
            FromPort::Moved { link, out, into } => self.moved(host, link, [out, into]),
            FromPort::Config { request, config } => self.config(host, request, &config)?,
            FromPort::InboundFrom { entry, from, gates } => {
                self.inbound_from(host, entry, from, gates);
            }
            FromPort::BaseAck { ticket } => self.base_ack(host, ticket),
        }
        Ok(())
    }

    /// The port was reset: as if it had gone and come back with the same memory.
    fn reset(&mut self, host: usize) {
        let node = self.topology.hosts[host].name.clone();
        self.remotes_lost(host, false);
        self.forget_waiter(host);
        self.session_mut(host, Session::reset);
        for path in 0..self.paths.len() {
            let ends = self.topology.paths[path].ends;
            if self.paths[path].up && ends.iter().any(|e| e.host == host) {
                self.link_down(path, format!("{node} was reset"));
            }
        }
        self.welcome(host);
        self.settle();
        let generation = self.nodes[host].generation;
        self.effects.push(Effect::Event(Event::Reset { node, generation }));
    }

    fn host_of(&self, port: PortId) -> Option<usize> {
        self.nodes.iter().position(|n| n.session.as_ref().is_some_and(|s| s.port == port))
    }

    fn session(&self, host: usize) -> Option<&Session> {
        self.nodes[host].session.as_ref()
    }

    fn session_mut(&mut self, host: usize, change: impl FnOnce(&mut Session)) {
        if let Some(session) = &mut self.nodes[host].session {
            change(session);
        }
    }

    /// The path that ends at a link of a host.
    fn place(&self, host: usize, link: u8) -> Option<Place> {
        let here = HostEnd { host, link };
        self.topology.paths.iter().enumerate().find_map(|(path, p)| {
            p.ends.iter().position(|e| *e == here).map(|side| Place { path, side })
        })
    }

    /// The other end of a link that is up.
    fn up_neighbour(&self, host: usize, link: u8) -> Option<HostEnd> {
        let Place { path, side } = self.place(host, link)?;
        self.paths[path].up.then(|| self.topology.paths[path].ends[1 - side])
    }

    fn tell(&mut self, host: usize, message: ToPort) {
        if let Some(session) = &self.nodes[host].session {
            self.effects.push(Effect::Send { to: session.port, message, descriptors: None });
        }
    }

    fn tell_info(&mut self, host: usize, link: u8, info: LinkInfo) {
        self.session_mut(host, |s| s.told[usize::from(link)] = info);
        self.tell(host, ToPort::LinkInfo { link, info });
    }
}
