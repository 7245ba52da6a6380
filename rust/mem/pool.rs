// SPDX-License-Identifier: GPL-2.0

//! The physical pool: memory of the driver's own, registered when the function starts, so that a
//! small command issues without a registration.
//!
//! It is addressed physically: its entry of the TPT holds the address itself. It is of the driver's
//! own protection domain, in which no queue pair of a user is, holds for nobody but this end, is not
//! mapped to users, and is no part of what a peer reaches: neither finds a way to it by an STag or an
//! address.

use super::{
    access::{Access, Place, Target},
    Memory, KERNEL_PD,
};
use crate::{
    proto::tpt::{Entry, Extent, Owner, Rights},
    sys::{
        area::Area,
        dma::DmaMem,
        irqlock::{new_spinlock_irq, SpinLockIrq},
        slots::{Slot, Slots},
    },
};
use kernel::{
    device::Bound,
    page::PAGE_SIZE,
    pci,
    prelude::*,
    sync::{atomic::Relaxed, Arc},
};

/// Bytes of a command.
pub(crate) const COMMAND_BYTES: usize = 256;
const COMMANDS: usize = 512;
/// Of the pool's STag, which does not leave the driver.
const KEY: u8 = 0;
const _: () = assert!(COMMANDS * COMMAND_BYTES % PAGE_SIZE == 0);

/// The memory of commands.
#[pin_data]
pub(super) struct Pool {
    area: Area,
    address: u64,
    /// Numbers of commands that nobody has. Has room for all.
    #[pin]
    free: SpinLockIrq<KVec<u16>>,
}

impl Pool {
    /// Makes the pool and gives it an STag.
    pub(super) fn register(
        dev: &pci::Device<Bound>,
        slots: &Arc<Slots<Target>>,
    ) -> Result<Slot<Target>> {
        let mem = DmaMem::new(dev, COMMANDS * COMMAND_BYTES)?;
        let (address, length) = (mem.addr(), mem.bytes() as u64);
        let mut free = KVec::with_capacity(COMMANDS, GFP_KERNEL)?;
        for n in 0..COMMANDS {
            free.push(n as u16, GFP_KERNEL)?;
        }
        let pool = Arc::pin_init(
            pin_init!(Self {
                area: Area::from_dma(mem),
                address,
                free <- new_spinlock_irq!(free, c"weft pool"),
            }),
            GFP_KERNEL,
        )?;
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

    /// The offset of an address.
    fn at(&self, address: u64) -> Result<usize> {
        let at = address.checked_sub(self.address).ok_or(EINVAL)?;
        usize::try_from(at).map_err(|_| EINVAL)
    }

    pub(super) fn read(&self, address: u64, to: &mut [u8]) -> Result {
        self.area.copy_in(self.at(address)?, to)
    }

    pub(super) fn write(&self, address: u64, from: &[u8]) -> Result {
        self.area.copy_out(self.at(address)?, from)
    }
}

/// Memory for a small command, for the device to read. As an [`Access`], to be held no longer than the
/// device needs it.
pub(crate) struct Command {
    access: Access,
    number: u16,
}

impl Command {
    /// `from` is at most [`COMMAND_BYTES`] long with `at`.
    pub(crate) fn write(&self, at: u64, from: &[u8]) -> Result {
        self.access.write(at, from)
    }

    /// The device's address of the first byte. What was written is seen there by a device that was
    /// told so after a write barrier.
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
            // There is room for all.
            let _ = pool.free.lock().push_within_capacity(self.number);
        }
    }
}

impl Memory {
    /// Memory for a command. `None`: all of it is in use, or the port is gone.
    pub(crate) fn command(&self) -> Option<Command> {
        let index = self.pool_at.load(Relaxed);
        let stag = index << crate::proto::stag::KEY_BITS | u32::from(KEY);
        let pool = self.slots.find(index)?;
        let Place::Pool(pool) = &pool.place else {
            return None;
        };
        let number = pool.free.lock().pop()?;
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
                let _ = pool.free.lock().push_within_capacity(number);
                None
            }
        }
    }
}
