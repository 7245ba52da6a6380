// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Switches that route as nodes of the network manager: what its firmware is told of
//! the switch's ports, how its messages travel, and what becomes of the routes that a
//! master has committed. They are the switch's own: a configuration request reads and
//! writes the same table, under the same terms.

use super::fault::Mail;
use super::{Effect, Event, Fabric};
use crate::firmware::Action;
use crate::topology::{End, Node};
use crate::wire::ToPort;
use std::collections::VecDeque;
use weft_proto::nm::port::{PORTS, Port};
use weft_proto::nm::reign::Reign;

/// The hierarchy of traffic that nobody has put into another: between root complexes.
const COMMON_VH: u16 = 1;
/// The VP that it has on every link.
const COMMON_VP: u8 = 0;

/// Messages for switches, that are on their way.
type Due = VecDeque<(usize, u8, Vec<u8>)>;

impl Fabric {
    /// Tells all switches how their ports are.
    pub(super) fn tell_firmware(&mut self) {
        let now = self.now_ms();
        let mut due = Due::new();
        for switch in 0..self.switches.len() {
            for number in 0..self.topology.switches[switch].ports.min(PORTS as u8) {
                let port = self.firmware_port(End { node: Node::Switch(switch), port: number });
                let firmware = self.switches[switch].firmware.as_mut();
                let actions = firmware.map(|f| f.port(now, number, port));
                self.carry_out(switch, actions.unwrap_or_default(), &mut due);
            }
        }
        self.deliver_due(due);
    }

    /// A message of a host for the switch at its link, if there is one that reads it.
    pub(super) fn carry_to_switch(&mut self, host: usize, link: u8, mail: Mail) {
        let here = End { node: Node::Host(host), port: link };
        if let (Some(End { node: Node::Switch(switch), port }), 0) = (self.far_end(here), mail.to) {
            self.deliver_due(Due::from([(switch, port, mail.data)]));
        }
    }

    /// Does what is due by now.
    pub(super) fn run_firmware(&mut self) {
        let now = self.now_ms();
        let mut messages = Due::new();
        for switch in 0..self.switches.len() {
            let firmware = self.switches[switch].firmware.as_mut();
            let due = firmware.filter(|f| f.due(now).is_some_and(|due| due <= now));
            if let Some(firmware) = due {
                let actions = firmware.tick(now);
                self.carry_out(switch, actions, &mut messages);
            }
        }
        self.deliver_due(messages);
    }

    /// When [`Self::run_firmware`] has something to do, in microseconds.
    pub(super) fn firmware_due(&self) -> Option<u64> {
        let now = self.now_ms();
        let due = self.switches.iter().filter_map(|s| s.firmware.as_ref()?.due(now)).min()?;
        Some(due.saturating_mul(1000))
    }

    /// A switch has taken a configuration request of `master`, in that term.
    pub(super) fn firmware_heeds(&mut self, switch: usize, master: u64, term: u32) {
        if let Some(firmware) = &mut self.switches[switch].firmware {
            firmware.heed(Reign { term, master });
        }
    }

    fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    /// The neighbour's end of a link over which messages pass.
    fn far_end(&self, end: End) -> Option<End> {
        let (trunk, side) = self.topology.trunk_at(end)?;
        self.trunk_up(trunk).then(|| self.topology.trunks[trunk].ends[1 - side])
    }

    fn firmware_port(&self, end: End) -> Port {
        let (Some(far), Some((trunk, _))) = (self.far_end(end), self.topology.trunk_at(end)) else {
            return Port::NONE;
        };
        let [(speed, width), _] = self.trunk_rates(trunk);
        Port { peer: self.hwid_of(far.node), speed, width, excluded: false }
    }

    fn deliver_due(&mut self, mut due: Due) {
        let now = self.now_ms();
        while let Some((switch, port, data)) = due.pop_front() {
            let Some(mut firmware) = self.switches[switch].firmware.take() else { continue };
            let mut admits = |reign: &Reign| self.admits(switch, reign);
            let actions = firmware.receive(now, port, &data, &mut admits);
            self.switches[switch].firmware = Some(firmware);
            self.carry_out(switch, actions, &mut due);
        }
    }

    /// Whether the switch takes the word of this master, as that of a configuration request.
    fn admits(&mut self, switch: usize, reign: &Reign) -> bool {
        let Reign { term, master } = *reign;
        let host =
            (0..self.nodes.len()).find(|h| self.session(*h).is_some_and(|s| s.hwid == master));
        let may = match host {
            Some(host) => self.topology.may_manage(host),
            None => self.topology.managers.is_empty(),
        };
        may && self.switches[switch].accept(master, term).is_ok()
    }

    fn carry_out(&mut self, switch: usize, actions: Vec<Action>, due: &mut Due) {
        let mut routed = false;
        for action in actions {
            match action {
                Action::Send(port, data) => {
                    match self.far_end(End { node: Node::Switch(switch), port }) {
                        Some(End { node: Node::Switch(far), port }) => {
                            due.push_back((far, port, data));
                        }
                        Some(End { node: Node::Host(host), port: link }) => {
                            self.tell(host, ToPort::Mbox { link, to: 0, from: 0, data });
                        }
                        None => {}
                    }
                }
                Action::Route(lid, port) => {
                    routed = true;
                    if let Ok(change) = self.set_route(switch, lid, port) {
                        self.table_event(switch, change);
                    }
                }
            }
        }
        if routed {
            self.join_hierarchy(switch);
            // What this breaks is withdrawn; the master need not wait for that, for whoever comes
            // by the new routes does not meet the old ones.
            self.resolve();
        }
    }

    /// Puts the common VP of every port that has a cable into the common hierarchy, once, and only
    /// where nobody has put it into any.
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
