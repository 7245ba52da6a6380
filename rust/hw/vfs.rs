// SPDX-License-Identifier: GPL-2.0

//! The virtual functions of a physical function: what each may use, what it does, and which place it
//! has taken. It must not know why they move.

use crate::proto::pair::Ask;
use kernel::prelude::*;

/// What a virtual function may use of the hardware.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct VfQuota {
    pub(crate) slots: u32,
    pub(crate) apertures: u32,
    /// That may ring at it, and pages by which it rings elsewhere.
    pub(crate) doorbells: u32,
    pub(crate) pages: u32,
    /// Bytes of memory that neighbours may reach, all together.
    pub(crate) bytes: u64,
    /// A bit a link.
    pub(crate) links: u32,
    /// Of the DMA engine.
    pub(crate) channels: u32,
    /// A bit a function of a neighbour.
    pub(crate) peers: u64,
    /// Bytes that it moves by DMA in a second, and doorbells that it rings; 0: any number.
    pub(crate) rate: u64,
    pub(crate) rings: u32,
}

/// What a virtual function is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VfState {
    /// Not enabled.
    Off,
    /// It has no driver.
    Idle,
    /// It has a driver, and no users.
    Driven,
    /// It has users, or a driver that does not say.
    Used,
}

/// A virtual function, as its physical function sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vf {
    pub(crate) quota: VfQuota,
    pub(crate) state: VfState,
    /// Who it is: as neighbours know it.
    pub(crate) hwid: u64,
    /// Its driver has said hello.
    pub(crate) greeted: bool,
    /// It masters the bus.
    pub(crate) master: bool,
    /// What its driver has answered to [`VirtualFunctions::ask`].
    pub(crate) left: Option<u32>,
    /// What it uses of that now.
    pub(crate) slots: u32,
    pub(crate) apertures: u32,
    pub(crate) bytes: u64,
    /// What it has done since the physical function was reset: bytes moved by DMA, and doorbells rung.
    /// `None`: the hardware does not say.
    pub(crate) done: Option<(u64, u64)>,
}

/// The virtual functions of a port, enabled or not.
pub(crate) trait VirtualFunctions: Send + Sync {
    fn count(&self) -> usize;

    /// `ENOENT`: there is no VF `n`; `ENODEV`: the function does not answer.
    fn get(&self, n: usize) -> Result<Vf>;

    /// Changes what VF `n` may use; what it uses beyond that is taken away when this returns. It has the identity that
    /// [`super::identity_map`] gives it from then on.
    /// `EINVAL`: there is no such VF, link or function, or the rate is too low to work with;
    /// `EOPNOTSUPP`: the hardware knows no rates.
    fn change(&self, n: usize, change: &dyn Fn(&mut VfQuota)) -> Result;

    /// Whether a VF can take another's place.
    fn can_migrate(&self) -> bool;

    /// Who VF `n` is by itself, whosever place it has taken; 0 while that is not known.
    fn own_hwid(&self, n: usize) -> u64;

    /// What a VF can have, at the most: links, channels, the logarithm of the bytes of a window, and
    /// whether it can have rates.
    fn offers(&self) -> [u32; 4];

    /// The bit in [`VfQuota::peers`] of the neighbours of VF `n` that its driver speaks to.
    fn peer_index(&self, n: usize) -> u64;

    /// Whether VFs can exchange the numbers by which neighbours know them.
    fn can_renumber(&self) -> bool;

    /// VFs `one` and `other`, of which nothing is open, have each other's number from then on: neighbours
    /// find one where they found the other. `EBUSY`: something is open yet; `EOPNOTSUPP`.
    fn renumber(&self, one: usize, other: usize) -> Result;

    /// Asks the driver of VF `n` for something, from now on and again after its resets. What was
    /// answered before is forgotten.
    fn ask(&self, n: usize, ask: Ask) -> Result;
}
