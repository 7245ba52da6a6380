// SPDX-License-Identifier: GPL-2.0

//! A node and its users: that there are any, which the port is told, and what is wanted of them: that
//! they finish, or that they rest while the function becomes another one.
//!
//! What they have outstanding is known by the client.

use super::Node;
use crate::{
    fabric::turnstile::Inside,
    hw::Port,
    proto::pair::{Ask, Asked},
    sys::errno::ESHUTDOWN,
};
use kernel::{
    prelude::*,
    sync::atomic::{Acquire, Atomic, Full},
};

impl Node {
    /// A user has begun to use the node.
    pub(crate) fn user_came(&self) {
        self.count_users(|users| users.fetch_add(1, Full) == 0, true);
    }

    /// A user of the node has ended.
    pub(crate) fn user_left(&self) {
        self.count_users(|users| users.fetch_sub(1, Full) == 1, false);
    }

    /// Tells the port of the first user, and of the last one.
    fn count_users(&self, change: impl FnOnce(&Atomic<i32>) -> bool, any: bool) {
        let _one = self.telling.lock();
        if change(&self.users) {
            if let Some(port) = self.port_at_work() {
                if let Some(owner) = port.owner() {
                    owner.tell_users(any);
                }
            }
        }
    }

    /// Tells the port of what has changed while it was not to be used.
    pub(super) fn tell_users(&self, port: &dyn Port) {
        let _one = self.telling.lock();
        if let Some(owner) = port.owner() {
            owner.tell_users(self.users.load(Acquire) > 0);
        }
    }

    /// Whether users are to finish, and begin nothing new.
    pub(crate) fn is_asked(&self) -> bool {
        Asked::of(self.asked.load(Acquire)).ask.concerns_users()
    }

    /// `ESHUTDOWN`: users are to finish, and begin nothing new.
    pub(crate) fn may_begin(&self) -> Result {
        match self.is_asked() {
            true => Err(ESHUTDOWN.into()),
            false => Ok(()),
        }
    }

    /// A user calls for something. Waits while the function becomes another one.
    pub(crate) fn call(&self) -> Result<Inside<'_>> {
        self.calls.enter()
    }

    /// Passes on what is wanted of the users, if that is something else. True: it is.
    pub(super) fn accept(&self, port: &dyn Port) -> bool {
        let _one = self.telling.lock();
        let asked = port.owner().map_or(Asked::default(), |owner| owner.asked());
        let before = self.asked.xchg(asked.word(), Full);
        if before == asked.word() {
            return false;
        }
        if Asked::of(before).ask == Ask::Still && asked.ask != Ask::Still {
            for link in self.links(port) {
                link.go_on(self, port);
            }
            self.calls.open();
        }
        match (asked.ask, self.client()) {
            (Ask::Still | Ask::Look, _) | (_, None) => {}
            (ask, Some(client)) => client.asked(ask),
        }
        self.waiters.wake_all();
        true
    }

    /// Tells the owner how much is outstanding, if it has asked for that.
    pub(super) fn tell_left(&self, port: &dyn Port) {
        let _one = self.telling.lock();
        let asked = Asked::of(self.asked.load(Acquire));
        let left = match (asked.ask, self.client()) {
            (Ask::GoOn, _) | (_, None) => return,
            (Ask::Still, Some(_)) => {
                let none = self.calls.shut() && self.hold_now(port);
                u32::from(!none)
            }
            (ask, Some(client)) => client.outstanding(ask),
        };
        if let Some(owner) = port.owner() {
            owner.tell_left(asked, left);
        }
    }
}
