// SPDX-License-Identifier: GPL-2.0

//! A queue pair: its queues, its state, what is under way.
//!
//! The engine works it off, under [`Qp::inner`]; users change and ask for its state. It must not know
//! files, or how messages travel.

use super::{
    cq::{Cq, Overrun},
    initiator::Initiator,
    posted::Posted,
    responder::Responder,
    srq::Srq,
};
use crate::{
    mem::{Pd, Use},
    proto::{
        cqe::{Cqe, Status},
        hold::Standing,
        protocol::Protocol,
        wqe::{Identity, QueueShape, RecvWqe, SendWqe, Senseless, OP_RECV},
    },
    sys::{ext, pages::Pages},
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

/// Where a queue pair is in its life, by the numbers of the user interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    Reset = ext::WEFT_QP_RESET,
    Init = ext::WEFT_QP_INIT,
    Rtr = ext::WEFT_QP_RTR,
    Rts = ext::WEFT_QP_RTS,
    Sqd = ext::WEFT_QP_SQD,
    Err = ext::WEFT_QP_ERR,
}

/// A send request as it was taken: who it is, and whether it makes sense.
pub(super) type Taken = (Identity, Result<(), Senseless>);

impl State {
    pub(crate) fn of(number: u32) -> Option<Self> {
        Some(match number {
            ext::WEFT_QP_RESET => Self::Reset,
            ext::WEFT_QP_INIT => Self::Init,
            ext::WEFT_QP_RTR => Self::Rtr,
            ext::WEFT_QP_RTS => Self::Rts,
            ext::WEFT_QP_SQD => Self::Sqd,
            ext::WEFT_QP_ERR => Self::Err,
            _ => return None,
        })
    }

    /// Whether a user may ask for this change.
    pub(crate) fn may_become(self, to: Self) -> bool {
        matches!(
            (self, to),
            (_, Self::Reset | Self::Err)
                | (Self::Reset, Self::Init)
                | (Self::Init, Self::Rtr)
                | (Self::Rtr, Self::Rts)
                | (Self::Rts, Self::Sqd)
                | (Self::Sqd, Self::Rts)
        )
    }

    /// Whether requests of the peer are taken.
    pub(super) fn hears(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd)
    }
}

/// To whom a queue pair is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) link: usize,
    pub(crate) peer: u64,
    pub(crate) peer_qpn: u32,
    /// Which session of the link.
    pub(super) session: u64,
}

/// What a queue pair is made of.
pub(crate) struct Making {
    pub(crate) pd: Use<Pd>,
    pub(crate) send_cq: Use<Cq>,
    pub(crate) recv_cq: Use<Cq>,
    pub(crate) srq: Option<Use<Srq>>,
    pub(crate) send: QueueShape,
    /// `None` with a shared receive queue.
    pub(crate) recv: Option<QueueShape>,
    pub(crate) protocol: Protocol,
}

/// Whether JOIN is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Yes,
    No,
}

/// What the engine and the users share.
pub(super) struct Inner {
    pub(super) state: State,
    pub(super) why: Status,
    pub(super) access: u32,
    pub(super) path: Option<Path>,
    /// Counts resets.
    pub(super) epoch: u32,
    send: Posted,
    /// `None` with a shared receive queue.
    recv: Option<Posted>,
    pub(super) initiator: Initiator,
    pub(super) responder: Responder,
    /// The peer's queue pair is connected to this one, and nobody else's is heard.
    pub(super) joined: bool,
    /// The peer has to be told of this end, and asked, or answered.
    pub(super) owes_join: Option<Ask>,
    /// It waits in the engine for its turn.
    pub(super) queued: bool,
    /// The peer has to be told that this end is in ERR.
    pub(super) owes_gone: bool,
    /// Its session is over, and it waits for another.
    pub(super) kept: bool,
    /// It was joined in a session before, and goes on.
    pub(super) resumes: bool,
    /// A request was sent or carried out.
    pub(super) touched: bool,
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Inner {
    /// Whether this end is connected to queue pair `qpn` of its peer's.
    pub(super) fn is_peer(&self, qpn: u32) -> bool {
        self.path.is_some_and(|path| path.peer_qpn == qpn)
    }

    /// Whether it is connected by this session of a link.
    pub(super) fn is_of(&self, link: usize, session: u64) -> bool {
        let is = |path: Path| path.link == link && path.session == session;
        self.path.is_some_and(is)
    }

    /// Where it stands, for whom it is joined with.
    pub(super) fn standing(&self) -> Standing {
        if !self.resumes {
            return Standing::FRESH;
        }
        Standing {
            resumes: true,
            expects: self.responder.expected(),
        }
    }

    /// Whether the peer, who says where it stands, goes on where this end does.
    pub(super) fn goes_with(&mut self, peer: Standing) -> bool {
        // An answer comes when requests may have been sent already.
        self.joined || peer.fits(self.resumes, self.initiator.next_number(), !self.touched)
    }

    /// Keeps it for another session, unless something of it is under way.
    pub(super) fn keep(&mut self) -> bool {
        let quiet = self.initiator.is_quiet() && self.responder.is_quiet();
        if !self.state.hears() || !quiet {
            return false;
        }
        self.kept = true;
        self.resumes |= core::mem::take(&mut self.joined);
        self.owes_join = None;
        self.initiator.rest();
        self.responder.rest();
        true
    }
}

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    number: u32,
    pub(super) made: Making,
    memory: Arc<Pages>,
    recv_at: usize,
    #[pin]
    pub(super) inner: Mutex<Inner>,
}

/// Queues begin at multiples of this.
const RING_ALIGN: usize = 128;
/// Requests of a queue that are ended in one go, when the queue pair is in ERR.
pub(super) const FLUSH: u32 = 256;

/// What is found when a user rings.
pub(super) struct Rung {
    /// Where the queue pair is connected to.
    pub(super) path: Option<Path>,
    /// Something was posted to be sent.
    pub(super) has_work: bool,
    /// It is in ERR, and not all that was posted was ended.
    pub(super) more: bool,
}

impl Qp {
    pub(super) fn new(number: u32, made: Making) -> Result<Arc<Self>> {
        let behind = made.send.bytes().next_multiple_of(RING_ALIGN);
        let bytes = made.recv.map_or(behind, |recv| behind + recv.bytes());
        let memory = Arc::new(Pages::new(bytes)?, GFP_KERNEL_ACCOUNT)?;
        let send = Posted::new(memory.clone(), 0, made.send)?;
        let recv = match made.recv {
            Some(shape) => Some(Posted::new(memory.clone(), behind, shape)?),
            None => None,
        };
        let recv_at = recv.as_ref().map_or(0, |_| behind);
        Arc::pin_init(
            pin_init!(Self {
                number,
                made,
                memory,
                recv_at,
                inner <- new_mutex!(
                    Inner {
                        state: State::Reset,
                        why: Status::Success,
                        access: 0,
                        path: None,
                        epoch: 0,
                        send,
                        recv,
                        initiator: Initiator::new(),
                        responder: Responder::new(),
                        joined: false,
                        owes_join: None,
                        queued: false,
                        owes_gone: false,
                        kept: false,
                        resumes: false,
                        touched: false,
                        sent: 0,
                        received: 0,
                    },
                    "weft qp"
                ),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Its QPN.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.made.protocol
    }

    /// The memory of both queues, to be mapped.
    pub(crate) fn memory(&self) -> &Pages {
        &self.memory
    }

    /// Where in it the receive queue is, 0 if there is none.
    pub(crate) fn recv_at(&self) -> usize {
        self.recv_at
    }

    /// Whether there is a send request; also if the count makes no sense, which is found out when one
    /// is taken.
    pub(super) fn has_send(&self, inner: &Inner) -> bool {
        inner.send.pending().map_or(true, |count| count > 0)
    }

    /// Takes the next send request, if there is one, into `wqe`.
    pub(super) fn take_send(
        &self,
        inner: &mut Inner,
        wqe: &mut SendWqe,
    ) -> Result<Option<Taken>, Status> {
        let shape = &self.made.send;
        let taken = inner.send.take(|entry| wqe.read(entry, shape));
        taken.map_err(|_| Status::LocalRequest)
    }

    /// Requests that have no completion yet: under way, and posted, unless only the former count.
    pub(super) fn outstanding(&self, posted: bool) -> u32 {
        let inner = self.inner.lock();
        let waits = match inner.state {
            // What is posted in other states is never begun.
            State::Rts | State::Sqd if posted => inner.send.pending().unwrap_or(0),
            _ => 0,
        };
        (inner.initiator.under_way() as u32).saturating_add(waits)
    }

    /// Whether there is a receive request. What makes no sense counts as one: it is found out when it
    /// is taken.
    pub(super) fn has_recv(&self, inner: &Inner) -> bool {
        match (&self.made.srq, &inner.recv) {
            (Some(srq), _) => srq.has_any().unwrap_or(true),
            (None, Some(recv)) => recv.pending().map_or(true, |count| count > 0),
            (None, None) => false,
        }
    }

    /// Takes a receive request; `None` if there is none.
    pub(super) fn take_recv(&self, inner: &mut Inner) -> Option<(u64, Result<RecvWqe, Status>)> {
        let decode = |entry: &[u8], shape: &QueueShape| {
            let (wr_id, wqe) = RecvWqe::decode(entry, shape);
            (wr_id, wqe.map_err(|_| Status::LocalRequest))
        };
        let taken = match (&self.made.srq, &mut inner.recv) {
            (Some(srq), _) => srq.take(|entry| decode(entry, srq.shape())),
            (None, Some(recv)) => {
                let shape = *recv.shape();
                recv.take(|entry| decode(entry, &shape))
            }
            (None, None) => return None,
        };
        taken.unwrap_or(Some((0, Err(Status::LocalRequest))))
    }

    /// A completion of the send queue.
    pub(super) fn complete_send(&self, cqe: &Cqe) -> Result<(), Overrun> {
        self.made.send_cq.push(cqe)
    }

    /// A completion of the receive queue.
    pub(super) fn complete_recv(&self, cqe: &Cqe) -> Result<(), Overrun> {
        self.made.recv_cq.push(cqe)
    }

    /// Goes to ERR because of `why`: what is under way, or was posted, ends. `first` is what becomes
    /// of the oldest request under way, `rest` of those behind it that were sent. Nothing happens to
    /// one that is there already, but that what was posted since is flushed.
    pub(super) fn fail(&self, inner: &mut Inner, why: Status, first: Status, rest: Status) {
        let before = inner.state;
        if !matches!(before, State::Err | State::Reset) {
            inner.state = State::Err;
            inner.kept = false;
            inner.why = why;
            // Another's queue pair, which this one only names, is none of its business.
            inner.owes_gone = before.hears() && inner.joined;
            let mut status = first;
            while let Some(request) = inner.initiator.pop() {
                self.flushed(
                    &self.made.send_cq,
                    request.wqe.wr_id,
                    request.opcode,
                    status,
                );
                status = rest;
            }
            if let Some((wr_id, opcode)) = inner.responder.give_up() {
                self.flushed(&self.made.recv_cq, wr_id, opcode, Status::Flushed);
            }
            self.told_of_end(why);
        }
        self.flush(inner, u32::MAX);
    }

    /// Goes to ERR because the peer does not keep to what was agreed on.
    pub(super) fn violated(&self, inner: &mut Inner) {
        self.fail(inner, Status::Protocol, Status::Protocol, Status::Flushed);
    }

    /// Whether a completion of this queue pair, or of another that completes there, found no room.
    pub(super) fn is_overrun(&self) -> bool {
        self.made.send_cq.is_overrun() || self.made.recv_cq.is_overrun()
    }

    /// A completion without success. One that finds no room is lost: the queue pair is in ERR.
    fn flushed(&self, cq: &Cq, wr_id: u64, opcode: u8, status: Status) {
        let _ = cq.push(&Cqe {
            wr_id,
            qpn: self.number,
            byte_len: 0,
            imm: None,
            status,
            opcode,
            ends: false,
        });
    }

    /// Nothing that was posted to a shared receive queue ends with this queue pair: who waits for
    /// what it receives would wait for ever.
    fn told_of_end(&self, why: Status) {
        if self.made.srq.is_some() {
            let _ = self.made.recv_cq.push(&Cqe {
                wr_id: 0,
                qpn: self.number,
                byte_len: 0,
                imm: None,
                status: why,
                opcode: OP_RECV,
                ends: true,
            });
        }
    }

    /// Of one in ERR: ends what was posted, but to a shared receive queue; up to `most` of either.
    /// True: there is more.
    pub(super) fn flush(&self, inner: &mut Inner, most: u32) -> bool {
        // Users may post meanwhile: no more than there were. A count that cannot be names nothing.
        let sends = inner.send.pending().unwrap_or(0);
        for _ in 0..sends.min(most) {
            if let Ok(Some(who)) = inner.send.take(Identity::of) {
                let (cq, status) = (&self.made.send_cq, Status::Flushed);
                self.flushed(cq, who.wr_id, who.opcode, status);
            }
        }
        let recvs = inner.recv.as_ref().map(|recv| recv.pending().unwrap_or(0));
        let recvs = recvs.unwrap_or(0);
        for _ in 0..recvs.min(most) {
            if let Some((wr_id, _)) = self.take_recv(inner) {
                self.flushed(&self.made.recv_cq, wr_id, OP_RECV, Status::Flushed);
            }
        }
        sends > most || recvs > most
    }

    /// A user rings for this queue pair. In ERR its requests end, whether it is connected or not; up
    /// to `most` of each queue.
    pub(super) fn rung(&self, most: u32) -> Rung {
        let mut inner = self.inner.lock();
        let has_work = self.has_send(&inner);
        let more = inner.state == State::Err && self.flush(&mut inner, most);
        Rung {
            path: inner.path,
            has_work,
            more,
        }
    }

    /// Wakes who waits for completions.
    pub(super) fn tell(&self) {
        self.made.send_cq.tell();
        self.made.recv_cq.tell();
    }

    /// To RESET: nothing is left of what was, and what was posted is forgotten.
    pub(super) fn reset(&self, inner: &mut Inner) {
        inner.state = State::Reset;
        inner.why = Status::Success;
        inner.path = None;
        inner.joined = false;
        inner.owes_join = None;
        inner.kept = false;
        inner.resumes = false;
        inner.touched = false;
        inner.epoch = inner.epoch.wrapping_add(1);
        inner.initiator = Initiator::new();
        inner.responder = Responder::new();
        for queue in [Some(&mut inner.send), inner.recv.as_mut()]
            .into_iter()
            .flatten()
        {
            for _ in 0..queue.pending().unwrap_or(0) {
                let _ = queue.take(|_| ());
            }
        }
    }
}

type Result<T = (), E = Error> = core::result::Result<T, E>;
