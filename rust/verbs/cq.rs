// SPDX-License-Identifier: GPL-2.0

//! A completion queue.
//!
//! The engine puts entries in, in any thread; the user takes them out of mapped memory. Who does not
//! want to look all the time arms the queue: an eventfd is signalled, and the file's `poll` says so,
//! when there is an entry beyond those taken. It must not know what completes, or files.

use super::counts::{Counted, Counts, Kind};
use crate::{
    mem::{Used, Users},
    proto::{
        cqe::{CqShape, Cqe, Producer, CONSUMED_AT, CQE_VALID, OVERRUN_AT, PRODUCED_AT},
        qp::Overrun,
    },
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
    /// The user wants to be told of an entry beyond so many.
    wanted: Option<u64>,
    /// And has not been.
    armed: bool,
}

impl Inner {
    fn is_ready(&self) -> bool {
        self.wanted
            .is_some_and(|consumed| self.producer.is_beyond(consumed))
    }
}

/// A completion queue.
#[pin_data]
pub(crate) struct Cq {
    #[pin]
    inner: SpinLock<Inner>,
    memory: Pages,
    event: Option<EventFd>,
    /// Those of the file.
    waiters: Arc<WaitQueue>,
    users: Users,
    _counted: Counted,
}

impl Cq {
    /// `ENOSPC`: the port has too many.
    pub(crate) fn new(
        counts: &Arc<Counts>,
        shape: CqShape,
        event: Option<EventFd>,
        waiters: Arc<WaitQueue>,
    ) -> Result<Arc<Self>> {
        let counted = Counted::new(counts, Kind::Cq)?;
        let memory = Pages::new(shape.bytes())?;
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_spinlock!(
                    Inner {
                        producer: Producer::new(shape),
                        wanted: None,
                        armed: false,
                    },
                    "weft cq"
                ),
                memory,
                event,
                waiters,
                users: Users::new(),
                _counted: counted,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Its memory, to be mapped.
    pub(crate) fn memory(&self) -> &Pages {
        &self.memory
    }

    /// Puts an entry in. Does not sleep.
    pub(crate) fn push(&self, cqe: &Cqe) -> Result<(), Overrun> {
        let mut inner = self.inner.lock();
        let result = self.store(&mut inner.producer, cqe);
        let tell = inner.armed && inner.is_ready();
        if tell {
            inner.armed = false;
        }
        drop(inner);
        if tell {
            self.tell();
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
        for (n, word) in words.iter().enumerate().take(CQE_VALID) {
            let _ = self.memory.write64(at + 8 * n, *word);
        }
        // Who sees the last word sees the others.
        publish();
        let _ = self.memory.write64(at + 8 * CQE_VALID, words[CQE_VALID]);
        let _ = self.memory.write64(PRODUCED_AT, producer.produced());
        Ok(())
    }

    /// Wakes who waits.
    pub(super) fn tell(&self) {
        if let Some(event) = &self.event {
            event.signal();
        }
        self.waiters.wake_all();
    }

    /// The user, who has taken `consumed` entries, wants to be told of the next one. False: it
    /// is there already.
    pub(crate) fn arm(&self, consumed: u64) -> bool {
        let mut inner = self.inner.lock();
        inner.wanted = Some(consumed);
        let ready = inner.is_ready();
        inner.armed = !ready;
        drop(inner);
        if ready {
            self.tell();
        }
        !ready
    }

    /// Whether there is an entry that the user wants to be told of.
    pub(crate) fn is_ready(&self) -> bool {
        self.inner.lock().is_ready()
    }

    /// Whether an entry has found no room.
    pub(crate) fn is_overrun(&self) -> bool {
        self.inner.lock().producer.is_overrun()
    }
}

impl Used for Cq {
    fn users(&self) -> &Users {
        &self.users
    }
}
