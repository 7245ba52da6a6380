// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Switches that route, and shared endpoints, as nodes of the network manager: what
//! their firmware is told of their ports, how its messages travel, and what becomes of
//! what a master has committed. The routes are the switch's own: a configuration
//! request reads and writes the same table, under the same terms. An endpoint gets its
//! LID so; its routes are its base function's.

use super::mail::Mail;
use super::walk::Hop;
use super::{Effect, Event, Fabric, switch};
use crate::firmware::{Action, Firmware, Surroundings};
use crate::topology::{End, Node};
use crate::wire::ToPort;
use std::collections::VecDeque;
use weft_proto::nm::mastership::Mastership;
use weft_proto::nm::port::{PORTS, Port};

/// The hierarchy of traffic that was not put into another: between root complexes.
const COMMON_VH: u16 = 1;
/// The VP that it has on every link.
const COMMON_VP: u8 = 0;

/// Messages for nodes with firmware, that are on their way.
type Due = VecDeque<(Node, u8, Vec<u8>)>;

/// The fabric, as a node in it finds it.
struct Around<'a> {
    fabric: &'a mut Fabric,
    node: Node,
}

impl Surroundings for Around<'_> {
    fn there(&self, path: &[u8]) -> Option<u64> {
        self.fabric.there(self.node, path)
    }

    fn attests(&self) -> bool {
        self.fabric.topology.attests
    }

    fn admits(&mut self, mastership: &Mastership) -> bool {
        self.fabric.admits(self.node, mastership)
    }

    fn admits_all(&self) -> bool {
        self.fabric.topology.managers.is_empty()
    }
}

impl Fabric {
    /// Tells all firmware how the ports of its node are.
    pub(super) fn tell_firmware(&mut self) {
        self.watch_links();
        let now = self.now_ms();
        let mut due = Due::new();
        for node in self.firmware_nodes() {
            self.tell_ports(node, now, &mut due);
        }
        self.deliver_due(due);
    }

    /// Tells the firmware of a node how its ports are.
    fn tell_ports(&mut self, node: Node, now: u64, due: &mut Due) {
        for number in 0..self.topology.ports(node).min(PORTS as u8) {
            let port = self.firmware_port(End { node, port: number });
            let actions = self.firmware_mut(node).map(|f| f.port(now, number, port));
            self.carry_out(node, actions.unwrap_or_default(), due);
        }
    }

    /// A message of a host for the switch at its link, if there is one that reads it.
    pub(super) fn carry_to_switch(&mut self, host: usize, link: u8, mail: Mail) {
        let here = End { node: Node::Host(host), port: link };
        if let (Some(End { node: node @ Node::Switch(_), port }), 0) = (self.far_end(here), mail.to)
        {
            self.deliver_due(Due::from([(node, port, mail.data)]));
        }
    }

    /// Does what is due by now.
    pub(super) fn run_firmware(&mut self) {
        let now = self.now_ms();
        let mut messages = Due::new();
        for node in self.firmware_nodes() {
            let due = |f: &&mut Firmware| f.due(now).is_some_and(|due| due <= now);
            if let Some(firmware) = self.firmware_mut(node).filter(due) {
                let actions = firmware.tick(now);
                self.carry_out(node, actions, &mut messages);
            }
        }
        self.deliver_due(messages);
    }

    /// When [`Self::run_firmware`] or [`Self::sample`] has something to do, in microseconds.
    pub(super) fn firmware_due(&self) -> Option<u64> {
        let now = self.now_ms();
        let all = self.firmware_nodes().into_iter().filter_map(|node| self.firmware(node));
        let due = all.filter_map(|f| f.due(now)).chain(self.watches_due()).min()?;
        Some(due.saturating_mul(1000))
    }

    /// A node has taken a configuration request of `master`, in that term.
    pub(super) fn firmware_accepts(&mut self, node: Node, master: u64, term: u32) {
        if let Some(firmware) = self.firmware_mut(node) {
            firmware.accept(Mastership { term, master });
        }
    }

    /// Nodes that have firmware now.
    fn firmware_nodes(&self) -> Vec<Node> {
        let switches = (0..self.switches.len()).map(Node::Switch);
        let all = switches.chain((0..self.nodes.len()).map(Node::Host));
        all.filter(|node| self.firmware(*node).is_some()).collect()
    }

    pub(super) fn firmware(&self, node: Node) -> Option<&Firmware> {
        match node {
            Node::Switch(n) => self.switches[n].firmware.as_ref(),
            Node::Host(n) => self.session(n)?.firmware.as_ref(),
        }
    }

    fn firmware_slot(&mut self, node: Node) -> Option<&mut Option<Firmware>> {
        match node {
            Node::Switch(n) => Some(&mut self.switches[n].firmware),
            Node::Host(n) => Some(&mut self.nodes[n].session.as_mut()?.firmware),
        }
    }

    pub(super) fn firmware_mut(&mut self, node: Node) -> Option<&mut Firmware> {
        self.firmware_slot(node)?.as_mut()
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    /// The neighbour's end of a link over which messages pass.
    fn far_end(&self, end: End) -> Option<End> {
        let (trunk, side) = self.topology.trunk_at(end)?;
        self.trunk_up(trunk).then(|| self.topology.trunks[trunk].ends[1 - side])
    }

    /// The same, for a message that passes now.
    fn leave(&mut self, end: End, message: &[u8]) -> Option<End> {
        let far = self.far_end(end)?;
        if let Some((trunk, side)) = self.topology.trunk_at(end) {
            self.carried(Hop { trunk, side }, [message.len() as u64, 0]);
        }
        Some(far)
    }

    fn firmware_port(&self, end: End) -> Port {
        let (Some(far), Some((trunk, _))) = (self.far_end(end), self.topology.trunk_at(end)) else {
            return Port::NONE;
        };
        // At scale routes move while they are in use, and do not for links that save power.
        let (speed, width) = match self.firmware(end.node).is_some_and(Firmware::is_large) {
            true => self.trunk_free(trunk),
            false => self.trunk_rates(trunk)[0],
        };
        Port { peer: self.hwid_of(far.node), speed, width, excluded: false }
    }

    fn deliver_due(&mut self, mut due: Due) {
        let now = self.now_ms();
        while let Some((node, port, data)) = due.pop_front() {
            let Some(mut firmware) = self.firmware_slot(node).and_then(Option::take) else {
                continue;
            };
            let was_large = firmware.is_large();
            let mut around = Around { fabric: self, node };
            let actions = firmware.receive(now, port, &data, &mut around);
            let has_grown = firmware.is_large() && !was_large;
            if let Some(slot) = self.firmware_slot(node) {
                *slot = Some(firmware);
            }
            self.carry_out(node, actions, &mut due);
            if has_grown {
                self.tell_ports(node, now, &mut due);
            }
        }
    }

    /// Whether the node takes the word of this master, as that of a configuration request.
    fn admits(&mut self, node: Node, mastership: &Mastership) -> bool {
        let Mastership { term, master } = *mastership;
        let host =
            (0..self.nodes.len()).find(|h| self.session(*h).is_some_and(|s| s.hwid == master));
        let may = match host {
            Some(host) => self.topology.may_manage(host),
            None => self.topology.managers.is_empty(),
        };
        let last = match node {
            Node::Switch(n) => {
                let switch = &mut self.switches[n];
                Some((&mut switch.master, &mut switch.term))
            }
            Node::Host(n) => {
                let session = self.nodes[n].session.as_mut();
                session.map(|s| (&mut s.base.master, &mut s.base.term))
            }
        };
        may && last.is_some_and(|last| switch::accept(last, master, term).is_ok())
    }

    fn carry_out(&mut self, node: Node, actions: Vec<Action>, due: &mut Due) {
        let mut routed = false;
        for action in actions {
            match action {
                Action::Send(port, data) => match self.leave(End { node, port }, &data) {
                    Some(far) if self.firmware(far.node).is_some() => {
                        due.push_back((far.node, far.port, data));
                    }
                    Some(End { node: Node::Host(host), port: link }) => {
                        self.tell(host, ToPort::Mbox { link, to: 0, from: 0, data });
                    }
                    _ => {}
                },
                Action::Route(lid, port) => {
                    // An endpoint has one port, and its base function says what goes by it.
                    let Node::Switch(switch) = node else { continue };
                    routed = true;
                    if let Ok(change) = self.set_route(switch, lid, port) {
                        self.table_event(switch, change);
                    }
                }
                Action::Area(first, last, port) => {
                    let Node::Switch(switch) = node else { continue };
                    routed = true;
                    if let Ok(change) = self.set_area(switch, (first, last), port) {
                        self.table_event(switch, change);
                    }
                }
            }
        }
        if let Node::Host(endpoint) = node {
            self.name_endpoint(endpoint);
        }
        if let (Node::Switch(switch), true) = (node, routed) {
            self.join_hierarchy(switch);
            // What this breaks is withdrawn; the master need not wait for that, for what comes
            // by the new routes does not meet the old ones.
            self.resolve();
        }
    }

    /// An endpoint has the LID that its firmware was given, once it was given one.
    fn name_endpoint(&mut self, endpoint: usize) {
        let lid = self.firmware(Node::Host(endpoint)).map_or(0, Firmware::lid);
        if lid != 0 && self.session(endpoint).is_some_and(|s| s.lid != lid) {
            self.session_mut(endpoint, |s| s.lid = lid);
            self.resolve();
        }
    }

    /// Puts the common VP of every port that has a cable into the common hierarchy, once, and only
    /// where it was not put into any.
    fn join_hierarchy(&mut self, switch: usize) {
        for port in 0..self.topology.switches[switch].ports {
            let end = End { node: Node::Switch(switch), port };
            let tables = &self.switches[switch];
            let free = tables.is_untouched(port, COMMON_VP)
                && tables.vp_of(port, COMMON_VH).is_none()
                && self.topology.trunk_at(end).is_some();
            if !free {
                continue;
            }
            if let Ok(change) = self.set_vp(switch, port, COMMON_VP, Some(COMMON_VH)) {
                self.table_event(switch, change);
            }
        }
    }

    fn table_event(&mut self, switch: usize, change: String) {
        let node = self.topology.switches[switch].name.clone();
        let (master, term) = (self.switches[switch].master, self.switches[switch].term);
        self.effects.push(Effect::Event(Event::Table { node, change, master, term }));
    }
}
