// SPDX-License-Identifier: GPL-2.0

//! The multi-root management of the fabric (MR-PCIM) on the host that is the master: finds the
//! components, and gives each virtual endpoint to the host that the administrator has assigned it to.
//!
//! It runs in a work item of its own, as a request may take a second and the network manager must not
//! wait for that. A run begins when that manager is idle and something has changed since the last run
//! began; what failed is tried again later. It must not know what hosts do with their hierarchies.
//!
//! # Locks
//!
//! `Pcim::configurator` is outside all other locks, and held during a run. The others are innermost, and
//! held for copies only.

mod bus;
mod carry;
mod configurator;
mod controller;
mod explore;
mod found;
mod hierarchies;
mod kept;
mod outcome;
mod plan;
mod public;
mod slots;
mod tables;
mod virtual_slots;
mod vpd;
mod ways;

pub(super) use self::plan::MAX_ASSIGNMENTS;
pub(crate) use self::public::Shown;

use self::{
    bus::Bus,
    configurator::Configurator,
    found::Found,
    outcome::Outcome,
    public::{Public, Told},
    slots::Slot,
};
use super::PortGuard;
use crate::{
    proto::mr::{
        assignment::Assignment,
        due::{Causes, Due, End},
    },
    sys::{errno::ESTALE, sysfs},
};
use kernel::{
    device::Device,
    fmt::Arguments,
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Mutex},
    time::Msecs,
};

/// What the management needs of this host, and of its network manager.
pub(super) trait Network {
    /// Returns the device of the port.
    fn dev(&self) -> ARef<Device>;

    /// Enters the port. `ENODEV`: it is gone, or does not answer.
    fn port(&self) -> Result<PortGuard<'_>>;

    /// Enters the port, unless it is gone, does not answer, or the function is being reset.
    fn port_at_work(&self) -> Option<PortGuard<'_>>;

    /// Warns in the log, at a limited rate.
    fn complain(&self, what: Arguments<'_>);

    /// Returns whether this host is the master in `term`.
    fn is_master(&self, term: u32) -> bool;

    /// Returns local id and life of a member of the fabric that answers; zeroes if there is none.
    fn member(&self, hwid: u64) -> (u32, u32);

    /// Hands a host its hierarchy, see [`Manager::hand`](super::Manager::hand).
    fn hand(&self, hwid: u64, bytes: &[u8]) -> Result;

    /// Copies the text of the assignments, if it fits into `to`. Returns its version and its length in
    /// bytes.
    fn copy_assignments(&self, to: &mut [u8]) -> (u32, usize);

    /// Replaces that version of the text by one with the same assignments, and what was noted besides.
    fn note_assignments(&self, version: u32, text: &[u8]) -> Result;
}

/// The management of a port's fabric.
#[pin_data]
pub(crate) struct Pcim {
    #[pin]
    configurator: Mutex<Option<KBox<Configurator>>>,
    #[pin]
    causes: Mutex<Causes>,
    #[pin]
    public: Mutex<Public>,
}

impl Pcim {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            configurator <- new_mutex!(None, "weft pcim"),
            causes <- new_mutex!(Causes::default(), "weft pcim causes"),
            public <- new_mutex!(Public::new(), "weft pcim public"),
        })
    }

    /// A hot-plug controller has reported something.
    pub(super) fn plugged(&self) {
        self.causes.lock().plugged();
    }

    /// Calls [`Causes::settled`].
    pub(super) fn settled(&self, on: Option<(u32, u64)>) -> Due {
        self.causes.lock().settled(on)
    }

    /// Does what is due. Returns after how many milliseconds it wants to be called again. Sleeps.
    pub(super) fn run(&self, network: &dyn Network) -> Option<Msecs> {
        let mut configurator = self.configurator.lock();
        let term = self.causes.lock().begin()?;
        let end = match self.run_with(&mut configurator, network, term) {
            Ok(true) => End::Done,
            Ok(false) => End::Later,
            Err(e) if e == ESTALE => End::Lost,
            Err(e) => {
                if !carry::is_over(e) {
                    network.complain(fmt!(
                        "hierarchies cannot be looked after: {:?}; trying again",
                        e
                    ));
                }
                End::Later
            }
        };
        self.causes.lock().end(end)
    }

    fn run_with(
        &self,
        configurator: &mut Option<KBox<Configurator>>,
        network: &dyn Network,
        term: u32,
    ) -> Result<bool> {
        if configurator.is_none() {
            *configurator = Some(KBox::new(Configurator::new()?, GFP_KERNEL)?);
        }
        let configurator = configurator.as_mut().ok_or(ENOMEM)?;
        configurator.run(network, self, term)
    }

    /// Returns the number of assignments, a serial number that changes when any of them or its outcome
    /// does, and assignment number `n` with its outcome.
    pub(crate) fn assignment(&self, n: usize) -> (usize, u32, Option<(Assignment, Outcome)>) {
        let public = self.public.lock();
        let assignment = public.assignments.get(n).copied();
        (
            public.assignments.len(),
            public.assignments_serial,
            assignment,
        )
    }

    /// Returns that serial number.
    pub(crate) fn assignments_serial(&self) -> u32 {
        self.public.lock().assignments_serial
    }

    /// Returns the number of components, a serial number that changes when any of them does, and
    /// component number `n`.
    pub(crate) fn component(&self, n: usize) -> (usize, u32, Option<Shown>) {
        let public = self.public.lock();
        let shown = public.components.get(n).copied();
        (public.components.len(), public.components_serial, shown)
    }

    /// Returns the number of slots of switches, a serial number that changes when any of them does, and slot
    /// number `n`.
    pub(crate) fn slot(&self, n: usize) -> (usize, u32, Option<Slot>) {
        let public = self.public.lock();
        let slot = public.slots.get(n).copied();
        (public.slots.len(), public.slots_serial, slot)
    }

    /// Has the hot-plug controller of a slot announce a component or, if not `on`, nothing any more. It is kept
    /// at the switch: another master finds it there. Sleeps, not with the configurator locked: a run may take
    /// long.
    ///
    /// `ENOENT`: there is no such slot, as far as the last run has found; others as of [`Slot::announce`].
    pub(super) fn announce(
        &self,
        network: &dyn Network,
        term: u32,
        (switch, port): (u64, u8),
        on: bool,
    ) -> Result {
        let slot = self.public.lock().slot(switch, port);
        let mut slot = slot.ok_or(ENOENT)?;
        slot.announce(&Bus::new(network, term), on)?;
        self.public.lock().show_slot(slot);
        // A run shows all slots again, and notes that what was withdrawn may be announced again.
        self.plugged();
        Ok(())
    }

    /// Calls `f` with the serial number of a host's hierarchy, and the hierarchy as
    /// [`crate::proto::mr::hierarchy`] encodes it. `ENOENT`: no hierarchy of such a host is known.
    pub(crate) fn hierarchy<R>(
        &self,
        root: u64,
        f: impl FnOnce(u32, &[u8]) -> Result<R>,
    ) -> Result<R> {
        let public = self.public.lock();
        let (serial, bytes) = public.hierarchy(root).ok_or(ENOENT)?;
        f(serial, bytes)
    }

    /// Shows these assignments, see [`Public::show_assignments`], and notifies readers in sysfs of a
    /// change.
    pub(super) fn show_assignments(
        &self,
        dev: &Device,
        assignments: &[Assignment],
        outcome: impl Fn(usize) -> Option<Outcome>,
    ) -> Result {
        let differs = self.public.lock().show_assignments(assignments, outcome)?;
        if differs {
            sysfs::notify(dev, Some(c"manager"), c"assignments");
        }
        Ok(())
    }

    fn show_components(&self, found: &Found) -> Result {
        self.public.lock().show_components(found)
    }

    /// Returns a number that changes when a slot is written by a caller.
    fn slots_written(&self) -> u32 {
        self.public.lock().slots_written
    }

    fn show_slots(&self, slots: KVVec<Slot>, written: u32) {
        self.public.lock().show_slots(slots, written);
    }

    fn show_hierarchies(&self, told: KVVec<Told>) {
        let before = core::mem::replace(&mut self.public.lock().hierarchies, told);
        drop(before);
    }
}
