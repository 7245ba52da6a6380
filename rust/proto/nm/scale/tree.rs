// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The tree of the fabric: by it the master is elected, nodes are counted, and local ids are given.
//!
//! A node obeys the lowest id of the highest term that it has heard of; its parent is the neighbour that
//! is nearest to the master. When all its neighbours have said that they obey the same master and its
//! children have reported, it reports itself. The master, which gets all reports, gives areas of local ids
//! ([`super::group`]), and each node passes on those for the nodes below it. A node that has an id keeps it; it
//! gives a neighbour that comes later one of its spare ids. A node that loses its parent, or a child, begins a new
//! term. Routes do not follow the tree, and do not change with it.
//!
//! The tree acts through [`Effects`] only. All times are in milliseconds. A link must not deliver
//! messages that were sent before it was down; [`crate::link`](super::super::super::link) ensures this.

mod grant;
mod report;

use super::{
    super::{mastership::Mastership, packet::MAX_BYTES, port::PORTS},
    area::area,
    state::{Grant, Message, State},
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

/// What an incarnation is more by when all nodes are to register anew: no node is incarnated as often.
const RENEWED: u32 = 1 << 24;

/// The actions of the machine.
pub trait Effects {
    /// Sends to the neighbour at `port`; the message may get lost.
    fn send(&mut self, port: u8, message: &[u8]);
    /// The node has another local id.
    fn lid(&mut self, lid: u32);
}

/// Initial state, which no node sends.
const UNSAID: State = State {
    mastership: Mastership { term: 0, master: 0 },
    life: 0,
    version: 0,
    distance: 0,
    child: false,
    report: None,
    grant: None,
};

/// A neighbour.
#[derive(Clone, Copy)]
pub struct Peer {
    up: bool,
    /// Time until which its first message is awaited, if none has come yet.
    wanted: Option<u64>,
    /// Its newest state, and the number of that; 0 if none has come.
    state: State,
    number: u32,
    /// Of a child: the grant since its report.
    granted: Option<Grant>,
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
    /// Initial value for memory.
    pub const NONE: Self = Self {
        up: false,
        wanted: None,
        state: UNSAID,
        number: 0,
        granted: None,
        sent: 0,
        told: UNSAID,
        acked: 0,
        sent_at: 0,
        owes: None,
    };
}

/// The node's place in the tree. `P` is memory for neighbours, one for each port.
pub struct Tree<P> {
    hwid: u64,
    /// Incarnation of the node.
    me: u32,
    lid: u32,
    /// The first of the ids that it may give to nodes that come later, and their number.
    spare: (u32, u32),
    /// No area from this one on was ever given away.
    next: u32,
    /// Version of the assignments that it keeps.
    version: u32,
    mastership: Mastership,
    /// Incarnation of the master.
    life: u32,
    distance: u32,
    /// Port towards the master; `None` for the master.
    parent: Option<u8>,
    /// It has reported to its parent, which it therefore keeps.
    reported: bool,
    /// The last grant that was taken: a grant is taken only once.
    taken: Option<Grant>,
    /// So many areas were wanted, and there are not as many that were never given away.
    lack: u32,
    /// Areas from this one on are free again.
    free: Option<u32>,
    peers: P,
}

impl<P: AsRef<[Peer]> + AsMut<[Peer]>> Tree<P> {
    /// Creates a node that has not begun.
    pub fn new(peers: P) -> Self {
        Self {
            hwid: 0,
            me: 0,
            lid: 0,
            spare: (0, 0),
            next: 0,
            version: 0,
            mastership: Mastership::default(),
            life: 0,
            distance: 0,
            parent: None,
            reported: false,
            taken: None,
            lack: 0,
            free: None,
            peers,
        }
    }

    /// Begins with all ports down. No two incarnations have the same `life`. `lid` is the local id that
    /// the node has already, and no id from `next` on was given away; 0: it has none.
    pub fn begin(&mut self, hwid: u64, life: u32, (lid, next): (u32, u32)) {
        self.hwid = hwid;
        self.me = life;
        self.lid = lid;
        self.spare = (0, 0);
        self.next = next.checked_sub(1).map_or(0, |last| area(last) + 1);
        self.version = 0;
        self.lack = 0;
        self.free = None;
        self.rule(0);
        self.peers.as_mut().fill(Peer::NONE);
    }

    /// Returns the local id, 0 if it has none.
    pub fn lid(&self) -> u32 {
        self.lid
    }

    /// Returns the mastership that it obeys, and the master's incarnation.
    pub fn mastership(&self) -> (Mastership, u32) {
        (self.mastership, self.life)
    }

    /// Returns the number of links to the master, and the port towards it.
    pub fn parent(&self) -> (u32, Option<u8>) {
        (self.distance, self.parent)
    }

    /// Returns how many areas are wanted that were given away before; the second: not below this one.
    pub fn lack(&self) -> (u32, u32) {
        (self.lack, self.free.unwrap_or(0))
    }

    /// No node has a local id in the areas that are wanted, from this one on.
    pub fn reuse(&mut self, from: u32) {
        self.free = Some(from);
    }

    /// Returns the version of the assignments that the neighbour at a port keeps.
    pub fn version_at(&self, port: u8) -> u32 {
        let peer = self.peers.as_ref().get(usize::from(port));
        peer.map_or(0, |peer| peer.state.version)
    }

    /// The node keeps other assignments.
    pub fn set_version(&mut self, version: u32) {
        self.version = version;
    }

    /// Returns the number of nodes, if this is the master and all have reported.
    pub fn total(&self) -> Option<u32> {
        let master = self.parent.is_none();
        self.report().filter(|_| master).map(|report| report.total)
    }

    /// The directory is empty: all nodes are to register anew.
    pub fn renew(&mut self) {
        self.me = self.me.wrapping_add(RENEWED);
        if self.parent.is_none() {
            self.life = self.me;
        }
    }

    /// Returns whether the node knows its master, and is not about to find another.
    pub fn is_settled(&self) -> bool {
        let mut peers = self
            .peers
            .as_ref()
            .iter()
            .filter(|peer| peer.up && peer.number != 0);
        self.reported
            || (self.parent.is_none() && peers.all(|p| p.state.mastership == self.mastership))
    }

    /// The local id is that of another node, too: the node gets another one.
    pub fn renumber(&mut self, now: u64, fx: &mut impl Effects) {
        self.lid = 0;
        self.spare = (0, 0);
        fx.lid(0);
        self.update(now, fx);
    }

    /// Takes note that a link is up, or down.
    pub fn port(&mut self, now: u64, port: u8, up: bool, fx: &mut impl Effects) {
        let Some(peer) = self.peers.as_mut().get_mut(usize::from(port)) else {
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
            self.rule(term);
        }
        self.update(now, fx);
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: u64, fx: &mut impl Effects) {
        self.update(now, fx);
    }

    /// Returns when [`Self::tick`] is to be called, if nothing happens before.
    pub fn deadline(&self) -> Option<u64> {
        let up = self.peers.as_ref().iter().filter(|peer| peer.up);
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
        let Some(peer) = self.peers.as_mut().get_mut(usize::from(port)) else {
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
            peer.state = message.state;
            peer.owes.get_or_insert(now);
        }
    }

    /// Becomes the master of this term, until it hears of a lower id.
    fn rule(&mut self, term: u32) {
        let mastership = Mastership {
            term,
            master: self.hwid,
        };
        self.obey(mastership, self.me, 0, None);
    }

    fn obey(&mut self, mastership: Mastership, life: u32, distance: u32, parent: Option<u8>) {
        self.mastership = mastership;
        self.life = life;
        self.distance = distance;
        self.parent = parent;
        self.reported = false;
        self.taken = None;
    }

    /// Does what follows from what is known.
    fn update(&mut self, now: u64, fx: &mut impl Effects) {
        let heard = self
            .peers
            .as_ref()
            .iter()
            .filter(|peer| peer.up && peer.number != 0);
        let term = heard.map(|peer| peer.state.mastership.term).max();
        if let Some(term) = term.filter(|term| *term > self.mastership.term) {
            self.rule(term);
        }
        for port in 0..PORTS as u8 {
            let Some(peer) = self.peers.as_ref().get(usize::from(port)) else {
                break;
            };
            let (mastership, life) = (peer.state.mastership, peer.state.life);
            let distance = peer.state.distance.saturating_add(1);
            let heard = peer.up && peer.number != 0 && mastership.term == self.mastership.term;
            let lower = (mastership.master, distance) < (self.mastership.master, self.distance);
            if self.parent == Some(port) && mastership == self.mastership {
                self.life = life;
            }
            if !heard || !lower || distance > MAX_DISTANCE {
                continue;
            }
            if self.parent == Some(port) && mastership == self.mastership {
                self.distance = distance;
            } else if !(self.reported && mastership == self.mastership) {
                // A node that has reported keeps its parent, which relies on the report.
                self.obey(mastership, life, distance, Some(port));
            }
        }
        for peer in self.peers.as_mut() {
            peer.wanted = peer.wanted.filter(|until| now < *until);
        }
        self.give_spares();
        if let Some(report) = self.report() {
            self.take_grant(&report, fx);
        }
        for port in 0..PORTS as u8 {
            self.speak(now, port, fx);
        }
    }

    /// Returns the state for the neighbour at `port`.
    fn state(&self, port: u8) -> Option<State> {
        let mut state = State {
            mastership: self.mastership,
            life: self.life,
            version: self.version,
            distance: self.distance,
            ..State::default()
        };
        if self.parent == Some(port) {
            state.child = true;
            state.report = self.report();
        } else {
            let peer = self.peers.as_ref().get(usize::from(port))?;
            state.grant = peer.granted.filter(|_| self.is_child(peer));
        }
        Some(state)
    }

    /// Sends the state to the neighbour at `port` if it is new, unacknowledged, or an acknowledgement is
    /// due.
    fn speak(&mut self, now: u64, port: u8, fx: &mut impl Effects) {
        let state = self.state(port);
        let (Some(state), Some(peer)) = (state, self.peers.as_mut().get_mut(usize::from(port)))
        else {
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
