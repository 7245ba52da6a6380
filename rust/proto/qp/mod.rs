// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The queue pair: its states, the requests under way at both ends, and the segments of long messages.
//!
//! `Documentation/queues.rst` has the rules. A [`Machine`] is one end of one queue pair. The engine
//! drives it: [`Machine::serve`] in the queue pair's turn, [`Machine::on_cell`] and [`Machine::on_word`]
//! when the peer has sent something, [`Machine::transfer_ended`] when the DMA engine has moved data. Its
//! environment is three traits: [`Transport`], the link queues; [`Memory`], registered memory;
//! [`Queues`], the work and completion queues of the user. The driver implements them over the port and
//! pinned pages; tests implement them over two buffers, and so run this code and not a copy.
//!
//! The code does not allocate, sleep or lock: the caller holds the lock of the queue pair. Each message
//! of the peer is checked against what it may send now; a peer that breaks the rules ends this queue
//! pair with [`Status::Protocol`], and no other one. The folder is independent of links, sessions, ports
//! and files.

use super::{
    cqe::{Cqe, Status},
    hold::Standing,
    protocol::Protocol,
    wqe::OP_RECV,
};

mod arrival;
mod connect;
mod data;
mod disconnect;
mod env;
mod inbound;
mod inbounds;
pub mod lease;
mod pull;
mod push;
mod request;
mod requester;
mod responder;
mod segment;
mod state;
mod transfer;

pub use self::{
    connect::Joined,
    data::{Refused, Sink, Source},
    disconnect::Disconnect,
    env::{AtomicOp, Flow, Heap, Memory, NotBegun, Overrun, Queues, Side, Taken, Transport},
    inbound::Inbound,
    lease::{Lease, LeaseMemory},
    request::Request,
    requester::Requester,
    responder::Responder,
    state::State,
    transfer::{Deferred, Transfer},
};

/// Requests that a queue pair flushes at once when it goes to ERR. Its services flush the rest.
const FLUSHED_AT_ONCE: u32 = 64;

/// Result of a service.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Something was sent, or has ended.
    pub progress: bool,
    /// There is more that can be done at once.
    pub again: bool,
    /// There was no room.
    pub blocked: bool,
    /// A receive request is missing.
    pub starved: bool,
    /// Requests that were sent or flushed, for the budget of a run.
    pub requests: usize,
}

impl Served {
    /// Records an attempt to send. `sent`: there was room. Returns `sent`.
    fn note(&mut self, sent: bool) -> bool {
        self.progress |= sent;
        self.blocked |= !sent;
        sent
    }
}

/// One end of a queue pair.
pub struct Machine<H: Heap> {
    number: u32,
    protocol: Protocol,
    state: State,
    why: Status,
    /// Rights of the peer, `WEFT_ACCESS_*`.
    access: u32,
    /// The peer's queue pair, while there is a connection.
    peer_qpn: Option<u32>,
    /// Counts resets, from 1 on.
    epoch: u32,
    /// Epoch of the peer's queue pair; 0 before it is known.
    peer_epoch: u32,
    requester: Requester<H>,
    responder: Responder<H>,
    /// The peer's queue pair has answered this one, in this epoch. Messages of others are not taken.
    joined: bool,
    /// JOIN is to be sent.
    owes_join: bool,
    /// GONE is to be sent: this end is in ERR.
    owes_gone: bool,
    /// The session of the link is over, and the queue pair waits for another session.
    kept: bool,
    /// It was joined in a session before, and continues.
    resumes: bool,
    /// A request was sent or carried out.
    touched: bool,
    sent: u64,
    received: u64,
}

impl<H: Heap> Machine<H> {
    /// Creates a queue pair in RESET.
    pub const fn new(number: u32, protocol: Protocol) -> Self {
        Self {
            number,
            protocol,
            state: State::Reset,
            why: Status::Success,
            access: 0,
            peer_qpn: None,
            epoch: 1,
            peer_epoch: 0,
            requester: Requester::new(),
            responder: Responder::new(),
            joined: false,
            owes_join: false,
            owes_gone: false,
            kept: false,
            resumes: false,
            touched: false,
            sent: 0,
            received: 0,
        }
    }

    /// Returns the state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns the reason why it is in ERR.
    pub const fn why(&self) -> Status {
        self.why
    }

    /// Returns the rights of the peer, `WEFT_ACCESS_*`.
    pub const fn access(&self) -> u32 {
        self.access
    }

    /// Changes the rights of the peer.
    pub fn set_access(&mut self, access: u32) {
        self.access = access;
    }

    /// Returns the peer's queue pair, while there is a connection.
    pub const fn peer_qpn(&self) -> Option<u32> {
        self.peer_qpn
    }

    /// Returns the epoch, which counts resets; never 0.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the number of requests sent since the queue pair was created.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of requests of the peer that were taken since the queue pair was created.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Returns whether requests of the peer are taken.
    pub const fn hears(&self) -> bool {
        self.state.hears()
    }

    /// Returns whether it is kept for another session of its link.
    pub const fn is_kept(&self) -> bool {
        self.kept
    }

    /// Returns whether all requests that were sent are answered.
    pub const fn is_answered(&self) -> bool {
        self.requester.is_quiet()
    }

    /// Returns the number of requests without a completion: those under way, and, if `posted`, those
    /// that can be begun, or sent again once the peer has a receive request.
    pub fn outstanding(&self, queues: &impl Queues, posted: bool) -> u32 {
        if !posted {
            return self.requester.unrefused() as u32;
        }
        let waits = match self.state {
            // Requests that are posted in other states are never begun.
            State::Rts | State::Sqd => queues.sends_pending(),
            _ => 0,
        };
        (self.requester.under_way() as u32).saturating_add(waits)
    }

    /// Changes the state as the user has asked for, except to ERR and RESET, which have their own
    /// functions. The caller has checked [`State::may_become`].
    pub fn set_state(&mut self, to: State) {
        self.state = to;
    }

    /// Goes to ERR, as the user has asked for.
    pub fn user_fails<Q: Queues>(&mut self, queues: &mut Q) {
        if self.state == State::Reset {
            self.state = State::Err;
            self.why = Status::Flushed;
        }
        self.fail(queues, Status::Flushed, Status::Flushed, Status::Flushed);
    }

    /// Goes to ERR because of `why`: requests that are under way end. `first` is the status of the
    /// oldest of them, `rest` that of those behind it. Flushes some of the posted requests; the caller
    /// has the queue pair serviced or flushed until none is left. A queue pair that is in ERR already
    /// only flushes some.
    pub fn fail<Q: Queues>(&mut self, queues: &mut Q, why: Status, first: Status, rest: Status) {
        let before = self.state;
        if !matches!(before, State::Err | State::Reset) {
            self.state = State::Err;
            self.kept = false;
            self.why = why;
            // A queue pair of the peer that is not joined is not told.
            self.owes_gone = before.hears() && self.joined;
            let mut status = first;
            while let Some(request) = self.requester.pop() {
                let cqe = self.without_success(request.wqe.wr_id, request.opcode, status);
                // A completion without room is lost: the queue pair is in ERR in any case.
                let _ = queues.complete_send(&cqe);
                status = rest;
            }
            while let Some((wr_id, opcode)) = self.responder.give_up() {
                let cqe = self.without_success(wr_id, opcode, Status::Flushed);
                let _ = queues.complete_recv(&cqe);
            }
            if queues.has_srq() {
                // Requests in a shared receive queue do not end with this queue pair. Without this
                // completion, a program that waits for a message of the queue pair would wait for ever.
                let cqe = Cqe {
                    ends: true,
                    ..self.without_success(0, OP_RECV, why)
                };
                let _ = queues.complete_recv(&cqe);
            }
        }
        self.flush(queues, FLUSHED_AT_ONCE);
    }

    /// Goes to ERR without telling the peer, which knows or cannot be reached, and flushes all posted
    /// requests: it is not serviced any more.
    pub fn fail_silently<Q: Queues>(&mut self, queues: &mut Q, why: Status, rest: Status) {
        self.fail(queues, why, why, rest);
        self.owes_gone = false;
        self.flush(queues, u32::MAX);
    }

    /// Goes to ERR because the peer violates the protocol.
    fn violated<Q: Queues>(&mut self, queues: &mut Q) {
        self.fail(queues, Status::Protocol, Status::Protocol, Status::Flushed);
    }

    /// Goes to ERR because a completion found no room.
    pub fn overrun<Q: Queues>(&mut self, queues: &mut Q) {
        let flushed = Status::Flushed;
        self.fail(queues, Status::LocalLength, flushed, flushed);
    }

    /// Returns the completion of a request that has not succeeded.
    fn without_success(&self, wr_id: u64, opcode: u8, status: Status) -> Cqe {
        Cqe {
            wr_id,
            qpn: self.number,
            byte_len: 0,
            imm: None,
            status,
            opcode,
            ends: false,
        }
    }

    /// In ERR: flushes up to `most` posted requests, except those of a shared receive queue. Returns
    /// how many; if that is `most`, there may be more.
    pub fn flush<Q: Queues>(&mut self, queues: &mut Q, most: u32) -> u32 {
        // Users may post meanwhile: takes only the requests that are there now.
        let sends = queues.sends_pending().min(most);
        for _ in 0..sends {
            if let Some(identity) = queues.drop_send() {
                let cqe = self.without_success(identity.wr_id, identity.opcode, Status::Flushed);
                let _ = queues.complete_send(&cqe);
            }
        }
        let recvs = queues.recvs_pending().min(most - sends);
        for _ in 0..recvs {
            if let Some(wr_id) = queues.drop_recv() {
                let cqe = self.without_success(wr_id, OP_RECV, Status::Flushed);
                let _ = queues.complete_recv(&cqe);
            }
        }
        sends + recvs
    }

    /// Goes to RESET: clears the state and drops posted requests. The caller has told the peer, by
    /// [`Machine::disconnect`].
    pub fn reset<Q: Queues>(&mut self, queues: &mut Q) {
        let (epoch, access) = (self.epoch.wrapping_add(1).max(1), self.access);
        let (sent, received) = (self.sent, self.received);
        *self = Self {
            epoch,
            access,
            sent,
            received,
            ..Self::new(self.number, self.protocol)
        };
        for _ in 0..queues.sends_pending() {
            let _ = queues.drop_send();
        }
        for _ in 0..queues.recvs_pending() {
            let _ = queues.drop_recv();
        }
    }

    /// Keeps the queue pair for another session of its link, unless a request is under way. Returns true
    /// if it is kept.
    pub fn keep(&mut self) -> bool {
        let quiet = self.requester.is_quiet() && self.responder.is_quiet();
        if !self.state.hears() || !quiet {
            return false;
        }
        self.kept = true;
        self.resumes |= core::mem::take(&mut self.joined);
        self.owes_join = false;
        self.requester.rewind();
        self.responder.rewind();
        true
    }

    /// Returns its position, for the peer that it is joined with.
    fn standing(&self) -> Standing {
        if !self.resumes {
            return Standing::FRESH;
        }
        Standing {
            resumes: true,
            expects: self.responder.expected(),
        }
    }
}

/// Result of operations on the link queues.
type Carried<T> = Result<T, super::trunk::Fault>;
