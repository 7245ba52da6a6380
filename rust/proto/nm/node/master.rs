// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The master: it gives local ids, stages routes at every node, commits them, and distributes the
//! assignments.
//!
//! This file is independent of how the nodes were found.

use super::{
    super::{
        ask::{Ask, AGAIN_MS},
        kind::is_host,
        member::Member,
        message::{Differ, Info, Message, Moves, Piece, Taken, Write, MAX_PIECE},
        seal::Origin,
        table::{self, Slot},
    },
    auth::{Return, Sender},
    rest::{REST_MS, REST_WHOLE_MS},
    Effects, Node, Phase, Role, CALM_MS, RETRY_MS,
};

impl<M, T, B, A> Node<M, T, B, A>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
{
    /// Begins a phase: a question or write is due for every node that it concerns.
    pub(super) fn start(&mut self, phase: Phase) {
        self.phase = phase;
        for member in self.members.all_mut() {
            let concerned = member.known
                && match phase {
                    Phase::Assign => member.info.lid != 0,
                    Phase::Stage => true,
                    Phase::Commit(hops) => member.differ & (1 << (u32::from(hops) - 1)) != 0,
                    // Only hosts have anything under way.
                    Phase::Rest | Phase::GoOn => is_host(member.info.hwid),
                    Phase::Replicate => member.info.assignments != self.me.assignments,
                    _ => false,
                };
            member.ask = if concerned { Ask::DUE } else { Ask::DONE };
            member.piece = 0;
            if phase == Phase::Stage {
                member.differ = 0;
            }
        }
        match phase {
            Phase::Stage => self.moves = Moves::No,
            Phase::Rest => self.rested = true,
            Phase::GoOn => self.rested = false,
            _ => {}
        }
        if let Phase::Fetch(at) = phase {
            if let Some(member) = self.members.all_mut().get_mut(at) {
                member.ask = Ask::DUE;
            }
        }
    }

    /// Begins the phase that follows the one that is over.
    pub(super) fn next(&mut self, now: u64) {
        let differ = self.members.all().iter().fold(0, |bits, m| bits | m.differ);
        let longer = |hops: u32| {
            let rest = differ.checked_shr(hops).unwrap_or(0);
            (rest != 0).then(|| Phase::Commit((hops + 1 + rest.trailing_zeros()) as u8))
        };
        // This includes hosts that were quiesced for routes that were never used.
        let used = if self.rested {
            Phase::GoOn
        } else {
            Phase::Replicate
        };
        let next = match self.phase {
            Phase::Fetch(_) => Phase::Assign,
            Phase::Assign => Phase::Stage,
            Phase::Stage if self.moves != Moves::No => {
                let broken = self.moves == Moves::Broken;
                self.rest_until = now + if broken { REST_MS } else { REST_WHOLE_MS };
                Phase::Rest
            }
            Phase::Stage | Phase::Rest => longer(0).unwrap_or(used),
            Phase::Commit(hops) => longer(u32::from(hops)).unwrap_or(used),
            Phase::GoOn => Phase::Replicate,
            Phase::Replicate => {
                for member in self.members.all_mut().iter_mut().filter(|m| m.known) {
                    member.info.assignments = self.me.assignments;
                    member.info.mastership = self.me.mastership;
                }
                self.done = Some(self.signature());
                self.settle(now);
                return;
            }
            Phase::Settled | Phase::Standby | Phase::Start | Phase::Idle | Phase::Explore => return,
        };
        self.start(next);
    }

    pub(super) fn settle(&mut self, now: u64) {
        self.phase = Phase::Settled;
        let missing = self.members.all().iter().any(|m| !m.known);
        self.again = missing.then_some(now + RETRY_MS);
    }

    /// Sends the question or write that is due to member number `at`.
    pub(super) fn write(&mut self, now: u64, at: usize, fx: &mut impl Effects) {
        let Some(member) = self.members.all_mut().get_mut(at) else {
            return;
        };
        if !member.ask.send(now, &mut self.xids) {
            return;
        }
        let member = *member;
        let write = Write {
            mastership: self.me.mastership,
            version: self.version,
            to: member.info.hwid,
            life: member.info.life,
        };
        let mut buf = [0; MAX_PIECE];
        let message = match self.phase {
            Phase::Explore | Phase::Standby => Message::PortsRequest {
                first: member.piece as u8,
            },
            Phase::Fetch(_) => Message::AssignmentsRequest {
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
            Phase::Rest => Message::Rest { write, on: true },
            Phase::GoOn => Message::Rest { write, on: false },
            Phase::Replicate => Message::Assignments {
                write,
                piece: self.assignments.piece(member.piece),
            },
            _ => return,
        };
        if at != 0 {
            let to = Return::of(&member);
            let direction = self.direction(&message);
            let (auth, me) = (&mut self.auth, self.me.hwid);
            auth.send(me, direction, &to, member.ask.xid, &message, fx);
            return;
        }
        // The master writes its own table in the same way as that of other nodes.
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
            Message::Rest { on: true, .. } => {
                fx.rest(true);
                self.await_rest(now, member.ask.xid, None, fx);
                return;
            }
            Message::Rest { on: false, .. } => {
                fx.rest(false);
                self.resting = None;
                Ok(false)
            }
            _ => Ok(false),
        };
        let differ = match taken {
            Ok(true) => self.table.differ(&self.ports),
            _ => Differ::default(),
        };
        let taken = taken.err().unwrap_or(Taken::Yes);
        self.acked(now, member.ask.xid, self.me.hwid, taken, differ);
    }

    /// Takes the answer to a write. Returns whether it was asked for.
    pub(super) fn acked(
        &mut self,
        now: u64,
        xid: u32,
        from: u64,
        taken: Taken,
        differ: Differ,
    ) -> bool {
        if matches!(
            self.phase,
            Phase::Start | Phase::Idle | Phase::Explore | Phase::Settled | Phase::Standby
        ) {
            return false;
        }
        let Some(at) = self.members.find(from) else {
            return false;
        };
        let assignments = self.assignments.bytes().len();
        let Some(member) = self.members.all_mut().get_mut(at) else {
            return false;
        };
        if taken == Taken::Later && self.phase == Phase::Rest && now < self.rest_until {
            member.ask.later(xid);
            return true;
        }
        if !member.ask.answer(xid) {
            return false;
        }
        // A node that is not quiesced in time is not waited for.
        if taken != Taken::Yes && !(taken == Taken::Later && self.phase == Phase::Rest) {
            self.refused(now);
            return true;
        }
        member.differ |= differ.hops;
        self.moves = self.moves.max(differ.moves);
        match self.phase {
            Phase::Assign => self.promises.keep(from),
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
                if next < assignments {
                    member.piece = next as u16;
                    member.ask = Ask::DUE;
                }
            }
            _ => {}
        }
        true
    }

    /// Schedules an exploration because a node has not taken a write: another node is master, or the
    /// node has lost what was staged.
    pub(super) fn refused(&mut self, now: u64) {
        self.done = None;
        self.phase = Phase::Settled;
        self.again = Some(now + 2 * AGAIN_MS);
    }

    /// Takes a piece of the newest assignments from the member that has them.
    pub(super) fn fetched(
        &mut self,
        now: u64,
        xid: u32,
        piece: &Piece<'_>,
        sender: &Sender,
        fx: &mut impl Effects,
    ) {
        let Phase::Fetch(at) = self.phase else {
            return;
        };
        let Some(member) = self.members.all_mut().get_mut(at) else {
            return;
        };
        if !self.auth.believes(now, sender, member.info.hwid, fx) || !member.ask.answer(xid) {
            return;
        }
        match self.assignments.take(piece, |_| Ok(())) {
            Ok(Some(next)) => {
                member.piece = next;
                member.ask = Ask::DUE;
            }
            Ok(None) => {
                self.me.assignments = self.assignments.version();
                fx.assignments(self.me.assignments);
            }
            // The member has other assignments by now, or this node has no room for them.
            Err(_) => {}
        }
    }

    /// Takes a poll: compares the description of its sender with what is known. One that was sealed, and is
    /// not later than what the sender said last, is old.
    pub(super) fn polled(&mut self, now: u64, info: &Info, origin: Origin) {
        if let Some(at) = self.members.find(info.hwid) {
            let member = self.members.all_mut().get_mut(at);
            let last = member.map(|member| (member.known, &mut member.origin));
            if let Some((true, last)) = last {
                let sealed = origin.nonce != 0 && last.nonce != 0;
                if sealed && (origin.nonce != last.nonce || origin.number <= last.number) {
                    return;
                }
                *last = origin;
            }
        }
        let same = |m: &Member| m.info.life == info.life && m.info.change == info.change;
        let member = self.members.get(info.hwid);
        if self.phase == Phase::Explore {
            // A sender that has not answered yet will still do so. If it has, its answer is out of date,
            // and nodes may be silent only because the paths to them have changed.
            if member.is_some_and(|m| m.known && !same(m)) {
                self.dirty = true;
                self.calm = now + CALM_MS;
            }
            return;
        }
        if self.role() != Role::Master {
            return;
        }
        let obeys = self.phase != Phase::Settled || info.mastership == self.me.mastership;
        if !member.is_some_and(|m| m.known && same(m) && obeys) {
            self.dirty = true;
        }
    }
}
