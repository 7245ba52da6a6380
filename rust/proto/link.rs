// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The state machine of one end of a link.
//!
//! ```text
//!            up                 each has attached the other's offer
//!   DOWN ----------> HELLO ------------------------------------------> READY
//!    ^                 ^  <------------------------------------------    |
//!    |                 |   silence, loss, or a new session of the peer   |
//!    +-----------------+-------------------------------------------------+
//!                                  down
//! ```
//!
//! Each end numbers its *sessions*: a session begins when the link comes up and whenever READY ends.
//! An end grants its arena when it knows a peer, which has then left any former session with this end,
//! and withdraws it when the session ends. READY means that both ends know the same pair of sessions,
//! and that no other session has written to the arenas. `Documentation/protocol.rst` shows why this
//! holds however the mailbox misbehaves; in short: within a session an end knows one incarnation of one
//! peer, and no other.
//!
//! A neighbour can restart as often as it can send messages, and each grant costs the time to zero an
//! arena: grants have a [`RateLimit`].
//!
//! The machine acts through [`Effects`] only. All times are in milliseconds.

use super::{
    heartbeat::{HEARTBEAT_MS, SILENCE_MS},
    ratelimit::RateLimit,
    wire::{Body, Header, Incarnation, Message, Offer},
};

/// Time until a hello is repeated first; the interval doubles with each repetition.
pub const HELLO_MIN_MS: u64 = 200;
/// The longest time between two hellos.
pub const HELLO_MAX_MS: u64 = 1000;
/// Interval at which [`Link::tick`] is to be called while the link is up.
pub const TICK_MS: u64 = 200;

/// How many grants of the arena are not delayed, though they follow each other at once: those of a
/// neighbour whose link flaps, or whose driver is loaded again.
pub const GRANT_BURST: u64 = 8;
/// The interval of further grants.
pub const GRANT_MS: u64 = 500;

/// States of a link. The numbers are `WEFT_LINK_*` of the user interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No signal.
    Down = 0,
    /// Waiting for the neighbour's driver.
    Hello = 1,
    /// Channels can be made.
    Ready = 2,
}

/// Reason why READY ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The link went down, or has lost data.
    Link,
    /// No message has come from the peer for more than [`SILENCE_MS`].
    Silence,
    /// The peer has sent [`Body::Bye`].
    Bye,
    /// The peer has begun a new session.
    Restart,
    /// This end goes away.
    Removed,
}

/// An effect failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed;

/// The neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its incarnation.
    pub id: Incarnation,
    /// Its arena and doorbells.
    pub offer: Offer,
}

/// The actions of the machine; the implementation carries them out in the order of the calls.
pub trait Effects {
    /// Clears the arena and lets the neighbour reach it.
    fn grant(&mut self) -> Result<Offer, Failed>;
    /// Withdraws the arena. Until this succeeds it is not granted again.
    fn withdraw(&mut self) -> Result<(), Failed>;
    /// Points the window at the arena that the peer offers.
    fn attach(&mut self, peer: &Peer) -> Result<(), Failed>;
    /// Disables the window.
    fn detach(&mut self);
    /// Sends a message, which may get lost.
    fn send(&mut self, message: &Message);
    /// Called when the link becomes READY.
    fn ready(&mut self, peer: &Peer);
    /// Called when READY ends; everything that depends on it is broken. Window and arena are still
    /// there.
    fn broken(&mut self, reason: Reason);
}

/// One end of a link.
pub struct Link {
    hwid: u64,
    generation: u32,
    session: u64,
    state: State,
    /// The only peer of this session.
    known: Option<Incarnation>,
    /// The peer of the session before. It may still be in that session, and write to the arena.
    former: Option<Incarnation>,
    /// The grant of this session.
    offer: Option<Offer>,
    /// The peer has attached `offer`.
    acknowledged: bool,
    /// The peer that the window points at.
    attached: Option<Peer>,
    /// A former grant has to be withdrawn before the next one.
    stale_grant: bool,
    /// Limits how often the arena is granted; the limit outlasts sessions.
    grants: RateLimit,
    sequence: u32,
    /// Time of the last valid message of the peer; used in READY.
    heard: u64,
    /// Time of the last hello or heartbeat that was sent.
    sent: u64,
    interval: u64,
}

impl Link {
    /// Creates a link that is down.
    pub const fn new(hwid: u64, generation: u32) -> Self {
        Self {
            hwid,
            generation,
            session: 0,
            state: State::Down,
            known: None,
            former: None,
            offer: None,
            acknowledged: false,
            attached: None,
            stale_grant: false,
            grants: RateLimit::new(GRANT_BURST, GRANT_MS),
            sequence: 0,
            heard: 0,
            sent: 0,
            interval: HELLO_MIN_MS,
        }
    }

    /// Returns the state of the link.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the incarnation of this end.
    pub fn me(&self) -> Incarnation {
        Incarnation {
            hwid: self.hwid,
            generation: self.generation,
            session: self.session,
        }
    }

    /// Returns the incarnation of the neighbour, while one is known.
    pub fn known(&self) -> Option<Incarnation> {
        self.known
    }

    /// Returns the neighbour and its offer, while the window is attached to the offer.
    pub fn peer(&self) -> Option<&Peer> {
        self.attached.as_ref()
    }

    /// Sets the generation after a reset of the port. To be called while the link is down.
    pub fn reset(&mut self, hwid: u64, generation: u32) {
        self.hwid = hwid;
        self.generation = generation;
    }

    /// Returns whether no peer can reach the arena: this end is down, and its last grant is withdrawn. Tries
    /// to withdraw it.
    pub fn is_withdrawn(&mut self, fx: &mut impl Effects) -> bool {
        self.state == State::Down && self.take_back(fx)
    }

    /// Begins a session; to be called when the hardware has a link.
    pub fn up(&mut self, now: u64, fx: &mut impl Effects) {
        if self.state == State::Down {
            self.begin(now);
            self.greet(now, fx);
        }
    }

    /// Ends the session; to be called when the hardware has lost the link or the port is to be stopped.
    pub fn down(&mut self, reason: Reason, fx: &mut impl Effects) {
        if self.state != State::Down {
            self.end(reason, fx);
            self.state = State::Down;
        }
    }

    /// Tells the neighbour that this driver goes away. To be followed by [`Link::down`].
    pub fn bye(&mut self, fx: &mut impl Effects) {
        if self.state == State::Ready {
            self.send(Body::Bye, fx);
        }
    }

    /// Sends the hellos and heartbeats that are due, and ends READY if the peer is silent.
    pub fn tick(&mut self, now: u64, fx: &mut impl Effects) {
        self.take_back(fx);
        match self.state {
            State::Down => {}
            State::Hello => {
                if now.saturating_sub(self.sent) >= self.interval {
                    self.interval = (self.interval * 2).min(HELLO_MAX_MS);
                    self.greet(now, fx);
                }
            }
            State::Ready => {
                if now.saturating_sub(self.heard) > SILENCE_MS {
                    self.restart(Reason::Silence, now, fx);
                    self.greet(now, fx);
                } else if now.saturating_sub(self.sent) >= HEARTBEAT_MS {
                    self.sent = now;
                    self.send(Body::Heartbeat, fx);
                }
            }
        }
    }

    /// Returns whether `m` ends READY by [`Reason::Bye`]. A link that goes down while such a message waits goes
    /// down for that reason.
    pub fn is_bye(&self, m: &Message) -> bool {
        self.state == State::Ready && matches!(m.body, Body::Bye) && self.is_of_peer(&m.header)
    }

    /// Ends READY because something that was sent or received in it is lost; both ends begin a new
    /// session.
    pub fn lost(&mut self, now: u64, fx: &mut impl Effects) {
        if self.state == State::Ready {
            self.end(Reason::Link, fx);
            self.begin(now);
            self.greet(now, fx);
        }
    }

    /// Handles a message. Returns the body if it is not for the machine itself and comes from the peer
    /// of this session while the link is READY.
    pub fn message(&mut self, now: u64, m: &Message, fx: &mut impl Effects) -> Option<Body> {
        if self.state == State::Down {
            return None;
        }
        if let Body::Hello(offer) = &m.body {
            self.hello(now, &m.header, self.names_me(&m.header), offer.as_ref(), fx);
            return None;
        }
        if !self.is_of_peer(&m.header) {
            return None;
        }
        match (m.body, self.state) {
            (Body::HelloAck, State::Hello) => {
                self.acknowledged = self.offer.is_some();
                self.look(now, fx);
                None
            }
            (Body::HelloAck, _) | (_, State::Hello | State::Down) => None,
            (Body::Heartbeat, State::Ready) => {
                self.heard = now;
                None
            }
            (Body::Bye, State::Ready) => {
                self.restart(Reason::Bye, now, fx);
                // The first hello waits for its time: the peer has said that nothing of it would answer.
                self.sent = now;
                None
            }
            (body, State::Ready) => {
                self.heard = now;
                Some(body)
            }
        }
    }

    /// Sends `body` to the peer of this session, or without a receiver's session if no peer is known.
    pub fn send(&mut self, body: Body, fx: &mut impl Effects) {
        self.send_to(self.known.unwrap_or_default(), body, fx);
    }

    fn send_to(&mut self, to: Incarnation, body: Body, fx: &mut impl Effects) {
        self.sequence = self.sequence.wrapping_add(1);
        fx.send(&Message {
            header: Header {
                from: self.me(),
                to_generation: to.generation,
                to_session: to.session,
                sequence: self.sequence,
            },
            body,
            proof: None,
        });
    }

    /// Returns whether a message comes from the peer of this session, and is for this session.
    fn is_of_peer(&self, header: &Header) -> bool {
        self.known == Some(header.from) && self.names_me(header)
    }

    fn names_me(&self, header: &Header) -> bool {
        header.to_session == self.session && self.is_my_generation(header)
    }

    fn is_my_generation(&self, header: &Header) -> bool {
        header.to_generation == self.generation
    }

    /// Begins a session. Its number is at least the time, so that a driver that was loaded anew, on a
    /// port that was not reset, does not reuse a number.
    fn begin(&mut self, now: u64) {
        self.session = (self.session + 1).max(now);
        self.state = State::Hello;
        self.interval = HELLO_MIN_MS;
    }

    /// Releases everything of the session. If the grant cannot be withdrawn now, it stays stale.
    fn end(&mut self, reason: Reason, fx: &mut impl Effects) {
        if self.state == State::Ready {
            fx.broken(reason);
        }
        if self.attached.take().is_some() {
            fx.detach();
        }
        if self.offer.take().is_some() {
            self.stale_grant = true;
        }
        self.acknowledged = false;
        self.former = self.known.take().or(self.former);
        self.take_back(fx);
    }

    fn restart(&mut self, reason: Reason, now: u64, fx: &mut impl Effects) {
        self.end(reason, fx);
        self.begin(now);
    }

    /// Withdraws a stale grant. Returns false if it could not be withdrawn yet.
    fn take_back(&mut self, fx: &mut impl Effects) -> bool {
        if self.stale_grant && fx.withdraw().is_ok() {
            self.stale_grant = false;
        }
        !self.stale_grant
    }

    /// Returns the grant of this session, and makes it if there is none yet. `None` if that fails, or is
    /// too early; a later call tries again.
    fn offer(&mut self, now: u64, fx: &mut impl Effects) -> Option<Offer> {
        if self.offer.is_none() && self.take_back(fx) && self.grants.pass(now) {
            self.offer = fx.grant().ok();
        }
        self.offer
    }

    /// Sends a hello with an offer to the known peer, or one without an offer and receiver if none is
    /// known.
    fn greet(&mut self, now: u64, fx: &mut impl Effects) {
        self.sent = now;
        match self.known {
            None => self.send_to(Incarnation::default(), Body::Hello(None), fx),
            Some(known) => {
                if let Some(offer) = self.offer(now, fx) {
                    self.send_to(known, Body::Hello(Some(offer)), fx);
                }
            }
        }
    }

    /// Enters READY if the peer is attached and has acknowledged the offer of this end.
    fn look(&mut self, now: u64, fx: &mut impl Effects) {
        if let (State::Hello, Some(peer), true) = (self.state, &self.attached, self.acknowledged) {
            self.state = State::Ready;
            self.heard = now;
            self.sent = now;
            fx.ready(peer);
        }
    }

    fn hello(
        &mut self,
        now: u64,
        header: &Header,
        mut names_me: bool,
        offer: Option<&Offer>,
        fx: &mut impl Effects,
    ) {
        let mut is_new = false;
        match self.known {
            Some(known) if known == header.from => {}
            Some(known) if is_older(&header.from, &known) => return,
            Some(_) if self.state == State::Hello => {
                // The peer has begun a new session. In the old one it may be READY, even if this end is
                // not. The next hello waits for its time: two ends that know each other by former
                // sessions would otherwise restart each other for ever.
                self.restart(Reason::Restart, now, fx);
                self.sent = now;
                return;
            }
            known if !names_me && header.to_session != 0 => {
                // The sender names a former session of this end, and has to learn that it has ended.
                // Without a known peer the hellos of this end tell it soon. The answer names no
                // receiver: the sender may itself be a former incarnation.
                if known.is_some() {
                    self.send_to(Incarnation::default(), Body::Hello(None), fx);
                }
                return;
            }
            // A late message, or the former peer does not know yet that the session is over, and may
            // write to the arena. If it names the new session, it knew no peer when it learned of it.
            None if self.former == Some(header.from) && !names_me => return,
            known => {
                if known.is_some() {
                    self.restart(Reason::Restart, now, fx);
                    names_me = false;
                }
                self.known = Some(header.from);
                is_new = true;
            }
        }

        // `offer` withdraws the former grant before the window is attached again.
        let accepted = match (self.offer(now, fx), offer) {
            (Some(_), Some(offer)) if names_me => self.accept(header.from, offer, fx),
            _ => false,
        };
        if accepted {
            self.heard = now;
            self.send(Body::HelloAck, fx);
            self.look(now, fx);
        }
        if is_new || !names_me {
            self.greet(now, fx);
        }
    }

    /// Attaches the offer of the peer. A session has one offer: returns false for a different one.
    fn accept(&mut self, id: Incarnation, offer: &Offer, fx: &mut impl Effects) -> bool {
        if let Some(peer) = &self.attached {
            return peer.offer == *offer;
        }
        let peer = Peer { id, offer: *offer };
        if fx.attach(&peer).is_err() {
            return false;
        }
        self.attached = Some(peer);
        true
    }
}

/// Returns whether `a` is an earlier session than `b` of the same port and generation.
fn is_older(a: &Incarnation, b: &Incarnation) -> bool {
    a.hwid == b.hwid && a.generation == b.generation && a.session < b.session
}
