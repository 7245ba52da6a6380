// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The manager of one node, in a fabric in which nodes report up a tree.
//!
//! A node obeys the lowest id of the highest term that it has heard of; its parent is the neighbour that
//! is nearest to the master. When all its neighbours have said that they obey the same master and its
//! children have reported, it reports itself. The master, which gets all reports, gives local ids, and
//! each node passes on those for the nodes below it. A node that loses its parent, or a child, begins a
//! new term: then no node relies on the former tree any more.
//!
//! A node uses its routes from the moment ids are given until it obeys another master. When ids are
//! given, every node has left the former tree, and so has given up its routes. A packet thus stays in
//! one tree, and in a tree a packet that never turns back cannot loop.
//!
//! The manager acts through [`Effects`] only. All times are in milliseconds. A link must not deliver
//! messages that were sent before it was down; [`crate::link`](super::super::super::link) ensures this.

use super::{
    super::{lid::MAX_LID, mastership::Mastership, packet::MAX_BYTES, port::HOST_PORTS},
    set::Set,
    state::{Grant, Message, Report, State},
};

/// Time after which a message is acknowledged, unless there is something else to send.
pub const ACK_MS: u64 = 50;
/// Time after which a message that is not acknowledged is sent again.
pub const AGAIN_MS: u64 = 400;
/// Time without a message after its link has come up, after which a neighbour is taken to have no
/// manager.
pub const HELLO_MS: u64 = 100;
/// Most links to the master: a node does not obey a master that is further away.
pub const MAX_DISTANCE: u32 = 1 << 20;

/// The actions of the machine.
pub trait Effects {
    /// Sends to the neighbour at `port`; the message may get lost.
    fn send(&mut self, port: u8, message: &[u8]);
    /// Called when the routes have changed. The node has the local id `lid` now; 0: there are no routes.
    fn routes(&mut self, lid: u32);
}

/// Initial state, which no node sends.
const UNSAID: State = State {
    mastership: Mastership { term: 0, master: 0 },
    distance: 0,
    child: false,
    report: None,
    grant: None,
};

/// A neighbour.
#[derive(Clone, Copy)]
struct Peer {
    up: bool,
    /// Time until which its first message is awaited, if none has come yet.
    wanted: Option<u64>,
    /// Its newest state, and the number of that; 0 if none has come.
    state: State,
    number: u32,
    /// Of a child: the grant since its report.
    granted: Option<Grant>,
    /// Of a child: it and all nodes below it are to get new ids.
    anew: bool,
    /// Number of the newest state that was sent.
    sent: u32,
    /// The newest state that was sent.
    told: State,
    /// Number of the newest state that was acknowledged.
    acked: u32,
    sent_at: u64,
    /// Time since which a message of the neighbour waits to be acknowledged.
    owes: Option<u64>,
}

impl Peer {
    const NONE: Self = Self {
        up: false,
        wanted: None,
        state: UNSAID,
        number: 0,
        granted: None,
        anew: false,
        sent: 0,
        told: UNSAID,
        acked: 0,
        sent_at: 0,
        owes: None,
    };
}

/// The manager.
pub struct Node {
    hwid: u64,
    lid: u32,
    /// No id from this one on was ever given away.
    next: u32,
    mastership: Mastership,
    distance: u32,
    /// Port towards the master; `None` for the master.
    parent: Option<u8>,
    /// The routes may be used.
    live: bool,
    /// It has reported to its parent, which it therefore keeps.
    reported: bool,
    /// The last grant that was taken: a grant is taken only once.
    taken: Option<Grant>,
    peers: [Peer; HOST_PORTS],
}

impl Node {
    /// Creates a node with all ports down.
    pub const fn new(hwid: u64) -> Self {
        Self {
            hwid,
            lid: 0,
            next: 1,
            mastership: Mastership {
                term: 0,
                master: hwid,
            },
            distance: 0,
            parent: None,
            live: false,
            reported: false,
            taken: None,
            peers: [Peer::NONE; HOST_PORTS],
        }
    }

    /// Returns the local id, 0 if it has none.
    pub fn lid(&self) -> u32 {
        self.lid
    }

    /// Returns the mastership that it obeys.
    pub fn mastership(&self) -> Mastership {
        self.mastership
    }

    /// Returns the number of links to the master, and the port towards it.
    pub fn parent(&self) -> (u32, Option<u8>) {
        (self.distance, self.parent)
    }

    /// Returns whether it has an id and valid routes.
    pub fn is_settled(&self) -> bool {
        self.live
    }

    /// Returns the port by which traffic for `lid` leaves that has come in by `from`; `None`: from this
    /// node. Traffic never goes back: for a moment, two neighbours may each take an id to be at the
    /// other.
    pub fn lookup(&self, lid: u32, from: Option<u8>) -> Option<u8> {
        if !self.live || lid == self.lid {
            return None;
        }
        let mut below = self.peers.iter().zip(0u8..);
        let child = below.find(|(peer, _)| self.below(peer).is_some_and(|r| r.held.has(lid)));
        let port = child.map(|(_, port)| port).or(self.parent);
        port.filter(|port| from != Some(*port))
    }

    /// Returns how many intervals its table has: those of its children, and one for all other ids.
    pub fn intervals(&self) -> usize {
        let below = self.peers.iter().filter_map(|peer| self.below(peer));
        let below: usize = below.map(|report| report.held.intervals().len()).sum();
        below + usize::from(self.parent.is_some())
    }

    /// Returns the report of a neighbour, if it is a child.
    fn below<'a>(&self, peer: &'a Peer) -> Option<&'a Report> {
        let child = peer.up && peer.state.mastership == self.mastership && peer.state.child;
        peer.state.report.as_ref().filter(|_| child)
    }

    /// Takes note that a link is up, or down.
    pub fn port(&mut self, now: u64, port: u8, up: bool, fx: &mut impl Effects) {
        let Some(peer) = self.peers.get_mut(usize::from(port)) else {
            return;
        };
        if peer.up == up {
            return;
        }
        let child = peer.up && peer.state.mastership == self.mastership && peer.state.child;
        *peer = Peer {
            up,
            wanted: Some(now + HELLO_MS),
            ..Peer::NONE
        };
        if !up && (child || self.parent == Some(port)) {
            let term = self.mastership.term.saturating_add(1);
            self.rule(term, fx);
        }
        self.update(now, fx);
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: u64, fx: &mut impl Effects) {
        self.update(now, fx);
    }

    /// Returns when [`Self::tick`] is to be called, if nothing happens before.
    pub fn deadline(&self) -> Option<u64> {
        let up = self.peers.iter().filter(|peer| peer.up);
        up.filter_map(|peer| {
            let ack = peer.owes.map(|since| since + ACK_MS);
            let again = (peer.sent > peer.acked).then_some(peer.sent_at + AGAIN_MS);
            [ack, again, peer.wanted].into_iter().flatten().min()
        })
        .min()
    }

    /// Takes a message from the neighbour at `port`. To be followed by [`Self::tick`] when no more
    /// messages are there: most of several that come together need no answer of their own.
    pub fn receive(&mut self, now: u64, port: u8, bytes: &[u8]) {
        let Some(peer) = self.peers.get_mut(usize::from(port)) else {
            return;
        };
        let Ok(message) = Message::parse(bytes) else {
            return;
        };
        if !peer.up || message.seen > peer.sent {
            return;
        }
        peer.acked = peer.acked.max(message.seen);
        if message.again {
            // Acknowledged at once: the last acknowledgement may have got lost.
            peer.owes = Some(now.saturating_sub(ACK_MS));
        }
        if message.number > peer.number {
            peer.number = message.number;
            peer.wanted = None;
            // The neighbour takes only a grant that answers its newest report.
            peer.granted = None;
            peer.anew = false;
            peer.state = message.state;
            peer.owes.get_or_insert(now);
        }
    }

    /// Becomes the master of this term, until it hears of a lower id.
    fn rule(&mut self, term: u32, fx: &mut impl Effects) {
        let mastership = Mastership {
            term,
            master: self.hwid,
        };
        self.obey(mastership, 0, None, fx);
    }

    fn obey(
        &mut self,
        mastership: Mastership,
        distance: u32,
        parent: Option<u8>,
        fx: &mut impl Effects,
    ) {
        self.mastership = mastership;
        self.distance = distance;
        self.parent = parent;
        self.reported = false;
        self.taken = None;
        if self.live {
            self.live = false;
            fx.routes(0);
        }
    }

    /// Does what follows from what is known.
    fn update(&mut self, now: u64, fx: &mut impl Effects) {
        let heard = self.peers.iter().filter(|peer| peer.up && peer.number != 0);
        let term = heard.map(|peer| peer.state.mastership.term).max();
        if let Some(term) = term.filter(|term| *term > self.mastership.term) {
            self.rule(term, fx);
        }
        for (port, peer) in (0u8..).zip(self.peers) {
            let (mastership, distance) =
                (peer.state.mastership, peer.state.distance.saturating_add(1));
            let heard = peer.up && peer.number != 0 && mastership.term == self.mastership.term;
            let lower = (mastership.master, distance) < (self.mastership.master, self.distance);
            if !heard || !lower || distance > MAX_DISTANCE {
                continue;
            }
            if self.parent == Some(port) && mastership == self.mastership {
                self.distance = distance;
            } else if !(self.reported && mastership == self.mastership) {
                // A node that has reported keeps its parent, which relies on the report.
                self.obey(mastership, distance, Some(port), fx);
            }
        }
        for peer in &mut self.peers {
            peer.wanted = peer.wanted.filter(|until| now < *until);
        }
        if let Some(report) = self.report() {
            self.take_grant(&report, fx);
            self.let_in();
        }
        for port in 0..HOST_PORTS as u8 {
            self.speak(now, port, fx);
        }
    }

    /// Returns the report on the nodes below, if all children have reported.
    ///
    /// If the ids of a child clash with those of other children, it gets new ones, with all nodes below
    /// it.
    fn report(&mut self) -> Option<Report> {
        let mut all = Report {
            total: 1,
            fresh: u32::from(self.lid == 0),
            next: self.next,
            held: Set::EMPTY,
        };
        if self.lid != 0 {
            all.held.add(self.lid, self.lid);
        }
        let (mastership, parent) = (self.mastership, self.parent);
        for (port, peer) in (0u8..).zip(&mut self.peers) {
            if !peer.up || parent == Some(port) {
                continue;
            }
            if peer.wanted.is_some() {
                return None;
            }
            if peer.number == 0 {
                continue;
            }
            if peer.state.mastership != mastership {
                return None;
            }
            if !peer.state.child {
                continue;
            }
            let report = peer.state.report.as_ref()?;
            all.total = all.total.checked_add(report.total)?;
            all.next = all.next.max(report.next);
            peer.anew = !all.held.add_all(&report.held);
            let fresh = if peer.anew {
                report.total
            } else {
                report.fresh
            };
            all.fresh = all.fresh.checked_add(fresh)?;
        }
        Some(all)
    }

    /// Takes a grant from the parent, or makes it if this node is the master.
    fn take_grant(&mut self, report: &Report, fx: &mut impl Effects) {
        let grant = match self.parent {
            None => {
                if self.live && report.fresh == 0 {
                    return;
                }
                let end = report.next.checked_add(report.fresh);
                let anew = end.is_none_or(|end| end > MAX_LID + 1);
                let (first, count) = if anew {
                    (1, report.total)
                } else {
                    (report.next, report.fresh)
                };
                Grant {
                    first,
                    count,
                    next: first.saturating_add(count),
                    answers: 0,
                    anew,
                }
            }
            Some(port) => {
                let parent = self.peers.get(usize::from(port));
                let parent = parent.filter(|parent| parent.state.mastership == self.mastership);
                // The grant has to answer this report, not a former one.
                let parent = parent.filter(|parent| parent.told.report.as_ref() == Some(report));
                let sent = parent.map(|parent| parent.sent);
                let grant = parent.and_then(|parent| parent.state.grant);
                let grant = grant.filter(|grant| Some(grant.answers) == sent);
                let Some(grant) = grant.filter(|grant| self.taken != Some(*grant)) else {
                    return;
                };
                grant
            }
        };
        let wanted = if grant.anew {
            report.total
        } else {
            report.fresh
        };
        if grant.count != wanted {
            return;
        }
        self.taken = Some(grant);
        self.next = self.next.max(grant.next);
        let mut first = grant.first;
        if grant.anew || self.lid == 0 {
            self.lid = first;
            first += 1;
        }
        let mastership = self.mastership;
        for peer in &mut self.peers {
            let Some(report) = peer.state.report.as_mut() else {
                continue;
            };
            if !peer.up || peer.state.mastership != mastership || !peer.state.child {
                continue;
            }
            let anew = peer.anew || grant.anew;
            let count = if anew { report.total } else { report.fresh };
            if anew {
                report.held = Set::EMPTY;
            }
            if count == 0 && peer.granted.is_some() {
                continue;
            }
            peer.granted = Some(Grant {
                first,
                count,
                next: grant.next,
                answers: peer.number,
                anew,
            });
            // Updates the child's report: the child does not report this again.
            if count != 0 {
                report.held.add(first, first + (count - 1));
            }
            report.fresh = report.total - report.held.count().min(report.total);
            report.next = grant.next;
            first += count;
        }
        self.live = true;
        fx.routes(self.lid);
        // The parent knows what it has granted: the new state is not sent to it.
        let state = self.parent.and_then(|port| self.state(port));
        let parent = self
            .parent
            .and_then(|port| self.peers.get_mut(usize::from(port)));
        if let (Some(state), Some(parent)) = (state, parent) {
            parent.told = state;
        }
    }

    /// Sends an empty grant to children that join later with ids of their own: it lets them use their
    /// routes.
    fn let_in(&mut self) {
        let (mastership, next) = (self.mastership, self.next);
        for peer in self.peers.iter_mut().filter(|_| self.live) {
            let child = peer.up && peer.state.mastership == mastership && peer.state.child;
            let complete = peer.state.report.is_some_and(|report| report.fresh == 0);
            if child && complete && !peer.anew && peer.granted.is_none() {
                peer.granted = Some(Grant {
                    first: next,
                    count: 0,
                    next,
                    answers: peer.number,
                    anew: false,
                });
            }
        }
    }

    /// Returns the state for the neighbour at `port`.
    fn state(&mut self, port: u8) -> Option<State> {
        let mut state = State {
            mastership: self.mastership,
            distance: self.distance,
            ..State::default()
        };
        if self.parent == Some(port) {
            state.child = true;
            state.report = self.report();
        } else {
            let peer = self.peers.get(usize::from(port))?;
            state.grant = peer.granted.filter(|_| self.below(peer).is_some());
        }
        Some(state)
    }

    /// Sends the state to the neighbour at `port` if it is new, unacknowledged, or an acknowledgement is
    /// due.
    fn speak(&mut self, now: u64, port: u8, fx: &mut impl Effects) {
        let state = self.state(port);
        let (Some(state), Some(peer)) = (state, self.peers.get_mut(usize::from(port))) else {
            return;
        };
        // A change without a report need not be sent: the parent waits for the report anyway.
        let early = state.child && state.report.is_none() && peer.told.mastership.master != 0;
        let news = state != peer.told;
        let owes = peer
            .owes
            .is_some_and(|since| now >= since.saturating_add(ACK_MS));
        let again = peer.sent > peer.acked && now >= peer.sent_at.saturating_add(AGAIN_MS);
        if !peer.up || ((!news || early) && !owes && !again) {
            return;
        }
        // An unchanged state keeps its number: a pure acknowledgement is not acknowledged.
        if news {
            peer.sent = peer.sent.saturating_add(1);
        }
        self.reported |= state.child && state.report.is_some();
        peer.told = state;
        peer.sent_at = now;
        peer.owes = None;
        let message = Message {
            number: peer.sent,
            seen: peer.number,
            again,
            state,
        };
        let mut buf = [0; MAX_BYTES];
        let len = message.encode(&mut buf);
        fx.send(port, buf.get(..len).unwrap_or_default());
    }
}
