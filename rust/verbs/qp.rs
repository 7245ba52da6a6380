// SPDX-License-Identifier: GPL-2.0

//! A queue pair: its queues, its state, and its requests under way.
//!
//! The engine serves it with [`Qp::inner`] held; users change and query its state. It must not know
//! files, or how messages travel.

use super::{
    cq::Cq,
    cx::Cx,
    env::{Env, Running},
    heap::KernelHeap,
    making::Making,
    posted::Posted,
};
use crate::{
    proto::{protocol::Protocol, qp::Machine},
    share::Charge,
    sys::{ext, pages::Pages},
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

pub(crate) use crate::proto::qp::State;

// The numbers of the user interface.
const _: () = assert!(State::Reset as u32 == ext::WEFT_QP_RESET);
const _: () = assert!(State::Init as u32 == ext::WEFT_QP_INIT);
const _: () = assert!(State::Rtr as u32 == ext::WEFT_QP_RTR);
const _: () = assert!(State::Rts as u32 == ext::WEFT_QP_RTS);
const _: () = assert!(State::Sqd as u32 == ext::WEFT_QP_SQD);
const _: () = assert!(State::Err as u32 == ext::WEFT_QP_ERR);

/// The connection of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) link: usize,
    pub(crate) peer: u64,
    /// The number of the link's session.
    pub(super) session: u64,
}

/// What the engine and users' calls share.
pub(super) struct Inner {
    pub(super) machine: Machine<KernelHeap>,
    pub(super) path: Option<Path>,
    /// The routed link of the path counts for the user.
    pub(super) charge: Option<Charge>,
    /// It is in the run queue of its link.
    pub(super) queued: bool,
    send: Posted,
    /// `None` with a shared receive queue.
    recv: Option<Posted>,
}

impl Inner {
    /// Returns whether it is connected in session `session` of link `link`.
    pub(super) fn is_of(&self, link: usize, session: u64) -> bool {
        let is = |path: Path| path.link == link && path.session == session;
        self.path.is_some_and(is)
    }

    /// Returns the machine and its environment outside of a run of the engine.
    pub(super) fn outside<'a>(
        &'a mut self,
        qp: &'a Qp,
    ) -> (&'a mut Machine<KernelHeap>, Env<'a, ()>) {
        let env = Env::new((), &qp.made, &mut self.send, self.recv.as_mut());
        (&mut self.machine, env)
    }

    /// Moves to RESET and drops the connection.
    pub(super) fn reset(&mut self, qp: &Qp) {
        self.path = None;
        self.charge = None;
        let (machine, mut env) = self.outside(qp);
        machine.reset(&mut env);
    }

    /// In ERR: flushes up to `most` requests. Returns how many.
    fn flush(&mut self, qp: &Qp, most: u32) -> u32 {
        let (machine, mut env) = self.outside(qp);
        machine.flush(&mut env, most)
    }

    /// Returns the machine and its environment in a run of the engine.
    pub(super) fn inside<'a, 'b, 'c>(
        &'a mut self,
        qp: &'a Qp,
        cx: &'b mut Cx<'c>,
    ) -> (&'a mut Machine<KernelHeap>, Running<'a, 'b, 'c>) {
        let env = Env::new(cx, &qp.made, &mut self.send, self.recv.as_mut());
        (&mut self.machine, env)
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

/// The queues begin at multiples of this many bytes.
const RING_ALIGN: usize = 128;
/// What a user's kick found.
pub(super) struct Rung {
    /// The connection, if there is one.
    pub(super) path: Option<Path>,
    /// Requests were posted to the send queue since the previous kick.
    pub(super) has_work: bool,
    /// Posted requests that were flushed, in ERR.
    pub(super) flushed: u32,
    /// It is in ERR, and posted requests may remain to be flushed.
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
                        machine: Machine::new(*number, made.protocol),
                        path: None,
                        charge: None,
                        queued: false,
                        send,
                        recv,
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

    /// Returns the memory of both queues, for mapping.
    pub(crate) fn memory(&self) -> &Pages {
        &self.memory
    }

    /// Returns the offset of the receive queue in that memory, 0 if there is none.
    pub(crate) fn recv_at(&self) -> usize {
        self.recv_at
    }

    /// Counts the requests that have no completion: those under way and, if `posted`, also those that
    /// can be begun.
    pub(super) fn outstanding(&self, posted: bool) -> u32 {
        let mut inner = self.inner.lock();
        let (machine, env) = inner.outside(self);
        machine.outstanding(&env, posted)
    }

    /// Returns whether one of its completion queues has had no room for a completion, of this or of
    /// another queue pair.
    pub(super) fn is_overrun(&self) -> bool {
        self.made.send_cq.is_overrun() || self.made.recv_cq.is_overrun()
    }

    /// Handles a user's kick of this queue pair. In ERR, flushes up to `most` requests, connected or
    /// not.
    pub(super) fn rung(&self, most: u32) -> Rung {
        let mut inner = self.inner.lock();
        let path = inner.path;
        // Not whether there are any: a queue pair that is not connected keeps those that it has.
        let has_work = inner.send.has_more();
        let fails = inner.machine.state() == State::Err;
        let flushed = if fails { inner.flush(self, most) } else { 0 };
        Rung {
            path,
            has_work,
            flushed,
            more: fails && flushed == most,
        }
    }

    /// Returns whether any of its requests complete in `cq`.
    pub(super) fn completes_in(&self, cq: &Arc<Cq>) -> bool {
        Arc::ptr_eq(&self.made.send_cq, cq) || Arc::ptr_eq(&self.made.recv_cq, cq)
    }

    /// Returns its connection, if there is one.
    pub(super) fn path(&self) -> Option<Path> {
        self.inner.lock().path
    }

    /// In ERR: flushes up to `most` requests. Returns true if there may be more.
    pub(super) fn flush(&self, most: u32) -> bool {
        let mut inner = self.inner.lock();
        inner.machine.state() == State::Err && inner.flush(self, most) == most
    }

    /// Wakes waiters for completions.
    pub(super) fn tell(&self) {
        self.made.send_cq.tell();
        self.made.recv_cq.tell();
    }
}
