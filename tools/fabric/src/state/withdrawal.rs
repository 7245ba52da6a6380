// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Changes of tables that are not over: its author is answered when every port
//! has let go of what the change broke, and at once if it broke nothing.

use super::remote::Caller;
use super::{Effect, Fabric};
use crate::topology::Node;
use crate::wire::ToPort;

/// What waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A port, for a change of its route table.
    Route { host: usize, entry: u16, sequence: u32 },
    /// A port, for the answer to its configuration request.
    Config { host: usize, reply: ToPort },
    /// The command line.
    Command(u64),
}

/// A change, and the ports that have not let go.
pub struct Withdrawal {
    who: Waiter,
    waits: Vec<Caller>,
}

impl Waiter {
    fn host(&self) -> Option<usize> {
        match self {
            Waiter::Route { host, .. } | Waiter::Config { host, .. } => Some(*host),
            Waiter::Command(_) => None,
        }
    }
}

impl Fabric {
    /// The tables of `node` have been changed for `who`.
    pub(super) fn tables_changed(&mut self, node: Node, who: Waiter) {
        self.resolve();
        let mut waits = self.closing_through(node);
        if let Waiter::Route { host, entry, .. } = who {
            // One answer an entry: the last change of it waits for all of them.
            let same = |w: &Withdrawal| {
                matches!(w.who,
                Waiter::Route { host: h, entry: e, .. } if (h, e) == (host, entry))
            };
            if let Some(at) = self.withdrawals.iter().position(same) {
                let before = self.withdrawals.remove(at).waits;
                waits.extend(before.into_iter().filter(|w| !waits.contains(w)).collect::<Vec<_>>());
            }
        }
        if waits.is_empty() {
            self.over(who);
        } else {
            self.withdrawals.push(Withdrawal { who, waits });
        }
    }

    /// `who` has let go of all it had by then.
    pub(super) fn withdrawn(&mut self, who: Caller) {
        for withdrawal in &mut self.withdrawals {
            withdrawal.waits.retain(|caller| *caller != who);
        }
        let (over, rest): (Vec<_>, _) =
            std::mem::take(&mut self.withdrawals).into_iter().partition(|w| w.waits.is_empty());
        self.withdrawals = rest;
        for withdrawal in over {
            self.over(withdrawal.who);
        }
    }

    /// There is no port to be answered: it was reset or is gone.
    pub(super) fn forget_waiter(&mut self, host: usize) {
        self.withdrawals.retain(|w| w.who.host() != Some(host));
        self.forget_writer(host);
    }

    /// A port waits for the answer to its configuration request.
    pub(super) fn config_is_due(&self, host: usize) -> bool {
        let waits = |w: &Withdrawal| matches!(w.who, Waiter::Config { host: h, .. } if h == host);
        self.withdrawals.iter().any(waits) || self.base_is_due(host)
    }

    /// A command has waited long enough.
    pub(super) fn forget_command(&mut self, request: u64) {
        self.withdrawals.retain(|w| w.who != Waiter::Command(request));
    }

    /// What a command waits for.
    pub(super) fn command_waits(&self, request: u64) -> Vec<String> {
        let ours = |w: &&Withdrawal| w.who == Waiter::Command(request);
        let waits = self.withdrawals.iter().find(ours).into_iter().flat_map(|w| &w.waits);
        let mut names: Vec<_> =
            waits.map(|who| self.topology.hosts[who.host].name.clone()).collect();
        names.dedup();
        names
    }

    fn over(&mut self, who: Waiter) {
        match who {
            Waiter::Route { host, entry, sequence } => {
                self.tell(host, ToPort::RouteAck { entry, sequence });
            }
            Waiter::Config { host, reply } => self.tell(host, reply),
            Waiter::Command(request) => self.effects.push(Effect::Withdrawn { request }),
        }
    }
}
