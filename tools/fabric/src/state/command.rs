// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the administrator can ask of the fabric while it runs.

use super::effect::AdminState;
use super::link::CableState;
use super::{Effect, Event, Fabric, Refusal};
use crate::topology::{End, Node, Power, SPEEDS, WIDTHS, split_end};
use crate::wire::ToPort;

impl Fabric {
    /// Switches the cable at `end` on or off.
    pub fn switch_cable(&mut self, end: &str, up: bool) -> Result<(), Refusal> {
        let cable = self.cable_named(end)?;
        if self.cables[cable].up != up {
            self.cables[cable].up = up;
            self.cable_changed(cable);
        }
        Ok(())
    }

    /// Limits speed or width of the cable at `end`, or says whether it follows its traffic
    /// within the limit; `None` leaves it as it is.
    pub fn limit_cable(
        &mut self,
        end: &str,
        speed: Option<u8>,
        width: Option<u8>,
        power: Option<Power>,
    ) -> Result<(), Refusal> {
        let cable = self.cable_named(end)?;
        let (most, name) = (&self.topology.cables[cable], self.topology.cable_name(cable));
        let speed = speed.unwrap_or(self.cables[cable].speed);
        if !(*SPEEDS.start()..=most.speed).contains(&speed) {
            return Err(Refusal(format!(
                "link {name}: speed {speed}; give a generation, {} to {}",
                SPEEDS.start(),
                most.speed
            )));
        }
        let width = width.unwrap_or(self.cables[cable].width);
        if width > most.width || !WIDTHS.contains(&width) {
            let widths: Vec<_> =
                WIDTHS.iter().filter(|w| **w <= most.width).map(u8::to_string).collect();
            return Err(Refusal(format!(
                "link {name}: width {width}; its lanes can be {}",
                widths.join(", ")
            )));
        }
        if let (Some(Power::Auto), Some(why)) = (power, self.topology.why_not_auto(cable)) {
            return Err(Refusal(why));
        }
        let state = &mut self.cables[cable];
        let new = CableState { up: state.up, speed, width, power: power.unwrap_or(state.power) };
        if *state != new {
            *state = new;
            self.cable_changed(cable);
        }
        Ok(())
    }

    /// Switches counting of every TLP of a host's port on or off, now and for
    /// its later connections.
    pub fn trace(&mut self, name: &str, on: bool) -> Result<(), Refusal> {
        let host = self.with_qemu(name)?;
        if self.nodes[host].traced != on {
            self.nodes[host].traced = on;
            self.tell(host, ToPort::Trace(on));
            self.effects.push(Effect::Event(Event::Trace { node: name.into(), on }));
        }
        Ok(())
    }

    /// Has a host's port use all the freedom of the ordering rules, drawn from
    /// this seed, or no longer; now and for its later connections.
    pub fn adversarial(&mut self, name: &str, seed: Option<u64>) -> Result<(), Refusal> {
        let host = self.with_qemu(name)?;
        if self.nodes[host].adversarial != seed {
            self.nodes[host].adversarial = seed;
            self.tell(host, ToPort::Adversarial(seed));
            self.effects.push(Effect::Event(Event::Adversarial { node: name.into(), seed }));
        }
        Ok(())
    }

    /// Asks a port for its counters; the answer is an [`Effect::Counters`] with
    /// this host and request.
    pub fn ask_counters(
        &mut self,
        name: &str,
        request: u64,
        clear: bool,
    ) -> Result<usize, Refusal> {
        let host = self.with_qemu(name)?;
        if self.session(host).is_none() {
            return Err(Refusal(format!("{name} is not connected; start its QEMU")));
        }
        self.tell(host, ToPort::CountersGet { request, clear });
        Ok(host)
    }

    /// What keeps the hosts (all, if none is named) from being connected and, if
    /// `links` is set, their links from being up, but those switched off.
    pub fn missing(&self, names: &[String], links: bool) -> Result<Vec<String>, Refusal> {
        let mut hosts = vec![];
        for name in names {
            hosts.push(self.host_named(name)?);
        }
        if hosts.is_empty() {
            hosts.extend((0..self.nodes.len()).filter(|&host| self.nodes[host].plugged));
        }
        let absent = hosts.iter().filter(|&&host| self.session(host).is_none());
        let mut missing: Vec<_> = absent
            .map(|&host| format!("{} is not connected", self.topology.hosts[host].name))
            .collect();
        if links {
            for (n, trunk) in self.topology.trunks.iter().enumerate() {
                let of_ours = |e: &End| matches!(e.node, Node::Host(h) if hosts.contains(&h));
                let ours = trunk.ends.iter().any(of_ours);
                let wanted = trunk.cables.iter().all(|&cable| self.cables[cable].up)
                    && self.unplugged(trunk).is_none();
                if let (true, false, Some(why)) =
                    (ours && wanted, self.trunk_up(n), self.trunk_down(n))
                {
                    let [a, b] = trunk.ends.map(|e| self.topology.end_name(e));
                    missing.push(format!("link {a}--{b} is down, {why}"));
                }
            }
        }
        Ok(missing)
    }

    pub(super) fn host_named(&self, name: &str) -> Result<usize, Refusal> {
        self.topology
            .host(name)
            .ok_or_else(|| Refusal(format!("no host is called \"{name}\"; {}", self.known_hosts())))
    }

    /// A host whose port is a QEMU's: what is asked of the device itself, an endpoint has not.
    pub(super) fn with_qemu(&self, name: &str) -> Result<usize, Refusal> {
        let host = self.host_named(name)?;
        let hosts = || self.topology.hosts.iter().filter(|h| h.endpoint.is_none());
        match self.topology.hosts[host].endpoint {
            None => Ok(host),
            Some(_) => {
                let names: Vec<_> = hosts().map(|h| h.name.as_str()).collect();
                Err(Refusal(format!(
                    "{name} is an endpoint, which has no device of QEMU's; name a host: {}",
                    names.join(", ")
                )))
            }
        }
    }

    /// One that the fabric plays.
    pub(super) fn endpoint_named(&self, name: &str) -> Result<usize, Refusal> {
        let host = self.host_named(name)?;
        let hosts = &self.topology.hosts;
        if hosts[host].endpoint.is_some() {
            return Ok(host);
        }
        let all = hosts.iter().filter(|h| h.endpoint.is_some());
        let names: Vec<_> = all.map(|h| h.name.as_str()).collect();
        Err(Refusal(match names.as_slice() {
            [] => format!("{name} is no endpoint, and the fabric has none"),
            _ => format!("{name} is no endpoint; name one: {}", names.join(", ")),
        }))
    }

    fn cable_named(&self, text: &str) -> Result<usize, Refusal> {
        let (name, port) = split_end(text).map_err(Refusal)?;
        let node = self.node_named(name)?;
        self.topology.cable_at(End { node, port }).ok_or_else(|| {
            Refusal(format!("no link ends at {text}; see them with: weft-fabric status"))
        })
    }

    fn cable_changed(&mut self, cable: usize) {
        let state = self.cables[cable];
        let ends = self.topology.cables[cable].ends.map(|e| self.topology.end_name(e));
        let CableState { up, speed, width, power } = state;
        let state = if up { AdminState::Up } else { AdminState::Down };
        self.effects.push(Effect::Event(Event::Cable { ends, state, speed, width, power }));
        self.settle();
    }
}
