// SPDX-License-Identifier: GPL-2.0

//! Memory for small commands: a part of the pool, held as long as the device needs it.

use super::{
    access::{Access, Place, Target},
    pool::{Pool, COMMAND_BYTES},
    Memory, KERNEL_PD,
};
use crate::{
    proto::tpt::{Entry, Extent, Owner, Rights},
    sys::slots::{Slot, Slots},
};
use kernel::{
    device::{Bound, Device},
    prelude::*,
    sync::{atomic::Relaxed, Arc},
};

/// The key of the pool's STag, which does not leave the driver.
const KEY: u8 = 0;

/// Makes the pool and gives it an STag.
pub(super) fn register_pool(
    dev: &Device<Bound>,
    slots: &Arc<Slots<Target>>,
) -> Result<Slot<Target>> {
    let pool = Pool::new(dev)?;
    let (address, length) = pool.extent();
    let owner = Owner {
        key: KEY,
        pd: KERNEL_PD,
        rights: Rights::LOCAL_WRITE,
    };
    let entry = Entry::physical(owner, Extent { base: 0, length }, address).ok_or(EINVAL)?;
    let mut slot = slots.own()?;
    slot.open(Target {
        entry,
        place: Place::Pool(pool),
        windows: None,
    })?;
    Ok(slot)
}

/// Memory for a small command, which the device reads. As an [`Access`], it is to be held no longer
/// than the device needs it.
pub(crate) struct Command {
    access: Access,
    number: u16,
}

impl Command {
    /// Copies `from` to `at`. `EINVAL`: it does not fit into [`COMMAND_BYTES`].
    pub(crate) fn write(&self, at: u64, from: &[u8]) -> Result {
        self.access.write(at, from)
    }

    /// Returns the device's address of the first byte. A device that is notified after a write
    /// barrier sees what was written.
    pub(crate) fn dma(&self) -> Result<u64> {
        let mut found = None;
        self.access.dma(0, self.access.len(), &mut |address, _| {
            found = Some(address);
            Ok(())
        })?;
        found.ok_or(EINVAL)
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if let Place::Pool(pool) = self.access.place() {
            pool.put_back(self.number);
        }
    }
}

impl Memory {
    /// Returns memory for a command. `None`: all of it is in use, or the port is gone.
    pub(crate) fn command(&self) -> Option<Command> {
        let index = self.pool_at.load(Relaxed);
        let stag = index << crate::proto::stag::KEY_BITS | u32::from(KEY);
        let pool = self.slots.find(index)?;
        let Place::Pool(pool) = &pool.place else {
            return None;
        };
        let number = pool.take()?;
        let to = u64::from(number) * COMMAND_BYTES as u64;
        let access = self.access_of(
            KERNEL_PD,
            stag,
            Rights::LOCAL_WRITE,
            to,
            COMMAND_BYTES as u64,
        );
        match access {
            Ok(access) => Some(Command { access, number }),
            Err(_) => {
                pool.put_back(number);
                None
            }
        }
    }
}
