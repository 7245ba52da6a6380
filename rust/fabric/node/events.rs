// SPDX-License-Identifier: GPL-2.0

//! How a node handles the events of its port: changes of links, messages, doorbells.
//!
//! It only passes them on, to the link, the manager or the client that they concern. Doorbells are
//! handled in the hard interrupt, without a lock.

use super::Node;
use crate::{
    fabric::Manager,
    hw::{Events, Port, MBOX_BYTES},
    proto::wire::Message,
    sys::trace,
};
use kernel::prelude::*;

/// The most messages handled in one call.
const BATCH: usize = 64;

impl Node {
    /// Handles the messages in the mailbox, up to [`BATCH`]. Returns true if it stopped at that limit: a
    /// neighbour that floods the mailbox must not keep an interrupt thread on the CPU.
    pub(super) fn drain(&self, port: &dyn Port) -> bool {
        let _pump = self.pump.lock();
        let mut buf = [0; MBOX_BYTES];
        for _ in 0..BATCH {
            let Some((link, bytes)) = port.recv(&mut buf) else {
                return false;
            };
            let message = buf.get(..bytes).unwrap_or_default();
            if let Some(manager) = self.manager().filter(|_| Manager::is_mine(message)) {
                manager.put(link, message);
                self.manage();
                continue;
            }
            let parsed = Message::parse(message);
            let from = self.link(port, link);
            if let Ok(from) = from {
                from.health.heard(&parsed);
            }
            match (parsed, from) {
                (Ok(message), Ok(to)) => {
                    let kind = message.body.kind().into();
                    trace::mbox_recv(&self.pci(), link as u32, kind, bytes as u32);
                    to.message(self, port, &message);
                }
                (Err(e), Ok(from)) => from.bad_message(self, e),
                (_, Err(_)) => {}
            }
        }
        true
    }
}

impl Events for Node {
    fn links_changed(&self) {
        trace::port_event(&self.pci(), trace::Port::Links, 0);
        if let Some(port) = self.port_at_work() {
            self.look(&**port);
        }
    }

    fn message(&self) {
        let Some(port) = self.port_at_work() else {
            return;
        };
        if self.drain(&**port) || self.accept(&**port) {
            self.hurry();
        }
    }

    fn plugged(&self) {
        trace::port_event(&self.pci(), trace::Port::Plug, 0);
        if let Some(manager) = self.manager() {
            manager.plugged();
            self.manage();
        }
    }

    fn error(&self, what: &CStr, addr: u64) {
        if self.reports.pass().is_some() {
            dev_warn!(self.pci(), "the port reports: {} at {:#x}\n", what, addr);
        }
        // The timer checks what the error means for the links.
        self.hurry();
    }

    fn wake(&self, link: usize) {
        if let Some(from) = self.links.get(link) {
            from.health.rung();
        }
        if let Some(client) = self.client() {
            client.wake(link);
        }
    }

    fn moved(&self, link: usize) {
        if let Some(client) = self.client() {
            client.moved(link);
        }
    }

    fn called(&self, slot: usize) {
        if let Some(client) = self.client() {
            client.called(slot);
        }
    }

    fn kicked(&self) {
        if let Some(client) = self.client() {
            client.kicked();
        }
    }

    fn echo(&self, link: usize) {
        // What the peer wrote before it rang is visible here, and what was written here before is on its
        // way to the peer: see Documentation/protocol.rst.
        if let Some(port) = self.gate.enter() {
            self.ring_wake(&**port, link);
        }
    }
}
