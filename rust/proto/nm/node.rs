// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The manager of one node, in a fabric in which every node explores.
//!
//! ```text
//!             found all nodes            lowest id
//!   EXPLORE ------------------> ELECT --------------> ASSIGN -> STAGE -> COMMIT -> SETTLED
//!    ^   ^                        |                      (the phases of a master)     |
//!    |   |                        | another host has a lower id                       |
//!    |   |    master silent       v                                                   |
//!    |   +-------------------- STANDBY                                                |
//!    |                                        ports, or nodes, have changed           |
//!    +--------------------------------------------------------------------------------+
//! ```
//!
//! Every node explores, and the one that finds that its own id is the lowest becomes master: it gives
//! local ids, stages routes at every node and commits them ([`super::table`]). The other nodes poll it
//! from time to time, tell it when one of their ports changes, and explore again when it does not
//! answer. Every write names the mastership of its writer. A node obeys no mastership older than the one
//! that it obeys, nor one of a higher id than its own, nor one whose master the fabric does not attest at
//! the end of the path back ([`There`]). A standby surveys the nodes again when its master
//! has changed something, so that it too has a list of the members. A node that has a key believes other
//! hosts only by their seals ([`super::seal`]).
//!
//! A node without a host is never master, and does not explore: it waits to be written to.
//!
//! The manager acts through [`Effects`] only. All times are in milliseconds.

mod amend;
mod attest;
mod auth;
mod elect;
mod hand;
mod master;
pub mod rest;
mod standby;
mod survey;

pub use self::{
    attest::There,
    auth::Mismatch,
    hand::{Failure, HAND_MS},
    rest::LEASE_MS,
};

use self::{
    attest::Attest,
    auth::{Auth, Return},
    hand::Hand,
    rest::Resting,
    survey::List,
};
use super::{
    super::mac::Mac,
    allow::Allowed,
    ask::{Ask, State, AGAIN_MS},
    assignments::version_after,
    doubt::Doubts,
    kept::Kept,
    kind::is_host,
    lid::Promises,
    mastership::Mastership,
    member::{Member, Members},
    message::{Differ, Info, Message, Moves, Page, Taken},
    packet::{Arrival, Direction, Packet, MAX_BYTES},
    path::Path,
    port::{Port, PORTS},
    table::{self, Slot, Table},
};

/// Most nodes of a fabric.
pub const MAX_NODES: usize = 256;
/// Interval at which [`Node::tick`] is to be called.
pub const TICK_MS: u64 = 20;
/// Interval at which a standby polls its master.
pub const POLL_MS: u64 = 500;
/// Time after which a node that is at a port, but did not answer, is looked for again.
pub const RETRY_MS: u64 = 1000;
/// Time without a change of ports before a node explores: ports come up one after the other.
pub const CALM_MS: u64 = 50;
/// Time from the last write of the master to the survey of a standby.
pub const SURVEY_MS: u64 = 100;
/// How often the time until the next survey doubles while a node is silent, from [`RETRY_MS`] on.
const SURVEYS: u32 = 4;
/// Most questions and writes that are on their way at a time.
pub const WINDOW: usize = 16;

/// Role of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The role is not known yet.
    Unknown,
    /// It has the lowest id.
    Master,
    /// It obeys a master.
    Standby,
}

/// Returns whether any node that answers, by its hardware id, is what the caller asks for.
pub type AnyNode<'a> = dyn Fn(&dyn Fn(u64) -> bool) -> bool + 'a;

/// The actions of the machine.
pub trait Effects: table::Effects + Mac {
    /// Sends to the neighbour at `port`; the message may get lost.
    fn send(&mut self, port: u8, message: &[u8]);
    /// Called when the role of the node, or the mastership that it obeys, has changed.
    fn role(&mut self, role: Role, mastership: &Mastership);
    /// Called when the node has got this local id.
    fn lid(&mut self, lid: u32);
    /// Called when the assignments have changed.
    fn assignments(&mut self, version: u32);
    /// Writes the assignments `text` to `to`, with a change for which the host `from` asks. Returns
    /// the length in bytes; `None` if they say so already.
    fn amend(
        &mut self,
        _text: &[u8],
        _from: u64,
        _change: &[u8],
        _any: &AnyNode<'_>,
        _to: &mut [u8],
    ) -> Result<Option<usize>, Taken> {
        Err(Taken::Bad)
    }
    /// Takes a new hierarchy of the node. If it is not taken, the former one stays.
    fn hierarchy(&mut self, _bytes: &[u8]) -> Result<(), Taken> {
        Err(Taken::NoRoom)
    }
    /// Returns whether everything is released that is no longer in the node's hierarchy.
    fn let_go(&mut self) -> bool {
        true
    }
    /// Quiesces routes: routes in use will change, and nothing is to be under way over any of them. With
    /// false, unquiesces them. A quiesce ends by itself after [`LEASE_MS`], in case the master dies.
    fn rest(&mut self, _on: bool) {}
    /// Returns whether nothing is under way over any route.
    fn is_at_rest(&mut self) -> bool {
        true
    }
    /// Returns what the fabric attests at the end of a path from this node.
    fn there(&mut self, path: &Path) -> There;
    /// Returns whether the fabric attests what [`Self::there`] returns. If not, it is not asked, and masters
    /// are believed by their seals alone, if there is a key.
    fn attests(&self) -> bool {
        true
    }
    /// Called when a message shows that the node with this hardware id, as it says, has another key, or that
    /// one of both has none.
    fn mismatched(&mut self, _how: Mismatch, _hwid: u64) {}
    /// Called when a write was refused because its master is not at the end of the path by which it
    /// came: what is there, or the host on the way that may not take part.
    fn unattested(&mut self, _master: u64, _there: There) {}
    /// Returns whether a mastership that is to be obeyed may write to this node, by what is known
    /// outside of the manager.
    fn admits(&mut self, _mastership: &Mastership) -> bool {
        true
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nothing was done yet.
    Start,
    /// The phase of a node that is never master.
    Idle,
    Explore,
    /// The master fetches the newest assignments from the member with this index.
    Fetch(usize),
    Assign,
    Stage,
    /// Hosts quiesce their routes, as some in use will change.
    Rest,
    /// Routes of this many links are committed.
    Commit(u8),
    /// Hosts unquiesce their routes.
    GoOn,
    Replicate,
    Settled,
    Standby,
}

/// The manager. `M` is memory for [`Member`]s, as many as there can be nodes; `T` for [`Slot`]s, twice
/// as many; `B` for bytes. `A` is the list of hardware ids that may take part.
pub struct Node<M, T, B, A> {
    me: Info,
    ports: [Port; PORTS],
    phase: Phase,
    members: Members<M>,
    table: Table<T>,
    assignments: Kept<B>,
    /// The node's own hierarchy.
    hierarchy: Kept<B>,
    /// Mastership and number of the last write to `hierarchy`.
    hierarchy_by: (Mastership, u32),
    /// The hierarchy of another node, on its way to it.
    hand: Hand<B>,
    allowed: Allowed<A>,
    xids: u32,
    /// The newest version of tables of the mastership that the node obeys.
    version: u32,
    /// A node that obeys this mastership of this node has refused a write: the next one is in a later term.
    outrun: bool,
    /// [`Self::signature`] of the members when their tables were last complete.
    done: Option<(u64, u32)>,
    /// Some staged routes replace routes in use that leave by another port.
    moves: Moves,
    /// Hosts were asked to quiesce their routes, and not to unquiesce them yet.
    rested: bool,
    /// How long nodes that are not quiesced are waited for.
    rest_until: u64,
    /// The request to quiesce routes that has no answer yet.
    resting: Option<Resting>,
    /// The fabric has changed since it was explored.
    dirty: bool,
    /// When to explore in any case.
    again: Option<u64>,
    /// Time until which changes of ports are awaited.
    calm: u64,
    /// Hardware id of the master as far as the node knows, and the path to it.
    lowest: u64,
    to_master: Path,
    /// Hardware id of the master that has written since this exploration began.
    obeyed: Option<u64>,
    poll: Ask,
    poll_at: u64,
    /// Ports have changed, which the master has not acknowledged yet.
    changed: bool,
    /// The master has answered.
    heard: bool,
    /// When this standby begins its next survey of the nodes.
    survey: Option<u64>,
    /// A survey is under way.
    surveys: bool,
    /// The list of the master, on its way to this survey.
    list: List,
    /// Number of surveys since the last write of the master, at most [`SURVEYS`].
    surveyed: u32,
    /// Number of explorations and surveys that were completed.
    found: u32,
    /// Local ids that this master has given, and that their nodes have not confirmed yet.
    promises: Promises,
    /// The nodes that were silent in the last exploration.
    doubts: Doubts,
    /// The hosts that the fabric attests.
    attest: Attest,
    /// The nodes that have the same key.
    auth: Auth,
}

impl<M, T, B, A> Node<M, T, B, A>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
{
    /// Creates a node with all ports down. No two incarnations of a node have the same `life`. Of
    /// `bytes` the first is for the assignments, twice the longest; the second for the node's own
    /// hierarchy, twice the longest; and the third for a hierarchy on its way to another node. A node
    /// without a host has no memory for the latter two.
    pub fn new(hwid: u64, life: u32, members: M, slots: T, bytes: [B; 3], allowed: A) -> Self {
        let [assignments, hierarchy, hand] = bytes;
        let mut node = Self {
            me: Info::default(),
            ports: [Port::NONE; PORTS],
            phase: Phase::Idle,
            members: Members::new(members),
            table: Table::new(slots),
            assignments: Kept::new(assignments),
            hierarchy: Kept::new(hierarchy),
            hierarchy_by: (Mastership::default(), 0),
            hand: Hand::new(hand),
            allowed: Allowed(allowed),
            xids: 0,
            version: 0,
            outrun: false,
            done: None,
            moves: Moves::No,
            rested: false,
            rest_until: 0,
            resting: None,
            dirty: false,
            again: None,
            calm: 0,
            lowest: 0,
            to_master: Path::EMPTY,
            obeyed: None,
            poll: Ask::DONE,
            poll_at: 0,
            changed: false,
            heard: false,
            survey: None,
            surveys: false,
            list: List::NONE,
            surveyed: 0,
            promises: Promises::NONE,
            doubts: Doubts::NONE,
            attest: Attest::NONE,
            auth: Auth::NONE,
            found: 0,
        };
        node.begin(hwid, life);
        node
    }

    /// Begins a new incarnation: everything is as after [`Self::new`], except that the assignments stay.
    pub fn begin(&mut self, hwid: u64, life: u32) {
        self.me = Info {
            hwid,
            life,
            next_lid: 1,
            assignments: self.assignments.version(),
            ..Info::default()
        };
        self.ports = [Port::NONE; PORTS];
        self.phase = if is_host(hwid) {
            Phase::Start
        } else {
            Phase::Idle
        };
        self.members.clear();
        self.table.clear();
        self.hierarchy.clear();
        self.hierarchy_by = (Mastership::default(), 0);
        self.version = 0;
        self.outrun = false;
        self.done = None;
        self.rested = false;
        self.resting = None;
        self.dirty = false;
        self.again = None;
        self.calm = 0;
        self.lowest = 0;
        self.to_master = Path::EMPTY;
        self.obeyed = None;
        self.poll = Ask::DONE;
        self.changed = false;
        self.promises = Promises::NONE;
        self.doubts = Doubts::NONE;
        self.attest.forget(None);
        self.heard = false;
        self.survey = None;
        self.surveys = false;
    }

    /// Returns the description of the node.
    pub fn info(&self) -> &Info {
        &self.me
    }

    /// Returns the ports of the node.
    #[cfg_attr(MODULE, expect(dead_code, reason = "used by weft-sim"))]
    pub fn ports(&self) -> &[Port; PORTS] {
        &self.ports
    }

    /// Returns the role of the node.
    pub fn role(&self) -> Role {
        match self.phase {
            Phase::Start | Phase::Idle | Phase::Explore => Role::Unknown,
            Phase::Standby => Role::Standby,
            _ => Role::Master,
        }
    }

    /// Returns whether a master has nothing left to do, or a standby has a master that answers.
    #[cfg_attr(MODULE, expect(dead_code, reason = "used by weft-sim"))]
    pub fn is_quiet(&self) -> bool {
        match self.phase {
            Phase::Settled => !self.dirty && self.again.is_none(),
            Phase::Standby => {
                self.heard
                    && !self.changed
                    && self.me.mastership.master == self.lowest
                    && self.survey.is_none()
                    && !self.surveys
            }
            Phase::Idle => true,
            _ => false,
        }
    }

    /// Returns one number for everything that the tables depend on, if this is a master with complete and
    /// current tables; `None` otherwise.
    pub fn settled(&self) -> Option<u64> {
        let (tables, _) = self
            .done
            .filter(|_| self.phase == Phase::Settled && !self.dirty)?;
        Some(tables)
    }

    /// Returns when [`Self::tick`] has something to do, if nothing happens until then.
    pub fn due(&self, now: u64) -> Option<u64> {
        let asked = |ask: &Ask| match ask.state {
            State::Sent => ask.sent() + AGAIN_MS,
            _ => now,
        };
        if self.resting.is_some() {
            return Some(now + TICK_MS);
        }
        match self.phase {
            Phase::Idle if self.lowest == 0 => None,
            Phase::Start => Some(self.calm),
            Phase::Settled if self.dirty => Some(self.calm),
            Phase::Settled => {
                let hand = self.hand.due(now);
                self.again.into_iter().chain(hand).min()
            }
            Phase::Idle | Phase::Standby => {
                let poll = match self.poll.state {
                    State::Done => self.poll_at,
                    _ => asked(&self.poll),
                };
                let survey = self.survey.or(self.surveys.then_some(now + TICK_MS));
                Some(survey.map_or(poll, |survey| survey.min(poll)))
            }
            Phase::Explore if self.again.is_some() => self.again,
            _ => Some(now + TICK_MS),
        }
    }

    /// Returns the hardware id of the master as far as the node knows; 0 if it does not know.
    pub fn master(&self) -> u64 {
        match self.role() {
            Role::Unknown => 0,
            Role::Master => self.me.hwid,
            Role::Standby => self.lowest,
        }
    }

    /// Returns the nodes that were found so far.
    pub fn members(&self) -> &Members<M> {
        &self.members
    }

    /// Returns a number that changes each time [`Self::members`] is complete again; of a master, each
    /// with its local id. `None` during an exploration or survey.
    pub fn found(&self) -> Option<u32> {
        let looks = matches!(self.phase, Phase::Start | Phase::Idle | Phase::Explore);
        (!looks && !self.surveys).then_some(self.found)
    }

    /// Returns how many writes were refused because the fabric does not attest their master.
    pub fn refusals(&self) -> u64 {
        self.attest.count()
    }

    /// Returns how many messages were refused because they are not sealed with the key of this node.
    pub fn unsealed(&self) -> u64 {
        self.auth.refused()
    }

    /// Returns how the key of a node that was heard of late does not match that of this node, and the hardware
    /// id that it gave; `None`: there is no such node.
    pub fn mismatch(&self, now: u64) -> Option<(Mismatch, u64)> {
        self.auth.mismatch(now)
    }

    /// [`Mac::tag`] has another key from now on, or none. `nonce` is a random number; 0: there is no key.
    /// Explores again, as other nodes may be believed now.
    pub fn rekey(&mut self, now: u64, nonce: u64) {
        self.auth.rekey(nonce);
        self.table.begin();
        self.resting = None;
        if !matches!(self.phase, Phase::Start | Phase::Idle) {
            self.explore(now);
        }
    }

    /// Returns the list of hardware ids that may take part.
    pub fn allowed(&self) -> &A {
        &self.allowed.0
    }

    /// Changes the list of hardware ids that may take part, and explores again.
    pub fn allow(&mut self, now: u64, change: impl FnOnce(&mut A)) {
        change(&mut self.allowed.0);
        self.attest.forget(None);
        if !matches!(self.phase, Phase::Start | Phase::Idle) {
            self.explore(now);
        }
    }

    /// Accepts a mastership that has written to the node by other means: older ones are rejected from
    /// now on. Discards staged routes.
    #[cfg_attr(MODULE, expect(dead_code, reason = "used by weft-fabric"))]
    pub fn accept(&mut self, mastership: Mastership) {
        if mastership.beats(&self.me.mastership) {
            self.me.mastership = mastership;
            self.version = 0;
            self.table.begin();
        }
    }

    /// Returns the routes.
    pub fn table(&self) -> &Table<T> {
        &self.table
    }

    /// Returns the routes, to be changed.
    pub fn table_mut(&mut self) -> &mut Table<T> {
        &mut self.table
    }

    /// Returns the assignments.
    pub fn assignments(&self) -> &Kept<B> {
        &self.assignments
    }

    /// Takes new assignments of the administrator. Returns whether it took them: only a master does, if
    /// it has room for them.
    pub fn set_assignments(&mut self, now: u64, bytes: &[u8], fx: &mut impl Effects) -> bool {
        let version = version_after(self.assignments.version(), bytes);
        let taken = self.role() == Role::Master && self.assignments.set(version, bytes);
        if taken {
            self.assigned(now, fx);
        }
        taken
    }

    /// The master keeps other assignments: hands them to all nodes.
    fn assigned(&mut self, now: u64, fx: &mut impl Effects) {
        self.me.assignments = self.assignments.version();
        fx.assignments(self.me.assignments);
        self.done = None;
        self.dirty = true;
        self.drive(now, fx);
    }

    /// Takes the new state of a port: up, down, faster, slower, or excluded.
    pub fn port(&mut self, now: u64, number: u8, port: Port, fx: &mut impl Effects) {
        let Some(place) = self.ports.get_mut(usize::from(number)) else {
            return;
        };
        if *place == port {
            return;
        }
        let was_up = place.is_up();
        *place = port;
        self.attest.forget(Some(number));
        self.me.change = self.me.change.wrapping_add(1);
        self.calm = now + CALM_MS;
        match self.phase {
            Phase::Start => {}
            Phase::Standby if was_up && !port.is_up() && self.to_master.first() == Some(number) => {
                // The path to the master is cut: it will not answer.
                self.changed = true;
                self.explore(now);
            }
            Phase::Idle | Phase::Standby => {
                self.changed = true;
                self.poll = Ask::DUE;
            }
            _ => self.dirty = true,
        }
        self.drive(now, fx);
    }

    /// A switch reports that a device has come or gone: a master explores again.
    pub fn plugged(&mut self, now: u64) {
        if !matches!(self.phase, Phase::Start | Phase::Idle | Phase::Standby) {
            self.dirty = true;
            self.calm = now + CALM_MS;
        }
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: u64, fx: &mut impl Effects) {
        if self.phase == Phase::Start && now >= self.calm {
            self.explore(now);
        }
        self.drive(now, fx);
    }

    /// Handles or relays a packet from the neighbour at `port`.
    pub fn receive(&mut self, now: u64, port: u8, bytes: &[u8], fx: &mut impl Effects) {
        if !self.speaks(port) {
            return;
        }
        let Ok(mut packet) = Packet::parse(bytes) else {
            return;
        };
        match packet.arrive(port) {
            Some(Arrival::Relay(out)) if self.speaks(out) => send(&packet, fx),
            Some(Arrival::Here) => {
                if let Ok((xid, message)) = Message::parse(packet.payload()) {
                    if message.fits(packet.direction) {
                        self.message(now, &packet, xid, &message, fx);
                        self.drive(now, fx);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns whether there is a neighbour at `port` that may take part.
    fn speaks(&self, port: u8) -> bool {
        let port = self.ports.get(usize::from(port));
        port.is_some_and(|port| self.allowed.has(port.peer))
    }

    /// Returns the direction of a message that this node sends.
    fn direction(&self, message: &Message<'_>) -> Direction {
        match self.phase {
            _ if matches!(
                message,
                Message::Ack { .. } | Message::Poll { .. } | Message::Amend { .. }
            ) =>
            {
                Direction::ToMaster
            }
            Phase::Start | Phase::Idle | Phase::Explore => Direction::Unknown,
            Phase::Standby => Direction::ToMaster,
            _ => Direction::FromMaster,
        }
    }

    /// Sends a message.
    fn tell(&mut self, to: &Return, xid: u32, message: &Message<'_>, fx: &mut impl Effects) {
        let direction = self.direction(message);
        self.auth
            .send(self.me.hwid, direction, to, xid, message, fx);
    }

    fn acknowledge(
        &mut self,
        to: &Return,
        xid: u32,
        taken: Taken,
        differ: Differ,
        fx: &mut impl Effects,
    ) {
        let ack = Message::Ack {
            from: self.me.hwid,
            taken,
            mastership: self.me.mastership,
            differ,
        };
        self.tell(to, xid, &ack, fx);
    }

    fn message(
        &mut self,
        now: u64,
        packet: &Packet,
        xid: u32,
        message: &Message<'_>,
        fx: &mut impl Effects,
    ) {
        let sender = self.auth.open(now, self.me.hwid, packet, message, fx);
        let back = Return {
            path: packet.way_back(),
            to: sender.receiver(),
        };
        match message {
            Message::PortsRequest { first } => {
                let page = Page::of(&self.ports, *first);
                let info = self.me;
                self.tell(&back, xid, &Message::PortsReply { info, page }, fx);
            }
            Message::PortsReply { info, page } => {
                let looks = self.phase == Phase::Explore || self.surveys;
                if looks && self.auth.believes(now, &sender, info.hwid, fx) {
                    self.members.answer(xid, info, page, sender.origin());
                }
            }
            Message::Assign { write, .. }
            | Message::Stage { write, .. }
            | Message::Commit { write, .. }
            | Message::Rest { write, .. }
            | Message::Assignments { write, .. }
            | Message::Hierarchy { write, .. } => {
                if write.to != self.me.hwid || write.life != self.me.life {
                    return;
                }
                if write.mastership == self.me.mastership && self.auth.is_late(&sender) {
                    // It was done, or the master has sent it again.
                    return;
                }
                let done = self
                    .obey(now, write, back.path, &sender, fx)
                    .and_then(|()| self.written(now, xid, message, fx));
                match (done, message) {
                    (Ok(_), Message::Rest { on: true, .. }) => {
                        self.await_rest(now, xid, Some(back), fx);
                    }
                    (Ok(differ), _) => self.acknowledge(&back, xid, Taken::Yes, differ, fx),
                    (Err(taken), _) => self.acknowledge(&back, xid, taken, Differ::default(), fx),
                }
            }
            Message::Ack {
                from,
                taken,
                mastership,
                differ,
            } => {
                if !self.auth.believes(now, &sender, *from, fx) {
                    return;
                }
                let asked = self.hand_acked(now, xid, *from, *taken)
                    || self.acked(now, xid, *from, *taken, *differ);
                if asked && *taken == Taken::Stale && *mastership == self.me.mastership {
                    self.outrun = true;
                }
            }
            Message::Poll { info, .. } => {
                let ack = Message::PollAck {
                    from: self.me.hwid,
                    master: self.master(),
                };
                self.tell(&back, xid, &ack, fx);
                if self.auth.believes(now, &sender, info.hwid, fx) {
                    self.polled(now, info, sender.origin());
                }
            }
            Message::PollAck { from, master } => {
                let mine = matches!(self.phase, Phase::Idle | Phase::Standby);
                let is_masters = mine && *from == self.lowest;
                if is_masters
                    && self.auth.believes(now, &sender, *from, fx)
                    && self.poll.answer(xid)
                {
                    self.poll_at = now + POLL_MS;
                    if *master != 0 && *master != self.lowest {
                        // The node that was taken for the master obeys another one.
                        self.explore(now);
                    } else {
                        // The master may have been away without noticing.
                        self.phase = Phase::Standby;
                        self.heard = *master != 0;
                        self.changed = false;
                    }
                }
            }
            Message::AssignmentsRequest { offset } => {
                let piece = self.assignments.piece(*offset);
                let reply = Message::AssignmentsReply { piece };
                let direction = self.direction(&reply);
                self.auth
                    .send(self.me.hwid, direction, &back, xid, &reply, fx);
            }
            Message::ListRequest { first } => {
                let listing = self.listing(*first);
                self.tell(&back, xid, &Message::ListReply { listing }, fx);
            }
            Message::ListReply { listing } => self.list(now, xid, listing, &sender, fx),
            Message::AssignmentsReply { piece } => self.fetched(now, xid, piece, &sender, fx),
            Message::Amend { from, life, change } => {
                self.asked(now, (*from, *life), change, back.path, &sender, fx);
            }
        }
    }

    // ---- progress ------------------------------------------------------------------------------

    /// Does what can be done now.
    fn drive(&mut self, now: u64, fx: &mut impl Effects) {
        self.answer_at_rest(now, fx);
        // Each turn ends a phase, and there are few phases.
        for _ in 0..2 * PORTS + 64 {
            let before = self.phase;
            self.turn(now, fx);
            if self.phase == before {
                break;
            }
        }
        self.hand_on(now, fx);
    }

    fn turn(&mut self, now: u64, fx: &mut impl Effects) {
        let due = self.again.is_some_and(|again| now >= again);
        match self.phase {
            Phase::Start => {}
            Phase::Idle if self.lowest == 0 => {}
            Phase::Idle => self.watch(now, fx),
            Phase::Standby => {
                self.watch(now, fx);
                if self.phase == Phase::Standby {
                    self.survey(now, fx);
                }
            }
            Phase::Settled if (self.dirty || due) && now >= self.calm => self.explore(now),
            Phase::Settled => {}
            Phase::Explore if self.again.is_some_and(|again| now < again) => {}
            Phase::Explore if self.dirty && now >= self.calm => self.explore(now),
            Phase::Explore => {
                self.again = None;
                let asked_all = self.members.expand(&self.allowed, &self.doubts);
                self.write_all(now, fx);
                if asked_all {
                    self.elect(now, fx);
                }
            }
            _ if self.dirty && now >= self.calm => self.explore(now),
            _ => {
                self.write_all(now, fx);
                let mut asks = self.members.all().iter().map(|m| m.ask.state);
                if asks.clone().any(|state| state == State::Silent) {
                    self.explore(now);
                } else if asks.all(|state| state == State::Done) {
                    self.next(now);
                }
            }
        }
    }

    /// Sends the questions and writes that are due, with at most [`WINDOW`] on their way at a time.
    fn write_all(&mut self, now: u64, fx: &mut impl Effects) {
        let mut flying = 0;
        let mut at = 0;
        while let Some(state) = self.members.all().get(at).map(|m| m.ask.state) {
            match state {
                State::Done | State::Silent => {}
                _ if flying >= WINDOW => return,
                _ => {
                    self.write(now, at, fx);
                    let state = self.members.all().get(at).map(|m| m.ask.state);
                    flying += usize::from(state == Some(State::Sent));
                    // The master's own table may have another piece.
                    if at == 0 && state == Some(State::Due) {
                        continue;
                    }
                }
            }
            at += 1;
        }
    }
}

/// Sends a packet by the next port of its path.
fn send(packet: &Packet, fx: &mut impl Effects) {
    if let Some(port) = packet.out() {
        let mut buf = [0; MAX_BYTES];
        let len = packet.encode(&mut buf);
        fx.send(port, buf.get(..len).unwrap_or_default());
    }
}
