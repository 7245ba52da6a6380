// SPDX-License-Identifier: GPL-2.0

//! What a port has for functions of shared endpoints that its host uses: some *slots*, each with a
//! window onto a function, a doorbell in either direction, and *inbound mappings*, by which the endpoint
//! reaches memory of the host. Links leave it what they do not need.

use crate::sys::area::Area;
use kernel::prelude::*;

/// A function that is to have a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RemoteFunction {
    /// Local id of its endpoint, not 0.
    pub(crate) lid: u32,
    /// Where in the endpoint's aperture space it is, a multiple of the page size.
    pub(crate) at: u64,
    /// By which link, and which virtual plane there, it comes in.
    pub(crate) link: usize,
    pub(crate) vp: u32,
}

/// Memory that a remote may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InboundMapping {
    /// Where the remote finds it, in this port's aperture space.
    pub(crate) offset: u64,
    /// Where the port does: by its DMA address.
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
    /// What the remote may do.
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// The slots of a port. All are empty, and all inbound mappings are closed, after a reset of it; a function that
/// had one leaves it all the same. One caller at a time for a slot.
///
/// Errors of all: `EINVAL`: there is no such slot, mapping, or local id; `ENODEV`: the function
/// does not answer.
pub(crate) trait EndpointSlots: Send + Sync {
    /// How many there are, up to [`MAX_ENDPOINT_SLOTS`].
    fn count(&self) -> usize;

    /// Why there are no more, for people.
    fn lacks(&self) -> &'static CStr;

    /// Points the window and the doorbell of `slot` at a remote, and has [`super::Events::called`]
    /// called when it rings.
    fn take(&self, slot: usize, remote: RemoteFunction) -> Result;

    /// Points them nowhere. Of what was opened nothing is closed.
    fn leave(&self, slot: usize);

    /// The number of the route to the remote: another one when it was lost and taken up anew.
    /// `None`: none leads there.
    fn route(&self, slot: usize) -> Option<u32>;

    /// Whether the remote lets this port reach it.
    fn is_open(&self, slot: usize) -> bool;

    /// The window, mapped uncached, of [`WINDOW_BYTES`].
    fn window(&self, slot: usize) -> Result<&Area>;

    /// The doorbell that the remote is to ring.
    fn doorbell(&self, slot: usize) -> u32;

    /// Rings at the remote. Any context.
    fn ring(&self, slot: usize);

    /// Lets the remote, and no other, reach memory by mapping `n` of its slot, in force when this
    /// returns. Sleeps, for at most a tenth of a second: `ETIMEDOUT`. `EIO`: the port does not open
    /// it.
    fn open(&self, slot: usize, n: usize, mapping: InboundMapping) -> Result;

    /// Takes that back. When this returns, no access of the remote can still land there. Sleeps, as
    /// above; on `ETIMEDOUT` the memory must not be used for anything else.
    fn close(&self, slot: usize, n: usize) -> Result;
}

/// The most slots that a port has.
pub(crate) const MAX_ENDPOINT_SLOTS: usize = 4;

/// InboundMappings of each.
pub(crate) const INBOUND_MAPPINGS: usize = 5;

/// Bytes of a window.
pub(crate) const WINDOW_BYTES: usize = crate::sys::ext::WEFT_EP_FUNCTION_BYTES as usize;
