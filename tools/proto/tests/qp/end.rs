// SPDX-License-Identifier: GPL-2.0 OR MIT

//! One end of a link, step by step.

use super::env::{lease_of, Boxes, Env, Link, Trunk, Trunks};
use super::user::User;
use std::collections::VecDeque;
use weft_proto::cell::PAGE_BYTES;
use weft_proto::cqe::Status;
use weft_proto::fifo::Arrived;
use weft_proto::protocol::Protocol;
use weft_proto::qp::{Deferred, Disconnect, Flow, Joined, Machine, Served, State};
use weft_proto::request::{Extents, Message};
use weft_proto::tpt::Rights;
use weft_proto::trunk::Layout;
use weft_proto::word::Word;

/// A queue pair and its user.
pub struct Qp {
    pub machine: Machine<Boxes>,
    pub user: User,
}

pub struct End {
    pub link: Link,
    pub qps: Vec<Qp>,
    deferred: VecDeque<Deferred>,
    gone: VecDeque<(u32, Disconnect)>,
}

/// Requests of a queue pair each time it is serviced, and how many more it flushes when it fails.
const QUANTUM: usize = 8;
const AT_ONCE: usize = 64;

/// QPN of the first queue pair.
const FIRST: u32 = 1;

/// QPN of queue pair `q`, at either end.
pub fn number_of(q: usize) -> u32 {
    FIRST + q as u32
}

impl End {
    /// One with a queue pair a protocol, connected to those of the same number at the peer.
    pub fn new(own: Layout, peer: Layout, protocols: &[Protocol], has_dma: bool) -> Self {
        let mut end = Self {
            link: Link::new(own, peer, has_dma),
            qps: vec![],
            deferred: VecDeque::new(),
            gone: VecDeque::new(),
        };
        for (q, protocol) in protocols.iter().enumerate() {
            end.qps.push(Qp {
                machine: Machine::new(number_of(q), *protocol),
                user: User::new(),
            });
            end.connect(q);
        }
        end
    }

    /// A session of the link begins: the link queues are empty.
    pub fn begin_session(&mut self) {
        let Link {
            own, peer, has_dma, ..
        } = self.link;
        self.link = Link::new(own, peer, has_dma);
        self.deferred.clear();
        self.gone.clear();
    }

    /// Brings a queue pair from RESET to RTS.
    pub fn connect(&mut self, q: usize) {
        let machine = &mut self.qps[q].machine;
        for to in [State::Init, State::Rtr, State::Rts] {
            assert!(machine.state().may_become(to));
            if to == State::Rtr {
                machine.connect(number_of(q));
                let remote = Rights::REMOTE_READ.with(Rights::REMOTE_WRITE);
                machine.set_access(remote.with(Rights::REMOTE_ATOMIC).bits());
            }
            machine.set_state(to);
        }
    }

    /// Resets a queue pair; what its user has posted is forgotten.
    pub fn reset<M: Trunk>(&mut self, q: usize, own: &M, peer: &M) {
        let number = number_of(q);
        // The driver waits until its DMA engine reads no memory of the queue pair any more.
        let dma = self.link.dma.iter_mut().filter(|dma| !dma.moved);
        dma.filter(|dma| dma.transfer.owner().0 == number)
            .for_each(|dma| dma.run(peer));
        let (machine, mut env) = self.at(q, Trunks { own, peer });
        machine.serve_last(&mut env).expect("the peer is honest");
        self.link.out.tell(peer);
        let qp = &mut self.qps[q];
        if let Some(what) = qp.machine.disconnect(true) {
            self.gone.push_back((number, what));
        }
        qp.machine.reset(&mut qp.user);
        qp.user.reset();
    }

    /// Has a queue pair go to ERR, as its user may ask for at any time.
    pub fn fail(&mut self, q: usize) {
        let qp = &mut self.qps[q];
        qp.machine.user_fails(&mut qp.user);
    }

    /// The queue pair `q`, and what it works with.
    fn at<'a, M>(&'a mut self, q: usize, t: Trunks<'a, M>) -> (&'a mut Machine<Boxes>, Env<'a, M>) {
        let Qp { machine, user } = &mut self.qps[q];
        let link = &mut self.link;
        (machine, Env { link, user, t })
    }

    fn find(&self, qpn: u32) -> Option<usize> {
        let q = qpn.checked_sub(FIRST)? as usize;
        let is_connected = |qp: &Qp| qp.machine.peer_qpn().is_some();
        self.qps.get(q).filter(|qp| is_connected(qp)).map(|_| q)
    }

    pub const STEPS: usize = 9;

    /// Takes step `n` of those that there are, for queue pair `q`; whether there was anything to do.
    pub fn step<M: Trunk>(&mut self, n: usize, q: usize, own: &M, peer: &M) -> bool {
        let t = Trunks { own, peer };
        match n {
            0 => self.serve(q, t),
            1 => self.take_cell(t),
            2 => self.pull_cell(t),
            3 => self.take_word(t),
            4 => self.pull_word(t),
            5 => self.move_data(t),
            6 => self.end_transfer(),
            7 => self.say_deferred(t),
            _ => {
                self.link.out.tell(t.peer);
                self.link.inn.flush(t.peer);
                false
            }
        }
    }

    /// Gives a queue pair its turn.
    fn serve(&mut self, q: usize, t: Trunks<'_, impl Trunk>) -> bool {
        let mut told = false;
        while let Some((qpn, what)) = self.gone.front().copied() {
            if !self.link.disconnect(t, qpn, what) {
                // A JOIN must not overtake what ends what was there before.
                return told;
            }
            self.gone.pop_front();
            told = true;
        }
        if self.qps[q].machine.peer_qpn().is_none() {
            return told;
        }
        let before = self.link.sent;
        let (machine, mut env) = self.at(q, t);
        let requests = machine.sent();
        let served: Served = machine
            .serve(&mut env, QUANTUM)
            .expect("the peer is honest");
        let requests = (machine.sent() - requests) as usize;
        let most = match machine.state() {
            State::Err => QUANTUM + AT_ONCE,
            _ => QUANTUM,
        };
        assert!(requests <= served.requests && served.requests <= most);
        self.link.check_counted();
        self.link.out.tell(t.peer);
        told || served.progress || served.again || self.link.sent != before
    }

    fn take_cell(&mut self, t: Trunks<'_, impl Trunk>) -> bool {
        let arrived = self.link.inn.peek(t.own).expect("the peer is honest");
        let Some(arrived) = arrived else {
            return false;
        };
        if let Message::Gone(_) | Message::Join(_) = arrived.message {
            // What was said or posted before is taken before.
            while self.take_word(t) || self.pull_word(t) || self.pull_cell(t) {}
        }
        self.cell(&arrived, t);
        self.link.inn.consume(t.peer, &arrived);
        true
    }

    fn pull_cell(&mut self, t: Trunks<'_, impl Trunk>) -> bool {
        let arrived = self.link.inn.pull(t.own, t.peer);
        let Some(arrived) = arrived.expect("the peer is honest") else {
            return false;
        };
        self.cell(&arrived, t);
        self.link.inn.consume(t.peer, &arrived);
        true
    }

    fn cell(&mut self, arrived: &Arrived, t: Trunks<'_, impl Trunk>) {
        let Arrived {
            address, message, ..
        } = arrived;
        if let Message::Gone(gone) = message {
            let buffers = &mut self.link.buffers;
            buffers.revoke_peer(address.qpn, gone.qpn, gone.peer_epoch);
        }
        let Some(q) = self.find(address.qpn) else {
            self.unknown(address.qpn, message);
            return;
        };
        let number = number_of(q);
        let (machine, mut env) = self.at(q, t);
        match message {
            Message::Join(join) => {
                if machine.on_join(&mut env, join) == Joined::Refused {
                    let refusal = machine.refusal(join);
                    self.gone.push_back((number, refusal));
                }
            }
            Message::Gone(gone) => {
                let answer = machine.on_gone(&mut env, gone);
                self.gone.extend(answer.map(|answer| (number, answer)));
            }
            _ => {
                machine.on_cell(&mut env, arrived);
            }
        }
    }

    /// A message is for a queue pair that is not connected, or not there.
    fn unknown(&mut self, qpn: u32, message: &Message) {
        let answer = match message {
            Message::Gone(gone) if qpn == 0 => return self.lost(gone.qpn),
            Message::Gone(gone) => (!gone.refuses).then(|| Disconnect::answer(qpn, gone)),
            Message::Join(join) if join.asks => None,
            Message::Join(join) => {
                let q = qpn.checked_sub(FIRST).map(|q| q as usize);
                let qp = q.and_then(|q| self.qps.get(q));
                qp.map(|qp| qp.machine.refusal(join))
            }
            message => message.is_request().then(|| Disconnect::unknown(qpn)),
        };
        self.gone.extend(answer.map(|answer| (qpn, answer)));
    }

    /// The peer has no queue pair of this number.
    fn lost(&mut self, peer_qpn: u32) {
        self.link.buffers.revoke_lost(peer_qpn);
        for Qp { machine, user } in &mut self.qps {
            machine.on_lost(user, peer_qpn);
        }
    }

    fn take_word(&mut self, t: Trunks<'_, impl Trunk>) -> bool {
        let word = self
            .link
            .inn
            .word(t.own, t.peer)
            .expect("the peer is honest");
        word.is_some_and(|word| self.word(&word, false, t))
    }

    fn pull_word(&mut self, t: Trunks<'_, impl Trunk>) -> bool {
        let word = self.link.inn.pull_word(t.own, t.peer, t.peer);
        let word = word.expect("the peer is honest");
        word.is_some_and(|word| self.word(&word, true, t))
    }

    fn word(&mut self, word: &Word, pulled: bool, t: Trunks<'_, impl Trunk>) -> bool {
        let lease = lease_of(&mut self.link.buffers, word);
        if let Some(q) = self.find(word.qpn) {
            let (machine, mut env) = self.at(q, t);
            machine.on_word(&mut env, word, pulled, lease.as_ref());
        }
        if let Some(lease) = lease {
            self.link.buffers.give(&lease.extents);
        }
        true
    }

    /// The DMA engine moves something.
    fn move_data(&mut self, t: Trunks<'_, impl Trunk>) -> bool {
        let next = self.link.dma.iter_mut().find(|dma| !dma.moved);
        next.map(|dma| dma.run(t.peer)).is_some()
    }

    /// The engine sees that something was moved.
    fn end_transfer(&mut self) -> bool {
        if self.link.dma.front().is_none_or(|dma| !dma.moved) {
            return false;
        }
        let Some(dma) = self.link.dma.pop_front() else {
            return false;
        };
        let (qpn, epoch) = dma.transfer.owner();
        if let Some(q) = self.find(qpn) {
            let Qp { machine, user } = &mut self.qps[q];
            if machine.epoch() == epoch {
                self.deferred
                    .extend(machine.transfer_ended(user, dma.transfer, false));
            }
        }
        true
    }

    /// Says a word behind data that were moved.
    fn say_deferred(&mut self, t: Trunks<'_, impl Trunk>) -> bool {
        let Some(deferred) = self.deferred.front().copied() else {
            return false;
        };
        let q = self.find(deferred.qpn);
        let says = q.is_some_and(|q| self.qps[q].machine.is_to_tell(&deferred));
        if says {
            let sent = self.link.out.word(t.own, t.peer, &deferred.word);
            if !super::env::room(sent).expect("the peer is honest") {
                return false;
            }
        }
        if let Some(q) = q {
            self.qps[q].machine.has_told(&deferred);
        }
        self.deferred.pop_front();
        true
    }

    /// No request is begun, or they are again.
    pub fn set_flow(&mut self, flow: Flow) {
        self.link.flow = flow;
    }

    /// A cell has come, by whatever way.
    pub fn given<M: Trunk>(&mut self, arrived: &Arrived, own: &M, peer: &M) {
        self.cell(arrived, Trunks { own, peer });
    }

    /// That each staging page is free or leased.
    pub fn check_memory(&self) {
        assert!(self.link.buffers.is_whole(), "staging memory");
    }

    /// That all staging pages are free: all of them can be taken.
    pub fn check_all_free(&mut self) {
        let buffers = &mut self.link.buffers;
        let mut taken = vec![];
        while let Some(extents) = buffers.take(u64::MAX) {
            taken.push(extents);
        }
        let bytes: u64 = taken.iter().map(Extents::bytes).sum();
        taken.iter().for_each(|extents| buffers.give(extents));
        let all = self.link.own.staging_pages() * PAGE_BYTES;
        assert_eq!(bytes, all as u64, "staging memory is left behind");
    }

    /// Whether this end never saw its peer break the rules.
    pub fn is_honest(&self) -> bool {
        let why = |qp: &Qp| qp.machine.why() != Status::Protocol;
        self.qps.iter().all(why)
    }

    /// Whether nothing is on its way from here.
    pub fn is_idle(&self) -> bool {
        self.deferred.is_empty() && self.gone.is_empty() && self.link.dma.is_empty()
    }
}
