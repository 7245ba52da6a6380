// SPDX-License-Identifier: GPL-2.0

//! How a node handles the events of its port: changes of links, messages, doorbells.
//!
//! It only passes them on, to the link, the manager or the client that they concern. Messages are read
//! in the interrupt thread, into inboxes; work items act upon them. A neighbour that sends without end
//! does not keep that thread busy either: after [`BATCH`] messages the interrupt is masked, and the timer
//! reads on until the mailbox is empty. Doorbells may be handled in the hard interrupt: without a lock that
//! others hold for long.

use super::{inbox::DEPTH, Node};
use crate::{
    fabric::Manager,
    hw::{Events, Port, Source, MBOX_BYTES},
    proto::wire::{Body, Message},
    sys::trace,
};
use kernel::prelude::*;

/// The most messages read in one call: those that a Weft port holds, and that an empty inbox takes.
const BATCH: usize = DEPTH;

impl Node {
    /// Reads the messages in the mailbox, up to [`BATCH`], and queues them for those that act upon them.
    /// Returns true if it stopped at that limit.
    pub(super) fn drain(&self, port: &dyn Port) -> bool {
        let _pump = self.pump.lock();
        let mut buf = [0; MBOX_BYTES];
        for _ in 0..BATCH {
            let Some((source, bytes)) = port.recv(&mut buf) else {
                return false;
            };
            let message = buf.get(..bytes).unwrap_or_default();
            let link = match source {
                Source::Link(link) => link,
                Source::Lid(lid) => {
                    self.hear_call(lid, message);
                    continue;
                }
            };
            if let Some(manager) = self.manager().filter(|_| Manager::is_mine(message)) {
                if !manager.put(link, message) {
                    self.count_dropped(link);
                }
                self.manage();
                continue;
            }
            let parsed = Message::parse(message);
            let (Ok(from), Some(inbox)) = (self.link(port, link), self.inboxes.get(link)) else {
                continue;
            };
            from.health.heard(&parsed);
            match parsed {
                Ok(message) => {
                    let kind = message.body.kind().into();
                    trace::mbox_recv(&self.dev(), link as u32, kind, bytes as u32);
                    if !inbox.put(message) {
                        self.count_dropped(link);
                    }
                }
                Err(e) => from.bad_message(self, e),
            }
        }
        true
    }

    /// Handles a message of a port to which no link leads: a hello of a host asks for one. Others are late.
    fn hear_call(&self, lid: u32, message: &[u8]) {
        let (Some(far), Ok(message)) = (self.far(), Message::parse(message)) else {
            return;
        };
        if matches!(message.body, Body::Hello(_)) {
            trace::mbox_recv(&self.dev(), u32::MAX, message.body.kind().into(), 0);
            far.called(lid, message);
            self.manage();
        }
    }

    /// Counts a message for which an inbox had no room.
    fn count_dropped(&self, link: usize) {
        if let Some(from) = self.links.get(link) {
            from.health.dropped();
        }
    }
}

impl Events for Node {
    fn links_changed(&self) {
        trace::port_event(&self.dev(), trace::Port::Links, 0);
        if let Some(port) = self.port_at_work() {
            // What a neighbour said before its link went down tells why it did. If there is more, the
            // mailbox's own interrupt, or the timer, reads on.
            self.drain(&**port);
            self.look(&**port);
        }
    }

    fn message(&self) {
        let Some(port) = self.port_at_work() else {
            return;
        };
        let more = self.drain(&**port);
        if self.accept(&**port) || more {
            // Before the timer, which unmasks it once the mailbox is empty.
            port.mask_messages();
            self.hurry();
        }
    }

    fn plugged(&self) {
        trace::port_event(&self.dev(), trace::Port::Plug, 0);
        if let Some(manager) = self.manager() {
            manager.plugged();
            self.manage();
        }
    }

    fn error(&self, what: &CStr, addr: u64) {
        if self.reports.pass().is_some() {
            dev_warn!(self.dev(), "the port reports: {} at {:#x}\n", what, addr);
        }
        // The timer checks what the error means for the links.
        self.hurry();
    }

    fn wake(&self, link: usize) {
        if let Some(from) = self.links.get(link) {
            from.health.rung();
        }
        // A port that is being taken away wakes all sleepers by itself.
        if let (Some(client), Some(port)) = (self.client(), self.gate.enter()) {
            client.wake(&**port, link);
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
