// SPDX-License-Identifier: GPL-2.0

//! A changeable reference to the device that an object belongs to: a migration moves it to another one.

use kernel::{
    new_mutex, pci,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};

/// A reference to the current device. The lock is held only to copy or replace the reference; no other
/// lock is taken inside it.
#[pin_data]
pub(crate) struct Home {
    #[pin]
    dev: Mutex<ARef<pci::Device>>,
}

impl Home {
    /// Makes a reference to `dev`.
    pub(crate) fn new(dev: &pci::Device) -> Result<Arc<Self>> {
        let dev: ARef<pci::Device> = dev.into();
        Arc::pin_init(
            pin_init!(Self {
                dev <- new_mutex!(dev, "weft home"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the current device. Sleeps.
    pub(crate) fn get(&self) -> ARef<pci::Device> {
        self.dev.lock().clone()
    }

    /// Makes `dev` the current device. Sleeps.
    pub(crate) fn set(&self, dev: &pci::Device) {
        let before = core::mem::replace(&mut *self.dev.lock(), dev.into());
        drop(before);
    }
}
