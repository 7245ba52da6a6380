// SPDX-License-Identifier: GPL-2.0

//! The device that something is of, which may become another one's.

use kernel::{
    new_mutex, pci,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};

/// Which device it is now. The lock is held for a moment only, and nothing inside it.
#[pin_data]
pub(crate) struct Home {
    #[pin]
    dev: Mutex<ARef<pci::Device>>,
}

impl Home {
    pub(crate) fn new(dev: &pci::Device) -> Result<Arc<Self>> {
        let dev: ARef<pci::Device> = dev.into();
        Arc::pin_init(
            pin_init!(Self {
                dev <- new_mutex!(dev, "weft home"),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn get(&self) -> ARef<pci::Device> {
        self.dev.lock().clone()
    }

    pub(crate) fn set(&self, dev: &pci::Device) {
        let before = core::mem::replace(&mut *self.dev.lock(), dev.into());
        drop(before);
    }
}
