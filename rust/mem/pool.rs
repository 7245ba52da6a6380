// SPDX-License-Identifier: GPL-2.0

//! The physical pool: memory of the driver, registered when the function starts, so that a small
//! command needs no registration.
//!
//! It is addressed physically: its entry of the TPT holds the address itself. It is in the protection
//! domain of the driver, which no queue pair of a user is in, it is not mapped to users, and the
//! arena that a peer reaches does not include it. So neither users nor peers reach it by an STag or
//! an address.

use crate::sys::{
    area::Area,
    dma::DmaMem,
    irqlock::{new_spinlock_irq, SpinLockIrq},
};
use kernel::{
    device::{Bound, Device},
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
};

/// Bytes of a command.
pub(crate) const COMMAND_BYTES: usize = 256;
const COMMANDS: usize = 512;
const _: () = assert!(COMMANDS * COMMAND_BYTES % PAGE_SIZE == 0);

/// The memory of commands.
#[pin_data]
pub(super) struct Pool {
    area: Area,
    address: u64,
    /// Numbers of unused commands. Has room for all.
    #[pin]
    free: SpinLockIrq<KVec<u16>>,
}

impl Pool {
    /// Makes the pool, for `dev`.
    pub(super) fn new(dev: &Device<Bound>) -> Result<Arc<Self>> {
        let mem = DmaMem::new(dev, COMMANDS * COMMAND_BYTES)?;
        let address = mem.addr();
        let mut free = KVec::with_capacity(COMMANDS, GFP_KERNEL)?;
        for n in 0..COMMANDS {
            free.push(n as u16, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                area: Area::from_dma(mem),
                address,
                free <- new_spinlock_irq!(free, c"weft pool"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the device's address of the first byte, and the number of bytes.
    pub(super) fn extent(&self) -> (u64, u64) {
        (self.address, (COMMANDS * COMMAND_BYTES) as u64)
    }

    /// Takes an unused command; returns its number.
    pub(super) fn take(&self) -> Option<u16> {
        self.free.lock().pop()
    }

    /// Gives a command back.
    pub(super) fn put_back(&self, number: u16) {
        // There is room for all.
        let _ = self.free.lock().push_within_capacity(number);
    }

    /// Returns the offset of an address.
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
