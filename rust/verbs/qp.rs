// SPDX-License-Identifier: GPL-2.0

//! A queue pair: its queues, its state, what is under way.
//!
//! The engine works it off, under [`Qp::inner`]; users change and ask for its state. It must not know
//! files, or how messages travel.

use super::{
    cx::Cx,
    env::{Env, Running},
    heap::KernelHeap,
    making::Making,
    posted::Posted,
};
use crate::{
    proto::{
        protocol::Protocol,
        qp::{Machine, Queues},
    },
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

/// Where a queue pair is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) link: usize,
    pub(crate) peer: u64,
    /// Which session of the link.
    pub(super) session: u64,
}

/// What the engine and the users share.
pub(super) struct Inner {
    pub(super) machine: Machine<KernelHeap>,
    pub(super) path: Option<Path>,
    /// It waits in the engine for its turn.
    pub(super) queued: bool,
    send: Posted,
    /// `None` with a shared receive queue.
    recv: Option<Posted>,
}

impl Inner {
    /// Whether it is connected by this session of a link.
    pub(super) fn is_of(&self, link: usize, session: u64) -> bool {
        let is = |path: Path| path.link == link && path.session == session;
        self.path.is_some_and(is)
    }

    /// The machine, and what it works with outside of a run of the engine.
    pub(super) fn outside<'a>(
        &'a mut self,
        qp: &'a Qp,
    ) -> (&'a mut Machine<KernelHeap>, Env<'a, ()>) {
        let env = Env::new((), &qp.made, &mut self.send, self.recv.as_mut());
        (&mut self.machine, env)
    }

    /// To RESET, without a connection.
    pub(super) fn reset(&mut self, qp: &Qp) {
        self.path = None;
        let (machine, mut env) = self.outside(qp);
        machine.reset(&mut env);
    }

    /// The machine, and what it works with in a run of the engine.
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

/// Queues begin at multiples of this.
const RING_ALIGN: usize = 128;
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
                        machine: Machine::new(*number, made.protocol),
                        path: None,
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

    /// The memory of both queues, to be mapped.
    pub(crate) fn memory(&self) -> &Pages {
        &self.memory
    }

    /// Where in it the receive queue is, 0 if there is none.
    pub(crate) fn recv_at(&self) -> usize {
        self.recv_at
    }

    /// Requests that have no completion yet: under way, and posted, unless only the former count.
    pub(super) fn outstanding(&self, posted: bool) -> u32 {
        let mut inner = self.inner.lock();
        let (machine, env) = inner.outside(self);
        machine.outstanding(&env, posted)
    }

    /// Whether a completion of this queue pair, or of another that completes there, found no room.
    pub(super) fn is_overrun(&self) -> bool {
        self.made.send_cq.is_overrun() || self.made.recv_cq.is_overrun()
    }

    /// A user rings for this queue pair. In ERR its requests end, whether it is connected or not; up
    /// to `most` of each queue.
    pub(super) fn rung(&self, most: u32) -> Rung {
        let mut inner = self.inner.lock();
        let path = inner.path;
        let (machine, mut env) = inner.outside(self);
        let has_work = env.has_send();
        let more = machine.state() == State::Err && machine.flush(&mut env, most);
        Rung {
            path,
            has_work,
            more,
        }
    }

    /// Wakes waiters for completions.
    pub(super) fn tell(&self) {
        self.made.send_cq.tell();
        self.made.recv_cq.tell();
    }
}
