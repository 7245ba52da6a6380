// SPDX-License-Identifier: GPL-2.0

//! How sockets handle the events of their links, as `fabric::Client` describes them.

use super::{per_link::PerLink, Sockets};
use crate::{
    fabric::{Reason, Session},
    hw::Port,
    proto::pair::Ask,
    sys::errno::{ECONNRESET, ENETDOWN},
};
use kernel::sync::atomic::Relaxed;

impl Sockets {
    pub(crate) fn ready(&self, link: usize) {
        if let Some(per_link) = self.links.get(link) {
            per_link.begin();
        }
    }

    pub(crate) fn broken(&self, link: usize, reason: Reason) {
        let Some(per_link) = self.links.get(link) else {
            return;
        };
        let error = match reason {
            Reason::Removed => ENETDOWN,
            _ => ECONNRESET,
        };
        for socket in per_link.all() {
            socket.end(error.into());
            per_link.remove(&socket);
        }
        per_link.clear();
        for listener in &*self.listeners.lock() {
            listener.remove(|request| request.link == link);
        }
    }

    /// When this returns, nothing is written to the peer until `go_on`.
    pub(crate) fn hold(&self, session: &Session<'_>) -> bool {
        if let Some(per_link) = self.links.get(session.link()) {
            per_link.rest();
        }
        true
    }

    pub(crate) fn go_on(&self, session: &Session<'_>) {
        if let Some(per_link) = self.links.get(session.link()) {
            per_link.go_on();
        }
    }

    pub(crate) fn tick(&self, session: &Session<'_>) {
        let (port, link) = (session.port(), session.link());
        if let (Some(per_link), Ok(arena)) = (self.links.get(link), port.arena(link)) {
            per_link.for_each(|socket| socket.recheck(&arena));
        }
    }

    /// Called in hard interrupts.
    pub(crate) fn wake(&self, port: &dyn Port, link: usize) {
        if let Some(per_link) = self.links.get(link) {
            if per_link.count() != 0 {
                if let Ok(arena) = port.arena(link) {
                    per_link.for_each(|socket| socket.rung(&arena));
                }
            }
        }
    }

    pub(crate) fn asked(&self, ask: Ask) {
        self.ending.store(ask.concerns_users(), Relaxed);
    }

    pub(crate) fn closed(&self) {
        for listener in &*self.listeners.lock() {
            listener.wake_all();
        }
        for per_link in &self.links {
            per_link.for_each(|socket| socket.wake_all());
        }
    }

    /// Returns how many sockets a link has.
    pub(crate) fn count(&self, link: usize) -> u32 {
        self.links.get(link).map_or(0, PerLink::count)
    }
}
