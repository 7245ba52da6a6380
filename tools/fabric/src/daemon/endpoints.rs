// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The shared endpoints that the daemon plays: threads that are ports to it. No port
//! else can be one.

use super::Daemon;
use super::port::Port;
use crate::endpoint::Running;
use crate::state::{PortId, Refusal};
use std::time::Instant;

impl Daemon {
    /// Starts every endpoint of the topology that is plugged in.
    pub(super) fn start_endpoints(&mut self) -> Result<(), String> {
        let hosts = self.fabric.topology().hosts.iter();
        let all = hosts.filter(|h| h.plugged && h.endpoint.is_some());
        let names: Vec<_> = all.map(|h| h.name.clone()).collect();
        names.iter().try_for_each(|name| self.start_endpoint(name))
    }

    /// Plugs a component in.
    pub(super) fn plug(&mut self, name: &str) -> Result<(), Refusal> {
        self.fabric.plug(name)?;
        self.start_endpoint(name).map_err(Refusal)
    }

    /// Pulls a component out. An endpoint touches no host's memory any more then.
    pub(super) fn unplug(&mut self, name: &str) -> Result<(), Refusal> {
        self.fabric.unplug(name)?;
        self.apply();
        if let Some((id, running)) = self.endpoints.remove(name) {
            // It may not have said HELLO yet.
            self.drop_port(id, "it was unplugged".into());
            running.join();
        }
        Ok(())
    }

    /// Starts one, whose connection becomes a port as any other.
    fn start_endpoint(&mut self, name: &str) -> Result<(), String> {
        let topology = self.fabric.topology();
        let Some(endpoint) = topology.host(name).and_then(|n| topology.hosts[n].endpoint.as_ref())
        else {
            return Ok(());
        };
        let (running, fd) = Running::start(name, endpoint)
            .map_err(|e| format!("endpoint {name} cannot be started: {e}"))?;
        let id = PortId(self.next_id());
        self.ports.insert(id, Port::of_endpoint(fd, Instant::now() + super::HELLO_TIME));
        self.endpoints.insert(name.into(), (id, running));
        Ok(())
    }

    /// An endpoint's name is for the connection of its thread, and no other.
    pub(super) fn may_play(&self, id: PortId, name: &str) -> Result<(), String> {
        let topology = self.fabric.topology();
        let host = topology.host(name).map(|n| &topology.hosts[n]);
        let endpoint = host.is_some_and(|h| h.endpoint.is_some());
        match self.ports.get(&id).is_some_and(|p| p.endpoint) {
            played if played == endpoint => Ok(()),
            _ => Err(format!("{name} is an endpoint, which the fabric plays; use a host's name")),
        }
    }
}
