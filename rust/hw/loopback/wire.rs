// SPDX-License-Identifier: GPL-2.0

//! What joins the two ends of a loopback: doorbells and mailboxes, which a work item reports.
//!
//! A doorbell is not reported by the call that rings it: its caller holds locks that the event needs too. This file
//! must not know the memory of the ends.

use crate::{
    hw::{Events, LOOPBACK_LINKS, MBOX_BYTES},
    sys::{errno::ENOLINK, queue::Queue, work},
};
use kernel::{
    impl_has_delayed_work, new_delayed_work, new_mutex,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Full, Release},
        Arc, Mutex,
    },
    workqueue::{DelayedWork, WorkItem},
};

/// The most messages that wait at an end.
const DEPTH: usize = 32;

/// The doorbells of an end.
#[derive(Clone, Copy)]
pub(super) enum Bell {
    Wake = 0,
    Echo = 1,
}

pub(super) const BELLS: [Bell; 2] = [Bell::Wake, Bell::Echo];

#[derive(Clone, Copy)]
struct Letter {
    bytes: usize,
    data: [u8; MBOX_BYTES],
}

/// The doorbells of both ends, and the messages for them.
#[pin_data]
pub(super) struct Wire {
    events: Arc<dyn Events>,
    /// The number of the first end, as a link.
    first: usize,
    /// Events are reported.
    plugged: Atomic<bool>,
    /// The doorbells that were rung, of each end.
    rung: [[Atomic<bool>; BELLS.len()]; LOOPBACK_LINKS],
    /// Messages were sent.
    sent: Atomic<bool>,
    /// The messages for each end.
    #[pin]
    mail: Mutex<[Queue<Letter>; LOOPBACK_LINKS]>,
    #[pin]
    work: DelayedWork<Wire>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Wire { self.work }
}

impl Wire {
    pub(super) fn new(events: Arc<dyn Events>, first: usize) -> Result<Arc<Self>> {
        let blank = Letter {
            bytes: 0,
            data: [0; MBOX_BYTES],
        };
        let mail = [Queue::new(blank, DEPTH)?, Queue::new(blank, DEPTH)?];
        Arc::pin_init(
            pin_init!(Self {
                events,
                first,
                plugged: Atomic::new(false),
                rung: [const { [const { Atomic::new(false) }; BELLS.len()] }; LOOPBACK_LINKS],
                sent: Atomic::new(false),
                mail <- new_mutex!(mail, "weft loopback mail"),
                work <- new_delayed_work!("weft loopback"),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn is_plugged(&self) -> bool {
        self.plugged.load(Acquire)
    }

    /// Lets events be reported.
    pub(super) fn plug(&self) {
        self.plugged.store(true, Release);
    }

    /// Forgets messages and doorbells. No event is reported when this returns, nor later. Sleeps.
    pub(super) fn unplug(self: &Arc<Self>) {
        self.plugged.store(false, Release);
        work::cancel_delayed(self);
        for queue in &mut *self.mail.lock() {
            while queue.take().is_some() {}
        }
        self.sent.store(false, Release);
        for bell in self.rung.as_flattened() {
            bell.store(false, Release);
        }
    }

    /// Rings a doorbell of `end`. Any context.
    pub(super) fn ring(self: &Arc<Self>, end: usize, bell: Bell) {
        let Some(rung) = self
            .rung
            .get(end)
            .and_then(|bells| bells.get(bell as usize))
        else {
            return;
        };
        // Behind the stores that it announces.
        rung.xchg(true, Full);
        self.report();
    }

    /// Has the work item report. Any context.
    fn report(self: &Arc<Self>) {
        if self.is_plugged() {
            work::again_in(self, 0);
        }
    }

    /// Sends a message to `end`. `EINVAL`: it is empty or too long; `ENOLINK`: the ends are down; `EAGAIN`: too
    /// many messages wait there.
    pub(super) fn send(self: &Arc<Self>, end: usize, msg: &[u8]) -> Result {
        let mut letter = Letter {
            bytes: msg.len(),
            data: [0; MBOX_BYTES],
        };
        let place = letter.data.get_mut(..msg.len()).ok_or(EINVAL)?;
        place.copy_from_slice(msg);
        if msg.is_empty() {
            return Err(EINVAL);
        }
        if !self.is_plugged() {
            return Err(ENOLINK.into());
        }
        let mut mail = self.mail.lock();
        if !mail.get_mut(end).ok_or(EINVAL)?.put(letter) {
            return Err(EAGAIN);
        }
        drop(mail);
        self.sent.xchg(true, Full);
        self.report();
        Ok(())
    }

    /// Takes the oldest message of an end that has one. Returns the end, and the size of the message.
    pub(super) fn recv(&self, buf: &mut [u8; MBOX_BYTES]) -> Option<(usize, usize)> {
        let mut mail = self.mail.lock();
        let mut ends = mail.iter_mut().enumerate();
        let (end, letter) = ends.find_map(|(end, queue)| Some((end, queue.take()?)))?;
        *buf = letter.data;
        Some((end, letter.bytes))
    }
}

impl WorkItem for Wire {
    type Pointer = Arc<Wire>;

    fn run(this: Arc<Wire>) {
        // It may have been queued by a call that had begun before.
        if !this.is_plugged() {
            return;
        }
        for (end, bells) in this.rung.iter().enumerate() {
            let link = this.first + end;
            for (bell, rung) in BELLS.iter().zip(bells) {
                if !rung.xchg(false, Full) {
                    continue;
                }
                match bell {
                    Bell::Wake => this.events.wake(link),
                    Bell::Echo => this.events.echo(link),
                }
            }
        }
        if this.sent.xchg(false, Full) {
            this.events.message();
        }
    }
}
