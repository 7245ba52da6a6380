// SPDX-License-Identifier: GPL-2.0

//! A file that listens on a service, and the requests that wait to be accepted.

use crate::{proto::socket::Half, share::Charge, sys::waitq::WaitQueue};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

/// A request that waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(super) link: usize,
    /// The session of the link that it has come in.
    pub(super) session: u64,
    /// The peer's id of the socket.
    pub(super) from: u32,
    /// The peer's half.
    pub(super) half: Half,
    /// What the peer tells the listener.
    pub(super) data: u64,
}

struct Queue {
    waiting: KVec<Request>,
    closed: bool,
}

/// A listening file.
#[pin_data]
pub(crate) struct Listener {
    pub(super) service: u32,
    backlog: usize,
    waiters: Arc<WaitQueue>,
    #[pin]
    queue: Mutex<Queue>,
    _charge: Charge,
}

impl Listener {
    /// Makes a listener. It has room for `backlog` requests from the start: none is lost for want of memory.
    pub(super) fn new(
        service: u32,
        backlog: usize,
        waiters: Arc<WaitQueue>,
        charge: Charge,
    ) -> Result<Arc<Self>> {
        let waiting = KVec::with_capacity(backlog, GFP_KERNEL_ACCOUNT)?;
        Arc::pin_init(
            pin_init!(Self {
                service,
                backlog,
                waiters,
                queue <- new_mutex!(
                    Queue {
                        waiting,
                        closed: false,
                    },
                    "weft socket listener"
                ),
                _charge: charge,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns whether a request waits.
    pub(crate) fn is_ready(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }

    /// Has a request wait. Returns false if there is no room, or the listener is closed.
    pub(super) fn add(&self, request: Request) -> bool {
        let mut queue = self.queue.lock();
        if queue.closed || queue.waiting.len() >= self.backlog {
            return false;
        }
        let added = queue.waiting.push_within_capacity(request).is_ok();
        drop(queue);
        self.waiters.wake_all();
        added
    }

    /// Returns the request that the peer has called `from`, of a session of a link.
    pub(super) fn find(&self, (link, session, from): (usize, u64, u32)) -> Option<Request> {
        let is_it = |request: &&Request| {
            (request.link, request.session, request.from) == (link, session, from)
        };
        self.queue.lock().waiting.iter().find(is_it).copied()
    }

    /// Returns the oldest request, and leaves it there.
    pub(super) fn first(&self) -> Option<Request> {
        self.queue.lock().waiting.first().copied()
    }

    /// Takes a request. Returns false if it is not there any more.
    pub(super) fn take(&self, request: &Request) -> bool {
        let mut queue = self.queue.lock();
        let at = queue.waiting.iter().position(|other| other == request);
        at.is_some_and(|at| queue.waiting.remove(at).is_ok())
    }

    /// Removes the requests for which `f` returns true.
    pub(super) fn remove(&self, f: impl Fn(&Request) -> bool) {
        self.queue.lock().waiting.retain(|request| !f(request));
    }

    /// Accepts no more requests and returns those that wait.
    pub(super) fn close(&self) -> KVec<Request> {
        let mut queue = self.queue.lock();
        queue.closed = true;
        core::mem::replace(&mut queue.waiting, KVec::new())
    }

    /// Sleeps until a request waits or `ended` returns true.
    pub(super) fn wait(&self, ended: impl Fn() -> bool) -> Result {
        self.waiters.wait(|| ended() || self.is_ready())
    }

    pub(super) fn wake_all(&self) {
        self.waiters.wake_all();
    }
}
