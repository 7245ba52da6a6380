// SPDX-License-Identifier: GPL-2.0

//! Where what a driver keeps of a device waits between two devices, while it goes from one to the other.
//!
//! There is one place, for as long as a holder says between which two devices. A driver
//! that is taken from one of them leaves here what is to outlast that, and finds it when it is given the
//! other one, or the same again. It must not know what that is.

use super::{raw_pci, virtfn::VirtFn};
use core::any::Any;
use kernel::{pci, prelude::*, sync::global_lock};

/// What is left here. Dropped, if it is not fetched.
pub(crate) trait SavedState: Send {
    /// For who knows what it is.
    fn as_any(&mut self) -> &mut dyn Any;
}

struct Place {
    /// By their addresses, which are compared only.
    between: Option<(usize, usize)>,
    saved: Option<KBox<dyn SavedState>>,
}

global_lock! {
    // SAFETY: Initialised by `Handover::new`, called once before the drivers are registered.
    unsafe(uninit) static PLACE: Mutex<Place> = Place {
        between: None,
        saved: None,
    };
}

/// The place, for the life of the module.
pub(crate) struct Handover(());

impl Handover {
    /// To be called once, by the module's `init`, before a driver is registered.
    pub(crate) fn new() -> Self {
        // SAFETY: Called once.
        unsafe { PLACE.init() };
        Self(())
    }
}

fn address<C: kernel::device::DeviceContext>(dev: &pci::Device<C>) -> usize {
    raw_pci(dev).addr()
}

/// The right to the place. What is there when this is dropped is dropped, too.
pub(crate) struct HandoverSlot<'a> {
    // Held: no other device gets their addresses.
    _between: (&'a VirtFn, &'a VirtFn),
}

impl<'a> HandoverSlot<'a> {
    /// `EBUSY`: the place has a holder.
    pub(crate) fn new(one: &'a VirtFn, other: &'a VirtFn) -> Result<Self> {
        let mut place = PLACE.lock();
        if place.between.is_some() {
            return Err(EBUSY);
        }
        place.between = Some((one.address(), other.address()));
        Ok(Self {
            _between: (one, other),
        })
    }
}

impl Drop for HandoverSlot<'_> {
    fn drop(&mut self) {
        let mut place = PLACE.lock();
        place.between = None;
        let saved = place.saved.take();
        // Not with the lock held.
        drop(place);
        drop(saved);
    }
}

impl Place {
    fn is_for(&self, dev: usize) -> bool {
        self.between
            .is_some_and(|(one, other)| one == dev || other == dev)
    }
}

/// Whether something of `dev` may be left.
pub(crate) fn is_for<C: kernel::device::DeviceContext>(dev: &pci::Device<C>) -> bool {
    PLACE.lock().is_for(address(dev))
}

/// Leaves something of `dev`. It is given back if it may not be left.
pub(crate) fn leave<C: kernel::device::DeviceContext>(
    dev: &pci::Device<C>,
    saved: KBox<dyn SavedState>,
) -> Result<(), KBox<dyn SavedState>> {
    let mut place = PLACE.lock();
    if !place.is_for(address(dev)) || place.saved.is_some() {
        return Err(saved);
    }
    place.saved = Some(saved);
    Ok(())
}

/// Fetches what was left for `dev`.
pub(crate) fn fetch<C: kernel::device::DeviceContext>(
    dev: &pci::Device<C>,
) -> Option<KBox<dyn SavedState>> {
    let mut place = PLACE.lock();
    if place.is_for(address(dev)) {
        place.saved.take()
    } else {
        None
    }
}
