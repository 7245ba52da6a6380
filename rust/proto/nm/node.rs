// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The manager of one node, in a fabric in which every node explores.
//!
//! ```text
//!             found everybody            lowest id
//!   EXPLORE ------------------> ELECT --------------> ASSIGN -> STAGE -> COMMIT -> SETTLED
//!    ^   ^                        |                      (the phases of a master)     |
//!    |   |                        | somebody lower                                    |
//!    |   |    master silent       v                                                   |
//!    |   +-------------------- STANDBY                                                |
//!    |                                        ports, or nodes, have changed           |
//!    +--------------------------------------------------------------------------------+
//! ```
//!
//! The node explores, and whoever finds that its own id is the lowest becomes master: it gives local
//! ids, stages routes at every node and commits them ([`super::table`]). The others ask it from time
//! to time whether it is there, tell it when a port of theirs changes, and explore anew when it does not
//! answer. Every write names the reign by whose right it is made; a node obeys none that is older than
//! the one that it obeys, nor one of a higher id than its own.
//!
//! Nothing is done here but through [`Effects`]; time comes in as milliseconds.

use super::{
    allow::Allowed,
    ask::{Ask, State},
    member::{Member, Members},
    message::{Info, Message, Piece, Taken, Write, MAX_PIECE},
    packet::{Arrival, Direction, Packet, MAX_BYTES, MAX_PAYLOAD},
    path::Path,
    port::{Port, PORTS},
    reign::Reign,
    table::{self, Slot, Table},
    wishes::Wishes,
};

/// How often [`Node::tick`] wants to be called.
pub const TICK_MS: u64 = 20;
/// How often a standby asks whether its master is there.
pub const POLL_MS: u64 = 500;
/// When a node that somebody has at a port did not answer, it is looked for again after this.
pub const RETRY_MS: u64 = 1000;
/// Ports come up one after the other; a node waits so long after one before it explores.
pub const CALM_MS: u64 = 50;
/// Questions and writes that are on their way at a time.
pub const WINDOW: usize = 16;

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It is about to find out.
    Unknown,
    /// It has the lowest id.
    Master,
    /// It obeys.
    Standby,
}

/// What the machine has done for it.
pub trait Effects: table::Effects {
    /// Sends to the neighbour at `port`; the message may get lost.
    fn send(&mut self, port: u8, message: &[u8]);
    /// The node is something else now, or obeys somebody else.
    fn role(&mut self, role: Role, reign: &Reign);
    /// The node has this local id now.
    fn lid(&mut self, lid: u32);
    /// There are other wishes.
    fn wishes(&mut self, version: u32);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nothing was done yet.
    Start,
    Explore,
    /// A master that fetches the newest wishes from the member with this place in the list.
    Fetch(usize),
    Assign,
    Stage,
    /// Routes that are so many links long.
    Commit(u8),
    Replicate,
    Settled,
    Standby,
}

/// The manager. `M` is memory for [`Member`]s, as many as there can be nodes; `T` for [`Slot`]s, twice
/// as many; `B` for wishes, twice the longest; `A` the list of hardware ids that may take part.
pub struct Node<M, T, B, A> {
    me: Info,
    phase: Phase,
    members: Members<M>,
    table: Table<T>,
    wishes: Wishes<B>,
    allowed: Allowed<A>,
    xids: u32,
    /// The newest version of tables of the reign that the node obeys.
    version: u32,
    /// What the members were when their tables were last complete.
    done: Option<u64>,
    /// The fabric is not what was found.
    dirty: bool,
    /// When to explore whatever happens.
    again: Option<u64>,
    /// Ports are left to calm down until then.
    calm: u64,
    /// Whom the node takes for its master, and how to reach it.
    lowest: u64,
    to_master: Path,
    /// Wrote since this exploration began.
    obeyed: Option<u64>,
    poll: Ask,
    poll_at: u64,
    /// Ports have changed, which the master has not acknowledged yet.
    changed: bool,
    /// The master has answered.
    heard: bool,
}

impl<M, T, B, A> Node<M, T, B, A>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
{
    /// A node whose ports are all down. No two lives of a node have the same number.
    pub fn new(hwid: u64, life: u32, members: M, slots: T, wishes: B, allowed: A) -> Self {
        Self {
            me: Info {
                hwid,
                life,
                next_lid: 1,
                ..Info::default()
            },
            phase: Phase::Start,
            members: Members::new(members),
            table: Table::new(slots),
            wishes: Wishes::new(wishes),
            allowed: Allowed(allowed),
            xids: 0,
            version: 0,
            done: None,
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
        }
    }

    /// What the node says of itself.
    pub fn info(&self) -> &Info {
        &self.me
    }

    /// What the node is.
    pub fn role(&self) -> Role {
        match self.phase {
            Phase::Start | Phase::Explore => Role::Unknown,
            Phase::Standby => Role::Standby,
            _ => Role::Master,
        }
    }

    /// Whether a master has nothing left to do, or a standby has a master that answers.
    pub fn is_quiet(&self) -> bool {
        match self.phase {
            Phase::Settled => !self.dirty && self.again.is_none(),
            Phase::Standby => self.heard && !self.changed && self.me.reign.master == self.lowest,
            _ => false,
        }
    }

    /// Whom the node takes for its master; 0 if it does not know.
    pub fn master(&self) -> u64 {
        match self.role() {
            Role::Unknown => 0,
            Role::Master => self.me.hwid,
            Role::Standby => self.lowest,
        }
    }

    /// Everybody that the last exploration has found.
    pub fn members(&self) -> &Members<M> {
        &self.members
    }

    /// The routes.
    pub fn table(&self) -> &Table<T> {
        &self.table
    }

    /// The wishes.
    pub fn wishes(&self) -> &Wishes<B> {
        &self.wishes
    }

    /// The administrator wishes something else. Only a master takes that; whether it did.
    pub fn wish(&mut self, now: u64, bytes: &[u8], fx: &mut impl Effects) -> bool {
        let taken = self.role() == Role::Master && self.wishes.set(bytes);
        if taken {
            self.me.wishes = self.wishes.version();
            fx.wishes(self.me.wishes);
            self.done = None;
            self.dirty = true;
            self.drive(now, fx);
        }
        taken
    }

    /// A port is up, down, faster, slower, or excluded.
    pub fn port(&mut self, now: u64, number: u8, port: Port, fx: &mut impl Effects) {
        let Some(place) = self.me.ports.get_mut(usize::from(number)) else {
            return;
        };
        if *place == port {
            return;
        }
        let was_up = place.is_up();
        *place = port;
        self.me.change = self.me.change.wrapping_add(1);
        self.calm = now + CALM_MS;
        match self.phase {
            Phase::Start => {}
            Phase::Standby if was_up && !port.is_up() && self.to_master.first() == Some(number) => {
                // The way to the master is cut: it will not answer.
                self.explore();
            }
            Phase::Standby => {
                self.changed = true;
                self.poll = Ask::DUE;
            }
            _ => self.dirty = true,
        }
        self.drive(now, fx);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: u64, fx: &mut impl Effects) {
        if self.phase == Phase::Start && now >= self.calm {
            self.explore();
        }
        self.drive(now, fx);
    }

    /// A message has come from the neighbour at `port`.
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

    /// Whether there is somebody at `port` who may take part.
    fn speaks(&self, port: u8) -> bool {
        let port = self.me.ports.get(usize::from(port));
        port.is_some_and(|port| self.allowed.has(port.peer))
    }

    /// Sends a message to the end of a path.
    fn tell(&self, path: Path, xid: u32, message: &Message<'_>, fx: &mut impl Effects) {
        let direction = match self.phase {
            _ if matches!(message, Message::Ack { .. } | Message::Poll { .. }) => {
                Direction::ToMaster
            }
            Phase::Start | Phase::Explore => Direction::Unknown,
            Phase::Standby => Direction::ToMaster,
            _ => Direction::FromMaster,
        };
        let mut payload = [0; MAX_PAYLOAD];
        let packet = message
            .encode(xid, &mut payload)
            .and_then(|len| payload.get(..len))
            .and_then(|payload| Packet::new(direction, path, payload));
        if let Some(packet) = packet {
            send(&packet, fx);
        }
    }

    fn message(
        &mut self,
        now: u64,
        packet: &Packet,
        xid: u32,
        message: &Message<'_>,
        fx: &mut impl Effects,
    ) {
        let back = packet.way_back();
        match message {
            Message::PortsRequest => {
                self.tell(back, xid, &Message::PortsReply(self.me), fx);
            }
            Message::PortsReply(info) => {
                if self.phase == Phase::Explore {
                    self.members.answer(xid, info);
                }
            }
            Message::Assign { write, .. }
            | Message::Stage { write, .. }
            | Message::Commit { write, .. }
            | Message::Wishes { write, .. } => {
                if write.to != self.me.hwid || write.life != self.me.life {
                    return;
                }
                let (taken, differ) = match self
                    .obey(now, write, back, fx)
                    .and_then(|()| self.written(message, fx))
                {
                    Ok(differ) => (Taken::Yes, differ),
                    Err(taken) => (taken, 0),
                };
                let ack = Message::Ack {
                    from: self.me.hwid,
                    taken,
                    reign: self.me.reign,
                    differ,
                };
                self.tell(back, xid, &ack, fx);
            }
            Message::Ack {
                from,
                taken,
                differ,
                ..
            } => self.acked(now, xid, *from, *taken, *differ),
            Message::Poll { info, .. } => {
                let ack = Message::PollAck {
                    from: self.me.hwid,
                    master: self.master(),
                };
                self.tell(back, xid, &ack, fx);
                self.polled(info);
            }
            Message::PollAck { from, master } => {
                let mine = self.phase == Phase::Standby && *from == self.lowest;
                if mine && self.poll.answer(xid) {
                    self.poll_at = now + POLL_MS;
                    if *master != 0 && *master != self.lowest {
                        // It obeys somebody itself.
                        self.explore();
                    } else {
                        self.heard = *master != 0;
                        self.changed = false;
                    }
                }
            }
            Message::WishesRequest { offset } => {
                let reply = Message::WishesReply(self.wishes.piece(*offset));
                self.tell(back, xid, &reply, fx);
            }
            Message::WishesReply(piece) => self.fetched(xid, piece, fx),
        }
    }

    // ---- a node that obeys ---------------------------------------------------------------------

    /// Whether the writer of a write is to be obeyed.
    fn obey(
        &mut self,
        now: u64,
        write: &Write,
        back: Path,
        fx: &mut impl Effects,
    ) -> Result<(), Taken> {
        let reign = write.reign;
        if !self.allowed.has(reign.master) || reign.master >= self.me.hwid {
            return Err(Taken::Stale);
        }
        if reign == self.me.reign {
            if write.version < self.version {
                return Err(Taken::Stale);
            }
        } else if !reign.beats(&self.me.reign) {
            return Err(Taken::Stale);
        }
        let other = reign != self.me.reign;
        if other || write.version != self.version {
            self.table.begin();
        }
        self.me.reign = reign;
        self.version = write.version;
        self.obeyed = Some(reign.master);
        // Every node explores, also one that is told everything before it could.
        if !matches!(self.phase, Phase::Start | Phase::Explore) {
            self.stand_by(now, reign.master, back);
        }
        if other {
            fx.role(Role::Standby, &reign);
        }
        Ok(())
    }

    fn stand_by(&mut self, now: u64, lowest: u64, path: Path) {
        if self.phase != Phase::Standby || self.lowest != lowest {
            self.poll = Ask::DUE;
            self.poll_at = now;
            self.heard = false;
        }
        self.phase = Phase::Standby;
        self.dirty = false;
        self.again = None;
        self.done = None;
        self.lowest = lowest;
        self.to_master = path;
    }

    /// Does what a write of the master says.
    fn written(&mut self, message: &Message<'_>, fx: &mut impl Effects) -> Result<u32, Taken> {
        match message {
            Message::Assign { lid, next_lid, .. } => {
                self.me.next_lid = self.me.next_lid.max(*next_lid);
                if self.me.lid != *lid {
                    self.me.lid = *lid;
                    fx.lid(*lid);
                }
                Ok(0)
            }
            Message::Stage {
                piece, of, runs, ..
            } => {
                let complete = self.table.stage(*piece, *of, runs)?;
                Ok(if complete { self.table.differ() } else { 0 })
            }
            Message::Commit { hops, .. } => self.table.commit(*hops, fx).map(|()| 0),
            Message::Wishes { piece, .. } => {
                let next = self.wishes.take(piece)?;
                if next.is_none() && self.me.wishes != self.wishes.version() {
                    self.me.wishes = self.wishes.version();
                    fx.wishes(self.me.wishes);
                }
                Ok(0)
            }
            _ => Ok(0),
        }
    }

    /// Asks the master whether it is there, or tells it that ports have changed.
    fn watch(&mut self, now: u64, fx: &mut impl Effects) {
        if self.poll.state == State::Done && now >= self.poll_at {
            self.poll = Ask::DUE;
        }
        if self.poll.send(now, &mut self.xids) {
            let poll = Message::Poll {
                info: self.me,
                changed: self.changed,
            };
            self.tell(self.to_master, self.poll.xid, &poll, fx);
        }
        if self.poll.state == State::Silent {
            self.explore();
        }
    }

    // ---- exploration and election --------------------------------------------------------------

    fn explore(&mut self) {
        self.members.begin(self.me);
        self.phase = Phase::Explore;
        self.dirty = false;
        self.again = None;
        self.obeyed = None;
        self.poll = Ask::DONE;
    }

    /// Everybody has been asked: who is it?
    fn elect(&mut self, now: u64, fx: &mut impl Effects) {
        if self.dirty {
            self.explore();
            return;
        }
        self.members.join();
        let me = self.me.hwid;
        let known = self.members.all().iter().filter(|m| m.known);
        let lowest = known.min_by_key(|m| m.info.hwid);
        let (lowest, path) = lowest.map_or((me, Path::EMPTY), |m| (m.info.hwid, m.path));
        let master = self.obeyed.filter(|master| *master < lowest);
        if master.is_some() {
            // Somebody lower writes here, though it has not answered: its writes name the way.
            self.explore_later(now);
            return;
        }
        if lowest != me {
            self.stand_by(now, lowest, path);
            self.poll = Ask::DUE;
            fx.role(Role::Standby, &self.me.reign);
            return;
        }
        self.reign(now, fx);
    }

    /// Waits as the standby of nobody.
    fn explore_later(&mut self, now: u64) {
        self.members.begin(self.me);
        self.obeyed = None;
        self.again = Some(now + RETRY_MS);
    }

    /// The node has the lowest id.
    fn reign(&mut self, now: u64, fx: &mut impl Effects) {
        let mut known = self.members.all().iter().filter(|m| m.known);
        let top = known.clone().map(|m| m.info.reign.term).max().unwrap_or(0);
        let mine = Reign {
            term: top,
            master: self.me.hwid,
        };
        let newest = known.clone().filter(|m| m.info.reign.term == top);
        let unchallenged = newest.clone().all(|m| m.info.reign == mine);
        let obeyed = known.all(|m| m.info.reign == mine);
        if self.me.reign != mine || !unchallenged || top == 0 {
            self.me.reign = Reign {
                term: top.saturating_add(1),
                master: self.me.hwid,
            };
            self.version = 0;
            self.done = None;
        }
        fx.role(Role::Master, &self.me.reign);

        // Alone it is in no fabric, and has nobody to be told apart from.
        if self.members.all().len() > 1 || self.me.lid != 0 {
            self.me.next_lid = self.members.assign_lids(self.me.hwid);
        }
        let lid = self.members.all().first().map_or(0, |m| m.info.lid);
        if lid != self.me.lid {
            self.me.lid = lid;
            fx.lid(lid);
        }
        if obeyed && self.done == Some(self.signature()) {
            self.settle(now);
            return;
        }
        self.version = self.version.saturating_add(1);
        self.done = None;
        self.start(Phase::Assign);
        let newest = self.members.all().iter().enumerate();
        let newest = newest
            .filter(|(_, m)| m.known)
            .max_by_key(|(_, m)| m.info.wishes);
        if let Some((at, member)) = newest {
            if member.info.wishes > self.me.wishes {
                self.start(Phase::Fetch(at));
            }
        }
    }

    /// What tables depend on, as one number.
    fn signature(&self) -> u64 {
        let mut hash = Hash(0xcbf2_9ce4_8422_2325);
        for m in self.members.all().iter().filter(|m| m.known) {
            hash.add(m.info.hwid);
            hash.add(u64::from(m.info.life));
            hash.add(u64::from(m.info.lid));
            hash.add(u64::from(m.info.wishes));
            for (port, next) in m.info.ports.iter().zip(m.next) {
                hash.add(u64::from(port.cost().unwrap_or(0)));
                hash.add(u64::from(next));
            }
        }
        hash.0
    }

    // ---- a master ------------------------------------------------------------------------------

    /// Begins a phase: everybody concerned is to be written to.
    fn start(&mut self, phase: Phase) {
        self.phase = phase;
        for member in self.members.all_mut() {
            let concerned = member.known
                && match phase {
                    Phase::Assign => member.info.lid != 0,
                    Phase::Stage => true,
                    Phase::Commit(hops) => member.differ & (1 << (u32::from(hops) - 1)) != 0,
                    Phase::Replicate => member.info.wishes != self.me.wishes,
                    _ => false,
                };
            member.ask = if concerned { Ask::DUE } else { Ask::DONE };
            member.piece = 0;
            if phase == Phase::Stage {
                member.differ = 0;
            }
        }
        if let Phase::Fetch(at) = phase {
            if let Some(member) = self.members.all_mut().get_mut(at) {
                member.ask = Ask::DUE;
            }
        }
    }

    /// What follows a phase that is over.
    fn next(&mut self, now: u64) {
        let differ = self.members.all().iter().fold(0, |bits, m| bits | m.differ);
        let longer = |hops: u32| {
            let rest = differ.checked_shr(hops).unwrap_or(0);
            (rest != 0).then(|| Phase::Commit((hops + 1 + rest.trailing_zeros()) as u8))
        };
        let next = match self.phase {
            Phase::Fetch(_) => Phase::Assign,
            Phase::Assign => Phase::Stage,
            Phase::Stage => longer(0).unwrap_or(Phase::Replicate),
            Phase::Commit(hops) => longer(u32::from(hops)).unwrap_or(Phase::Replicate),
            Phase::Replicate => {
                for member in self.members.all_mut().iter_mut().filter(|m| m.known) {
                    member.info.wishes = self.me.wishes;
                    member.info.reign = self.me.reign;
                }
                self.done = Some(self.signature());
                self.settle(now);
                return;
            }
            Phase::Settled | Phase::Standby | Phase::Start | Phase::Explore => return,
        };
        self.start(next);
    }

    fn settle(&mut self, now: u64) {
        self.phase = Phase::Settled;
        let missing = self.members.all().iter().any(|m| !m.known);
        self.again = missing.then_some(now + RETRY_MS);
    }

    /// Sends what is due to member number `at`.
    fn write(&mut self, now: u64, at: usize, fx: &mut impl Effects) {
        let Some(member) = self.members.all_mut().get_mut(at) else {
            return;
        };
        if !member.ask.send(now, &mut self.xids) {
            return;
        }
        let member = *member;
        let write = Write {
            reign: self.me.reign,
            version: self.version,
            to: member.info.hwid,
            life: member.info.life,
        };
        let mut buf = [0; MAX_PIECE];
        let message = match self.phase {
            Phase::Explore => Message::PortsRequest,
            Phase::Fetch(_) => Message::WishesRequest {
                offset: member.piece,
            },
            Phase::Assign => Message::Assign {
                write,
                lid: member.info.lid,
                next_lid: self.me.next_lid,
            },
            Phase::Stage => {
                self.members.routes_from(at);
                let piece = member.piece as u8;
                let runs = self.members.runs(at, piece, &mut buf);
                if runs.of > table::MAX_PIECES {
                    return;
                }
                Message::Stage {
                    write,
                    piece,
                    of: runs.of,
                    runs: buf.get(..runs.bytes).unwrap_or_default(),
                }
            }
            Phase::Commit(hops) => Message::Commit { write, hops },
            Phase::Replicate => Message::Wishes {
                write,
                piece: self.wishes.piece(member.piece),
            },
            _ => return,
        };
        if at != 0 {
            self.tell(member.path, member.ask.xid, &message, fx);
            return;
        }
        // The master's own table is written like the others'.
        let taken = match message {
            Message::Stage {
                piece, of, runs, ..
            } => {
                if piece == 0 {
                    self.table.begin();
                }
                self.table.stage(piece, of, runs)
            }
            Message::Commit { hops, .. } => self.table.commit(hops, fx).map(|()| false),
            _ => Ok(false),
        };
        let differ = match taken {
            Ok(true) => self.table.differ(),
            _ => 0,
        };
        let taken = taken.err().unwrap_or(Taken::Yes);
        self.acked(now, member.ask.xid, self.me.hwid, taken, differ);
    }

    /// A write was answered.
    fn acked(&mut self, now: u64, xid: u32, from: u64, taken: Taken, differ: u32) {
        if matches!(
            self.phase,
            Phase::Start | Phase::Explore | Phase::Settled | Phase::Standby
        ) {
            return;
        }
        let Some(at) = self.members.find(from) else {
            return;
        };
        let wishes = self.wishes.bytes().len();
        let Some(member) = self.members.all_mut().get_mut(at) else {
            return;
        };
        if !member.ask.answer(xid) {
            return;
        }
        if taken != Taken::Yes {
            // Somebody else reigns, or the node has forgotten what was staged: look again, soon.
            self.done = None;
            self.phase = Phase::Settled;
            self.again = Some(now + 2 * super::ask::AGAIN_MS);
            return;
        }
        member.differ |= differ;
        match self.phase {
            Phase::Stage => {
                let piece = member.piece as u8;
                self.members.routes_from(at);
                let of = self.members.runs(at, piece, &mut [0; MAX_PIECE]).of;
                if let Some(member) = self.members.all_mut().get_mut(at) {
                    if piece + 1 < of {
                        member.piece += 1;
                        member.ask = Ask::DUE;
                    }
                }
            }
            Phase::Replicate => {
                let next = usize::from(member.piece) + MAX_PIECE;
                if next < wishes {
                    member.piece = next as u16;
                    member.ask = Ask::DUE;
                }
            }
            _ => {}
        }
    }

    /// A piece of the newest wishes has come.
    fn fetched(&mut self, xid: u32, piece: &Piece<'_>, fx: &mut impl Effects) {
        let Phase::Fetch(at) = self.phase else {
            return;
        };
        let Some(member) = self.members.all_mut().get_mut(at) else {
            return;
        };
        if !member.ask.answer(xid) {
            return;
        }
        match self.wishes.take(piece) {
            Ok(Some(next)) => {
                member.piece = next;
                member.ask = Ask::DUE;
            }
            Ok(None) => {
                self.me.wishes = self.wishes.version();
                fx.wishes(self.me.wishes);
            }
            // It has others by now, or this node has no room for them.
            Err(_) => {}
        }
    }

    /// Somebody asks whether its master is here, and says how it is.
    fn polled(&mut self, info: &Info) {
        if self.role() != Role::Master {
            return;
        }
        let as_found = self.members.get(info.hwid).is_some_and(|m| {
            let obeys = self.phase != Phase::Settled || info.reign == self.me.reign;
            m.known && m.info.life == info.life && m.info.change == info.change && obeys
        });
        if !as_found {
            self.dirty = true;
        }
    }

    // ---- what moves it all ---------------------------------------------------------------------

    /// Does what can be done now.
    fn drive(&mut self, now: u64, fx: &mut impl Effects) {
        // Each turn ends a phase; there are not many.
        for _ in 0..2 * PORTS + 64 {
            let before = self.phase;
            self.turn(now, fx);
            if self.phase == before {
                return;
            }
        }
    }

    fn turn(&mut self, now: u64, fx: &mut impl Effects) {
        let due = self.again.is_some_and(|again| now >= again);
        match self.phase {
            Phase::Start => {}
            Phase::Standby => self.watch(now, fx),
            Phase::Settled if (self.dirty || due) && now >= self.calm => self.explore(),
            Phase::Settled => {}
            Phase::Explore if self.again.is_some_and(|again| now < again) => {}
            Phase::Explore => {
                self.again = None;
                let asked_all = self.members.expand(&self.allowed);
                self.write_all(now, fx);
                if asked_all {
                    self.elect(now, fx);
                }
            }
            _ if self.dirty && now >= self.calm => self.explore(),
            _ => {
                self.write_all(now, fx);
                let mut asks = self.members.all().iter().map(|m| m.ask.state);
                if asks.clone().any(|state| state == State::Silent) {
                    self.explore();
                } else if asks.all(|state| state == State::Done) {
                    self.next(now);
                }
            }
        }
    }

    /// Writes to everybody to whom something is due, but not to too many at a time.
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

/// Sends a packet by the port that is next on its way.
fn send(packet: &Packet, fx: &mut impl Effects) {
    if let Some(port) = packet.out() {
        let mut buf = [0; MAX_BYTES];
        let len = packet.encode(&mut buf);
        fx.send(port, buf.get(..len).unwrap_or_default());
    }
}

/// FNV-1a, by words.
struct Hash(u64);

impl Hash {
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }
}
