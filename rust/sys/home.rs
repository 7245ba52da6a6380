// SPDX-License-Identifier: GPL-2.0

//! A changeable reference to the device that an object belongs to: a migration moves it to another one.

use kernel::{
    device::Device,
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};

/// A reference to the current device. The lock is held only to copy or replace the reference; no other
/// lock is taken inside it.
#[pin_data]
pub(crate) struct Home {
    #[pin]
    dev: Mutex<ARef<Device>>,
}

impl Home {
    /// Makes a reference to `dev`.
    pub(crate) fn new(dev: &Device) -> Result<Arc<Self>> {
        let dev: ARef<Device> = dev.into();
        Arc::pin_init(
            pin_init!(Self {
                dev <- new_mutex!(dev, "weft home"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the current device. Sleeps.
    pub(crate) fn get(&self) -> ARef<Device> {
        self.dev.lock().clone()
    }

    /// Makes `dev` the current device. Sleeps.
    pub(crate) fn set(&self, dev: &Device) {
        let before = core::mem::replace(&mut *self.dev.lock(), dev.into());
        drop(before);
    }
}
