// SPDX-License-Identifier: GPL-2.0

//! A link: runs the state machine of `proto::link` on the port.

use super::{
    attested::Attested,
    health::{Health, Need, Record},
    host::{LinkHost, Spared},
    power::Aimed,
    Client, Reason, Usage,
};
use crate::{
    hw::{Aim, Doorbells, FarLinks, Grant, LinkStatus, Port, Router},
    proto::{
        heartbeat::{HEARTBEAT_MS, SILENCE_MS},
        link::{Effects, Failed, Link as Machine, Peer, State},
        quiesce::{Quiesce, QUIESCE_MS},
        reach::Use,
        wire::{self, Body, Message, Offer, MAX_BYTES},
    },
    sys::{clock, errno::ENOTCONN},
};
use kernel::{
    fmt, new_mutex,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Full, Relaxed, Release},
        Mutex,
    },
};

/// No peer has announced its doorbells.
const NO_BELLS: u64 = u64::MAX;

/// What is known of a link.
pub(crate) struct LinkInfo {
    /// Always down for a link to a switch.
    pub(crate) state: State,
    pub(crate) status: LinkStatus,
    /// The destination of a routed link.
    pub(crate) aim: Option<Aim>,
    /// The other end is this port's, too.
    pub(crate) is_loopback: bool,
    /// Hardware id and generation, while known.
    pub(crate) peer: Option<(u64, u32)>,
    pub(crate) usage: Usage,
    pub(crate) arena_bytes: u64,
    pub(crate) arena_wanted: u64,
    /// Bytes of the arena that were zeroed so far.
    pub(crate) arena_zeroed: u64,
    pub(crate) health: Record,
    /// How its speed is controlled, if it can be.
    pub(crate) power: Option<Aimed>,
}

impl LinkInfo {
    /// Returns whether the link is up, and leads to a switch.
    pub(crate) fn is_to_switch(&self) -> bool {
        self.status.up && self.status.is_switch
    }
}

/// What was seen of a link's hardware last.
struct Seen {
    /// The status that the machine was told last.
    status: LinkStatus,
    /// The last check found that something was lost.
    suspect: bool,
    /// The link is quiesced because its route is about to change: nothing is in flight.
    rests: bool,
    /// How long it may be quiesced, for whatever reason.
    quiesce: Quiesce,
    /// When the peer was told last that this end uses the link, in milliseconds; 0: it was not, or was told
    /// since that this end does not.
    said: u64,
}

/// What the lock of a link protects.
struct Inner {
    machine: Machine,
    seen: Seen,
    /// Nonce of the neighbour, by its last hello that was proved; 0: none was.
    nonce: u64,
}

/// One end of a link.
#[pin_data]
pub(super) struct Link {
    number: usize,
    #[pin]
    inner: Mutex<Inner>,
    /// The [`Need`]s that failed and were logged, a bit each.
    failing: Atomic<u32>,
    /// Received messages that could not be parsed.
    bad: Atomic<u64>,
    /// The peer's doorbells, `wake` in the upper half, `echo` in the lower; read in hard interrupts.
    bells: Atomic<u64>,
    /// The machine has a session, and wants [`Link::tick`].
    up: Atomic<bool>,
    /// The machine is READY.
    ready: Atomic<bool>,
    /// Calls of users that are about to open something on the link. Grows with the link locked.
    held: Atomic<u32>,
    /// The last session has ended by [`Reason::Bye`], and none has begun since.
    parted: Atomic<bool>,
    /// When the peer said last that it uses the link, in milliseconds; 0: it has not, in this session.
    claimed: Atomic<u64>,
    /// Something that the peer wrote is missing in the arena, while later data are there. Changed with
    /// the link locked.
    spoilt: Atomic<bool>,
    /// Taken outside of `inner`.
    #[pin]
    attested: Mutex<Attested>,
    pub(super) health: Health,
}

/// Returns what this link has lost, for the log; `Ok` if the port knows of no loss.
fn intact(port: &dyn Port, link: usize) -> Result<(), &'static str> {
    port.losses().map_or(Ok(()), |losses| losses.intact(link))
}

impl Link {
    pub(super) fn new(number: usize) -> impl PinInit<Self> {
        pin_init!(Self {
            number,
            inner <- new_mutex!(
                Inner {
                    machine: Machine::new(0, 0),
                    seen: Seen {
                        status: LinkStatus::default(),
                        suspect: false,
                        rests: false,
                        quiesce: Quiesce::default(),
                        said: 0,
                    },
                    nonce: 0,
                },
                "weft link"
            ),
            failing: Atomic::new(0),
            bad: Atomic::new(0),
            bells: Atomic::new(NO_BELLS),
            up: Atomic::new(false),
            ready: Atomic::new(false),
            held: Atomic::new(0),
            parted: Atomic::new(false),
            claimed: Atomic::new(0),
            spoilt: Atomic::new(false),
            attested <- new_mutex!(Attested::default(), "weft link attested"),
            health: Health::new(),
        })
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Returns whether [`Link::tick`] has to be called.
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Relaxed)
    }

    /// Returns the peer's doorbells, `wake` and `echo`, while they are known.
    pub(super) fn bells(&self) -> Option<(u32, u32)> {
        match self.bells.load(Acquire) {
            NO_BELLS => None,
            bells => Some(((bells >> 32) as u32, bells as u32)),
        }
    }

    /// Calls `f` with the link locked, then reports a changed state.
    fn drive<R>(
        &self,
        node: &dyn LinkHost,
        port: &dyn Port,
        f: impl FnOnce(&mut Session<'_>, &mut Seen) -> R,
    ) -> R {
        let mut inner = self.inner.lock();
        let Inner {
            machine,
            seen,
            nonce,
        } = &mut *inner;
        let before = (machine.state(), seen.status);
        let knew = machine.known();
        let mut session = Session {
            machine,
            effects: Means {
                node,
                port,
                link: self,
                nonce,
            },
        };
        let result = f(&mut session, seen);
        if machine.state() != State::Ready {
            seen.rests = false;
            seen.quiesce.end(clock::now_ms());
            seen.said = 0;
            self.claimed.store(0, Relaxed);
        }
        let after = (machine.state(), seen.status);
        let knows = machine.known();
        self.up.store(after.0 != State::Down, Relaxed);
        self.ready.store(after.0 == State::Ready, Relaxed);
        drop(inner);
        let ended =
            (before.0 == State::Ready && after.0 != State::Ready).then(|| self.health.ended());
        node.link_changed(self.number, before, after, ended);
        if knew != knows {
            node.manage();
        }
        result
    }

    /// Updates the machine from the hardware. [`Link::tick`] is to be called then.
    pub(super) fn look(&self, node: &dyn LinkHost, port: &dyn Port) {
        self.drive(node, port, |session, seen| {
            // Read under the lock: of two callers that look at once, the one with the older state must
            // not come last, as nothing would cause another look.
            let me = port.identity();
            let status = port.link_status(self.number);
            let id = session.machine.me();
            let another = id.generation != me.generation || id.hwid != me.hwid;
            let moved = !status.up || status.trained != seen.status.trained;
            if moved && !another && seen.rests && hold(node, session, seen) {
                // Nothing was in flight, so nothing is lost.
                if status.up {
                    seen.status = status;
                }
                return;
            }
            let (machine, fx) = session.split();
            if moved || another {
                // A peer that goes away says so just before its port is disabled: often that message still waits.
                let bye = fx.node.has_message(self.number, &|m| machine.is_bye(m));
                machine.down(if bye { Reason::Bye } else { Reason::Link }, fx);
                self.health.down();
            }
            if another {
                machine.reset(me.hwid, me.generation);
            }
            seen.status = status;
            // A switch does not answer hellos: what is behind it is reached by routes.
            if status.up && !status.is_switch {
                machine.up(clock::now_ms(), fx);
            }
        });
    }

    /// Tells a client that was set late that the link is READY, if it is.
    pub(super) fn introduce(&self, node: &dyn LinkHost, port: &dyn Port) {
        let inner = self.inner.lock();
        if let (State::Ready, Some(peer), Some(client)) =
            (inner.machine.state(), inner.machine.peer(), node.client())
        {
            client.ready(port, self.number, peer);
        }
    }

    /// Does periodic work.
    pub(super) fn tick(&self, node: &dyn LinkHost, port: &dyn Port) {
        let now = clock::now_ms();
        self.drive(node, port, |session, seen| {
            let (machine, fx) = session.split();
            // A quiesced link may have no route for a while.
            if !seen.rests {
                self.check(now, machine, fx, &mut seen.suspect);
            }
            if !self.is_left(fx.node, fx.port) {
                machine.tick(now, fx);
            }
            self.claim(now, machine, fx, &mut seen.said);
            if let (State::Ready, Some(client)) = (machine.state(), node.client()) {
                client.tick(session, now);
            }
        });
    }

    /// Returns whether the peer of a routed link has said good-bye, and nothing of this host uses the link: it is
    /// about to be given back. A hello would have the peer aim a link back, which it has just given back itself.
    fn is_left(&self, node: &dyn LinkHost, port: &dyn Port) -> bool {
        self.parted.load(Relaxed) && self.is_far(port) && !self.uses(node).own
    }

    fn is_far(&self, port: &dyn Port) -> bool {
        port.far_links().contains(&self.number)
    }

    /// Tells the peer of a routed link, as often as it is told that this end lives, that this end uses the
    /// link: the peer may have no other sign of it.
    fn claim(&self, now: u64, machine: &mut Machine, fx: &mut Means<'_>, said: &mut u64) {
        if machine.state() != State::Ready || !self.is_far(fx.port) {
            return;
        }
        match self.uses(fx.node).own {
            true if now < *said + HEARTBEAT_MS => return,
            true => *said = now,
            false if *said == 0 => return,
            false => *said = 0,
        }
        machine.send(Body::Use(*said != 0), fx);
    }

    /// Ends a session that has lost something, and that the peer does not end by itself. The loss has to
    /// be seen twice in a row: a peer that withdraws its memory says so a moment later.
    fn check(&self, now: u64, machine: &mut Machine, fx: &mut Means<'_>, suspect: &mut bool) {
        let intact = match machine.state() {
            State::Ready => intact(fx.port, self.number),
            State::Down | State::Hello => Ok(()),
        };
        let again = core::mem::replace(suspect, intact.is_err());
        if let (Err(what), true) = (intact, again) {
            fx.node
                .complain(fmt!("link {}: {}: begins anew", self.number, what));
            *suspect = false;
            machine.lost(now, fx);
        }
    }

    /// Counts and logs a message that could not be parsed: the peer or the mailbox has spoilt it.
    pub(super) fn bad_message(&self, node: &dyn LinkHost, why: wire::Error) {
        let bad = self.bad.fetch_add(1, Relaxed) + 1;
        // Logs the first, the second, the fourth, and so on: a mailbox that spoils all messages does so
        // for long.
        if bad.is_power_of_two() {
            node.complain(fmt!(
                "link {}: not a message: {:?} ({} so far)",
                self.number,
                why,
                bad
            ));
        }
    }

    pub(super) fn message(&self, node: &dyn LinkHost, port: &dyn Port, message: &Message) {
        // All else has to come from the peer that a hello has introduced.
        let hello = matches!(message.body, Body::Hello(_));
        if hello && !self.believes(node, port, message) {
            return;
        }
        self.drive(node, port, |session, _| {
            let (machine, fx) = session.split();
            if let Some(proof) = message.proof {
                *fx.nonce = proof.nonce;
            }
            match (machine.message(clock::now_ms(), message, fx), node.client()) {
                (Some(Body::Use(on)), _) => {
                    let since = if on { clock::now_ms() } else { 0 };
                    self.claimed.store(since, Relaxed);
                }
                (Some(body), Some(client)) => client.message(session, body),
                _ => {}
            }
        });
    }

    /// Returns whether a hello gives the hardware id of the neighbour, as far as that can be known: by what the
    /// fabric attests, of a routed link by the id that it is aimed at; and by a proof, if there is a key. Sleeps.
    fn believes(&self, node: &dyn LinkHost, port: &dyn Port, message: &Message) -> bool {
        if port.loopback_links().contains(&self.number) {
            return true;
        }
        // Only the first function of a port can ask the fabric, and only for a neighbour.
        let neighbour = |_: &&dyn Router| self.number < port.links();
        let router = port.router().filter(neighbour);
        if let Some(router) = router.filter(|router| router.attests()) {
            return self.attests(node, port, router, message.header.from.hwid);
        }
        // The fabric has attested the local id, and this host's manager knows what has it.
        let claimed = message.header.from.hwid;
        if self.is_far(port) && !node.leads(self.number, claimed) {
            self.refuse(
                node,
                claimed,
                fmt!("is none of the host that the link leads to"),
            );
            return false;
        }
        let Some(keyring) = node.keyring().filter(|keyring| keyring.nonce() != 0) else {
            return true;
        };
        if keyring.is_proved(message) {
            return true;
        }
        let what = match message.proof {
            Some(_) => "was not made with this host's key, or is late",
            None => "was made without a key, and this host has one",
        };
        self.refuse(node, message.header.from.hwid, fmt!("{}", what));
        false
    }

    /// Returns whether `hwid` is that of the neighbour, by what the fabric attests. It is asked once
    /// a training; while it does not answer, hellos are dropped: the neighbour repeats them. Sleeps.
    fn attests(
        &self,
        node: &dyn LinkHost,
        port: &dyn Port,
        router: &dyn Router,
        hwid: u64,
    ) -> bool {
        let trained = port.link_status(self.number).trained;
        let Some(there) = self.attested.lock().read(router, self.number, trained) else {
            return false;
        };
        if there != hwid {
            self.refuse(node, hwid, fmt!("came from the port of {:#018x}", there));
        }
        there == hwid
    }

    /// Counts a hello that gives this hardware id, and is refused.
    fn refuse(&self, node: &dyn LinkHost, hwid: u64, why: fmt::Arguments<'_>) {
        // Logs the first, the second, the fourth, and so on.
        let refused = self.health.refused();
        if refused.is_power_of_two() {
            node.complain(fmt!(
                "link {}: a hello of {:#018x} {} ({} so far)",
                self.number,
                hwid,
                why,
                refused
            ));
        }
    }

    /// Has both ends begin nothing, if the link is READY, but no longer than [`QUIESCE_MS`]. Returns true if
    /// nothing is in flight. Called again and again until [`Self::go_on`].
    pub(super) fn hold(&self, node: &dyn LinkHost, port: &dyn Port) -> bool {
        self.drive(node, port, |session, seen| hold(node, session, seen))
    }

    /// Lets both ends begin again.
    pub(super) fn go_on(&self, node: &dyn LinkHost, port: &dyn Port) {
        self.drive(node, port, |session, seen| go_on(node, session, seen));
    }

    /// Does [`Self::hold`] because the route of the link is about to change. If nothing is in flight
    /// then, a READY link stays READY over the change.
    pub(super) fn rest(&self, node: &dyn LinkHost, port: &dyn Port) -> bool {
        self.drive(node, port, |session, seen| {
            seen.rests = hold(node, session, seen);
            seen.rests
        })
    }

    /// Ends what [`Self::rest`] has begun, once the route leads somewhere again or it is `late`. Returns
    /// false if the link has to wait for its route.
    pub(super) fn leave(&self, node: &dyn LinkHost, port: &dyn Port, late: bool) -> bool {
        // Looks whether there is a route now, and which.
        self.look(node, port);
        let over = self.drive(node, port, |session, seen| {
            let leads = port.link_status(self.number).up && intact(port, self.number).is_ok();
            if seen.rests && !leads && !late {
                // Repeats the request: it holds for a while only.
                hold(node, session, seen);
                return false;
            }
            seen.rests = false;
            go_on(node, session, seen);
            true
        });
        if over {
            // A link without a route goes down here.
            self.look(node, port);
        }
        over
    }

    /// Takes the link down; it stays so until [`Link::look`].
    pub(super) fn down(&self, node: &dyn LinkHost, port: &dyn Port, reason: Reason) {
        self.drive(node, port, |session, seen| {
            let (machine, fx) = session.split();
            machine.bye(fx);
            machine.down(reason, fx);
            seen.status = LinkStatus::default();
            // The machine does this when it withdraws the arena, which may have failed.
            if let Some(client) = node.client() {
                client.bury(port, self.number, !self.spoilt.load(Relaxed));
            }
        });
    }

    /// Does `Node::aim` for this link. The session with another port ends.
    pub(super) fn aim(
        &self,
        node: &dyn LinkHost,
        port: &dyn Port,
        aim: Option<Aim>,
        spared: Spared,
    ) -> Result {
        let lid = |aim: Option<Aim>| aim.map_or(0, |aim| aim.lid);
        self.drive(node, port, |session, seen| {
            // With the link locked: nothing is opened between this and the end of the session.
            if spared.is(self.uses(node)) {
                return Err(EBUSY);
            }
            if lid(port.far().and_then(|far| far.aimed(self.number))) != lid(aim) {
                let (machine, fx) = session.split();
                machine.bye(fx);
                machine.down(Reason::Link, fx);
                seen.status = LinkStatus::default();
                self.health.down();
                // Of the former peer.
                self.parted.store(false, Relaxed);
            }
            port.far().ok_or(EINVAL)?.aim(self.number, aim)
        })
    }

    /// Gives back the memory of a routed link that leads nowhere, once no peer can reach it any more. Sleeps.
    pub(super) fn clear(&self, node: &dyn LinkHost, port: &dyn Port) {
        let leads = |far: &dyn FarLinks| far.aimed(self.number).is_some();
        let Some(far) = port.far().filter(|far| !leads(*far)) else {
            return;
        };
        if port.arena(self.number).is_err() {
            return;
        }
        self.drive(node, port, |session, _| {
            let (machine, fx) = session.split();
            if !leads(far) && machine.is_withdrawn(fx) {
                far.forget(self.number);
            }
        });
    }

    /// Calls `f` with the session if the link is READY. `ENOTCONN`: it is not.
    pub(super) fn with<R>(
        &self,
        node: &dyn LinkHost,
        port: &dyn Port,
        f: impl FnOnce(&mut Session<'_>) -> Result<R>,
    ) -> Result<R> {
        self.drive(node, port, |session, _| match session.machine.state() {
            State::Ready => f(session),
            _ => Err(ENOTCONN.into()),
        })
    }

    /// Returns what uses the link.
    pub(super) fn uses(&self, node: &dyn LinkHost) -> Use {
        let opened = node
            .client()
            .is_some_and(|client| client.is_used(self.number));
        let claimed = self.claimed.load(Relaxed);
        Use {
            own: opened || self.held.load(Acquire) != 0,
            peer: claimed != 0 && clock::now_ms() < claimed + SILENCE_MS,
            unanswered: self.up.load(Relaxed) && !self.ready.load(Relaxed),
            parted: self.parted.load(Relaxed),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Relaxed)
    }

    /// Holds the link: it counts as used until [`Self::release`].
    pub(super) fn hold_on(&self) {
        self.held.fetch_add(1, Full);
    }

    pub(super) fn release(&self) {
        self.held.fetch_sub(1, Full);
    }

    /// Returns the hardware id of the neighbour, while known.
    pub(super) fn peer_hwid(&self) -> Option<u64> {
        self.inner.lock().machine.known().map(|id| id.hwid)
    }

    pub(super) fn info(&self, node: &dyn LinkHost, port: &dyn Port) -> LinkInfo {
        let inner = self.inner.lock();
        let client = node.client();
        LinkInfo {
            state: inner.machine.state(),
            status: port.link_status(self.number),
            aim: port.far().and_then(|far| far.aimed(self.number)),
            is_loopback: port.loopback_links().contains(&self.number),
            peer: inner.machine.known().map(|id| (id.hwid, id.generation)),
            usage: client.map_or_else(Usage::default, |c| c.usage(self.number)),
            arena_bytes: port.arena(self.number).map_or(0, |a| a.bytes() as u64),
            arena_wanted: port.arena_wanted(self.number),
            arena_zeroed: port.arena(self.number).map_or(0, |a| a.zeroed()),
            health: self.health.record(),
            power: None,
        }
    }
}

/// Has both ends begin nothing, if the link is READY. Returns true if nothing is in flight. Lets both begin
/// again, and returns false, if the link is quiesced for too long.
fn hold(node: &dyn LinkHost, session: &mut Session<'_>, seen: &mut Seen) -> bool {
    let (State::Ready, Some(client)) = (session.machine.state(), node.client()) else {
        return true;
    };
    let held = seen.quiesce.is_on();
    if seen.quiesce.request(clock::now_ms()) {
        return client.hold(session);
    }
    if held {
        client.go_on(session);
        node.complain(fmt!(
            "link {}: it has been quiesced for {} ms: it goes on",
            session.link(),
            QUIESCE_MS
        ));
    }
    false
}

fn go_on(node: &dyn LinkHost, session: &mut Session<'_>, seen: &mut Seen) {
    seen.quiesce.end(clock::now_ms());
    if let (State::Ready, Some(client)) = (session.machine.state(), node.client()) {
        client.go_on(session);
    }
}

/// A locked link, as clients use it.
pub(crate) struct Session<'a> {
    machine: &'a mut Machine,
    effects: Means<'a>,
}

impl<'a> Session<'a> {
    fn split(&mut self) -> (&mut Machine, &mut Means<'a>) {
        (self.machine, &mut self.effects)
    }

    pub(crate) fn port(&self) -> &'a dyn Port {
        self.effects.port
    }

    /// Returns the number of the link.
    pub(crate) fn link(&self) -> usize {
        self.effects.link.number
    }

    /// Returns the neighbour, while known; it is known while READY.
    pub(crate) fn peer(&self) -> Option<&Peer> {
        self.machine.peer()
    }

    /// Warns in the log, at a limited rate.
    pub(crate) fn complain(&self, what: fmt::Arguments<'_>) {
        self.effects.node.complain(what);
    }

    /// Ends the session because something was lost that the link should have carried; both ends begin
    /// another one.
    pub(crate) fn begin_anew(&mut self, now: u64) {
        let (machine, fx) = self.split();
        machine.lost(now, fx);
    }

    /// Sends a message to the peer. It may get lost.
    pub(crate) fn send(&mut self, body: Body) {
        let (machine, fx) = self.split();
        machine.send(body, fx);
    }
}

/// The operations of the machine.
struct Means<'a> {
    node: &'a dyn LinkHost,
    port: &'a dyn Port,
    link: &'a Link,
    /// As `Inner::nonce`.
    nonce: &'a mut u64,
}

impl Means<'_> {
    fn client(&self) -> Option<&dyn Client> {
        self.node.client()
    }

    /// Logs a failure of `need`, once until it succeeds again.
    fn told<T>(&self, need: Need, done: Result<T>) -> Result<T, Failed> {
        let failing = &self.link.failing;
        let before = failing.load(Relaxed);
        // Called with the link locked.
        match done {
            Ok(value) => {
                failing.store(before & !(1 << need as u32), Relaxed);
                Ok(value)
            }
            Err(e) => {
                self.link.health.failed(need);
                failing.store(before | 1 << need as u32, Relaxed);
                if before & 1 << need as u32 == 0 {
                    let what = need.what();
                    self.node
                        .complain(fmt!("link {}: cannot {}: {:?}", self.link.number, what, e));
                }
                Err(Failed)
            }
        }
    }
}

impl Effects for Means<'_> {
    fn grant(&mut self) -> Result<Offer, Failed> {
        let n = self.link.number;
        let grant = self
            .port
            .arena(n)
            .and_then(|arena| arena.zero(0, arena.bytes()))
            .and_then(|()| self.port.grant(n));
        let grant = self.told(Need::Grant, grant)?;
        self.link.spoilt.store(false, Relaxed);
        let bells = self.port.doorbells(n);
        Ok(Offer {
            offset: grant.offset,
            bytes: grant.bytes,
            wake: bells.wake,
            echo: bells.echo,
        })
    }

    fn withdraw(&mut self) -> Result<(), Failed> {
        if self
            .port
            .losses()
            .is_some_and(|losses| !losses.is_sound(self.link.number))
        {
            self.link.spoilt.store(true, Relaxed);
        }
        self.told(Need::Withdraw, self.port.withdraw(self.link.number))?;
        let sound = !self.link.spoilt.load(Relaxed);
        if let Some(client) = self.client() {
            client.bury(self.port, self.link.number, sound);
        }
        Ok(())
    }

    fn attach(&mut self, peer: &Peer) -> Result<(), Failed> {
        let grant = Grant {
            offset: peer.offer.offset,
            bytes: peer.offer.bytes,
        };
        let bells = Doorbells {
            wake: peer.offer.wake,
            echo: peer.offer.echo,
        };
        let attached = self.port.attach(self.link.number, grant, bells);
        self.told(Need::Attach, attached)?;
        let bells = u64::from(bells.wake) << 32 | u64::from(bells.echo);
        self.link.bells.store(bells, Release);
        Ok(())
    }

    fn detach(&mut self) {
        self.link.bells.store(NO_BELLS, Release);
        self.port.detach(self.link.number);
    }

    fn send(&mut self, message: &Message) {
        let mut message = *message;
        if let Some(keyring) = self.node.keyring() {
            // On any link: only the receiver knows whether it has to ask for a proof.
            message.proof = keyring.prove(&message, *self.nonce);
        }
        let message = &message;
        let mut buf = [0; MAX_BYTES];
        let bytes = message.encode(&mut buf);
        self.node.trace_sent(self.link.number, message, bytes);
        // A message that fails here counts as lost: a sender that needs an answer sends it again.
        let _ = self
            .port
            .send(self.link.number, buf.get(..bytes).unwrap_or_default());
    }

    fn ready(&mut self, peer: &Peer) {
        self.link.health.ready();
        self.link.parted.store(false, Relaxed);
        if let Some(client) = self.client() {
            client.ready(self.port, self.link.number, peer);
        }
    }

    fn broken(&mut self, reason: Reason) {
        self.link.health.broken(reason);
        self.link.parted.store(reason == Reason::Bye, Relaxed);
        if let Some(client) = self.client() {
            client.broken(self.port, self.link.number, reason);
        }
    }
}
