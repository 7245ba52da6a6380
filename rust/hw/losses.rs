// SPDX-License-Identifier: GPL-2.0

//! Reports of data that did not arrive. This file must not know how the driver reacts to them.

/// The reports of lost data of a port's links.
pub(crate) trait Losses: Send + Sync {
    /// Returns whether all stores through the attached window have been accepted, and the neighbour can
    /// still access the arena that was granted to it. The error says, for the log, what is wrong.
    fn intact(&self, link: usize) -> Result<(), &'static str>;

    /// Returns whether the writes of the neighbour on `link` since [`super::Port::grant`] have arrived
    /// without a gap. False: a write was dropped, and later ones may have arrived. Called before
    /// [`super::Port::withdraw`].
    fn is_sound(&self, link: usize) -> bool;

    /// Returns the number of loads through windows that returned all ones because there was no answer.
    /// `None` if the port does not answer. A loaded value is valid if the count is the same before and
    /// after the load.
    fn failed_loads(&self) -> Option<u32>;
}
