// SPDX-License-Identifier: GPL-2.0

//! A file that listens on a service, and the connections that wait to be accepted.

use super::Channel;
use crate::{
    share::{Charge, Payer},
    sys::waitq::WaitQueue,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

struct Queue {
    waiting: KVec<Arc<Channel>>,
    /// Places for channels that are about to wait.
    reserved: usize,
    closed: bool,
}

/// A listening file.
#[pin_data]
pub(crate) struct Listener {
    service: u32,
    backlog: usize,
    waiters: Arc<WaitQueue>,
    #[pin]
    queue: Mutex<Queue>,
    /// The user that connections count for.
    payer: Arc<Payer>,
    _charge: Charge,
}

impl Listener {
    /// Makes a listener. It has room for `backlog` connections from the start: none is lost for want
    /// of memory.
    pub(super) fn new(
        service: u32,
        backlog: usize,
        waiters: Arc<WaitQueue>,
        (payer, charge): (Arc<Payer>, Charge),
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
                        reserved: 0,
                        closed: false,
                    },
                    "weft listener"
                ),
                payer,
                _charge: charge,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(crate) fn service(&self) -> u32 {
        self.service
    }

    pub(super) fn payer(&self) -> &Payer {
        &self.payer
    }

    /// Returns whether a connection waits.
    pub(crate) fn is_ready(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }

    /// Reserves a place in the queue, before anything is allocated for a channel. `None` if there is no
    /// room, or the listener is closed.
    pub(super) fn reserve(self: &Arc<Self>) -> Option<Place> {
        let mut queue = self.queue.lock();
        if queue.closed || queue.waiting.len() + queue.reserved >= self.backlog {
            return None;
        }
        queue.reserved += 1;
        Some(Place(Some(self.clone())))
    }

    /// Gives a reserved place to `channel`, or back. Returns false if the listener is closed.
    fn fill(&self, channel: Option<Arc<Channel>>) -> bool {
        let mut queue = self.queue.lock();
        queue.reserved = queue.reserved.saturating_sub(1);
        let Some(channel) = channel.filter(|_| !queue.closed) else {
            return false;
        };
        let pushed = queue.waiting.push_within_capacity(channel).is_ok();
        drop(queue);
        self.waiters.wake_all();
        pushed
    }

    /// Takes the oldest connection.
    pub(super) fn pop(&self) -> Option<Arc<Channel>> {
        self.queue.lock().waiting.remove(0).ok()
    }

    /// Removes `channel`, which will not be accepted.
    pub(super) fn remove(&self, channel: &Arc<Channel>) {
        self.queue
            .lock()
            .waiting
            .retain(|waiting| !Arc::ptr_eq(waiting, channel));
    }

    /// Accepts no more connections and returns those that wait.
    pub(super) fn close(&self) -> KVec<Arc<Channel>> {
        let mut queue = self.queue.lock();
        queue.closed = true;
        core::mem::replace(&mut queue.waiting, KVec::new())
    }

    /// Sleeps until a connection waits or `ended` returns true.
    pub(super) fn wait(&self, ended: impl Fn() -> bool) -> Result {
        self.waiters.wait(|| ended() || self.is_ready())
    }

    pub(super) fn wake_all(&self) {
        self.waiters.wake_all();
    }
}

/// A reserved place in the queue of a listener. It is given back when this is dropped.
pub(super) struct Place(Option<Arc<Listener>>);

impl Place {
    /// Puts `channel` there. Returns false if the listener was closed meanwhile.
    pub(super) fn fill(mut self, channel: Arc<Channel>) -> bool {
        self.0
            .take()
            .is_some_and(|listener| listener.fill(Some(channel)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(listener) = self.0.take() {
            listener.fill(None);
        }
    }
}
