// SPDX-License-Identifier: GPL-2.0

//! System sleep: suspend to idle or to memory, and hibernation (`struct dev_pm_ops`,
//! `include/linux/pm.h`).
//!
//! The PCI core saves the configuration space, MSI-X included, and turns the function off and on;
//! the driver is told before and after. There is no runtime suspend: other hosts could not reach a
//! function that sleeps while the system runs, and nothing would wake it.

use super::{Adapter, Driver};
use kernel::{bindings, prelude::*};

/// The callbacks of power management for the functions of `T`.
pub(super) struct Sleep<T: Driver>(core::marker::PhantomData<T>);

impl<T: Driver> Sleep<T> {
    const OPS: bindings::dev_pm_ops = bindings::dev_pm_ops {
        suspend: Some(Self::suspend),
        resume: Some(Self::resume),
        freeze: Some(Self::suspend),
        thaw: Some(Self::resume),
        poweroff: Some(Self::suspend),
        restore: Some(Self::resume),
        ..pin_init::zeroed()
    };
    pub(super) const OPS_REF: &'static bindings::dev_pm_ops = &Self::OPS;

    extern "C" fn suspend(dev: *mut bindings::device) -> c_int {
        // SAFETY: The callbacks are those of a PCI driver: the device is that of a `pci_dev`.
        let pdev = unsafe { kernel::container_of!(dev, bindings::pci_dev, dev) };
        // SAFETY: Called with the device lock held, for a device that is bound.
        unsafe { Adapter::<T>::with(pdev, T::sleep) };
        0
    }

    extern "C" fn resume(dev: *mut bindings::device) -> c_int {
        // SAFETY: As above.
        let pdev = unsafe { kernel::container_of!(dev, bindings::pci_dev, dev) };
        // SAFETY: As above.
        unsafe { Adapter::<T>::with(pdev, T::wake) };
        0
    }
}
