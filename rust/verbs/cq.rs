// SPDX-License-Identifier: GPL-2.0

//! A completion queue.
//!
//! The engine adds entries, in any thread; the user takes them from mapped memory. A user that does
//! not poll arms the queue: when there is an entry beyond those taken, an eventfd is signalled and
//! the file is ready for `poll`. Or it sleeps in a call ([`Sleeper`]), which any entry wakes: each
//! sleeper knows which one it waits for. This file must not know what completes, or files.

use crate::{
    mem::{Used, Users},
    proto::{
        cqe::{CqShape, Cqe, Producer, CONSUMED_AT, CQE_VALID, OVERRUN_AT, PRODUCED_AT},
        qp::Overrun,
    },
    share::{Charge, Payer, Table},
    sys::{
        eventfd::EventFd,
        pages::{publish, Pages},
        waitq::WaitQueue,
    },
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{Arc, SpinLock},
};

struct Inner {
    producer: Producer,
    /// The user wants a notification when more than so many entries were produced,
    wanted: Option<u64>,
    /// and was not notified yet.
    armed: bool,
    /// How many users sleep in a call.
    sleepers: u32,
}

impl Inner {
    fn is_ready(&self) -> bool {
        self.wanted
            .is_some_and(|consumed| self.producer.is_beyond(consumed))
    }
}

/// Completion queues that a port can have.
pub(crate) const MAX_CQS: u32 = 16384;

/// A completion queue.
#[pin_data]
pub(crate) struct Cq {
    #[pin]
    inner: SpinLock<Inner>,
    memory: Pages,
    event: Option<EventFd>,
    /// The waiters of the file.
    waiters: Arc<WaitQueue>,
    /// The users that sleep in a call.
    #[pin]
    sleepers: WaitQueue,
    users: Users,
    _charge: Charge,
}

impl Cq {
    /// Makes a completion queue. `ENOSPC`: the port has [`MAX_CQS`]; `EDQUOT`: `payer` has its share.
    pub(crate) fn new(
        payer: &Payer,
        shape: CqShape,
        event: Option<EventFd>,
        waiters: Arc<WaitQueue>,
    ) -> Result<Arc<Self>> {
        let charge = payer.take(Table::Cqs, MAX_CQS, 1)?;
        let memory = Pages::new(shape.bytes())?;
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_spinlock!(
                    Inner {
                        producer: Producer::new(shape),
                        wanted: None,
                        armed: false,
                        sleepers: 0,
                    },
                    "weft cq"
                ),
                memory,
                event,
                waiters,
                sleepers <- WaitQueue::new(c"weft cq sleepers", kernel::static_lock_class!()),
                users: Users::new(),
                _charge: charge,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the memory of the queue, for mapping.
    pub(crate) fn memory(&self) -> &Pages {
        &self.memory
    }

    /// Adds an entry. Fails with [`Overrun`] if there is no room. Does not sleep.
    pub(crate) fn push(&self, cqe: &Cqe) -> Result<(), Overrun> {
        let mut inner = self.inner.lock();
        let result = self.store(&mut inner.producer, cqe);
        let tell = inner.armed && inner.is_ready();
        if tell {
            inner.armed = false;
        }
        let wake = inner.sleepers != 0;
        drop(inner);
        if tell {
            self.notify();
        }
        if wake {
            self.sleepers.wake_all();
        }
        result
    }

    fn store(&self, producer: &mut Producer, cqe: &Cqe) -> Result<(), Overrun> {
        // All offsets are inside the memory, by its size.
        let Some(number) = producer.next(|| self.memory.read64(CONSUMED_AT).unwrap_or(0)) else {
            let _ = self.memory.write64(OVERRUN_AT, 1);
            return Err(Overrun);
        };
        let at = producer.shape().entry_at(number);
        let words = cqe.encode(number, producer.shape());
        if let Ok(entry) = self.memory.words(at, words.len()) {
            for (n, word) in words.iter().enumerate().take(CQE_VALID) {
                entry.store(n, *word);
            }
            // A reader that sees the last word sees the others.
            publish();
            entry.store(CQE_VALID, words[CQE_VALID]);
        }
        let _ = self.memory.write64(PRODUCED_AT, producer.produced());
        Ok(())
    }

    /// Wakes all that wait for an entry: there may be none any more, or something else is wanted of them.
    pub(super) fn tell(&self) {
        self.notify();
        self.sleepers.wake_all();
    }

    /// Signals the eventfd and wakes the file's waiters.
    fn notify(&self) {
        if let Some(event) = &self.event {
            event.signal();
        }
        self.waiters.wake_all();
    }

    /// Arms the queue for a user that has taken `consumed` entries: the next entry notifies the user.
    /// Returns false if that entry is there already.
    pub(crate) fn arm(&self, consumed: u64) -> bool {
        let mut inner = self.inner.lock();
        inner.wanted = Some(consumed);
        let ready = inner.is_ready();
        inner.armed = !ready;
        drop(inner);
        if ready {
            self.notify();
        }
        !ready
    }

    /// Wakes the users that sleep, after the queue was closed: it is destroyed.
    pub(crate) fn destroy(&self) {
        self.sleepers.wake_all();
    }

    /// Returns whether there is an entry that the user has armed the queue for.
    pub(crate) fn is_ready(&self) -> bool {
        self.inner.lock().is_ready()
    }

    /// Returns whether an entry has found no room.
    pub(crate) fn is_overrun(&self) -> bool {
        self.inner.lock().producer.is_overrun()
    }
}

/// The entry that a user waits for: the first one that it has not taken.
pub(crate) struct Next {
    pub(crate) cq: Arc<Cq>,
    /// Entries that it has taken.
    pub(crate) consumed: u64,
}

impl Next {
    /// Returns whether it is there.
    ///
    /// # Errors
    ///
    /// It is not, and will not come. `EOVERFLOW`: an entry found no room; `ENOENT`: the queue is
    /// destroyed.
    pub(super) fn is_there(&self) -> Result<bool> {
        let inner = self.cq.inner.lock();
        if inner.producer.is_beyond(self.consumed) {
            Ok(true)
        } else if inner.producer.is_overrun() {
            Err(EOVERFLOW)
        } else if self.cq.users.is_closed() {
            Err(ENOENT)
        } else {
            Ok(false)
        }
    }

    /// Returns whether it is there, or will not come.
    pub(super) fn has_ended(&self) -> bool {
        self.is_there() != Ok(false)
    }
}

/// A user that is about to sleep until there is an entry, or sleeps: each entry wakes it.
pub(super) struct Sleeper<'a>(&'a Cq);

impl<'a> Sleeper<'a> {
    pub(super) fn new(next: &'a Next) -> Self {
        next.cq.inner.lock().sleepers += 1;
        Self(&next.cq)
    }

    /// Returns the queue to sleep on.
    pub(super) fn queue(&self) -> &'a WaitQueue {
        &self.0.sleepers
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.inner.lock().sleepers -= 1;
    }
}

impl Used for Cq {
    fn users(&self) -> &Users {
        &self.users
    }
}
