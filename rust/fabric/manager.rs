// SPDX-License-Identifier: GPL-2.0

//! The fabric manager of this host: runs `proto::nm` on a port that has routes.
//!
//! It gives the port its local id and its route table, publishes which nodes are in the fabric, and has the routed
//! links follow. It keeps the host's virtual hierarchy, as the master sends it.
//! Messages for it from the mailbox are only queued there: a work item of its own does everything else,
//! because waiting until a route is in force may take a while, and the hellos of the neighbours must not
//! wait for that. It must not know what routes are used for.
//!
//! # Locks
//!
//! `Manager::handing` is taken inside `Pcim::configurator` alone; its holder waits for the machine.
//! `Manager::inner` is inside both, and outside the locks of the links, as the manager asks the links
//! for their neighbours; the links never call it with their locks held. So is that of the aims of the links, which
//! nests in `inner`. Of the client it calls only the
//! methods whose documentation says so. The inbox, the view and the names are innermost, and held for copies only; so is
//! the keyring, and held while a tag is computed.

mod allow;
mod assignments;
mod hand;
mod heap;
mod inbox;
mod left_out;
mod neighbours;
mod relocations;
mod routes;
mod view;
mod ways;

pub(crate) use self::{
    assignments::Refusal,
    relocations::Progress,
    view::{Mode, Role, Standing, View},
    ways::Listing,
};

use self::{
    allow::Allow, heap::Heap, inbox::Inbox, left_out::LeftOut, neighbours::Neighbours,
    routes::Routes,
};
use super::{host::ManagerHost, keyring::Keyring, witness::Witness, Pcim, Reaching};
use crate::{
    hw::{Port, Router, MBOX_BYTES},
    proto::mac::{Mac, Tag},
    proto::mr::hierarchy::{Hierarchy, MAX_BYTES as MAX_HIERARCHY},
    proto::nm::{
        assignments::MAX_ASSIGNMENTS,
        kind::is_host,
        mastership::Mastership,
        member::Member,
        message::Taken,
        modes::{self, Modes},
        node::{self, Mismatch, There, MAX_NODES},
        packet::MAGIC,
        path::Path,
        scale::{letter::Name, names::Names},
        table::{self, Slot},
    },
    sys::{
        clock,
        errno::{EHOSTUNREACH, EOPNOTSUPP},
        memory::Memory,
        waitq::WaitQueue,
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Release},
        Arc, Mutex,
    },
    time::Msecs,
};

/// What failed is tried again after this time.
const AGAIN_MS: u64 = 100;
/// How often to look at scale whether links still lead to their hosts, and whether other functions look for one.
const FOLLOW_MS: u64 = 1000;
/// Hardware ids that are known at scale.
const NAMES: usize = 32;

/// The machine, in memory that is allocated in the probe.
type Machine = Modes<Memory<Member>, Memory<Slot>, Memory<u8>, Allow, Heap>;

/// What the lock of a manager protects.
struct Inner {
    machine: Machine,
    neighbours: Neighbours,
    routes: Routes,
    witness: Witness,
    /// What was left out, as was logged last.
    left_out: LeftOut,
    /// The port's generation when its tables were last written.
    generation: u32,
    /// Version of the assignments whose identities the functions have.
    identities: u32,
    events: view::Events,
}

/// The manager of a port.
#[pin_data]
pub(crate) struct Manager {
    #[pin]
    inner: Mutex<Inner>,
    /// The routed links of the port.
    reaching: Arc<Reaching>,
    #[pin]
    inbox: Mutex<Inbox>,
    #[pin]
    view: Mutex<View>,
    #[pin]
    keyring: Keyring,
    #[pin]
    pcim: Pcim,
    #[pin]
    handing: Mutex<()>,
    /// Woken when a hierarchy has been handed over, or will not be; and when the assignments are others.
    #[pin]
    handed: WaitQueue,
    /// Hosts that were looked for at scale.
    #[pin]
    names: Mutex<Names<NAMES>>,
    /// Woken when the directory has answered.
    #[pin]
    named: WaitQueue,
    /// A hot-plug controller has reported something.
    plugged: Atomic<bool>,
}

impl Manager {
    /// Makes the manager of a port that is in no fabric yet, with so many entries in its route table, and these
    /// routed links.
    pub(super) fn new(reaching: Arc<Reaching>, entries: usize) -> Result<Arc<Self>> {
        // The port has its hardware id once it has joined a fabric.
        let small = node::Node::new(
            0,
            0,
            Memory::new(Member::NONE, MAX_NODES)?,
            Memory::new(Slot::NONE, 2 * MAX_NODES)?,
            [
                Memory::new(0, 2 * MAX_ASSIGNMENTS)?,
                Memory::new(0, 2 * MAX_HIERARCHY)?,
                Memory::new(0, MAX_HIERARCHY)?,
            ],
            Allow::new(),
        );
        let mut machine = Machine::new(small, Heap::parts()?);
        machine.set_limit(MAX_NODES);
        let routes = Routes::new(entries)?;
        let inbox = Inbox::new()?;
        let view = View::new()?;
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_mutex!(
                    Inner {
                        machine,
                        neighbours: Neighbours::default(),
                        routes,
                        witness: Witness::default(),
                        left_out: LeftOut::default(),
                        generation: 0,
                        identities: 0,
                        events: view::Events::new(),
                    },
                    "weft manager"
                ),
                reaching,
                inbox <- new_mutex!(inbox, "weft manager inbox"),
                view <- new_mutex!(view, "weft manager view"),
                keyring <- Keyring::new(),
                pcim <- Pcim::new(),
                handing <- new_mutex!((), "weft manager handing"),
                handed <- WaitQueue::new(c"weft manager", kernel::static_lock_class!()),
                names <- new_mutex!(Names::new(), "weft manager names"),
                named <- WaitQueue::new(c"weft manager names", kernel::static_lock_class!()),
                plugged: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns whether a message of the mailbox is for managers.
    pub(super) fn is_mine(message: &[u8]) -> bool {
        message.starts_with(&MAGIC) || modes::is_large(message)
    }

    /// Queues a message for [`Self::run`]. Returns false if the inbox has no room for it: it is lost.
    pub(super) fn put(&self, link: usize, message: &[u8]) -> bool {
        self.inbox.lock().put(link, message)
    }

    /// A component has come or gone at a switch, or will: [`Self::run`] looks for it.
    pub(super) fn plugged(&self) {
        self.plugged.store(true, Release);
        self.pcim.plugged();
    }

    /// The port has lost its local id and its routes: they have to be written again.
    pub(super) fn forget(&self) {
        self.inner.lock().routes.forget();
    }

    /// Returns how many hosts are on the list of those that may take part; 0: all may.
    pub(crate) fn allowed(&self) -> usize {
        self.inner.lock().machine.small().allowed().count()
    }

    /// Adds a host to that list; 0 clears the list. `EINVAL`: it is no host's hardware id; `ENOSPC`: the
    /// list is full.
    pub(super) fn allow(&self, hwid: u64) -> Result {
        if !is_host(hwid) {
            return Err(EINVAL);
        }
        let mut done = Ok(());
        self.inner
            .lock()
            .machine
            .small_mut()
            .allow(clock::now_ms(), |list| match hwid {
                0 => list.clear(),
                hwid => done = list.add(hwid),
            });
        done
    }

    /// Returns how many writes were refused because the fabric does not attest their master.
    pub(crate) fn writes_refused(&self) -> u64 {
        self.inner.lock().machine.small().refusals()
    }

    /// Replaces the key of messages between managers, as [`Keyring::set`]. `EOPNOTSUPP`: at scale there are no keys.
    pub(super) fn set_key(&self, text: &[u8]) -> Result {
        // Locked, so that the machine never takes one key for another.
        let mut inner = self.inner.lock();
        if inner.machine.large().is_some() {
            return Err(EOPNOTSUPP.into());
        }
        let nonce = self.keyring.set(text)?;
        inner.machine.small_mut().rekey(clock::now_ms(), nonce);
        Ok(())
    }

    /// Returns the key.
    pub(crate) fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Returns how many messages were refused because they are not sealed with the key of this node.
    pub(crate) fn messages_refused(&self) -> u64 {
        self.inner.lock().machine.small().unsealed()
    }

    /// Returns how the key of another host does not match, and the hardware id that this host gave, if that
    /// was seen of late.
    pub(crate) fn mismatch(&self) -> Option<(Mismatch, u64)> {
        self.inner.lock().machine.small().mismatch(clock::now_ms())
    }

    /// Returns the most nodes with which every host explores; 0: the mode does not change.
    pub(crate) fn full_nodes(&self) -> usize {
        self.inner.lock().machine.limit()
    }

    /// Sets that number. If there are more nodes, the mode changes in the next run. `EINVAL`: there is no room for
    /// so many.
    pub(super) fn set_full_nodes(&self, nodes: u64) -> Result {
        let most = usize::try_from(nodes).map_err(|_| EINVAL)?;
        if most > MAX_NODES {
            return Err(EINVAL);
        }
        self.inner.lock().machine.set_limit(most);
        Ok(())
    }

    /// Returns the links that no route may use, a bit each.
    pub(crate) fn excluded(&self) -> u32 {
        self.inner.lock().neighbours.excluded()
    }

    pub(super) fn exclude(&self, links: u32) {
        self.inner.lock().neighbours.exclude(links);
    }

    /// Returns the multi-root management, which this host does while it is the master.
    pub(crate) fn pcim(&self) -> &Pcim {
        &self.pcim
    }

    /// Calls `f` with the view. `f` must not wait, nor take a lock.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&View) -> R) -> R {
        f(&self.view.lock())
    }

    /// Does what is due. Returns after how many milliseconds it wants to be called again; `None`: not
    /// before it is scheduled.
    pub(super) fn run(&self, node: &dyn ManagerHost, port: &dyn Port) -> Option<Msecs> {
        let router = port.router()?;
        let id = port.identity();
        if id.hwid == 0 {
            return None;
        }
        let mut inner = self.inner.lock();
        let Inner {
            machine,
            neighbours,
            routes,
            witness,
            left_out,
            generation,
            identities,
            events,
        } = &mut *inner;
        if machine.hwid() != id.hwid {
            machine.begin(id.hwid, id.generation);
            self.names.lock().clear();
            routes.clear(router);
            self.lose_hierarchy(node);
        } else if *generation != id.generation {
            routes.forget();
        }
        *generation = id.generation;
        let mut means = Means {
            node,
            port,
            router,
            routes,
            witness,
            keyring: &self.keyring,
            manager: self,
        };
        let now = clock::now_ms();
        let at_scale = machine.large().is_some();
        for link in 0..port.links() {
            let there = neighbours.look(node, port, router, link, at_scale);
            machine.port(now, link as u8, there, &mut means);
        }
        let mut message = [0; MBOX_BYTES];
        // Limited: if a node floods the inbox, the rest waits, and the other work has its turn.
        for _ in 0..inbox::DEPTH {
            let next = self.inbox.lock().take(&mut message);
            let Some((link, bytes)) = next else {
                break;
            };
            let bytes = message.get(..bytes).unwrap_or_default();
            machine.receive(clock::now_ms(), link as u8, bytes, &mut means);
        }
        if self.plugged.xchg(false, Full) {
            machine.small_mut().plugged(clock::now_ms());
        }
        let wanted = self.names.lock().next(clock::now_ms());
        if let Some(hwid) = wanted {
            machine.find(clock::now_ms(), hwid, &mut means);
        }
        machine.tick(clock::now_ms(), &mut means);
        self.take_identities(identities, machine, node, port);
        left_out.tell(node, machine, routes);
        if machine.large().is_some() || machine.small().handed().is_some() {
            self.wake();
        }
        // Stale routes are removed even if the master that wanted it is gone.
        if routes.has_stale() && has_let_go(node) {
            routes.sweep(router);
        }
        let missing = routes.mend(router);
        if let Some((lid, why)) = missing {
            node.complain(fmt!(
                "the route to local id {} cannot be set: {:?}; trying again",
                lid,
                why
            ));
        }
        let untold = self.publish(node, machine, events);
        self.settle(node, machine);
        // While the manager still looks for nodes, a missing node may yet be found.
        let knows = machine.large().is_some() || machine.small().found().is_some();
        let wanting = knows && self.reaching.follow(node, self);
        self.reaching.answer_calls(node, self, port);
        let now = clock::now_ms();
        let waits = missing.is_some() || neighbours.is_asking() || wanting || routes.has_stale();
        let again = waits.then_some(now + AGAIN_MS);
        if !self.inbox.lock().is_empty() {
            return Some(1);
        }
        let untold = untold.map(|ms| now + ms);
        let named = machine.large().map(|_| {
            let asked = self.names.lock().due(now);
            asked.map_or(now + FOLLOW_MS, |due| due.min(now + FOLLOW_MS))
        });
        let due = [machine.due(now), again, untold, named];
        let due = due.into_iter().flatten().min()?;
        Some(
            due.saturating_sub(now)
                .max(1)
                .try_into()
                .unwrap_or(Msecs::MAX),
        )
    }

    /// Tells the multi-root management what this host has settled on as the master.
    fn settle(&self, node: &dyn ManagerHost, machine: &Machine) {
        // At scale nothing is managed: no node knows all components.
        let small = machine.large().map_or(Some(machine.small()), |_| None);
        let on = small.and_then(|small| Some((small.info().mastership.term, small.settled()?)));
        node.manage_hierarchies(self.pcim.settled(on));
    }

    /// Calls `f` with the machine and its operations. `ENODEV`: there is no port.
    fn work<R>(
        &self,
        node: &dyn ManagerHost,
        f: impl FnOnce(&mut Machine, &mut Means<'_>) -> R,
    ) -> Result<R> {
        let port = node.port_at_work().ok_or(ENODEV)?;
        let router = port.router().ok_or(ENODEV)?;
        let mut inner = self.inner.lock();
        let Inner {
            machine,
            routes,
            witness,
            ..
        } = &mut *inner;
        let mut means = Means {
            node,
            port: &**port,
            router,
            routes,
            witness,
            keyring: &self.keyring,
            manager: self,
        };
        Ok(f(machine, &mut means))
    }

    /// In another fabric the host has no hierarchy until it receives one.
    fn lose_hierarchy(&self, node: &dyn ManagerHost) {
        let had = self.view.lock().hierarchy().is_some();
        if had {
            self.view.lock().set_hierarchy(&[]);
            if let Some(client) = node.client() {
                client.hierarchy();
            }
        }
    }

    /// Updates the view, and notifies readers of what has changed. Returns after how many milliseconds to do
    /// that again, as not all could be told.
    fn publish(
        &self,
        node: &dyn ManagerHost,
        machine: &Machine,
        events: &mut view::Events,
    ) -> Option<u64> {
        let mut view = self.view.lock();
        let before = view.standing();
        view.update(machine);
        let after = view.standing();
        drop(view);
        if before != after {
            view::tell(&node.dev(), &before, &after);
        }
        events.say(&node.dev(), &after, clock::now_ms())
    }
}

/// The operations of the machine.
struct Means<'a> {
    node: &'a dyn ManagerHost,
    port: &'a dyn Port,
    router: &'a dyn Router,
    routes: &'a mut Routes,
    witness: &'a mut Witness,
    keyring: &'a Keyring,
    manager: &'a Manager,
}

/// Returns whether nothing is used any more that is not in the host's hierarchy.
fn has_let_go(node: &dyn ManagerHost) -> bool {
    node.client().is_none_or(|client| client.let_go())
}

impl table::Effects for Means<'_> {
    fn route(&mut self, lid: u32, port: Option<u8>) {
        // In force when this returns: the machine may report it next.
        modes::Effects::routes(self, lid, lid, port);
    }
}

impl modes::Effects for Means<'_> {
    fn routes(&mut self, first: u32, last: u32, port: Option<u8>) {
        let (links, port) = (self.port.links(), port.map(usize::from));
        self.routes.set(self.router, links, (first, last), port);
    }

    fn may_grow(&mut self) -> bool {
        // What neighbours say at scale is not sealed.
        self.keyring.nonce() == 0
    }

    fn grown(&mut self) {
        self.manager.names.lock().clear();
    }

    fn found(&mut self, name: &Name) {
        let now = clock::now_ms();
        self.manager.names.lock().answer(now, name.hwid, name.lid);
        self.manager.named.wake_all();
    }
}

impl Mac for Means<'_> {
    fn tag(&self, message: &[u8]) -> Option<Tag> {
        self.keyring.tag(message)
    }
}

impl node::Effects for Means<'_> {
    fn send(&mut self, port: u8, message: &[u8]) {
        // A message that fails here counts as lost: a sender that needs an answer sends it again.
        let _ = self.port.send(usize::from(port), message);
    }

    fn role(&mut self, _role: node::Role, _mastership: &Mastership) {}

    fn lid(&mut self, lid: u32) {
        self.routes.set_lid(self.router, lid);
    }

    fn assignments(&mut self, _version: u32) {}

    fn amend(
        &mut self,
        text: &[u8],
        from: u64,
        change: &[u8],
        any: &node::AnyNode<'_>,
        to: &mut [u8],
    ) -> Result<Option<usize>, Taken> {
        relocations::amended(text, from, change, any, to)
    }

    fn hierarchy(&mut self, bytes: &[u8]) -> Result<(), Taken> {
        let hierarchy = Hierarchy::parse(bytes).map_err(|_| Taken::Bad)?;
        let mine = hierarchy.places().next().map(|place| place.hwid);
        let links = self.port.links();
        let mut gates = hierarchy
            .given()
            .flat_map(|(_, given)| [given.out, given.into]);
        let has = gates.all(|gate| usize::from(gate.link) < links);
        if mine != Some(self.port.identity().hwid) || !has {
            return Err(Taken::Bad);
        }
        // Routes to what is new are set before any program hears of it.
        let ways = hierarchy
            .given()
            .map(|(place, given)| (place.lid, given.out));
        self.routes.lead(self.router, links, ways);
        self.manager.view.lock().set_hierarchy(bytes);
        if let Some(client) = self.node.client() {
            client.hierarchy();
        }
        Ok(())
    }

    fn there(&mut self, path: &Path) -> There {
        match self.witness.hwid_at(self.router, path.ports()) {
            Ok(hwid) => There::Node(hwid),
            Err(e) if e == EHOSTUNREACH || e == EINVAL => There::Nothing,
            Err(_) => There::Unknown,
        }
    }

    fn attests(&self) -> bool {
        self.router.attests()
    }

    fn mismatched(&mut self, how: Mismatch, hwid: u64) {
        let what = match how {
            Mismatch::Here => "has a key for messages of managers, and this one has none",
            Mismatch::There => "has no key for messages of managers, and this one has",
            Mismatch::Differs => "has another key for messages of managers",
        };
        self.node.complain(fmt!("host {:#018x} {}", hwid, what));
    }

    fn unattested(&mut self, master: u64, there: There) {
        let refuses = "refuses a write, or a request, in the name of";
        match there {
            There::Node(other) => self.node.complain(fmt!(
                "{} {:#018x}: it came from, or by, {:#018x}",
                refuses,
                master,
                other
            )),
            There::Nothing => self.node.complain(fmt!(
                "{} {:#018x}: the path that it came by leads nowhere",
                refuses,
                master
            )),
            There::Unknown => self.node.complain(fmt!(
                "{} {:#018x}: the fabric does not say where it came from",
                refuses,
                master
            )),
        }
    }

    fn rest(&mut self, on: bool) {
        self.node.rest_for_ways(on);
    }

    fn is_at_rest(&mut self) -> bool {
        self.node.rests_for_ways()
    }

    fn let_go(&mut self) -> bool {
        if !has_let_go(self.node) {
            return false;
        }
        self.routes.sweep(self.router);
        self.routes.is_led()
    }
}
