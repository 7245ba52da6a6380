// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The state machine of one end of a link.
//!
//! ```text
//!            up                 each has attached what the other offers
//!   DOWN ----------> HELLO ------------------------------------------> READY
//!    ^                 ^  <------------------------------------------    |
//!    |                 |   silence, loss, or the peer in another life    |
//!    +-----------------+-------------------------------------------------+
//!                                  down
//! ```
//!
//! Each end numbers its lives: a *session* begins when the link comes up and whenever READY ends.
//! The arena is granted when a peer is known, which has then left whatever session it had with this
//! end before, and taken back when the session ends. READY means that both ends know the same pair of
//! sessions, and that nobody else has written to the arenas. Why that holds however the mailbox
//! misbehaves is in `Documentation/protocol.rst`; in short: in a session an end knows one peer, in one
//! life, and no other.
//!
//! Nothing is done here but through [`Effects`]; time comes in as milliseconds.

use super::wire::{Body, Header, Incarnation, Message, Offer};

/// A peer that has said nothing for so long is taken for dead.
pub const SILENCE_MS: u64 = 3000;
/// How often an end that is READY says that it is there.
pub const HEARTBEAT_MS: u64 = 1000;
/// Hellos are repeated after this, then after twice as long, and so on.
pub const HELLO_MIN_MS: u64 = 200;
/// The longest time between two hellos.
pub const HELLO_MAX_MS: u64 = 1000;
/// How often [`Link::tick`] wants to be called while the link is up.
pub const TICK_MS: u64 = 200;

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

/// Why READY ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The link went down, or has lost data.
    Link,
    /// The peer has said nothing for too long.
    Silence,
    /// The peer has said good-bye.
    Bye,
    /// The peer is in another life.
    Restart,
    /// This end goes away.
    Removed,
}

/// An effect could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed;

/// The neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Who, and in which life.
    pub id: Incarnation,
    /// What it offers.
    pub offer: Offer,
}

/// What the machine has done for it, in the order of the calls.
pub trait Effects {
    /// Lets the neighbour reach the arena, which is made to hold nothing.
    fn grant(&mut self) -> Result<Offer, Failed>;
    /// Takes the arena back. Until this succeeds it is not granted again.
    fn withdraw(&mut self) -> Result<(), Failed>;
    /// Points the window at what the peer offers.
    fn attach(&mut self, peer: &Peer) -> Result<(), Failed>;
    /// Points the window nowhere.
    fn detach(&mut self);
    /// Sends; the message may get lost.
    fn send(&mut self, message: &Message);
    /// The link is READY.
    fn ready(&mut self, peer: &Peer);
    /// It was READY; everything that hangs on that is broken. Window and arena are still there.
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
    /// That of the session before. It may be there yet, and write to the arena.
    former: Option<Incarnation>,
    /// What the peer may reach.
    offer: Option<Offer>,
    /// It has attached that.
    acknowledged: bool,
    /// What the window points at.
    attached: Option<Peer>,
    /// A grant has to be withdrawn before the next.
    stale_grant: bool,
    sequence: u32,
    /// When a valid message of the peer came last; counts in READY.
    heard: u64,
    /// When the hello or heartbeat was sent last.
    sent: u64,
    interval: u64,
}

impl Link {
    /// A link that is down.
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
            sequence: 0,
            heard: 0,
            sent: 0,
            interval: HELLO_MIN_MS,
        }
    }

    /// Where the machine is.
    pub fn state(&self) -> State {
        self.state
    }

    /// This end.
    pub fn me(&self) -> Incarnation {
        Incarnation {
            hwid: self.hwid,
            generation: self.generation,
            session: self.session,
        }
    }

    /// The neighbour, while one is known.
    pub fn known(&self) -> Option<Incarnation> {
        self.known
    }

    /// The same, with what it offers, while the window is attached to that.
    pub fn peer(&self) -> Option<&Peer> {
        self.attached.as_ref()
    }

    /// The port was reset: it has another generation. To be called while the link is down.
    pub fn reset(&mut self, hwid: u64, generation: u32) {
        self.hwid = hwid;
        self.generation = generation;
    }

    /// The hardware has a link.
    pub fn up(&mut self, now: u64, fx: &mut impl Effects) {
        if self.state == State::Down {
            self.begin(now);
            self.greet(now, fx);
        }
    }

    /// The hardware has lost the link, or the port is to be left alone.
    pub fn down(&mut self, reason: Reason, fx: &mut impl Effects) {
        if self.state != State::Down {
            self.end(reason, fx);
            self.state = State::Down;
        }
    }

    /// Tells the neighbour that nobody will be here. Then comes [`Link::down`].
    pub fn bye(&mut self, fx: &mut impl Effects) {
        if self.state == State::Ready {
            self.send(Body::Bye, fx);
        }
    }

    /// Time has passed.
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

    /// Something that was sent or received in READY is lost: what hangs on it is broken, and both ends
    /// begin anew.
    pub fn lost(&mut self, now: u64, fx: &mut impl Effects) {
        if self.state == State::Ready {
            self.end(Reason::Link, fx);
            self.begin(now);
            self.greet(now, fx);
        }
    }

    /// Takes a message. What is not for the machine itself, and comes from the peer of this very
    /// session while the link is READY, is handed back.
    pub fn message(&mut self, now: u64, m: &Message, fx: &mut impl Effects) -> Option<Body> {
        if self.state == State::Down {
            return None;
        }
        let names_me = m.header.to_session == self.session && self.is_my_generation(&m.header);
        if let Body::Hello(offer) = &m.body {
            self.hello(now, &m.header, names_me, offer.as_ref(), fx);
            return None;
        }
        if self.known != Some(m.header.from) || !names_me {
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
                self.greet(now, fx);
                None
            }
            (body, State::Ready) => {
                self.heard = now;
                Some(body)
            }
        }
    }

    /// Sends something to the peer of this session, if the link is READY.
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
        });
    }

    fn is_my_generation(&self, header: &Header) -> bool {
        header.to_generation == self.generation
    }

    /// A new session. Time is in it so that a driver that was loaded anew, on a port that was not
    /// reset, does not use a number again.
    fn begin(&mut self, now: u64) {
        self.session = (self.session + 1).max(now);
        self.state = State::Hello;
        self.interval = HELLO_MIN_MS;
    }

    /// Ends what the session had, except that the grant may be left to be withdrawn.
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

    /// Withdraws a grant of a former session. False if that is still to be done.
    fn take_back(&mut self, fx: &mut impl Effects) -> bool {
        if self.stale_grant && fx.withdraw().is_ok() {
            self.stale_grant = false;
        }
        !self.stale_grant
    }

    /// Sees to it that the peer has a grant.
    fn offer(&mut self, fx: &mut impl Effects) -> Option<Offer> {
        if self.offer.is_none() && self.take_back(fx) {
            self.offer = fx.grant().ok();
        }
        self.offer
    }

    /// Says hello to the peer, with an offer, or to whoever is there.
    fn greet(&mut self, now: u64, fx: &mut impl Effects) {
        self.sent = now;
        match self.known {
            None => self.send_to(Incarnation::default(), Body::Hello(None), fx),
            Some(known) => {
                if let Some(offer) = self.offer(fx) {
                    self.send_to(known, Body::Hello(Some(offer)), fx);
                }
            }
        }
    }

    /// Looks whether all is there that READY takes.
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
                // The peer in a new life. In the old one it may be READY, even if this end is not. Nothing
                // is said before it is time to: two ends that know each other by former lives would
                // follow each other for ever.
                self.restart(Reason::Restart, now, fx);
                self.sent = now;
                return;
            }
            known if !names_me && header.to_session != 0 => {
                // It speaks to a former life of this end, which it has to learn has ended. In HELLO it
                // soon does. Whom this end knows does not matter: named, it could be somebody's former
                // life as well.
                if known.is_some() {
                    self.send_to(Incarnation::default(), Body::Hello(None), fx);
                }
                return;
            }
            // Late, or it has not heard yet that the session is over, and may write. If it names this
            // one it knew nobody when it heard of it.
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

        // What it had before is taken back before the window is there again.
        let accepted = match (self.offer(fx), offer) {
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

    /// Attaches what the peer offers. A session has one offer: whoever says otherwise is not believed.
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

/// Whether `a` is an earlier life of the same driver than `b`.
fn is_older(a: &Incarnation, b: &Incarnation) -> bool {
    a.hwid == b.hwid && a.generation == b.generation && a.session < b.session
}
