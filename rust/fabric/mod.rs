// SPDX-License-Identifier: GPL-2.0

//! A host's place in the fabric: the node of a port, and its links to neighbours.
//!
//! What is done over a link that is READY is the business of a [`Client`], of which this knows no
//! more than that it wants to be told.
//!
//! # Locks
//!
//! In this order, from outside to inside; the gate is no lock, entering it never blocks.
//!
//! 1. `Node::pump`: messages are taken from the mailbox and handled one at a time; or that of the
//!    [`Manager`], which is never taken inside it;
//! 2. `Link::inner`: the state machine, and whatever is sent;
//! 3. the locks of the [`Client`];
//! 4. those of the port.
//!
//! `Pcim::configurator` is outside of all of them: nothing waits for it but itself.
//!
//! `Node::telling` is taken outside `Link::inner` and those of the client. `Node::me` nests in the first
//! two. Doorbells take no lock: [`Node`] handles them in the hard interrupt, by atomics.

mod health;
mod host;
mod link;
mod manager;
mod memory;
mod node;
mod pcim;
mod power;
mod turnstile;

pub(crate) use self::{
    link::{LinkInfo, Session},
    manager::{Manager, Refusal, Role, Standing, View},
    node::Node,
    pcim::{Pcim, Shown},
};
pub(crate) use crate::proto::link::Reason;

use crate::{
    hw::{Port, MAX_LINKS},
    proto::{link::Peer, pair::Ask, wire::Body},
    sys::gate::Guard,
};
use kernel::{prelude::*, sync::Arc};

/// The port while it is there.
pub(crate) type PortGuard<'a> = Guard<'a, KBox<dyn Port>>;

/// The names of the links' directories in sysfs.
pub(crate) const LINK_DIRS: [&CStr; MAX_LINKS] = [
    c"link0", c"link1", c"link2", c"link3", c"link4", c"link5", c"link6", c"link7", c"link8",
    c"link9", c"link10", c"link11",
];

/// What a client has on a link.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Channels that are open now.
    pub(crate) open: u64,
    /// Channels that were opened since the port is there.
    pub(crate) opened: u64,
    /// How many of them broke.
    pub(crate) broken: u64,
    /// Pages of the arena that are taken.
    pub(crate) pages: u64,
    /// Sleepers that were woken although no doorbell came.
    pub(crate) doorbells_lost: u64,
}

/// Who uses the links of a node. `wake`, `kicked`, `moved` and `called` are called from hard interrupts,
/// everything else from threads, with the link locked.
pub(crate) trait Client: Send + Sync {
    /// The link is READY: `peer` has its window here, and here is a window onto its arena.
    fn ready(&self, port: &dyn Port, link: usize, peer: &Peer);

    /// It was READY. No access to the window of `link` may follow when this returns, neither of the
    /// client nor of users.
    fn broken(&self, port: &dyn Port, link: usize, reason: Reason);

    /// The neighbour cannot write into the arena any more, and it will be used for something else
    /// when this returns. `sound`: what there is came without a gap.
    fn bury(&self, port: &dyn Port, link: usize, sound: bool);

    /// A message of the peer, while READY.
    fn message(&self, session: &mut Session<'_>, body: Body);

    /// The session is to end, or its way to lead elsewhere: has both ends begin nothing. True: nothing is
    /// under way either way, and what there is may outlast that. To be called again and again, while READY.
    fn hold(&self, _session: &mut Session<'_>) -> bool {
        true
    }

    /// That is wanted no more.
    fn go_on(&self, _session: &mut Session<'_>) {}

    /// The port is gone, and another will be there: as `retired`, but what outlasts it does.
    fn parked(&self) {}

    /// That one is going to be there.
    fn adopted(&self, _node: &Arc<Node>) {}

    /// The host's virtual hierarchy is another one, see [`View::hierarchy`]. All that is in it has its way
    /// already; what is not in it any more is to be let go. Called in a thread, with the manager locked: it
    /// must not wait, nor have the node do anything.
    fn hierarchy(&self) {}

    /// Whether nothing is used any more that is not in the hierarchy. Called as `hierarchy` is, again and
    /// again until it is so; until then no one else is given any of it.
    fn let_go(&self) -> bool {
        true
    }

    /// Some time has passed, whether a link is READY or not. Called in a thread, with no link locked.
    fn passed(&self, _now: u64) {}

    /// Some time has passed, while READY.
    fn tick(&self, session: &mut Session<'_>, now: u64);

    /// The neighbour on `link` rang. Called in hard interrupts.
    fn wake(&self, link: usize);

    /// A user of this host rang for the driver. Called in hard interrupts.
    fn kicked(&self);

    /// The port's mover on `link` reports. Called in hard interrupts.
    fn moved(&self, link: usize);

    /// Something of the port's links or routes may have changed. Called in a thread, with no link locked.
    fn looked(&self, _port: &dyn Port) {}

    /// All links are down: the port is going to be reset, or taken away. What uses its endpoint slots has left them
    /// when this returns. Called in a thread, with no link locked.
    fn lost(&self, _port: &dyn Port, _reason: Reason) {}

    /// The remote function of an endpoint slot of the port rang. Called in hard interrupts.
    fn called(&self, _slot: usize) {}

    /// Nothing works any more: wake everybody who waits.
    fn closed(&self);

    /// The port is gone for good. No work of the client runs, or holds the node, and users reach
    /// nothing of the port, when this returns.
    fn retired(&self);

    /// Something is wanted of the users, see [`Ask`]: wake everybody, and begin nothing new that would
    /// have to be completed. Called in a thread, with no link locked.
    fn asked(&self, ask: Ask);

    /// How much is outstanding, as the owner asks for it. With 0 nothing is, and nothing is begun until
    /// something else is wanted. Called as `asked` is, after it.
    fn outstanding(&self, ask: Ask) -> u32;

    /// For those who watch.
    fn usage(&self, link: usize) -> Usage;

    /// For those who watch: how often what a program used by an endpoint slot has failed.
    fn failures(&self) -> u64 {
        0
    }
}
