// SPDX-License-Identifier: GPL-2.0

//! Memory that a program has registered: protection domains, regions, windows.
//!
//! A request names the memory by an STag. Each access is checked here, against entries that only this
//! host writes. The rules are in `proto::tpt`. This module must not know queues, files or links.
//!
//! All resources of an STag are in its slot of the table, and nowhere else: when the slot is empty
//! and no access holds its value, nothing of the memory is mapped or pinned any more.
//!
//! # Locks
//!
//! None is held while waiting for accesses, and [`Memory::access`] takes none. In this order:
//!
//! 1. `Region::held`, `Window::state`;
//! 2. `Memory::windows`;
//! 3. those of `sys::slots`;
//! 4. that of `sys::pat`.
//!
//! `crate::share` is called with none of them held.

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
    device::{Bound, Device},
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// Protection domains that a port can have.
pub(crate) const MAX_PDS: u32 = 16384;
/// Regions and windows together that a port can have, besides the pool.
pub(crate) const MAX_STAGS: u32 = 32766;
/// The most bytes of a region.
pub(crate) const MAX_REGION: u64 = 1 << 36;

/// The protection domain of the driver itself. Those of users have other ids.
const KERNEL_PD: u64 = 0;

/// The registered memory of a port. Outlives the device, as files do.
#[pin_data]
pub(crate) struct Memory {
    home: Arc<Home>,
    slots: Arc<Slots<Target>>,
    /// Windows by the index of their STag, which is unique.
    #[pin]
    windows: Mutex<RBTree<u32, Arc<Window>>>,
    last_pd: Atomic<u64>,
    /// `None`: there is no device.
    #[pin]
    pool: Mutex<Option<Slot<Target>>>,
    /// The index of its slot.
    pool_at: Atomic<u32>,
}

impl Memory {
    /// Makes it with the pool as the only region. The caller calls [`Memory::close`] while the device
    /// is bound.
    pub(crate) fn new(dev: &Device<Bound>, home: Arc<Home>) -> Result<Arc<Self>> {
        let slots = Slots::new(MAX_STAGS + 2)?;
        let pool = register_pool(dev, &slots)?;
        let pool_at = Atomic::new(pool.index());
        Arc::pin_init(
            pin_init!(Self {
                home,
                slots,
                windows <- new_mutex!(RBTree::new(), "weft windows"),
                last_pd: Atomic::new(KERNEL_PD),
                pool <- new_mutex!(Some(pool), "weft pool slot"),
                pool_at,
            }),
            GFP_KERNEL,
        )
    }

    /// Makes all STags invalid for good, waits for accesses in progress, and unmaps regions from the
    /// device. The objects stay. Sleeps.
    pub(crate) fn close(&self) {
        self.slots.shut();
    }

    /// Unmaps all regions from the device, which is going to be another one, and removes the pool,
    /// until [`Memory::move_in`]. Waits for accesses to the pool, and for regions that are being
    /// deregistered: programs end at any time. The caller makes sure that no access to a region is in
    /// progress or begins, and that nothing is registered. Sleeps.
    pub(crate) fn move_out(&self) {
        let pool = self.pool.lock().take();
        drop(pool);
        // Those that are found by no access any more, too: they are mapped until they are dropped.
        let _ = self.slots.each(|target| {
            target.place.unmap();
            Ok(())
        });
        // Those that were taken out before are unmapped by the tasks that drop them, while the device is
        // bound. Those that are taken out from here on are not mapped.
        self.slots.wait_idle();
    }

    /// Maps all regions for `dev`, which is bound, and makes the pool: STags are valid as before. On
    /// failure the caller calls [`Memory::move_out`] again.
    pub(crate) fn move_in(&self, dev: &Device<Bound>) -> Result {
        self.slots.each(|target| target.place.map(dev))?;
        let pool = register_pool(dev, &self.slots)?;
        self.pool_at.store(pool.index(), Relaxed);
        *self.pool.lock() = Some(pool);
        Ok(())
    }

    /// Returns an access to the `len` bytes from `to` of what `stag` names, for a queue pair of `pd`,
    /// with the rights `need`.
    ///
    /// Never waits, takes no lock, and takes the same time however many STags there are.
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

    #[inline]
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

    /// Returns how many bytes there are from `to` on, of what `stag` names.
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
}
