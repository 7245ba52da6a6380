// SPDX-License-Identifier: GPL-2.0

//! A memory region: registered memory of a user.

use super::{
    access::{Place, Target, Windows},
    Memory, Pd, Use, Used, Users, KERNEL_PD, MAX_REGION, MAX_STAGS,
};
use crate::{
    proto::{
        stag::Stag,
        tpt::{page_order, Entry, Extent, Owner, Rights},
    },
    share::{Charge, Payer, Table},
    sys::{pat::Pat, pin::Pinned, slots::Slot},
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

/// The region that a user wants.
pub(crate) struct Wanted {
    /// Where the memory is, in the caller's address space.
    pub(crate) addr: u64,
    pub(crate) length: u64,
    /// TO of the first byte.
    pub(crate) base: u64,
    /// Mask of `WEFT_ACCESS_*`.
    pub(crate) access: u32,
    pub(crate) key: u8,
}

impl Wanted {
    /// Checks the arguments, without a look at the memory. `EINVAL`: they are invalid.
    pub(crate) fn check(&self) -> Result<(Owner, Extent)> {
        let rights = Rights::of_region(self.access).ok_or(EINVAL)?;
        let wraps = self.base.checked_add(self.length).is_none();
        if self.length == 0 || self.length > MAX_REGION || wraps {
            return Err(EINVAL);
        }
        let owner = Owner {
            key: self.key,
            pd: KERNEL_PD,
            rights,
        };
        let extent = Extent {
            base: self.base,
            length: self.length,
        };
        Ok((owner, extent))
    }

    /// Pins the memory. It takes as long as the provider of its pages takes, which may be a program: the
    /// caller must not have the port entered. Errors are those of [`Wanted::check`] and [`Pinned::new`].
    /// Sleeps.
    pub(crate) fn pin(&self) -> Result<Pinned> {
        let (owner, _) = self.check()?;
        let at = usize::try_from(self.addr).map_err(|_| EFAULT)?;
        let bytes = usize::try_from(self.length).map_err(|_| EINVAL)?;
        at.checked_add(bytes).ok_or(EFAULT)?;
        // Pinned for reading only, the pages could be shared with others: only a region without write
        // access may get those.
        Pinned::new(at, bytes, owner.rights.may_write())
    }
}

/// The slot of a region. The domain is in use as long as the slot, which counts for the user.
type Held = (Slot<Target>, Use<Pd>, Charge);

/// A region.
#[pin_data]
pub(crate) struct Region {
    stag: Stag,
    windows: Arc<Windows>,
    /// `None`: it was deregistered.
    #[pin]
    held: Mutex<Option<Held>>,
}

impl Region {
    /// Registers `pinned`, the memory that is `wanted`. `EINVAL`: the arguments are invalid; `ENOSPC`:
    /// the port has no STag left; `EDQUOT`: `payer` has its share; `ENODEV`: the port is gone. Sleeps.
    pub(crate) fn new(
        memory: &Memory,
        payer: &Payer,
        pd: Arc<Pd>,
        wanted: &Wanted,
        pinned: Pinned,
    ) -> Result<Arc<Self>> {
        let (owner, extent) = wanted.check()?;
        let owner = Owner {
            pd: pd.id(),
            ..owner
        };
        let pd = Use::new(pd)?;
        let charge = payer.take(Table::Stags, MAX_STAGS, 1)?;
        // The device stays bound until this is dropped, after everything that is mapped below.
        let _busy = memory.slots.busy()?;
        let mut slot = memory.slots.own()?;
        let stag = Stag::new(slot.index(), wanted.key).ok_or(ENOSPC)?;
        let dev = memory.home.get();
        let order = page_order(pinned.runs(), Pat::max_order(&dev));
        let pat = Pat::new(&dev, pinned, order)?;
        let entry = Entry::region(owner, extent, pat.shift(), pat.first() as u64).ok_or(EINVAL)?;
        let windows = Arc::new(Windows::new(), GFP_KERNEL_ACCOUNT)?;
        slot.open(Target {
            entry,
            place: Place::User(pat),
            windows: Some(windows.clone()),
        })?;
        let all = (slot, pd, charge);
        Arc::pin_init(
            pin_init!(Self {
                stag,
                windows,
                held <- new_mutex!(Some(all), "weft region"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(crate) fn stag(&self) -> u32 {
        self.stag.0
    }

    /// Deregisters the region. When this returns, the memory cannot be reached by it. Waits for
    /// accesses in progress.
    pub(crate) fn destroy(&self) {
        let held = self.held.lock().take();
        drop(held);
    }
}

impl Used for Region {
    /// Counts the windows that are bound to it.
    fn users(&self) -> &Users {
        self.windows.users()
    }
}
