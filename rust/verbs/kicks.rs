// SPDX-License-Identifier: GPL-2.0

//! Kick pages: users announce queue pairs that have work, without a system call.
//!
//! A file has a page of bits, one for each of its queue pairs, and maps it; the page of the port's
//! doorbell is the same for all files. The doorbell says only that a bit may be set in some page. The
//! bits of a file name queue pairs of that file and no others, whatever the user writes there.
//!
//! The interrupt turns the doorbell off. The work item polls the pages until no bit has been set for
//! `LINGER_US`, then turns the doorbell on again. So users that post all the time cause no
//! interrupts, and users that ring without work cause one at a time. This file must not know what a
//! queue pair does.

use super::{qp::Qp, worker::Worker};
use crate::{
    fabric::Node,
    hw::{Port, MAX_LINKS},
    share::{Charge, Payer, Table},
    sys::{
        clock,
        iomap::Cache,
        pages::Pages,
        vma::{Fault, Mapping, NewVma, Outcome, SharedPage},
        work,
    },
};
use kernel::{
    impl_has_delayed_work, new_delayed_work, new_mutex,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{Arc, Mutex},
    workqueue::{DelayedWork, WorkItem},
};

/// The file offset of the page of bits, the same in every file. The page of the doorbell follows it,
/// then the other mappings of queues.
pub(crate) const PLACE: u64 = 1 << 62;
const BELL_AT: u64 = PLACE + PAGE_SIZE as u64;

/// How long the work item polls without finding work, in microseconds, before it turns the doorbell
/// on.
const LINGER_US: u64 = 50;
/// How long it polls at most, in microseconds, before it lets others run.
const SHIFT_US: u64 = 1000;

/// Requests of a queue pair in ERR that are flushed at a time.
const FLUSH: u32 = 256;

const BITS: usize = u64::BITS as usize;
/// A page has room for all queue pairs of a port.
const _: () = assert!(super::table::MAX_QPS as usize <= PAGE_SIZE * 8);

/// Kick pages that a port can have: files with queue pairs.
const MAX_PAGES: u32 = 4096;

/// The queue pairs that the bits of a page stand for.
struct Owners {
    qps: KVVec<Option<Arc<Qp>>>,
    /// No bit below this one is free.
    lowest: usize,
}

/// The kick page of a file.
#[pin_data]
pub(crate) struct KickPage {
    memory: Pages,
    /// Mapped in place of the doorbell when the port is gone.
    blank: SharedPage,
    /// The value that rings when it is stored to the doorbell.
    value: u32,
    #[pin]
    owners: Mutex<Owners>,
    _charge: Charge,
}

/// The members of `struct weft_qp_create` by which a user kicks a queue pair; all 0 without a
/// doorbell.
#[derive(Default)]
pub(crate) struct Bell {
    pub(crate) page_offset: u64,
    pub(crate) offset: u64,
    pub(crate) value: u32,
    pub(crate) bit: u32,
}

impl KickPage {
    fn new(value: u32, charge: Charge) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                memory: Pages::new(PAGE_SIZE)?,
                blank: SharedPage::new()?,
                value,
                owners <- new_mutex!(
                    Owners {
                        qps: KVVec::new(),
                        lowest: 0,
                    },
                    "weft kick page"
                ),
                _charge: charge,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Assigns a bit to a queue pair.
    pub(crate) fn add(&self, qp: &Arc<Qp>) -> Result<Bell> {
        let owners = &mut *self.owners.lock();
        let free = owners
            .qps
            .iter()
            .skip(owners.lowest)
            .position(Option::is_none);
        let bit = free.map_or(owners.qps.len(), |n| owners.lowest + n);
        if free.is_none() {
            owners.qps.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        if let Some(owner) = owners.qps.get_mut(bit) {
            *owner = Some(qp.clone());
        }
        owners.lowest = bit + 1;
        Ok(Bell {
            page_offset: PLACE,
            offset: BELL_AT,
            value: self.value,
            bit: bit as u32,
        })
    }

    /// Frees the bit of a queue pair: another one may get it.
    pub(crate) fn remove(&self, bit: u32) {
        let bit = bit as usize;
        let mut owners = self.owners.lock();
        let gone = owners.qps.get_mut(bit).and_then(Option::take);
        owners.lowest = owners.lowest.min(bit);
        drop(owners);
        drop(gone);
    }

    /// Clears the bits and calls `f` for each queue pair with a set bit. Sets the bit again if `f`
    /// returns true.
    fn take(&self, mut f: impl FnMut(&Arc<Qp>) -> bool) {
        let owners = self.owners.lock();
        for word in 0..owners.qps.len().div_ceil(BITS) {
            // Inside the page, which has a bit for each.
            let at = word * size_of::<u64>();
            let mut bits = u64::from_le(self.memory.take64(at).unwrap_or(0));
            let mut again = 0u64;
            while bits != 0 {
                let bit = word * BITS + bits.trailing_zeros() as usize;
                let lowest = bits & bits.wrapping_neg();
                bits ^= lowest;
                if let Some(Some(qp)) = owners.qps.get(bit) {
                    if f(qp) {
                        again |= lowest;
                    }
                }
            }
            if again != 0 {
                // A user that sets a bit meanwhile rings the doorbell after it.
                let _ = self.memory.give64(at, again.to_le());
            }
        }
    }

    /// Maps the bits or the doorbell. `EINVAL`: there is no such page.
    pub(crate) fn mmap(&self, first: u64, vma: &NewVma<'_>) -> Result {
        match (first, vma.count()) {
            (0, _) => self.memory.map(0, vma),
            (1, 1) => vma.accept(true, Cache::Uncached),
            _ => Err(EINVAL),
        }
    }

    /// Handles a page fault on the doorbell: maps it, or a blank page if the port is gone.
    pub(crate) fn fault(&self, node: &Node, page: u64, fault: &Fault<'_>) -> Outcome {
        if page != 1 {
            return fault.refuse();
        }
        // The port stays entered until the page is mapped: the page is zapped when all have left.
        let port = node.port();
        let bell = port
            .as_ref()
            .ok()
            .and_then(|port| port.user_doorbells()?.kick_page());
        match bell {
            Some((phys, _)) => fault.insert((phys >> PAGE_SHIFT) as usize),
            None => fault.insert(self.blank.pfn()),
        }
    }

    /// Takes the doorbell out of all mappings: the next access of a user faults again.
    pub(crate) fn zap(mapping: &Mapping) {
        mapping.zap(BELL_AT >> PAGE_SHIFT, 1);
    }
}

/// The kick pages of a port, and the work item that polls them.
#[pin_data]
pub(super) struct Kicks {
    /// One per link.
    workers: KVec<Arc<Worker>>,
    #[pin]
    pages: Mutex<KVec<Arc<KickPage>>>,
    /// Queue pairs in ERR with requests that a kick has left to be flushed.
    #[pin]
    unflushed: Mutex<KVVec<Arc<Qp>>>,
    #[pin]
    node: Mutex<Option<Arc<Node>>>,
    #[pin]
    work: DelayedWork<Kicks>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Kicks { self.work }
}

impl WorkItem for Kicks {
    type Pointer = Arc<Kicks>;

    fn run(this: Arc<Kicks>) {
        let Some(node) = this.node.lock().clone() else {
            return;
        };
        // A port that is gone or being reset is skipped: `Kicks::tick` polls the pages when it is
        // back.
        let Some(port) = node.port_at_work() else {
            return;
        };
        let begin = clock::now_us();
        let mut last = begin;
        loop {
            let found = this.look(&node, &**port) | this.flush();
            let now = clock::now_us();
            if found {
                last = now;
            } else if now.saturating_sub(last) >= LINGER_US {
                break;
            }
            if now.saturating_sub(begin) >= SHIFT_US {
                // The port is entered: `Kicks::retire` cancels the work after all have left.
                work::run_unbound_in(&this, 0);
                return;
            }
            core::hint::spin_loop();
        }
        // A bit that the scan below misses is followed by a doorbell, which is on now.
        if let Some(bells) = port.user_doorbells() {
            bells.hear_kicks();
        }
        this.look(&node, &**port);
    }
}

impl Kicks {
    pub(super) fn new(workers: &[Arc<Worker>]) -> Result<Arc<Self>> {
        let mut own = KVec::with_capacity(workers.len(), GFP_KERNEL)?;
        for worker in workers {
            own.push(worker.clone(), GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                workers: own,
                pages <- new_mutex!(KVec::new(), "weft kick pages"),
                unflushed <- new_mutex!(KVVec::new(), "weft unflushed"),
                node <- new_mutex!(None, "weft kicks node"),
                work <- new_delayed_work!("weft kicks"),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn serve(self: &Arc<Self>, node: Arc<Node>) {
        *self.node.lock() = Some(node);
        if !self.unflushed.lock().is_empty() {
            self.rung();
        }
    }

    /// Stops the work item: it neither runs nor is queued when this returns. Sleeps.
    pub(super) fn retire(self: &Arc<Self>) {
        let node = self.node.lock().take();
        work::cancel_delayed(self);
        drop(node);
    }

    /// Queues the work item: a user rang the doorbell. Called in hard interrupts.
    pub(super) fn rung(self: &Arc<Self>) {
        work::run_unbound_in(self, 0);
    }

    /// Has the work item flush the rest of the requests of `qp`, which is in ERR. `ENOMEM`: the next
    /// kick is to do it.
    pub(super) fn flush_later(self: &Arc<Self>, qp: &Arc<Qp>) -> Result {
        let mut unflushed = self.unflushed.lock();
        if !unflushed.iter().any(|other| Arc::ptr_eq(other, qp)) {
            unflushed.push(qp.clone(), GFP_KERNEL_ACCOUNT)?;
        }
        drop(unflushed);
        self.rung();
        Ok(())
    }

    /// Flushes some requests of a queue pair that has more. Returns whether there was one.
    fn flush(&self) -> bool {
        // Locked: a kick that finds the queue pair in the list relies on it.
        let mut unflushed = self.unflushed.lock();
        let Some(qp) = unflushed.first() else {
            return false;
        };
        if qp.flush(FLUSH) {
            // Others come first.
            unflushed.rotate_left(1);
            return true;
        }
        let done = unflushed.remove(0);
        drop(unflushed);
        drop(done);
        true
    }

    /// Queues the work item if there are kick pages: finds work of lost doorbells.
    pub(super) fn tick(self: &Arc<Self>) {
        if !self.pages.lock().is_empty() || !self.unflushed.lock().is_empty() {
            self.rung();
        }
    }

    /// Makes a kick page for a file. `None`: the hardware has no doorbell for it. `ENOSPC`: the port has
    /// [`MAX_PAGES`]; `EDQUOT`: `payer` has its share.
    pub(super) fn add(&self, node: &Node, payer: &Payer) -> Result<Option<Arc<KickPage>>> {
        let Some((_, value)) = node
            .port()?
            .user_doorbells()
            .and_then(|bells| bells.kick_page())
        else {
            return Ok(None);
        };
        let charge = payer.take(Table::KickPages, MAX_PAGES, 1)?;
        let page = KickPage::new(value, charge)?;
        self.pages.lock().push(page.clone(), GFP_KERNEL_ACCOUNT)?;
        Ok(Some(page))
    }

    /// Removes the kick page of a file that is closed.
    pub(super) fn remove(&self, page: &Arc<KickPage>) {
        self.pages.lock().retain(|other| !Arc::ptr_eq(other, page));
    }

    /// Queues all queue pairs with set bits for service, and runs the engine on their links. Returns
    /// whether there was work.
    fn look(&self, node: &Node, port: &dyn Port) -> bool {
        let mut rang = [false; MAX_LINKS];
        let mut found = false;
        for page in self.pages.lock().iter() {
            page.take(|qp| {
                let rung = qp.rung(FLUSH);
                // A kick without work does not prolong the polling.
                found |= rung.has_work || rung.more;
                let link = rung.path.map_or(MAX_LINKS, |path| path.link);
                // A queue pair that is not connected is serviced when it becomes connected.
                if let (Some(worker), Some(rang)) = (self.workers.get(link), rang.get_mut(link)) {
                    worker.posted(qp);
                    *rang = true;
                }
                rung.more
            });
        }
        for (worker, _) in self.workers.iter().zip(rang).filter(|(_, rang)| *rang) {
            worker.serve_posted(node, port);
        }
        found
    }
}
