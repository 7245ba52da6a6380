// SPDX-License-Identifier: GPL-2.0

//! A node: what a port is to the rest of the driver.
//!
//! It outlives the device. Files, interrupts and work items hold it; the port itself is behind a
//! gate, and gone when [`Node::revoke`] has returned.

use super::{
    link::{Link, LinkInfo, Session},
    power::Power,
    turnstile::{Inside, Turnstile},
    Client, Manager, Reason, LINK_DIRS,
};
use crate::{
    hw::{Aim, Events, Identity, LinkStatus, Port, MAX_LINKS, MBOX_BYTES},
    proto::{
        link::{State, TICK_MS},
        pair::{Ask, Asked},
        wire::Message,
    },
    sys::{
        clock,
        errno::ESHUTDOWN,
        gate::{Gate, Guard},
        home::Home,
        sysfs,
        throttle::Throttle,
        trace,
        waitq::WaitQueue,
        work,
    },
};
use kernel::{
    fmt::Arguments,
    impl_has_delayed_work, new_delayed_work, new_mutex, pci,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Acquire, Atomic, Full, Release},
        Arc, Mutex, SetOnce,
    },
    time::{delay::fsleep, msecs_to_jiffies, Delta, Instant, Jiffies, Monotonic, Msecs},
    workqueue::{DelayedWork, WorkItem},
};

mod managed;
mod resting;

use self::resting::Resting;

/// How often the function is looked at while no link is up.
const WATCH_MS: Msecs = 1000;
/// How often it is looked whether users have finished, when they were asked to.
const FINISH_MS: Msecs = 20;
/// How long until directories of links are tried again that cannot be made now.
const SHOW_MS: Msecs = 100;
/// How often it is looked whether nothing is under way, while users wait.
const STILL_MS: Msecs = 4;
/// How long neighbours are waited for when they are asked to begin nothing.
const HOLD_TIME: Delta = Delta::from_millis(500);
/// How often it is looked whether they have come to rest.
const HOLD_POLL: Delta = Delta::from_millis(1);
/// Messages that are handled in one go.
const BATCH: usize = 64;

/// The port while it is there.
pub(crate) type PortGuard<'a> = Guard<'a, KBox<dyn Port>>;

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

impl WorkItem for Node {
    type Pointer = Arc<Node>;

    fn run(this: Arc<Node>) {
        // Who has paused it sets it going again.
        let Some(port) = this.gate.enter().filter(|_| !this.is_paused()) else {
            return;
        };
        let mut delay = WATCH_MS;
        if let Some(client) = this.client() {
            client.passed(clock::now_ms());
        }
        if this.watch(&**port) {
            let more = this.drain(&**port);
            for link in this.links(&**port) {
                if link.tick(&this, &**port) {
                    delay = TICK_MS as Msecs;
                }
            }
            if let Some(ms) = this.power.sample(&**port, clock::now_ms()) {
                delay = delay.min(ms as Msecs);
            }
            if let Some(ms) = this.keep_rest(&**port) {
                delay = delay.min(ms);
            }
            if !this.show_links(&**port) {
                delay = delay.min(SHOW_MS);
            }
            this.heed(&**port);
            let ask = Asked::of(this.asked.load(Acquire)).ask;
            if ask != Ask::GoOn {
                this.tell_left(&**port);
                delay = delay.min(if ask == Ask::Still {
                    STILL_MS
                } else {
                    FINISH_MS
                });
            }
            if more {
                delay = 0;
            }
        }
        // With the gate entered: the revocation cancels it when all have left.
        work::again_in::<_, TIMER>(&this, msecs_to_jiffies(delay));
    }
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
        if let Some(port) = self.enter() {
            for link in self.links(&**port) {
                link.introduce(self, &**port);
            }
        }
        Ok(())
    }

    /// Somebody has begun to use the node.
    pub(crate) fn user_came(&self) {
        self.count_users(|users| users.fetch_add(1, Full) == 0, true);
    }

    /// Somebody who had begun to use it uses it no more.
    pub(crate) fn user_left(&self) {
        self.count_users(|users| users.fetch_sub(1, Full) == 1, false);
    }

    /// Tells the port of the first user, and of the last one.
    fn count_users(&self, change: impl FnOnce(&Atomic<i32>) -> bool, any: bool) {
        let _one = self.telling.lock();
        if change(&self.users) {
            if let Some(port) = self.enter() {
                port.tell_users(any);
            }
        }
    }

    /// Tells the port of what has changed while nobody was to use it.
    fn tell_users(&self, port: &dyn Port) {
        let _one = self.telling.lock();
        port.tell_users(self.users.load(Acquire) > 0);
    }

    pub(super) fn client(&self) -> Option<&dyn Client> {
        self.client.as_ref().map(|client| &**client)
    }

    /// Gives the node its port; links may come up. After a failure [`Node::revoke`] is to be called.
    pub(crate) fn open(self: &Arc<Self>, port: KBox<dyn Port>) -> Result {
        self.gate.open(port)?;
        *self.me.lock() = Some(self.clone());
        let port = self.gate.enter().ok_or(ENODEV)?;
        port.start()?;
        self.look(&**port);
        Ok(())
    }

    /// Takes the port away from everybody, and gives it back to nobody. Sleeps; may be called again.
    pub(crate) fn revoke(self: &Arc<Self>) {
        drop(self.me.lock().take());
        if self.parked.xchg(false, Full) {
            self.tell_closed();
        }
        self.calls.open();
        if let Some(port) = self.gate.revoke(|| self.tell_closed()) {
            // From here on nobody else uses the port; events find the gate closed.
            self.links_down(&*port, Reason::Removed);
            port.stop();
            drop(port);
            work::cancel_delayed::<_, TIMER>(self);
            self.cancel_managing();
        }
        if let Some(client) = self.client() {
            client.retired();
        }
    }

    /// Has all that is under way over the links completed, and nothing begun, for what outlasts its
    /// session to do so. False: that takes too long, or a peer does not know of it.
    fn hold(&self) -> bool {
        let Some(port) = self.enter() else {
            return true;
        };
        let since = Instant::<Monotonic>::now();
        loop {
            let still = self.hold_now(&**port);
            if still || since.elapsed() >= HOLD_TIME || !port.is_present() {
                return still;
            }
            fsleep(HOLD_POLL);
        }
    }

    /// Has both ends of each link begin nothing. True: nothing is under way.
    fn hold_now(&self, port: &dyn Port) -> bool {
        // All of them each time: what one has said is not true for long.
        let mut still = true;
        for link in self.links(port) {
            still &= link.hold(self, port);
        }
        still
    }

    /// Takes the port away as [`Node::revoke`] does; there will be another one, by [`Node::adopt`], until
    /// which calls of users wait, and what can outlast the port does. Sleeps; may be called again.
    pub(crate) fn park(self: &Arc<Self>) {
        self.hold();
        self.parked.store(true, Release);
        self.calls.shut();
        drop(self.me.lock().take());
        if let Some(port) = self.gate.revoke(|| self.wake_manager()) {
            self.links_down(&*port, Reason::Link);
            port.stop();
            drop(port);
            work::cancel_delayed::<_, TIMER>(self);
            self.cancel_managing();
        }
        if let Some(client) = self.client() {
            client.parked();
        }
        self.gate.renew();
    }

    /// Gives the node that is parked a port again, of `dev`. After a failure it is to be parked again,
    /// or revoked.
    pub(crate) fn adopt(self: &Arc<Self>, dev: &pci::Device, port: KBox<dyn Port>) -> Result {
        self.home.set(dev);
        if let Some(client) = self.client() {
            client.adopted(self);
        }
        self.gate.open(port)?;
        *self.me.lock() = Some(self.clone());
        let port = self.gate.enter().ok_or(ENODEV)?;
        port.start()?;
        self.parked.store(false, Release);
        self.heed(&**port);
        self.calls.open();
        self.is_back(&**port);
        Ok(())
    }

    /// As [`Node::reset_prepare`], of a function that works still, and does so again before long: first
    /// both ends of each link come to rest.
    pub(crate) fn rest(self: &Arc<Self>) {
        self.hold();
        self.reset_prepare();
    }

    /// The function is going to be reset: all links go down and stay so until [`Node::reset_done`].
    pub(crate) fn reset_prepare(self: &Arc<Self>) {
        self.paused.store(true, Release);
        self.wake_manager();
        // What it reads of the function from here on says nothing.
        work::cancel_delayed::<_, TIMER>(self);
        self.cancel_managing();
        if let Some(port) = self.gate.enter() {
            self.links_down(&**port, Reason::Link);
            port.suspend();
        }
    }

    /// The function was reset.
    pub(crate) fn reset_done(&self) -> Result {
        let port = self.gate.enter().ok_or(ENODEV)?;
        let resumed = port.resume();
        // If it does not answer, it may do so later.
        self.gone.store(resumed.is_err(), Release);
        self.paused.store(false, Release);
        if resumed.is_ok() {
            self.is_back(&**port);
        } else {
            self.tell_closed();
            self.run_in(msecs_to_jiffies(WATCH_MS));
        }
        resumed
    }

    /// Looks whether the function answers, and lets go of one that does not: its links are down and
    /// its users get `ENODEV`, until it answers again.
    fn watch(&self, port: &dyn Port) -> bool {
        let present = port.is_present();
        match (present, self.gone.load(Acquire)) {
            (true, true) => {
                if let Err(e) = port.restart() {
                    self.complain(fmt!("the function answers, but does not start: {:?}", e));
                    return false;
                }
                self.gone.store(false, Release);
                dev_info!(self.pci(), "the function answers again\n");
                self.is_back(port);
            }
            (false, false) => {
                dev_err!(
                    self.pci(),
                    "the function does not answer: all reads are ones; users get ENODEV\n"
                );
                trace::port_event(&self.pci(), trace::Port::Gone, 0);
                self.gone.store(true, Release);
                self.links_down(port, Reason::Removed);
                port.suspend();
                self.tell_closed();
            }
            (true, false) if port.was_reset() => {
                self.links_down(port, Reason::Link);
                port.suspend();
                if let Err(e) = port.resume() {
                    // Tried again as one that does not answer.
                    self.complain(fmt!("was reset, and does not start: {:?}", e));
                    self.gone.store(true, Release);
                    self.tell_closed();
                    return false;
                }
                dev_info!(self.pci(), "was reset by its physical function\n");
                self.is_back(port);
            }
            (true, false) | (false, true) => {}
        }
        present
    }

    /// Whether users are to finish, and begin nothing new.
    pub(crate) fn is_asked(&self) -> bool {
        Asked::of(self.asked.load(Acquire)).ask.concerns_users()
    }

    /// A user calls for something. Waits while the function becomes another one.
    pub(crate) fn call(&self) -> Result<Inside<'_>> {
        self.calls.enter()
    }

    /// `ESHUTDOWN`: users are to finish, and begin nothing new.
    pub(crate) fn may_begin(&self) -> Result {
        match self.is_asked() {
            true => Err(ESHUTDOWN.into()),
            false => Ok(()),
        }
    }

    /// Passes on what is wanted of the users, if that is something else. True: it is.
    fn heed(&self, port: &dyn Port) -> bool {
        let _one = self.telling.lock();
        let asked = port.asked();
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

    /// Tells how much is outstanding, to whom has asked for that.
    fn tell_left(&self, port: &dyn Port) {
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
        port.tell_left(asked, left);
    }

    /// Has what is to be sent sent soon.
    pub(crate) fn hurry(&self) {
        self.run_in(0);
    }

    /// The function.
    pub(crate) fn pci(&self) -> ARef<pci::Device> {
        self.home.get()
    }

    /// Which function it is, from now on, too.
    pub(crate) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    /// The function works again: it hears what it has missed of its users, and links may come up.
    fn is_back(&self, port: &dyn Port) {
        self.tell_users(port);
        if let Some(manager) = self.manager() {
            manager.forget();
        }
        self.look(port);
        // Users may have rung meanwhile.
        if let Some(client) = self.client() {
            client.kicked();
        }
    }

    fn tell_closed(&self) {
        if let Some(client) = self.client() {
            client.closed();
        }
        self.waiters.wake_all();
        self.wake_manager();
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
        self.enter()
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

    /// `EINVAL`: there is no such link.
    pub(crate) fn link_info(&self, link: usize) -> Result<LinkInfo> {
        let port = self.port()?;
        let mut info = self.link(&**port, link)?.info(self, &**port);
        info.power = self.power.look(&**port, link);
        Ok(info)
    }

    /// Has a link follow its traffic, or run at the most that it can. `EINVAL`: there is no such link;
    /// `EOPNOTSUPP`: it cannot.
    pub(crate) fn set_power(&self, link: usize, auto: bool) -> Result {
        let port = self.port()?;
        self.link(&**port, link)?;
        self.power.set(&**port, link, auto)?;
        self.hurry();
        Ok(())
    }

    /// Does something over a link that is READY. `EINVAL`: there is no such link, `ENOTCONN`: it is
    /// not READY.
    pub(crate) fn with_link<R>(
        &self,
        link: usize,
        f: impl FnOnce(&mut Session<'_>) -> Result<R>,
    ) -> Result<R> {
        let port = self.port()?;
        self.link(&**port, link)?.with(self, &**port, f)
    }

    /// The peer's `wake`, for who rings it by other means.
    pub(crate) fn wake_bell(&self, link: usize) -> Option<u32> {
        Some(self.links.get(link)?.bells()?.0)
    }

    /// Rings the peer's `wake`. Any context.
    pub(crate) fn ring_wake(&self, port: &dyn Port, link: usize) {
        if let Some((wake, _)) = self.links.get(link).and_then(Link::bells) {
            port.ring(link, wake);
        }
    }

    /// Asks the peer to ring back when what was written before has arrived. Any context.
    pub(crate) fn ring_echo(&self, port: &dyn Port, link: usize) {
        let Some(to) = self.links.get(link) else {
            return;
        };
        if let Some((_, echo)) = to.bells() {
            to.health.asked();
            port.ring(link, echo);
        }
    }

    pub(super) fn trace_sent(&self, link: usize, message: &Message, bytes: usize) {
        let kind = message.body.kind().into();
        trace::mbox_send(&self.pci(), link as u32, kind, bytes as u32);
    }

    /// Tells people, unless they were told too much already.
    pub(crate) fn complain(&self, what: Arguments<'_>) {
        if self.throttle.pass().is_some() {
            dev_warn!(self.pci(), "{}\n", what);
        }
    }

    /// The state or the status of a link may have changed.
    pub(super) fn link_changed(
        &self,
        link: usize,
        before: (State, LinkStatus),
        after: (State, LinkStatus),
    ) {
        if before.0 != after.0 {
            trace::link_state(&self.pci(), link as u32, before.0 as u32, after.0 as u32);
            if self.throttle.pass().is_some() {
                let name = match after.0 {
                    State::Down => "down",
                    State::Hello => "up, waiting for the neighbour",
                    State::Ready => "ready",
                };
                dev_info!(self.pci(), "link {}: {}\n", link, name);
            }
        }
        if before != after {
            let dir = LINK_DIRS.get(link).copied();
            sysfs::notify(&self.pci(), dir, c"state");
        }
    }

    fn links_down(&self, port: &dyn Port, reason: Reason) {
        // Also those that are aimed at nobody any more: of their arenas something may be in use.
        for (n, link) in self.links.iter().enumerate() {
            if port.arena(n).is_ok() {
                link.down(self, port, reason);
            }
        }
        if let Some(client) = self.client() {
            client.lost(port, reason);
        }
    }

    fn links<'a>(&'a self, port: &'a dyn Port) -> impl Iterator<Item = &'a Link> {
        let all = self.links.iter().enumerate();
        all.filter(|(n, _)| port.has_link(*n)).map(|(_, link)| link)
    }

    fn link(&self, port: &dyn Port, link: usize) -> Result<&Link> {
        let found = self.links.get(link).filter(|_| port.has_link(link));
        found.ok_or(EINVAL)
    }

    /// Aims the far link `link` at a port, or at nobody. To another one than before, what is done over the
    /// link ends with [`Reason::Link`]. Sleeps; the errors are those of [`Port::aim`], and `ENODEV`.
    pub(crate) fn aim(&self, link: usize, aim: Option<Aim>) -> Result {
        let port = self.enter().ok_or(ENODEV)?;
        let to = self.links.get(link).ok_or(EINVAL)?;
        to.aim(self, &**port, aim)?;
        if aim.is_some() {
            to.look(self, &**port);
        }
        let shown = self.show_links(&**port);
        self.run_in(msecs_to_jiffies(if shown {
            TICK_MS as Msecs
        } else {
            SHOW_MS
        }));
        Ok(())
    }

    /// Sees to it that the far links that are aimed have a directory in sysfs, and no others have. False:
    /// that is still to be done.
    fn show_links(&self, port: &dyn Port) -> bool {
        let far = port.links()..(port.links() + port.far_links()).min(MAX_LINKS);
        let mut all = true;
        let mut shown = self.shown.lock();
        let before = *shown;
        for link in far {
            let (bit, has) = (1 << link, port.has_link(link));
            if (*shown & bit != 0) == has {
                continue;
            }
            let done = LINK_DIRS
                .get(link)
                // The port is entered, as this asks for.
                .is_some_and(|dir| sysfs::refresh(&self.pci(), dir));
            if !done {
                all = false;
            } else {
                *shown ^= bit;
            }
        }
        if *shown != before {
            // A directory tells nobody that it has come.
            sysfs::notify(&self.pci(), Some(c"manager"), c"routes");
        }
        all
    }

    /// The numbers of the links that there are, or that one alone: `EINVAL` if it is none.
    pub(crate) fn link_numbers(&self, only: Option<usize>) -> Result<impl Iterator<Item = usize>> {
        let port = self.port()?;
        let mask = match only {
            Some(link) => 1u32
                .checked_shl(link as u32)
                .filter(|_| port.has_link(link)),
            None => Some(
                (0..MAX_LINKS)
                    .filter(|link| port.has_link(*link))
                    .fold(0, |mask, link| mask | 1 << link),
            ),
        };
        let mask = mask.ok_or(EINVAL)?;
        Ok((0..MAX_LINKS).filter(move |link| mask & 1 << link != 0))
    }

    /// Whether the function is being reset.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Acquire)
    }

    /// The port, unless it is not to be used now.
    fn enter(&self) -> Option<PortGuard<'_>> {
        if self.is_paused() || self.gone.load(Acquire) {
            return None;
        }
        self.gate.enter()
    }

    fn look(&self, port: &dyn Port) {
        let mut again = false;
        for link in self.links(port) {
            again |= link.look(self, port);
        }
        if let Some(client) = self.client() {
            client.looked(port);
        }
        let delay = if again { TICK_MS as Msecs } else { WATCH_MS };
        self.run_in(msecs_to_jiffies(delay));
        self.manage();
    }

    /// Handles the messages that there are, or some of them and then returns true: a neighbour that
    /// floods the mailbox is not to keep a thread of an interrupt from leaving the CPU.
    fn drain(&self, port: &dyn Port) -> bool {
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

    /// Has the timer run.
    fn run_in(&self, delay: Jiffies) {
        if let Some(me) = &*self.me.lock() {
            work::run_in::<_, TIMER>(me, delay);
        }
    }
}

impl Events for Node {
    fn links_changed(&self) {
        trace::port_event(&self.pci(), trace::Port::Links, 0);
        if let Some(port) = self.enter() {
            self.look(&**port);
        }
    }

    fn message(&self) {
        let Some(port) = self.enter() else {
            return;
        };
        if self.drain(&**port) || self.heed(&**port) {
            self.run_in(0);
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
        self.complain(fmt!("the port reports: {} at {:#x}", what, addr));
        // What it means for the links is seen there.
        self.run_in(0);
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

    fn called(&self, seat: usize) {
        if let Some(client) = self.client() {
            client.called(seat);
        }
    }

    fn kicked(&self) {
        if let Some(client) = self.client() {
            client.kicked();
        }
    }

    fn echo(&self, link: usize) {
        // What the peer has written before it rang is visible here, and what was written here before
        // is on its way: see Documentation/protocol.rst.
        if let Some(port) = self.gate.enter() {
            self.ring_wake(&**port, link);
        }
    }
}
