// SPDX-License-Identifier: GPL-2.0

//! Memory of QP machines in the driver: for requests under way and for leases.

use crate::proto::qp::{Heap, Inbound, Lease, Request};
use kernel::prelude::*;

/// Memory of QP machines in the driver.
pub(super) struct KernelHeap;

impl Heap for KernelHeap {
    type Request = KBox<Request>;
    type Inbound = KBox<Inbound>;
}

/// Memory for the leases of a link.
pub(super) struct Leases(KVVec<Lease>);

impl Leases {
    pub(super) fn new(count: usize) -> Result<Self> {
        Ok(Self(KVVec::from_elem(Lease::NONE, count, GFP_KERNEL)?))
    }
}

impl AsRef<[Lease]> for Leases {
    fn as_ref(&self) -> &[Lease] {
        &self.0
    }
}

impl AsMut<[Lease]> for Leases {
    fn as_mut(&mut self) -> &mut [Lease] {
        &mut self.0
    }
}
