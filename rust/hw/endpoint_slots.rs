// SPDX-License-Identifier: GPL-2.0

//! Resources of a port for functions of shared endpoints that its host uses: *endpoint slots*, each with
//! a window onto a function, a doorbell in either direction, and *inbound mappings*, through which the
//! endpoint accesses memory of the host. They use what the links do not need.

use crate::sys::area::Area;
use kernel::prelude::*;

/// A remote function: a function of an endpoint that gets a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RemoteFunction {
    /// Local id of its endpoint, not 0.
    pub(crate) lid: u32,
    /// The position of the function in the endpoint's aperture space, a multiple of the page size.
    pub(crate) at: u64,
    /// The link, and the virtual plane there, by which accesses of the function arrive.
    pub(crate) link: usize,
    pub(crate) vp: u32,
}

/// Memory that a remote function may access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InboundMapping {
    /// The address for the remote function, in this port's aperture space.
    pub(crate) offset: u64,
    /// The address for the port: the DMA address.
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
    /// What the remote function may do.
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// The endpoint slots of a port. A reset of the port empties all slots and closes all inbound mappings;
/// the user of a slot calls [`EndpointSlots::leave`] nevertheless. One caller at a time for a slot.
///
/// Errors of all methods: `EINVAL` if there is no such slot, mapping, or local id; `ENODEV` if the port
/// does not answer.
pub(crate) trait EndpointSlots: Send + Sync {
    /// Returns the number of slots, up to [`MAX_ENDPOINT_SLOTS`].
    fn count(&self) -> usize;

    /// Returns, for the log, the resource that limits the number of slots.
    fn lacks(&self) -> &'static CStr;

    /// Points the window and the doorbell of `slot` at `remote`, and lets the remote function ring the
    /// doorbell of the slot, for [`super::Events::called`].
    fn take(&self, slot: usize, remote: RemoteFunction) -> Result;

    /// Disconnects the window and the doorbells of `slot`. Inbound mappings stay open.
    fn leave(&self, slot: usize);

    /// Returns the number of the route to the remote function, `None` without a route. The number
    /// changes when the route is lost and established again.
    fn route(&self, slot: usize) -> Option<u32>;

    /// Returns whether the remote function lets this port access it.
    fn is_open(&self, slot: usize) -> bool;

    /// Returns the window, [`WINDOW_BYTES`] bytes, mapped uncached.
    fn window(&self, slot: usize) -> Result<&Area>;

    /// Returns the doorbell of this port that the remote function rings.
    fn doorbell(&self, slot: usize) -> u32;

    /// Rings the doorbell of the remote function. Any context.
    fn ring(&self, slot: usize);

    /// Says that the remote function is about to be given work for which it rings so many times. A port
    /// that limits how often it may ring allows for that. Any context.
    fn expect(&self, slot: usize, rings: usize);

    /// Lets the remote function alone access memory through mapping `n` of `slot`; in force when this
    /// returns.
    ///
    /// Sleeps for up to 100 ms, twice. `ETIMEDOUT` if an earlier mapping is still in use then; `EIO` if
    /// the port does not open the mapping.
    fn open(&self, slot: usize, n: usize, mapping: InboundMapping) -> Result;

    /// Closes mapping `n` of `slot`. When this returns, no access of the remote function can still reach
    /// the memory.
    ///
    /// Sleeps for up to 100 ms. After `ETIMEDOUT` the memory must not be reused or freed.
    fn close(&self, slot: usize, n: usize) -> Result;
}

/// The maximum number of endpoint slots of a port.
pub(crate) const MAX_ENDPOINT_SLOTS: usize = 4;

/// The number of inbound mappings of each slot.
pub(crate) const INBOUND_MAPPINGS: usize = 5;

/// The size of a window in bytes.
pub(crate) const WINDOW_BYTES: usize = crate::sys::ext::WEFT_EP_FUNCTION_BYTES as usize;
