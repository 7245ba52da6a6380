// SPDX-License-Identifier: GPL-2.0

//! Functions of shared endpoints, for programs of this host: those that its virtual hierarchy gives
//! it.
//!
//! A function is one program's at a time. Its queues are in memory that nobody maps, and what a
//! program may have read and written are *areas* that it gets here: so it names no address, and
//! reaches nothing else. The endpoint is another's as well: it reaches what was opened to it, on
//! the way by which it comes, and what it tells is copied, and checked by
//! [`crate::proto::endpoint`]. This must not know files, nor what hierarchies are made of and by
//! whom.
//!
//! A function that was taken away, or that the port has lost, is broken for good: what was
//! outstanding is told as that, and who wants to go on opens it again.
//!
//! # Locks
//!
//! In this order, inside those of `fabric` and outside of those of a port:
//!
//! 1. `Function::inner`, also held while the hardware is waited for, a tenth of a second an
//!    mapping;
//! 2. `Function::areas`, then `Area::memory`, both taken in page faults, that is, with `mmap_lock`
//!    held: whoever holds them touches no user memory, and zaps nothing;
//! 3. `Endpoints::slots`, and `Endpoints::node`, for a moment only;
//! 4. `Endpoints::bells`, with interrupts off: taken by the hard interrupt.

mod area;
mod areas;
mod end;
mod function;
mod held;
mod memory;
mod reason;
mod registers;
mod slots;
mod start;
mod wanted;

pub(crate) use self::{
    area::MAX_AREA,
    function::{Function, Range, Request, MAX_ENTRIES},
    start::Shape,
    wanted::Wanted,
};

use self::{reason::Why, slots::Table};
use crate::{
    fabric::{Node, Reason},
    hw::{endpoint_slots::MAX_ENDPOINT_SLOTS, Port},
    sys::{
        dma::DmaSource,
        irqlock::{new_spinlock_irq, SpinLockIrq},
        uevent,
        vma::Mapping,
        waitq::WaitQueue,
    },
};
use kernel::{
    device::Bound,
    new_mutex, pci,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// The functions that are open at a port.
#[pin_data]
pub(crate) struct Endpoints {
    source: DmaSource,
    mapping: Arc<Mapping>,
    #[pin]
    slots: Mutex<Table>,
    /// Whom a remote that rings wakes.
    #[pin]
    bells: SpinLockIrq<[Option<Arc<WaitQueue>>; MAX_ENDPOINT_SLOTS]>,
    #[pin]
    node: Mutex<Option<Arc<Node>>>,
    /// The last area's.
    last_id: Atomic<u64>,
    /// How many functions have failed under their programs.
    failures: Atomic<u64>,
}

impl Endpoints {
    /// [`Self::retired`] is to be called while the device is bound.
    pub(crate) fn new(dev: &pci::Device<Bound>, mapping: Arc<Mapping>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                source: DmaSource::new(dev),
                mapping,
                slots <- new_mutex!(Table::new(), "weft endpoints"),
                bells <- new_spinlock_irq!([const { None }; MAX_ENDPOINT_SLOTS], c"weft endpoint bells"),
                node <- new_mutex!(None, "weft endpoints' node"),
                last_id: Atomic::new(0),
                failures: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// From now on it looks after the functions that are open at `node`.
    pub(crate) fn serve(&self, node: &Arc<Node>) {
        *self.node.lock() = Some(node.clone());
    }

    fn node(&self) -> Option<Arc<Node>> {
        self.node.lock().clone()
    }

    fn open_ones(&self) -> [Option<Arc<Function>>; MAX_ENDPOINT_SLOTS] {
        self.slots.lock().users()
    }

    /// The file that has opened it is closed.
    pub(crate) fn close(&self, node: &Node, function: &Arc<Function>) {
        let port = node.port_at_work();
        function.end(self, port.as_ref().map(|port| &***port), Why::Closed);
        // Before nobody knows of it any more who would wait for it.
        function.forget(self);
        let ended = self.slots.lock().recall(Some(function));
        drop(ended);
    }

    /// The hierarchy of this host is another one: what is not in it as it was works no more, and is
    /// let go of soon.
    pub(crate) fn hierarchy(&self) {
        let Some(node) = self.node() else {
            return;
        };
        for function in self.open_ones().into_iter().flatten() {
            if let Some(why) = function.is_missing(&node) {
                function.doom(why);
            }
        }
        node.hurry();
    }

    /// Whether all that was taken away has been let go.
    pub(crate) fn let_go(&self) -> bool {
        let mut all = self.open_ones().into_iter().flatten();
        !all.any(|function| function.holds_on()) && !self.slots.lock().holds_any()
    }

    /// Some time has passed.
    pub(crate) fn passed(&self) {
        let Some(node) = self.node() else {
            return;
        };
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

    /// Something of the port's routes may have changed.
    pub(crate) fn looked(&self, port: &dyn Port) {
        for function in self.open_ones().into_iter().flatten() {
            function.look(self, port);
        }
    }

    /// The port is going to be reset, or taken away.
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

    /// A remote rang. Called in hard interrupts.
    pub(crate) fn called(&self, slot: usize) {
        if let Some(Some(waiters)) = self.bells.lock().get(slot) {
            waiters.wake_all();
        }
    }

    /// Nothing works any more.
    pub(crate) fn closed(&self) {
        for function in self.open_ones().into_iter().flatten() {
            function.wake();
        }
    }

    /// The port is gone for good. Nothing of the device's memory is used when this returns.
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
            self.give_up_held(&node.pci());
        }
    }

    /// How many functions have failed, or told what cannot be true, while programs had them.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    /// One has. Its program is told by what it calls; this is for the administrator.
    fn failed(&self, which: &Wanted, failure: &CStr) {
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
        uevent::change(
            &node.pci(),
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

    /// An id that no area has had.
    fn new_id(&self) -> u64 {
        self.last_id.fetch_add(1, Relaxed).wrapping_add(1)
    }
}
