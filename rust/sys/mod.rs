// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers for kernel facilities that the kernel crate lacks, one file per facility of C.
//!
//! `unsafe` is used here and in `hw` only. This is the only module that depends on the kernel series
//! (`cfg(KERNEL_7_3)`). It must not know ports, links or channels.

use kernel::{
    bindings,
    device::{Device, DeviceContext},
};

pub(crate) mod account;
pub(crate) mod area;
mod bytes;
mod channels;
pub(crate) mod chrdev;
pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod dma;
pub(crate) mod drain;
pub(crate) mod errno;
pub(crate) mod eventfd;
pub(crate) mod ext;
pub(crate) mod file;
pub(crate) mod gate;
pub(crate) mod handover;
pub(crate) mod hmac;
pub(crate) mod home;
pub(crate) mod iomap;
pub(crate) mod irq;
pub(crate) mod irqlock;
pub(crate) mod iter;
pub(crate) mod memory;
pub(crate) mod mm;
pub(crate) mod module;
pub(crate) mod net;
pub(crate) mod pages;
pub(crate) mod pat;
pub(crate) mod pci;
pub(crate) mod pin;
pub(crate) mod queue;
pub(crate) mod random;
pub(crate) mod registry;
pub(crate) mod slots;
mod sockets;
pub(crate) mod steps;
pub(crate) mod sysfs;
pub(crate) mod task;
pub(crate) mod thread;
pub(crate) mod throttle;
pub(crate) mod trace;
pub(crate) mod uevent;
pub(crate) mod user;
pub(crate) mod virtfn;
pub(crate) mod vma;
pub(crate) mod waitq;
pub(crate) mod words;
pub(crate) mod work;

/// Returns the `struct pci_dev` of `dev`; `pci::Device::as_raw` is private.
pub(crate) fn raw_pci<C: DeviceContext>(dev: &kernel::pci::Device<C>) -> *mut bindings::pci_dev {
    // `pci::Device` is transparent around `Opaque<struct pci_dev>`.
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// Returns the `struct device` of `dev`; `Device::as_raw` is not public.
pub(crate) fn raw_dev<C: DeviceContext>(dev: &Device<C>) -> *mut bindings::device {
    // `Device` is transparent around `Opaque<struct device>`.
    core::ptr::from_ref(dev).cast_mut().cast()
}
