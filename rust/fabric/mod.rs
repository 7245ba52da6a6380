// SPDX-License-Identifier: GPL-2.0

//! A host's place in the fabric: the node of a port, and its links to neighbours.
//!
//! A [`Client`] uses the links that are READY. This module notifies it, and must not know what it does.
//!
//! # Locks
//!
//! The order, outermost first. The gate is not a lock: entering it never blocks.
//!
//! 1. the lock of the [`Manager`], then that of the aims of routed links ([`Reaching`]);
//! 2. `Link::inner`, held while the state machine of the link runs and while messages are sent;
//! 3. the locks of the [`Client`];
//! 4. the locks of the port.
//!
//! `Pcim::configurator` is outside all of them: only a run of the multi-root management takes it.
//!
//! `Node::pump` is held while messages are taken from the mailbox and put into the inboxes of the links
//! and of the manager; it is outside the locks of these inboxes and of the port, and inside no other.
//! `Link::inner` is outside the lock of its inbox too.
//! `Node::telling` is taken outside `Link::inner` and the locks of the client. `Node::me` nests in 1 and
//! 2. `Link::attested` nests in `Node::pump`, outside the locks of the port. The lock of a [`Keyring`](keyring::Keyring) is
//! innermost. [`Node`] takes no lock for a
//! doorbell: it handles doorbells in the hard interrupt, with atomics.

mod attested;
mod health;
mod host;
mod keyring;
mod link;
mod manager;
mod node;
mod pcim;
mod power;
mod reaching;
mod turnstile;
mod witness;

pub(crate) use self::{
    link::{LinkInfo, Session},
    manager::{Manager, Mode, Progress, Refusal, Role, Standing, View},
    node::{Destination, Held, Node},
    pcim::{Pcim, Shown},
    reaching::Reaching,
    turnstile::Inside,
};
pub(crate) use crate::proto::link::Reason;

use crate::{
    hw::{Port, MAX_LINKS},
    proto::{link::Peer, pair::Ask, wire::Body},
    sys::gate::Guard,
};
use kernel::{prelude::*, sync::Arc};

/// A port that was entered: it is not removed while this guard exists.
pub(crate) type PortGuard<'a> = Guard<'a, KBox<dyn Port>>;

/// The names of the links' directories in sysfs.
pub(crate) const LINK_DIRS: [&CStr; MAX_LINKS] = [
    c"link0", c"link1", c"link2", c"link3", c"link4", c"link5", c"link6", c"link7", c"link8",
    c"link9", c"link10", c"link11", c"link12", c"link13",
];

/// What a client uses on a link, for statistics.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Channels that are open now.
    pub(crate) open: u64,
    /// Channels opened so far.
    pub(crate) opened: u64,
    /// Of those, the channels that broke.
    pub(crate) broken: u64,
    /// Pages of the arena in use.
    pub(crate) pages: u64,
    /// Waiters that the timer woke because data had come without a doorbell.
    pub(crate) doorbells_lost: u64,
    /// Queue pairs that are connected now.
    pub(crate) queue_pairs: u32,
    /// Sockets that are there now.
    pub(crate) sockets: u32,
}

/// Functions of shared endpoints that programs use, for statistics.
#[derive(Clone, Copy, Default)]
pub(crate) struct Functions {
    /// Those that are open now, and not broken.
    pub(crate) open: u64,
    /// Of those, the ones that are held until there is a route.
    pub(crate) held: u64,
    /// How often one has failed while a program used it.
    pub(crate) failures: u64,
}

/// What uses the links of a node. `wake`, `kicked`, `moved` and `called` are called in hard interrupts,
/// all others in threads. `ready`, `broken`, `bury` and the methods that take a [`Session`] are called
/// with the link locked.
pub(crate) trait Client: Send + Sync {
    /// The link is READY: `peer` reaches the arena of this end, and the window of this end reaches that
    /// of `peer`.
    fn ready(&self, port: &dyn Port, link: usize, peer: &Peer);

    /// The link is READY no more. When this returns, neither the client nor a user accesses the window
    /// of `link`.
    fn broken(&self, port: &dyn Port, link: usize, reason: Reason);

    /// The neighbour can no longer write into the arena, which is used for something else once this
    /// returns. `sound`: what the neighbour has written has no gap.
    fn bury(&self, port: &dyn Port, link: usize, sound: bool);

    /// Handles a message of the peer. The link is READY.
    fn message(&self, session: &mut Session<'_>, body: Body);

    /// Quiesces the session, because it is about to end or its route to change: both ends begin nothing
    /// new. Returns true if nothing is in flight in either direction; what the client keeps then
    /// survives the change. Called repeatedly while the link is READY.
    fn hold(&self, _session: &mut Session<'_>) -> bool {
        true
    }

    /// Ends what [`Client::hold`] has begun: both ends may begin again.
    fn go_on(&self, _session: &mut Session<'_>) {}

    /// The port is gone, and another one will take its place: as [`Client::retired`], but what can
    /// outlast the port is kept.
    fn parked(&self) {}

    /// Another port is about to take the place of the one that is gone, see [`Client::parked`].
    fn adopted(&self, _node: &Arc<Node>) {}

    /// The host's virtual hierarchy has changed, see [`View::hierarchy`]. The routes to all that is in
    /// it were set before; the client is to release what is not in it any more. Called in a thread, with
    /// the manager locked: it must not wait, nor call what takes that lock.
    fn hierarchy(&self) {}

    /// Returns true if the client uses nothing any more that is not in the hierarchy. Called as
    /// [`Client::hierarchy`] is, repeatedly until it returns true; the host does not confirm the
    /// hierarchy to the master before.
    fn let_go(&self) -> bool {
        true
    }

    /// Does periodic work that needs no READY link. Called in a thread, with no link locked.
    fn passed(&self, _now: u64) {}

    /// Does periodic work of a link that is READY.
    fn tick(&self, session: &mut Session<'_>, now: u64);

    /// Returns how many bytes the CPUs of this host have stored by the window of `link` since the last call,
    /// for the users of the client; roughly.
    fn take_stored(&self, _port: &dyn Port, _link: usize) -> u64 {
        0
    }

    /// The neighbour on `link` rang `wake`. Called in hard interrupts, or in a thread; must not sleep.
    fn wake(&self, port: &dyn Port, link: usize);

    /// A user of this host kicked the driver. Called in hard interrupts, and in a thread when the
    /// function is back.
    fn kicked(&self);

    /// The DMA channel of `link` has a report, or has stopped. Called in hard interrupts.
    fn moved(&self, link: usize);

    /// The port's links or routes may have changed. Called in a thread, with no link locked.
    fn looked(&self, _port: &dyn Port) {}

    /// All links are down: the port is about to be reset or removed. When this returns, nothing uses the
    /// port's endpoint slots any more. Called in a thread, with no link locked.
    fn lost(&self, _port: &dyn Port, _reason: Reason) {}

    /// The remote function of an endpoint slot rang. Called as [`Client::wake`].
    fn called(&self, _slot: usize) {}

    /// The port goes away or does not answer: wakes all waiters.
    fn closed(&self);

    /// The port is gone for good. When this returns, no work of the client runs or holds the node, and
    /// users reach nothing of the port.
    fn retired(&self);

    /// The physical function wants something else of the users, see [`Ask`]: wakes all waiters. If the
    /// users are to finish or to stop, the client begins nothing new that would have to be completed.
    /// Called in a thread, with no link locked.
    fn asked(&self, ask: Ask);

    /// Returns how much is outstanding with respect to `ask`. After it has returned 0, nothing is begun
    /// until something else is asked for. Called as [`Client::asked`] is, after it.
    fn outstanding(&self, ask: Ask) -> u32;

    /// Returns whether something of a user is open on `link`, or about to be. Called in a thread, with or
    /// without the link locked. What is opened later finds the link locked, or holds it, see
    /// [`Node::reach`].
    fn is_used(&self, link: usize) -> bool;

    /// Returns what the client uses on `link`, for statistics.
    fn usage(&self, link: usize) -> Usage;

    /// Returns how many functions of shared endpoints are used, for statistics.
    fn functions(&self) -> Functions {
        Functions::default()
    }
}
