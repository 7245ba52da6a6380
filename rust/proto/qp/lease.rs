// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Staging memory of this end, and the leases of it that the peer has: the peer may write or read there
//! until it sends DONE.
//!
//! A lease belongs to the link, not to a queue pair: a queue pair that is destroyed meanwhile leaves its
//! leases behind, and their memory is reused only when the peer is done with it. This file is
//! independent of the direction of the data.

use crate::proto::{
    cell::PAGE_BYTES,
    request::{Extent, Extents, Role},
    staging::Staging,
    trunk::Layout,
    word::PARTS,
};

/// Returns the number of a segment as words carry it.
pub(super) fn told_number(number: u64) -> u16 {
    (number % u64::from(PARTS)) as u16
}

/// Memory that the peer may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Queue pair of this end.
    pub qpn: u32,
    /// Queue pair of the peer.
    pub peer_qpn: u32,
    /// Low bits of the number of the request.
    pub psn: u16,
    /// Epoch of the queue pair when the lease began: it may have been reset since.
    pub epoch: u32,
    /// Role of this end in the request: a requester that reads, or a responder of a long message; if
    /// data are pulled, a requester of a message, or a responder that is read from.
    pub role: Role,
    /// Number of the segment, as words carry it.
    pub part: u16,
    /// Offset of its data in the message.
    pub offset: u64,
    /// The memory.
    pub extents: Extents,
}

impl Lease {
    /// Initial value for memory.
    pub const NONE: Self = Self {
        qpn: 0,
        peer_qpn: 0,
        psn: 0,
        epoch: 0,
        role: Role::Initiator,
        part: 0,
        offset: 0,
        extents: Extents::NONE,
    };
}

/// Memory for leases, of a fixed size.
pub trait LeaseMemory: AsRef<[Lease]> + AsMut<[Lease]> {}

impl<T: AsRef<[Lease]> + AsMut<[Lease]>> LeaseMemory for T {}

/// The staging memory of this end of a link.
pub struct Buffers<S> {
    staging: Staging,
    /// The first `count` elements are in use.
    leases: S,
    count: usize,
}

/// Returns how many leases there can be in the link queues of `own`: each has at least a page.
pub const fn leases(own: &Layout) -> usize {
    own.staging_pages()
}

impl<S: LeaseMemory> Buffers<S> {
    /// Creates staging memory that is all free. `leases` is memory for [`leases`] leases.
    pub fn new(own: &Layout, leases: S) -> Self {
        Self {
            staging: Staging::new(own),
            leases,
            count: 0,
        }
    }

    /// Returns whether the numbers of free and leased pages add up to all pages: true whenever no memory
    /// is taken without a lease.
    pub fn is_whole(&self) -> bool {
        let live = self.leases.as_ref().get(..self.count).unwrap_or_default();
        let extents = live.iter().flat_map(|lease| lease.extents.as_slice());
        let pages = |extent: &Extent| (extent.bytes as usize).div_ceil(PAGE_BYTES);
        let leased: usize = extents.map(pages).sum();
        self.staging.free_pages() + leased == self.staging.pages()
    }

    /// Takes memory for `bytes` bytes, or for as many as there are now; `None`: there is no memory.
    pub fn take(&mut self, bytes: u64) -> Option<Extents> {
        self.staging.take(bytes)
    }

    /// Frees memory that is not leased.
    pub fn give(&mut self, extents: &Extents) {
        self.staging.give(extents);
    }

    /// Records a lease of memory that was taken. Returns false if there is no room for one more lease;
    /// then the memory is free again.
    #[must_use]
    pub fn lease(&mut self, lease: Lease) -> bool {
        match self.leases.as_mut().get_mut(self.count) {
            Some(free) => {
                *free = lease;
                self.count += 1;
                true
            }
            None => {
                self.staging.give(&lease.extents);
                false
            }
        }
    }

    /// Ends the lease of a DONE and returns it. The caller frees its memory by [`Buffers::give`].
    pub fn end(&mut self, qpn: u32, psn: u16, role: Role, part: u16) -> Option<Lease> {
        let live = self.leases.as_mut().get_mut(..self.count)?;
        let at = live.iter().position(|lease| {
            (lease.qpn, lease.psn, lease.role, lease.part) == (qpn, psn, role, part)
        })?;
        let lease = *live.get(at)?;
        live.copy_within(at + 1.., at);
        self.count -= 1;
        Some(lease)
    }

    /// Revokes the leases of request `psn` of this end, which the peer has dropped.
    pub fn revoke(&mut self, qpn: u32, psn: u16) {
        let dropped = (qpn, psn, Role::Initiator);
        self.revoke_if(|lease| (lease.qpn, lease.psn, lease.role) == dropped);
    }

    /// Revokes the leases between two queue pairs, of which the peer's serves this end's no more.
    /// `epoch` is the epoch of this end's; 0: any.
    pub fn revoke_peer(&mut self, qpn: u32, peer_qpn: u32, epoch: u32) {
        self.revoke_if(|lease| {
            let of_pair = (lease.qpn, lease.peer_qpn) == (qpn, peer_qpn);
            of_pair && (epoch == 0 || lease.epoch == epoch)
        });
    }

    /// Revokes the leases of queue pair `peer_qpn` of the peer, which does not exist.
    pub fn revoke_lost(&mut self, peer_qpn: u32) {
        self.revoke_if(|lease| lease.peer_qpn == peer_qpn);
    }

    fn revoke_if(&mut self, ends: impl Fn(&Lease) -> bool) {
        let mut kept = 0;
        for at in 0..self.count {
            let Some(lease) = self.leases.as_ref().get(at).copied() else {
                break;
            };
            if ends(&lease) {
                self.staging.give(&lease.extents);
                continue;
            }
            if let Some(place) = self.leases.as_mut().get_mut(kept) {
                *place = lease;
            }
            kept += 1;
        }
        self.count = kept;
    }
}
