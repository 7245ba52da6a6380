// SPDX-License-Identifier: GPL-2.0

//! Handover of a driver's state of a device from one device to another.
//!
//! There is one handover slot. Its holder, a [`HandoverSlot`], names two devices. A driver that is
//! unbound from one of them leaves the state here that is to survive, and fetches it when it is bound to
//! the other device, or to the same one again. This file must not know what the state is.

use super::{raw_pci, virtfn::VirtFn};
use core::any::Any;
use kernel::{pci, prelude::*, sync::global_lock};

/// The state that is handed over. It is dropped if no driver fetches it.
pub(crate) trait SavedState: Send {
    /// Returns the state as [`Any`], for a caller that knows its type.
    fn as_any(&mut self) -> &mut dyn Any;
}

struct Place {
    /// The two devices, by their addresses, which are only compared.
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

/// Initialises the handover slot, for the life of the module.
pub(crate) struct Handover(());

impl Handover {
    /// Initialises the slot. Called once, by the module's `init`, before a driver is registered.
    pub(crate) fn new() -> Self {
        // SAFETY: Called once.
        unsafe { PLACE.init() };
        Self(())
    }
}

fn address<C: kernel::device::DeviceContext>(dev: &pci::Device<C>) -> usize {
    raw_pci(dev).addr()
}

/// The holder of the handover slot. Dropping it frees the slot, and drops the state that is left in it.
pub(crate) struct HandoverSlot<'a> {
    // References: no other device gets their addresses meanwhile.
    _between: (&'a VirtFn, &'a VirtFn),
}

impl<'a> HandoverSlot<'a> {
    /// Takes the slot, for a handover between `one` and `other`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EBUSY` if another caller holds the slot.
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

/// Returns whether the slot is held for a handover from or to `dev`. Sleeps.
pub(crate) fn is_for<C: kernel::device::DeviceContext>(dev: &pci::Device<C>) -> bool {
    PLACE.lock().is_for(address(dev))
}

/// Leaves the state `saved` of `dev` in the slot. Sleeps.
///
/// # Errors
///
/// Returns `saved` if the slot is not held for `dev`, or is full.
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

/// Takes the state out of the slot, if there is some and the slot is held for `dev`. Sleeps.
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
