// SPDX-License-Identifier: GPL-2.0

//! Memory that a program has given out: protection domains, regions, windows.
//!
//! Who asks for it names it by an STag; whether he may is decided here, on each access, against
//! entries that nobody but this host writes. The rules are in `proto::tpt`. It must not know queues,
//! files or links.
//!
//! What belongs to an STag is in one place, its slot of the table, and nowhere else: when that was
//! taken from everybody, nothing of the memory is mapped or pinned any more.
//!
//! # Locks
//!
//! None is held while one waits for accesses, and [`Memory::access`] takes none. In this order:
//!
//! 1. `Region::held`, `Window::state`;
//! 2. `Memory::windows`;
//! 3. those of `sys::slots`.

mod access;
mod command;
mod pd;
mod pool;
mod region;
mod users;
mod window;

pub(crate) use self::{
    access::Access,
    command::Command,
    pd::Pd,
    region::{Region, Wanted},
    users::{Use, Used, Users},
    window::{Binding, Window},
};
pub(crate) use crate::proto::tpt::{Denied, Rights};

use self::{access::Target, command::register_pool};
use crate::{
    proto::stag::Stag,
    sys::{
        home::Home,
        slots::{Slot, Slots},
    },
};
use kernel::{
    device::Bound,
    new_mutex, pci,
    prelude::*,
    rbtree::RBTree,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// Protection domains that a port can have.
pub(crate) const MAX_PDS: u32 = 16384;
/// Regions and windows, together, that a port can have; one more is the pool.
pub(crate) const MAX_STAGS: u32 = 32766;
/// Bytes of a region.
pub(crate) const MAX_REGION: u64 = 1 << 36;

/// The protection domain of the driver itself. Those of users have other numbers.
const KERNEL_PD: u64 = 0;

/// The memory of a port. Outlives the device, as files do.
#[pin_data]
pub(crate) struct Memory {
    home: Arc<Home>,
    slots: Arc<Slots<Target>>,
    /// Windows by their index. An index that is taken is no other window's.
    #[pin]
    windows: Mutex<RBTree<u32, Arc<Window>>>,
    pds: Atomic<u32>,
    last_pd: Atomic<u64>,
    /// `None`: there is no device.
    #[pin]
    pool: Mutex<Option<Slot<Target>>>,
    /// Its index.
    pool_at: Atomic<u32>,
}

impl Memory {
    /// Without regions but that of the driver's own commands. [`Memory::close`] is to be called while
    /// the device is bound.
    pub(crate) fn new(dev: &pci::Device<Bound>, home: Arc<Home>) -> Result<Arc<Self>> {
        let slots = Slots::new(MAX_STAGS + 2)?;
        let pool = register_pool(dev, &slots)?;
        let pool_at = Atomic::new(pool.index());
        Arc::pin_init(
            pin_init!(Self {
                home,
                slots,
                windows <- new_mutex!(RBTree::new(), "weft windows"),
                pds: Atomic::new(0),
                last_pd: Atomic::new(KERNEL_PD),
                pool <- new_mutex!(Some(pool), "weft pool slot"),
                pool_at,
            }),
            GFP_KERNEL,
        )
    }

    /// Makes all STags invalid for good, waits for accesses that are going on, and takes regions away
    /// from the device. They stay as objects.
    pub(crate) fn close(&self) {
        self.slots.shut();
    }

    /// The device is going to be another one: none reaches anything, until [`Memory::move_in`]. Waits
    /// for accesses that are going on; nobody may begin another meanwhile, or register anything.
    pub(crate) fn move_out(&self) {
        let pool = self.pool.lock().take();
        drop(pool);
        for index in 0..MAX_STAGS + 2 {
            if let Some(target) = self.slots.find(index) {
                target.place.unmap();
            }
        }
    }

    /// Here is the device, which is bound: STags lead where they did before. On failure it has to be
    /// [`Memory::move_out`] again.
    pub(crate) fn move_in(&self, dev: &pci::Device<Bound>) -> Result {
        for index in 0..MAX_STAGS + 2 {
            if let Some(target) = self.slots.find(index) {
                target.place.map(dev)?;
            }
        }
        let pool = register_pool(dev, &self.slots)?;
        self.pool_at.store(pool.index(), Relaxed);
        *self.pool.lock() = Some(pool);
        Ok(())
    }

    /// The `len` bytes from `to` of what `stag` names, for a queue pair of `pd`, to do what `need` says.
    ///
    /// Never waits, takes no lock, and costs the same however many STags there are.
    pub(crate) fn access(
        &self,
        pd: &Pd,
        stag: u32,
        need: Rights,
        to: u64,
        len: u64,
    ) -> Result<Access, Denied> {
        self.access_of(pd.id(), stag, need, to, len)
    }

    fn access_of(
        &self,
        pd: u64,
        stag: u32,
        need: Rights,
        to: u64,
        len: u64,
    ) -> Result<Access, Denied> {
        let stag = Stag(stag);
        let target = self.slots.find(stag.index()).ok_or(Denied::Invalid)?;
        let span = target.entry.check(stag, pd, need, to, len)?;
        Ok(Access::new(target, span, need))
    }

    /// How many bytes there are from `to` on, of what `stag` names.
    pub(crate) fn size_from(
        &self,
        pd: &Pd,
        stag: u32,
        need: Rights,
        to: u64,
    ) -> Result<u64, Denied> {
        let stag = Stag(stag);
        let target = self.slots.find(stag.index()).ok_or(Denied::Invalid)?;
        target.entry.size_from(stag, pd.id(), need, to)
    }

    /// Counts one more, unless there are `limit`. `ENOSPC`.
    fn count(counter: &Atomic<u32>, limit: u32) -> Result {
        let mut now = counter.load(Relaxed);
        while now < limit {
            match counter.cmpxchg(now, now + 1, Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => now = other,
            }
        }
        Err(ENOSPC)
    }
}
