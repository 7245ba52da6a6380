// SPDX-License-Identifier: GPL-2.0

//! Functions of shared endpoints, for programs of this host: those that the host's virtual hierarchy
//! contains.
//!
//! One file at a time has a function. The function's queues are in memory that is never mapped to a
//! program. The memory that a program shares with the function consists of *areas* that it gets here:
//! the program names no address, and reaches nothing else. The endpoint is shared with other hosts:
//! it reaches only the inbound mappings that were opened to it, by the link and the virtual plane on
//! which it comes in. What it writes is copied, and checked by [`crate::proto::endpoint`]. This
//! module must not know files, nor how hierarchies are made.
//!
//! A function whose route is another one is held, and goes on by the new route. One that was taken away, or
//! that the port has lost, is broken for good: the outstanding work is reported as flushed, and a program
//! that wants to continue opens the function again.
//!
//! # Locks
//!
//! In this order, inside those of `fabric` and outside of those of a port:
//!
//! 1. `Function::inner`, also held while waiting for the hardware, for a tenth of a second per
//!    mapping;
//! 2. `Function::areas`, then `Area::memory`, both taken in page faults, that is, with `mmap_lock`
//!    held: the holder touches no user memory, and zaps nothing;
//! 3. `Endpoints::slots` and `Endpoints::node`, held briefly;
//! 4. `Endpoints::bells`, with interrupts off: taken by the hard interrupt.

mod area;
mod areas;
mod end;
mod function;
mod held;
mod memory;
mod reason;
mod registers;
mod reroute;
mod slots;
mod start;
mod wanted;

pub(crate) use self::{
    area::MAX_AREA,
    function::{Function, Range, Request, MAX_ENTRIES},
    start::Shape,
    wanted::Wanted,
};

use self::{function::State, reason::Why, slots::Table};
use crate::{
    fabric::{Functions, Node, Reason},
    hw::{endpoint_slots::MAX_ENDPOINT_SLOTS, Port},
    proto::pace::Pace,
    sys::{
        clock,
        dma::DmaSource,
        irqlock::{new_spinlock_irq, SpinLockIrq},
        uevent,
        vma::Mapping,
        waitq::WaitQueue,
    },
};
use kernel::{
    device::{Bound, Device},
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// The most uevents of failures in a second: a program may open a function that fails again and again.
const EVENTS: usize = 4;

/// The failures that users are told of.
struct Failures {
    /// The last one, until it is told. Those before it are in the log and in the count.
    last: Option<(Wanted, &'static CStr)>,
    pace: Pace<EVENTS>,
}

/// The functions that are open at a port.
#[pin_data]
pub(crate) struct Endpoints {
    source: DmaSource,
    mapping: Arc<Mapping>,
    #[pin]
    slots: Mutex<Table>,
    /// By slot, the wait queue that a doorbell of the remote function wakes.
    #[pin]
    bells: SpinLockIrq<[Option<Arc<WaitQueue>>; MAX_ENDPOINT_SLOTS]>,
    #[pin]
    node: Mutex<Option<Arc<Node>>>,
    /// The id of the last area.
    last_id: Atomic<u64>,
    /// How many functions have failed while programs used them.
    failures: Atomic<u64>,
    #[pin]
    untold: Mutex<Failures>,
}

impl Endpoints {
    /// Makes it, without open functions. The caller calls [`Self::retired`] while the device is
    /// bound.
    pub(crate) fn new(dev: &Device<Bound>, mapping: Arc<Mapping>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                source: DmaSource::new(dev),
                mapping,
                slots <- new_mutex!(Table::new(), "weft endpoints"),
                bells <- new_spinlock_irq!([const { None }; MAX_ENDPOINT_SLOTS], c"weft endpoint bells"),
                node <- new_mutex!(None, "weft endpoints' node"),
                last_id: Atomic::new(0),
                failures: Atomic::new(0),
                untold <- new_mutex!(
                    Failures {
                        last: None,
                        pace: Pace::new(),
                    },
                    "weft endpoint failures"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Starts to supervise the functions that are open at `node`.
    pub(crate) fn serve(&self, node: &Arc<Node>) {
        *self.node.lock() = Some(node.clone());
    }

    fn node(&self) -> Option<Arc<Node>> {
        self.node.lock().clone()
    }

    fn open_ones(&self) -> [Option<Arc<Function>>; MAX_ENDPOINT_SLOTS] {
        self.slots.lock().users()
    }

    /// Ends a function: its file is closed.
    pub(crate) fn close(&self, node: &Node, function: &Arc<Function>) {
        let port = node.port_at_work();
        function.end(self, port.as_ref().map(|port| &***port), Why::Closed);
        // While it is still in the list of ended functions: `Self::retired` waits for those.
        function.forget(self);
        let ended = self.slots.lock().recall(Some(function));
        drop(ended);
    }

    /// Handles a change of this host's hierarchy: functions that are not in it any more are broken, and soon
    /// give back what they have; those that come in by another way are carried over.
    pub(crate) fn hierarchy(&self) {
        let Some(node) = self.node() else {
            return;
        };
        for function in self.open_ones().into_iter().flatten() {
            if let Some(why) = function.follow_hierarchy(&node) {
                function.doom(why);
            }
        }
        node.hurry();
    }

    /// Returns whether all functions that were taken away are released.
    pub(crate) fn let_go(&self) -> bool {
        let mut all = self.open_ones().into_iter().flatten();
        !all.any(|function| function.holds_on()) && !self.slots.lock().holds_any()
    }

    /// Checks all open functions, periodically, and retries to release memory.
    pub(crate) fn passed(&self) {
        let Some(node) = self.node() else {
            return;
        };
        self.tell_failure(&node);
        let Some(port) = node.port_at_work() else {
            return;
        };
        if self.slots.lock().holds_any() {
            self.release_held_by(&**port);
        }
        for function in self.open_ones().into_iter().flatten() {
            function.watch(self, &**port);
        }
    }

    /// Checks all open functions: routes of the port may have changed.
    pub(crate) fn looked(&self, port: &dyn Port) {
        for function in self.open_ones().into_iter().flatten() {
            function.look(self, port);
        }
    }

    /// Ends all functions: the port is going to be reset, or taken away.
    pub(crate) fn lost(&self, port: &dyn Port, reason: Reason) {
        let why = match reason {
            Reason::Removed => Why::Removed,
            _ => Why::Reset,
        };
        for function in self.open_ones().into_iter().flatten() {
            function.end(self, Some(port), why);
        }
        self.release_held_by(port);
    }

    /// Wakes waiters: the remote function of `slot` has rung. Called in hard interrupts.
    pub(crate) fn called(&self, slot: usize) {
        if let Some(Some(waiters)) = self.bells.lock().get(slot) {
            waiters.wake_all();
        }
    }

    /// Wakes all waiters: the port is gone, or something is wanted of users.
    pub(crate) fn closed(&self) {
        for function in self.open_ones().into_iter().flatten() {
            function.wake();
        }
    }

    /// Ends all functions: the port is gone for good. When this returns, no memory of the device is
    /// used. Sleeps.
    pub(crate) fn retired(&self) {
        for function in self.open_ones().into_iter().flatten() {
            function.end(self, None, Why::Removed);
        }
        loop {
            let ended = self.slots.lock().recall(None);
            let Some(function) = ended else {
                break;
            };
            function.forget(self);
        }
        let node = self.node.lock().take();
        if let Some(node) = node {
            self.give_up_held(&node.dev());
        }
    }

    /// Returns how many functions programs use, how many of those are held, and how often one has failed, or
    /// broken the protocol. Sleeps, as it takes their locks.
    pub(crate) fn count(&self) -> Functions {
        let mut count = Functions {
            failures: self.failures.load(Relaxed),
            ..Functions::default()
        };
        for function in self.open_ones().into_iter().flatten() {
            let inner = function.inner.lock();
            let open = inner.state == State::Open;
            count.open += u64::from(open);
            count.held += u64::from(open && inner.is_held());
        }
        count
    }

    /// Counts and reports a failure, for the administrator: in the log and as a uevent. The program
    /// learns of it from its calls.
    fn failed(&self, which: &Wanted, failure: &'static CStr) {
        self.failures.fetch_add(1, Relaxed);
        let Some(node) = self.node() else {
            return;
        };
        let Wanted {
            endpoint,
            ve,
            function,
        } = which;
        node.complain(fmt!(
            "endpoint {:#x}: function {} of virtual endpoint {} has failed: {}",
            endpoint,
            function,
            ve,
            failure
        ));
        self.untold.lock().last = Some((*which, failure));
        self.tell_failure(&node);
    }

    /// Sends a uevent of the last failure, if it was not told yet and may be told now. Else [`Self::passed`] does
    /// so later.
    fn tell_failure(&self, node: &Node) {
        let mut untold = self.untold.lock();
        let Failures { last, pace } = &mut *untold;
        let told = last.take_if(|_| pace.wait(clock::now_ms()).is_none());
        drop(untold);
        let Some((which, failure)) = told else {
            return;
        };
        let Wanted {
            endpoint,
            ve,
            function,
        } = which;
        uevent::change(
            &node.dev(),
            &[
                fmt!("WEFT_FAILURE={}", failure),
                fmt!("WEFT_ENDPOINT={:#018x}", endpoint),
                fmt!("WEFT_VE={}", ve),
                fmt!("WEFT_FUNCTION={}", function),
            ],
        );
    }

    fn set_bell(&self, slot: usize, waiters: Option<Arc<WaitQueue>>) {
        let mut bells = self.bells.lock();
        let before = bells
            .get_mut(slot)
            .and_then(|bell| core::mem::replace(bell, waiters));
        drop(bells);
        drop(before);
    }

    /// Takes an area out of all mappings.
    fn zap(&self, area: &area::Area) {
        let (first, count) = area.pages();
        self.mapping.zap(first, count);
    }

    /// Returns an id that no area has had.
    fn new_id(&self) -> u64 {
        self.last_id.fetch_add(1, Relaxed).wrapping_add(1)
    }
}
