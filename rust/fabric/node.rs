// SPDX-License-Identifier: GPL-2.0

//! A node: a port, as the rest of the driver sees it.
//!
//! It outlives the device. Files, interrupts and work items hold references to it. The port itself is
//! behind a gate, and gone when [`Node::revoke`] has returned.
//!
//! Each submodule implements one concern of the node. This file has what they share, and the access to
//! the port. None of it may know what is done over a link.

use super::{
    link::Link, power::Power, turnstile::Turnstile, Client, Functions, Manager, PortGuard, Reaching,
};
use crate::{
    hw::{Identity, Port, MAX_LINKS},
    proto::pair::Asked,
    sys::{gate::Gate, home::Home, registry::Entry, throttle::Throttle, waitq::WaitQueue},
};
use kernel::{
    device::Device,
    fmt::Arguments,
    impl_has_delayed_work, new_delayed_work, new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Acquire, Atomic},
        Arc, Mutex, SetOnce,
    },
    time::Delta,
    workqueue::DelayedWork,
};

mod events;
mod function;
mod host;
mod inbox;
mod life;
mod links;
mod managed;
mod reach;
mod resting;
mod timer;
mod users;

pub(crate) use self::reach::{Destination, Held};
use self::{inbox::Inbox, resting::Resting};

/// A node of the fabric.
#[pin_data]
pub(crate) struct Node {
    home: Arc<Home>,
    #[pin]
    gate: Gate<KBox<dyn Port>>,
    #[pin]
    links: [Link; MAX_LINKS],
    /// What the links have to act upon, by their numbers.
    inboxes: KVec<Arc<Inbox>>,
    client: SetOnce<Arc<dyn Client>>,
    #[pin]
    pump: Mutex<()>,
    /// A reference to the node itself while the gate is open, for the timer.
    #[pin]
    me: Mutex<Option<Arc<Node>>>,
    #[pin]
    timer: DelayedWork<Node>,
    /// The manager of the fabric, if the port has routes.
    manager: SetOnce<Arc<Manager>>,
    /// The manager in the list for other functions of the endpoint.
    #[pin]
    listed: Mutex<Option<Entry>>,
    /// The routed links, if the port can have any.
    far: SetOnce<Arc<Reaching>>,
    #[pin]
    managing: DelayedWork<Node, MANAGING>,
    #[pin]
    sharing: DelayedWork<Node, SHARING>,
    #[pin]
    power: Power,
    resting: Resting,
    /// Open files. Changed with `telling` held, as is `asked`.
    users: Atomic<i32>,
    #[pin]
    telling: Mutex<()>,
    /// The function is being reset.
    paused: Atomic<bool>,
    /// The function does not answer.
    gone: Atomic<bool>,
    /// Limits warnings in the log.
    throttle: Throttle,
    /// Limits the log messages about the port's reports, apart from `throttle`: others can provoke
    /// reports, which must not crowd out other messages.
    reports: Throttle,
    /// Limits the log messages about links that change, apart from `throttle`: routed links change with every
    /// program that connects.
    changes: Throttle,
    /// What the owner wanted of the users last, an [`Asked`].
    asked: Atomic<u32>,
    /// Routed and loopback links that have a directory in sysfs, a bit each; links to neighbours always
    /// have one.
    #[pin]
    shown: Mutex<u32>,
    /// Woken when the port goes, and when something is wanted of the users. For files that wait for
    /// nothing else.
    #[pin]
    waiters: WaitQueue,
    /// Woken when a link changes. For calls that wait until a host is reached, and for clients in the kernel.
    reaching: Arc<WaitQueue>,
    /// The node is detached: its port is gone, and another one will take its place.
    parked: Atomic<bool>,
    /// Calls of users. They wait here while the node is detached or quiesced.
    #[pin]
    calls: Turnstile,
}

/// The node has three work items: the timer, that of the manager, and that of the multi-root management
/// of a master. Each link has one, too, see [`Inbox`].
const TIMER: u64 = 0;
const MANAGING: u64 = 1;
const SHARING: u64 = 2;

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Node { self.timer }
    impl HasDelayedWork<Self, 1> for Node { self.managing }
    impl HasDelayedWork<Self, 2> for Node { self.sharing }
}

impl Node {
    /// A node without a port; with `auto`, links follow their traffic from the start.
    pub(crate) fn new(dev: &Device, auto: bool) -> Result<Arc<Self>> {
        let home = Home::new(dev)?;
        let mut inboxes = KVec::with_capacity(MAX_LINKS, GFP_KERNEL)?;
        for link in 0..MAX_LINKS {
            inboxes.push(Inbox::new(link)?, GFP_KERNEL)?;
        }
        let reaching =
            WaitQueue::shared(c"weft reaching", kernel::static_lock_class!(), GFP_KERNEL)?;
        Arc::pin_init(
            try_pin_init!(Self {
                home,
                gate <- Gate::new(),
                links <- pin_init::pin_init_array_from_fn(Link::new),
                inboxes,
                client: SetOnce::new(),
                pump <- new_mutex!((), "weft pump"),
                me <- new_mutex!(None, "weft node"),
                timer <- new_delayed_work!("weft timer"),
                manager: SetOnce::new(),
                listed <- new_mutex!(None, "weft listed"),
                far: SetOnce::new(),
                managing <- new_delayed_work!("weft managing"),
                sharing <- new_delayed_work!("weft sharing"),
                power <- Power::new(auto),
                resting: Resting::new(),
                users: Atomic::new(0),
                telling <- new_mutex!((), "weft users"),
                paused: Atomic::new(false),
                gone: Atomic::new(false),
                throttle: Throttle::new(10, Delta::from_secs(5)),
                reports: Throttle::new(10, Delta::from_secs(5)),
                changes: Throttle::new(10, Delta::from_secs(5)),
                asked: Atomic::new(Asked::default().word()),
                shown <- new_mutex!(0, "weft shown"),
                waiters <- WaitQueue::new(c"weft node", kernel::static_lock_class!()),
                reaching,
                parked: Atomic::new(false),
                calls <- Turnstile::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets what uses the links. `EBUSY`: it was set before.
    pub(crate) fn set_client(&self, client: Arc<dyn Client>) -> Result {
        if !self.client.populate(client) {
            return Err(EBUSY);
        }
        if let Some(port) = self.port_at_work() {
            for link in self.links(&**port) {
                link.introduce(self, &**port);
            }
        }
        Ok(())
    }

    pub(super) fn client(&self) -> Option<&dyn Client> {
        self.client.as_ref().map(|client| &**client)
    }

    /// Returns [`Client::functions`], none without a client.
    pub(crate) fn functions(&self) -> Functions {
        self.client().map(Client::functions).unwrap_or_default()
    }

    /// Returns the device that the node belongs to now.
    pub(crate) fn dev(&self) -> ARef<Device> {
        self.home.get()
    }

    /// Returns the reference to the device, which follows when another one takes over the node.
    pub(crate) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    /// Returns the wait queue of open files: woken when the port goes, and when something is wanted of
    /// users.
    pub(crate) fn waiters(&self) -> &WaitQueue {
        &self.waiters
    }

    /// Returns the wait queue that is woken when a link changes, or the port goes.
    pub(crate) fn reaching(&self) -> &Arc<WaitQueue> {
        &self.reaching
    }

    /// Enters the port. `ENODEV`: it is gone, or does not answer.
    pub(crate) fn port(&self) -> Result<PortGuard<'_>> {
        let gone = self.gone.load(Acquire);
        self.gate.enter().filter(|_| !gone).ok_or(ENODEV)
    }

    /// Enters the port, unless the function is being reset or does not answer. For work that no user
    /// waits for: it is skipped then.
    pub(crate) fn port_at_work(&self) -> Option<PortGuard<'_>> {
        if self.is_paused() || self.gone.load(Acquire) {
            return None;
        }
        self.gate.enter()
    }

    /// Enters the port even if it does not answer, for what it keeps in memory.
    pub(crate) fn port_though_silent(&self) -> Option<PortGuard<'_>> {
        self.gate.enter()
    }

    /// Returns whether the port is gone for good, was never there, or does not answer.
    pub(crate) fn is_closed(&self) -> bool {
        self.gate.is_closed() && !self.parked.load(Acquire) || self.gone.load(Acquire)
    }

    pub(crate) fn identity(&self) -> Result<Identity> {
        Ok(self.port()?.identity())
    }

    /// Warns in the log, at a limited rate.
    pub(crate) fn complain(&self, what: Arguments<'_>) {
        if self.throttle.pass().is_some() {
            dev_warn!(self.dev(), "{}\n", what);
        }
    }

    /// Returns whether the function is being reset.
    fn is_paused(&self) -> bool {
        self.paused.load(Acquire)
    }
}
