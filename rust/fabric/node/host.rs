// SPDX-License-Identifier: GPL-2.0

//! What a node provides to its links, the network manager and the multi-root management.

use super::Node;
use crate::{
    fabric::{
        host::{Host, ManagerHost, Spared},
        pcim::Network,
        Client, Manager, PortGuard, Role, View,
    },
    hw::{Aim, Port},
    proto::{mr::due::Due, nm::power::Rate, reach::Use},
};
use kernel::{device::Device, fmt::Arguments, prelude::*, sync::aref::ARef};

impl Host for Node {
    fn client(&self) -> Option<&dyn Client> {
        self.client()
    }

    fn complain(&self, what: Arguments<'_>) {
        self.complain(what);
    }

    fn manage(&self) {
        self.manage();
    }
}

impl ManagerHost for Node {
    fn dev(&self) -> ARef<Device> {
        self.dev()
    }

    fn port_at_work(&self) -> Option<PortGuard<'_>> {
        self.port_at_work()
    }

    fn aim(&self, link: usize, aim: Option<Aim>, spared: Spared) -> Result {
        self.aim(link, aim, spared)
    }

    fn uses(&self, link: usize) -> Use {
        let link = self.links.get(link);
        link.map_or_else(Use::default, |link| link.uses(self))
    }

    fn peer_hwid(&self, port: &dyn Port, link: usize) -> Option<u64> {
        self.peer_hwid(port, link)
    }

    fn free_rate(&self, link: usize) -> Option<Rate> {
        self.power.free(link)
    }

    fn manage_hierarchies(&self, due: Due) {
        self.manage_hierarchies(due);
    }

    fn rest_for_ways(&self, on: bool) {
        self.rest_for_ways(on);
    }

    fn rests_for_ways(&self) -> bool {
        self.rests_for_ways()
    }
}

/// A node and its network manager.
pub(super) struct OfNode<'a> {
    node: &'a Node,
    manager: &'a Manager,
}

impl<'a> OfNode<'a> {
    pub(super) fn new(node: &'a Node, manager: &'a Manager) -> Self {
        Self { node, manager }
    }
}

impl Network for OfNode<'_> {
    fn dev(&self) -> ARef<Device> {
        self.node.dev()
    }

    fn port(&self) -> Result<PortGuard<'_>> {
        self.node.port()
    }

    fn port_at_work(&self) -> Option<PortGuard<'_>> {
        self.node.port_at_work()
    }

    fn complain(&self, what: Arguments<'_>) {
        self.node.complain(what);
    }

    fn is_master(&self, term: u32) -> bool {
        let me = self.manager.look(View::standing);
        me.role == Role::Master && me.term == term
    }

    fn member(&self, hwid: u64) -> (u32, u32) {
        self.manager.look(|view| {
            let mut all = view.members().iter();
            let member = all.find(|member| member.known && member.info.hwid == hwid);
            member.map_or((0, 0), |member| (member.info.lid, member.info.life))
        })
    }

    fn hand(&self, hwid: u64, bytes: &[u8]) -> Result {
        self.manager.hand(self.node, hwid, bytes)
    }

    fn copy_assignments(&self, to: &mut [u8]) -> (u32, usize) {
        self.manager.copy_assignments(to)
    }

    fn note_assignments(&self, version: u32, text: &[u8]) -> Result {
        self.manager.note_assignments(self.node, version, text)
    }
}
