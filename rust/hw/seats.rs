// SPDX-License-Identifier: GPL-2.0

//! What a port has for functions of shared endpoints that its host uses: some *seats*, each with a
//! window onto a function, a doorbell in either direction, and *openings*, by which the endpoint
//! reaches memory of the host. Links leave it what they do not need.

use crate::sys::area::Area;
use kernel::prelude::*;

/// A function that is to have a seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Guest {
    /// Local id of its endpoint, not 0.
    pub(crate) lid: u32,
    /// Where in the endpoint's aperture space it is, a multiple of the page size.
    pub(crate) at: u64,
    /// By which link, and which virtual plane there, it comes in.
    pub(crate) link: usize,
    pub(crate) vp: u32,
}

/// Memory that a guest may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opening {
    /// Where the guest finds it, in this port's aperture space.
    pub(crate) offset: u64,
    /// Where the port does: by its DMA address.
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
    /// What the guest may do.
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// The seats of a port. All are empty, and all openings are closed, after a reset of it; whoever
/// had one leaves it all the same. One caller at a time for a seat.
///
/// Errors of all: `EINVAL`: there is no such seat, opening, or local id; `ENODEV`: the function
/// does not answer.
pub(crate) trait Seats: Send + Sync {
    /// How many there are, up to [`MAX_SEATS`].
    fn count(&self) -> usize;

    /// Why there are no more, for people.
    fn lacks(&self) -> &'static CStr;

    /// Points the window and the doorbell of `seat` at a guest, and has [`super::Events::called`]
    /// called when it rings.
    fn take(&self, seat: usize, guest: Guest) -> Result;

    /// Points them nowhere. Of what was opened nothing is closed.
    fn leave(&self, seat: usize);

    /// The number of the route to the guest: another one when it was lost and taken up anew.
    /// `None`: none leads there.
    fn route(&self, seat: usize) -> Option<u32>;

    /// Whether the guest lets this port reach it.
    fn is_open(&self, seat: usize) -> bool;

    /// The window, mapped uncached, of [`WINDOW_BYTES`].
    fn window(&self, seat: usize) -> Result<&Area>;

    /// The doorbell that the guest is to ring.
    fn doorbell(&self, seat: usize) -> u32;

    /// Rings at the guest. Any context.
    fn ring(&self, seat: usize);

    /// Lets the guest, and nobody else, reach memory by opening `n` of its seat, in force when this
    /// returns. Sleeps, for at most a tenth of a second: `ETIMEDOUT`. `EIO`: the port does not open
    /// it.
    fn open(&self, seat: usize, n: usize, opening: Opening) -> Result;

    /// Takes that back. When this returns, no access of the guest can still land there. Sleeps, as
    /// above; on `ETIMEDOUT` the memory must not be given to anybody.
    fn close(&self, seat: usize, n: usize) -> Result;
}

/// The most seats that a port has.
pub(crate) const MAX_SEATS: usize = 4;

/// Openings of each.
pub(crate) const OPENINGS: usize = 5;

/// Bytes of a window.
pub(crate) const WINDOW_BYTES: usize = crate::sys::ext::WEFT_EP_FUNCTION_BYTES as usize;
