// SPDX-License-Identifier: GPL-2.0

//! The virtual functions of a physical function: their quotas, their states and the identities that they
//! carry. This file must not know why they migrate.

use super::Guide;
use crate::proto::pair::Ask;
use kernel::prelude::*;

/// What a virtual function may use of the hardware.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct VfQuota {
    /// Outbound slots, and inbound apertures.
    pub(crate) slots: u32,
    pub(crate) apertures: u32,
    /// Doorbells that neighbours may ring, and pages by which the VF rings doorbells of neighbours.
    pub(crate) doorbells: u32,
    pub(crate) pages: u32,
    /// Bytes of memory that neighbours may access, in total.
    pub(crate) bytes: u64,
    /// One bit for each link.
    pub(crate) links: u32,
    /// DMA channels.
    pub(crate) channels: u32,
    /// One bit for each function of a neighbour that the VF may address.
    pub(crate) peers: u64,
    /// Bytes per second that the VF moves by DMA, and doorbells per second that it rings; 0: no limit.
    pub(crate) rate: u64,
    pub(crate) rings: u32,
}

/// The state of a virtual function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VfState {
    /// Not enabled.
    Off,
    /// Enabled, without a driver.
    Idle,
    /// It has a driver, and no users.
    Driven,
    /// It has users, or a driver that does not tell.
    Used,
}

/// A virtual function, as its physical function sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vf {
    pub(crate) quota: VfQuota,
    pub(crate) state: VfState,
    /// The hardware id that it carries, by which neighbours know it.
    pub(crate) hwid: u64,
    /// Its driver has sent a hello since the last reset.
    pub(crate) greeted: bool,
    /// It masters the bus.
    pub(crate) master: bool,
    /// The answer of its driver to [`VirtualFunctions::ask`]: how much is outstanding.
    pub(crate) left: Option<u32>,
    /// The part of the quota that it uses now.
    pub(crate) slots: u32,
    pub(crate) apertures: u32,
    pub(crate) bytes: u64,
    /// Bytes moved by DMA, and doorbells rung, since the reset of the physical function. `None`: the
    /// hardware does not count them.
    pub(crate) done: Option<(u64, u64)>,
}

/// The virtual functions of a port, enabled or not. Methods may sleep.
pub(crate) trait VirtualFunctions: Send + Sync {
    /// Returns the number of virtual functions that the port can have.
    fn count(&self) -> usize;

    /// Returns the state of VF `n`. `ENOENT` if there is no such VF; `ENODEV` if the port does not
    /// answer.
    fn get(&self, n: usize) -> Result<Vf>;

    /// Changes the quota of VF `n`. When this returns, the VF has lost what it used beyond the new
    /// quota, and carries the identity that [`super::identity_map`] has for it.
    ///
    /// `EINVAL` if there is no such VF, link or function, or if the rate is too low to work with;
    /// `EOPNOTSUPP` if the hardware does not limit rates.
    fn change(&self, n: usize, change: &dyn Fn(&mut VfQuota)) -> Result;

    /// Returns whether a VF can carry the identity of another one.
    fn can_migrate(&self) -> bool;

    /// Returns the own hardware id of VF `n`, whichever id it carries; 0 while it is not known.
    fn own_hwid(&self, n: usize) -> u64;

    /// Gives each VF the identity that [`super::identity_map`] has for it now.
    fn rename(&self);

    /// Returns the limits of a VF: links, channels, the base-2 logarithm of the size of a window in
    /// bytes, and 1 if it can have rates.
    fn offers(&self) -> [u32; 4];

    /// Returns the bit of [`VfQuota::peers`] for the neighbours' functions with which the driver of VF
    /// `n` communicates.
    fn peer_index(&self, n: usize) -> u64;

    /// Returns whether VFs can exchange the numbers by which neighbours address them.
    fn can_renumber(&self) -> bool;

    /// Exchanges the numbers of VFs `one` and `other`, by which neighbours address them. Nothing of
    /// either VF may be open.
    ///
    /// `EBUSY` if something is still open; `EOPNOTSUPP` if the hardware cannot do it; `ENOENT` if there
    /// is no such VF.
    fn renumber(&self, one: usize, other: usize) -> Result;

    /// Sends a request to the driver of VF `n`, now and again after each reset of the VF. The previous
    /// answer is forgotten. `ENOENT` if there is no such VF.
    fn ask(&self, n: usize, ask: Ask) -> Result;

    /// Sets what answers VFs that ask for a way to another host. Before, and without it, none is known.
    fn set_guide(&self, guide: &'static dyn Guide);
}
