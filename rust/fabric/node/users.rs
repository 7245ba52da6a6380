// SPDX-License-Identifier: GPL-2.0

//! The users of a node: tells the owner of the function whether there are any, and passes on what the
//! owner wants of them: to finish, or to wait while the function is replaced.
//!
//! The client knows what is outstanding.

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
    /// Counts a new user of the node.
    pub(crate) fn user_came(&self) {
        self.count_users(|users| users.fetch_add(1, Full) == 0, true);
    }

    /// Counts a user that has left.
    pub(crate) fn user_left(&self) {
        self.count_users(|users| users.fetch_sub(1, Full) == 1, false);
    }

    /// Changes the count with `change`, and tells the port's owner if it returns true: of the first
    /// user, or that there is none left.
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

    /// Tells the port's owner whether there are users: it may have missed changes while the function did
    /// not work.
    pub(super) fn tell_users(&self, port: &dyn Port) {
        let _one = self.telling.lock();
        if let Some(owner) = port.owner() {
            owner.tell_users(self.users.load(Acquire) > 0);
        }
    }

    /// Returns whether users are to finish, and to begin nothing new.
    pub(crate) fn is_asked(&self) -> bool {
        Asked::of(self.asked.load(Acquire)).ask.concerns_users()
    }

    /// Checks that users may begin something. `ESHUTDOWN`: they are to finish, and to begin nothing new.
    pub(crate) fn may_begin(&self) -> Result {
        match self.is_asked() {
            true => Err(ESHUTDOWN.into()),
            false => Ok(()),
        }
    }

    /// Enters a call of a user. Waits while the function is being replaced. Errors are those of
    /// `Turnstile::enter`.
    pub(crate) fn call(&self) -> Result<Inside<'_>> {
        self.calls.enter()
    }

    /// As [`Node::call`], but never waits: `EAGAIN` while the function is being replaced.
    pub(crate) fn call_now(&self) -> Result<Inside<'_>> {
        self.calls.try_enter()
    }

    /// Passes on what the owner wants of the users. Returns true if it has changed.
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

    /// Tells the owner how much is outstanding, if it wants to know.
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
