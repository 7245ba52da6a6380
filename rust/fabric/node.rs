// SPDX-License-Identifier: GPL-2.0

//! A node: what a port is to the rest of the driver.
//!
//! It outlives the device. Files, interrupts and work items hold it; the port itself is behind a
//! gate, and gone when [`Node::revoke`] has returned.
//!
//! What the node does is in the modules of this one, a concern each; here is what they share, and the
//! ways to the port. None of it may know what is done over a link.

use super::{link::Link, power::Power, turnstile::Turnstile, Client, Manager, PortGuard};
use crate::{
    hw::{Identity, Port, MAX_LINKS},
    proto::pair::Asked,
    sys::{gate::Gate, home::Home, throttle::Throttle, waitq::WaitQueue},
};
use kernel::{
    fmt::Arguments,
    impl_has_delayed_work, new_delayed_work, new_mutex, pci,
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
mod host;
mod life;
mod links;
mod managed;
mod resting;
mod timer;
mod users;

use self::resting::Resting;

/// A node of the fabric.
#[pin_data]
pub(crate) struct Node {
    home: Arc<Home>,
    #[pin]
    gate: Gate<KBox<dyn Port>>,
    #[pin]
    links: [Link; MAX_LINKS],
    client: SetOnce<Arc<dyn Client>>,
    #[pin]
    pump: Mutex<()>,
    /// Itself, while the gate is open: for the timer.
    #[pin]
    me: Mutex<Option<Arc<Node>>>,
    #[pin]
    timer: DelayedWork<Node>,
    /// Of the fabric, if the port has routes.
    manager: SetOnce<Arc<Manager>>,
    #[pin]
    managing: DelayedWork<Node, MANAGING>,
    #[pin]
    sharing: DelayedWork<Node, SHARING>,
    #[pin]
    power: Power,
    resting: Resting,
    /// Open files. Who changes it, or `asked`, holds `telling`.
    users: Atomic<i32>,
    #[pin]
    telling: Mutex<()>,
    /// The function is being reset.
    paused: Atomic<bool>,
    /// It does not answer.
    gone: Atomic<bool>,
    throttle: Throttle,
    /// Of what the port reports, which others bring about, so that it drowns nothing else.
    reports: Throttle,
    /// What was wanted of the users last, an [`Asked`].
    asked: Atomic<u32>,
    /// Links that have a directory in sysfs, a bit each: those of neighbours have one anyway.
    #[pin]
    shown: Mutex<u32>,
    /// Woken when the port goes, and when something is wanted of the users: for those of them that wait
    /// for nothing else.
    #[pin]
    waiters: WaitQueue,
    /// There is no port, and will be another one.
    parked: Atomic<bool>,
    /// Calls of users, which wait meanwhile.
    #[pin]
    calls: Turnstile,
}

/// The node has three work items: that of its links, that of the manager, and that of the multi-root
/// management of a master.
const TIMER: u64 = 0;
const MANAGING: u64 = 1;
const SHARING: u64 = 2;

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Node { self.timer }
    impl HasDelayedWork<Self, 1> for Node { self.managing }
    impl HasDelayedWork<Self, 2> for Node { self.sharing }
}

impl Node {
    /// A node without a port.
    pub(crate) fn new(pdev: &pci::Device) -> Result<Arc<Self>> {
        let home = Home::new(pdev)?;
        Arc::pin_init(
            try_pin_init!(Self {
                home,
                gate <- Gate::new(),
                links <- pin_init::pin_init_array_from_fn(Link::new),
                client: SetOnce::new(),
                pump <- new_mutex!((), "weft pump"),
                me <- new_mutex!(None, "weft node"),
                timer <- new_delayed_work!("weft timer"),
                manager: SetOnce::new(),
                managing <- new_delayed_work!("weft managing"),
                sharing <- new_delayed_work!("weft sharing"),
                power <- Power::new(),
                resting: Resting::new(),
                users: Atomic::new(0),
                telling <- new_mutex!((), "weft users"),
                paused: Atomic::new(false),
                gone: Atomic::new(false),
                throttle: Throttle::new(10, Delta::from_secs(5)),
                reports: Throttle::new(10, Delta::from_secs(5)),
                asked: Atomic::new(Asked::default().word()),
                shown <- new_mutex!(0, "weft shown"),
                waiters <- WaitQueue::new(c"weft node", kernel::static_lock_class!()),
                parked: Atomic::new(false),
                calls <- Turnstile::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Says who uses the links, once.
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

    /// As [`Client::failures`].
    pub(crate) fn failures(&self) -> u64 {
        self.client().map_or(0, Client::failures)
    }

    /// The function.
    pub(crate) fn pci(&self) -> ARef<pci::Device> {
        self.home.get()
    }

    /// Which function it is, from now on, too.
    pub(crate) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    /// Where who has a file of it waits for its end.
    pub(crate) fn waiters(&self) -> &WaitQueue {
        &self.waiters
    }

    /// The port, if it is there.
    pub(crate) fn port(&self) -> Result<PortGuard<'_>> {
        let gone = self.gone.load(Acquire);
        self.gate.enter().filter(|_| !gone).ok_or(ENODEV)
    }

    /// The same, unless the function is being reset: who has no user waiting for it leaves it alone.
    pub(crate) fn port_at_work(&self) -> Option<PortGuard<'_>> {
        if self.is_paused() || self.gone.load(Acquire) {
            return None;
        }
        self.gate.enter()
    }

    /// The port, though it may not answer: for what it keeps in memory.
    pub(crate) fn port_though_silent(&self) -> Option<PortGuard<'_>> {
        self.gate.enter()
    }

    /// Whether it is gone, or never was, or does not answer.
    pub(crate) fn is_closed(&self) -> bool {
        self.gate.is_closed() && !self.parked.load(Acquire) || self.gone.load(Acquire)
    }

    pub(crate) fn identity(&self) -> Result<Identity> {
        Ok(self.port()?.identity())
    }

    /// Tells people, unless they were told too much already.
    pub(crate) fn complain(&self, what: Arguments<'_>) {
        if self.throttle.pass().is_some() {
            dev_warn!(self.pci(), "{}\n", what);
        }
    }

    /// Whether the function is being reset.
    fn is_paused(&self) -> bool {
        self.paused.load(Acquire)
    }
}
