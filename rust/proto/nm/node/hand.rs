// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A master that hands hierarchies to nodes, one at a time, and a node that takes its own.
//!
//! A master does so while it has nothing else to do; while it explores or writes routes, a hand-over
//! waits. A node that has to release something first says so, and is asked again. A node that does not
//! answer is given up after the usual number of tries, and a hand-over is over in [`HAND_MS`]. This file
//! does not interpret a hierarchy.

use super::{
    super::{
        super::crc::crc32c,
        ask::{Ask, State, AGAIN_MS},
        kept::Kept,
        mastership::Mastership,
        member::Member,
        message::{Message, Piece, Taken, Write, MAX_PIECE},
        table::Slot,
    },
    auth::Return,
    Effects, Node, Phase, Role,
};

/// Limit of a hand-over.
pub const HAND_MS: u64 = 10_000;

/// Reason why a hierarchy was not handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No node of that hardware id answers, or another incarnation of it does.
    Silent,
    /// It took too long: the receiver has not released what it is to lose, or the fabric has not
    /// settled.
    Late,
    /// This node is not the master, or its mastership has changed.
    Stale,
    /// The hierarchy is too long for the master or the receiver, or the receiver cannot have one.
    NoRoom,
    /// The receiver found the hierarchy invalid.
    Bad,
}

/// A hierarchy on its way.
pub(super) struct Hand<B> {
    memory: B,
    len: usize,
    /// Hardware id of the receiver.
    to: u64,
    /// Incarnation of the receiver, once that is known.
    life: Option<u32>,
    /// Mastership of this node when the hand-over began.
    mastership: Mastership,
    /// Offset of the next piece.
    at: u16,
    ask: Ask,
    /// [`Node::found`] of the exploration that has found the receiver.
    found: u32,
    /// Nothing is sent before this time.
    wait: u64,
    /// The hand-over is given up at this time.
    until: u64,
    /// Result; `None` while it is under way.
    over: Option<Result<(), Failure>>,
}

/// Returns the version of a hierarchy. Equal ones have equal versions, so that a node that has it
/// ignores it.
fn version(bytes: &[u8]) -> u32 {
    crc32c(bytes.iter().copied()).max(1)
}

/// Takes a piece of the node's own hierarchy. `Later`: the hierarchy is taken, but the node still has to
/// release something.
pub(super) fn keep<B: AsRef<[u8]> + AsMut<[u8]>>(
    kept: &mut Kept<B>,
    piece: &Piece<'_>,
    fx: &mut impl Effects,
) -> Result<(), Taken> {
    let next = kept.take(piece, |bytes| fx.hierarchy(bytes))?;
    match next {
        None if !fx.let_go() => Err(Taken::Later),
        _ => Ok(()),
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Hand<B> {
    /// Creates the state without a hand-over. `memory` is as long as the longest hierarchy.
    pub(super) fn new(memory: B) -> Self {
        Self {
            memory,
            len: 0,
            to: 0,
            life: None,
            mastership: Mastership::default(),
            at: 0,
            ask: Ask::DONE,
            found: 0,
            wait: 0,
            until: 0,
            over: Some(Err(Failure::Stale)),
        }
    }

    fn bytes(&self) -> &[u8] {
        self.memory.as_ref().get(..self.len).unwrap_or_default()
    }

    /// Returns the next piece.
    fn piece(&self) -> Piece<'_> {
        let bytes = self.bytes();
        Piece::of(version(bytes), bytes, self.at)
    }

    /// Returns when there is something to do.
    pub(super) fn due(&self, now: u64) -> Option<u64> {
        if self.over.is_some() {
            return None;
        }
        let due = match self.ask.state {
            State::Sent => self.ask.sent() + AGAIN_MS,
            _ => now.max(self.wait),
        };
        Some(due.min(self.until))
    }
}

impl<M, T, B, A> Node<M, T, B, A>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
{
    /// Begins to hand the hierarchy `bytes` to the node `to`, which may be this node; replaces a
    /// hand-over that is under way. [`Self::handed`] returns the result.
    pub fn hand(
        &mut self,
        now: u64,
        to: u64,
        bytes: &[u8],
        fx: &mut impl Effects,
    ) -> Result<(), Failure> {
        let is_master = self.me.mastership.master == self.me.hwid && self.me.mastership.term != 0;
        if !is_master || matches!(self.phase, Phase::Standby | Phase::Idle) {
            return Err(Failure::Stale);
        }
        let room = self.hand.memory.as_mut().get_mut(..bytes.len());
        room.filter(|room| room.len() <= usize::from(u16::MAX))
            .ok_or(Failure::NoRoom)?
            .copy_from_slice(bytes);
        self.hand.len = bytes.len();
        self.hand.to = to;
        self.hand.life = None;
        self.hand.mastership = self.me.mastership;
        self.hand.at = 0;
        self.hand.ask = Ask::DUE;
        self.hand.wait = now;
        self.hand.until = now + HAND_MS;
        self.hand.over = None;
        self.drive(now, fx);
        Ok(())
    }

    /// Returns the result of the last hand-over; `None` while it is under way.
    pub fn handed(&self) -> Option<Result<(), Failure>> {
        self.hand.over
    }

    /// Continues the hand-over.
    pub(super) fn hand_on(&mut self, now: u64, fx: &mut impl Effects) {
        if self.hand.over.is_some() {
            return;
        }
        let role = self.role();
        let other = role == Role::Master && self.me.mastership != self.hand.mastership;
        if other || matches!(self.phase, Phase::Standby | Phase::Idle) {
            self.hand.over = Some(Err(Failure::Stale));
        } else if now >= self.hand.until {
            self.hand.over = Some(Err(Failure::Late));
        } else if self.phase == Phase::Settled && !self.dirty {
            let member = self.members.get(self.hand.to).filter(|m| m.known);
            let found = member.map(|m| (Return::of(m), m.info.life));
            match found.filter(|(_, life)| self.hand.life.is_none_or(|before| before == *life)) {
                Some((to, life)) => self.hand_to(now, &to, life, fx),
                None => self.hand.over = Some(Err(Failure::Silent)),
            }
        }
    }

    /// Sends the next piece to the receiver, if it is due.
    fn hand_to(&mut self, now: u64, to: &Return, life: u32, fx: &mut impl Effects) {
        if self.hand.life.is_none() || self.hand.found != self.found {
            // Answers to what was sent before do not count any more: it may have had another version.
            self.hand.life = Some(life);
            self.hand.found = self.found;
            self.hand.ask = Ask::DUE;
        }
        if self.hand.to == self.me.hwid {
            self.hand_to_self(now, fx);
            return;
        }
        if now < self.hand.wait {
            return;
        }
        if !self.hand.ask.send(now, &mut self.xids) {
            if self.hand.ask.state == State::Silent {
                self.hand.over = Some(Err(Failure::Silent));
            }
            return;
        }
        let message = Message::Hierarchy {
            write: Write {
                mastership: self.me.mastership,
                version: self.version,
                to: self.hand.to,
                life,
            },
            piece: self.hand.piece(),
        };
        let direction = self.direction(&message);
        let (auth, me) = (&mut self.auth, self.me.hwid);
        auth.send(me, direction, to, self.hand.ask.xid, &message, fx);
    }

    /// Writes the master's own hierarchy in the same way as that of other nodes.
    fn hand_to_self(&mut self, now: u64, fx: &mut impl Effects) {
        while self.hand.over.is_none() && now >= self.hand.wait {
            if !self.hand.ask.send(now, &mut self.xids) {
                return;
            }
            let taken = keep(&mut self.hierarchy, &self.hand.piece(), fx);
            let taken = taken.err().unwrap_or(Taken::Yes);
            self.hand_acked(now, self.hand.ask.xid, self.me.hwid, taken);
        }
    }

    /// Takes the answer to a write. Returns whether it belongs to the hand-over.
    pub(super) fn hand_acked(&mut self, now: u64, xid: u32, from: u64, taken: Taken) -> bool {
        let hand = &mut self.hand;
        if hand.over.is_some() || from != hand.to || !hand.ask.answer(xid) {
            return false;
        }
        match taken {
            Taken::Yes => {
                let next = usize::from(hand.at) + MAX_PIECE;
                if next < hand.len {
                    hand.at = next as u16;
                    hand.ask = Ask::DUE;
                } else {
                    hand.over = Some(Ok(()));
                }
            }
            Taken::Later | Taken::Order => {
                // The receiver has lost the pieces before this one: starts from the beginning.
                if taken == Taken::Order {
                    hand.at = 0;
                }
                hand.wait = now + AGAIN_MS;
                hand.ask = Ask::DUE;
            }
            Taken::NoRoom => hand.over = Some(Err(Failure::NoRoom)),
            Taken::Bad => hand.over = Some(Err(Failure::Bad)),
            Taken::Stale => {
                hand.over = Some(Err(Failure::Stale));
                // An exploration finds the master.
                if self.role() == Role::Master {
                    self.refused(now);
                }
            }
        }
        true
    }
}
