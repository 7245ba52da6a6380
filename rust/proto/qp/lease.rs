// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Staging memory of this end, and the leases of it that the peer has: it may write or read there until
//! it says DONE.
//!
//! A lease belongs to the link, not to a queue pair: one that is destroyed meanwhile leaves its leases
//! behind, and their memory is used again only when the peer has said that it is done with it. This
//! must not know which way the data go.

use crate::proto::{
    cell::PAGE_BYTES,
    request::{Extent, Extents, Role},
    staging::Staging,
    trunk::Layout,
    word::PARTS,
};

/// The number of a segment, as a word tells it.
pub(super) fn told_number(number: u64) -> u16 {
    (number % u64::from(PARTS)) as u16
}

/// Memory that the peer was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Queue pair of this end.
    pub qpn: u32,
    /// Queue pair of the peer.
    pub peer_qpn: u32,
    /// Low bits of the number of the request.
    pub psn: u16,
    /// The epoch of the queue pair then: it may have been reset since.
    pub epoch: u32,
    /// What this end is in the request: a requester that reads, or a responder of a long message; if
    /// data are pulled, a requester of a message, or a responder that is read from.
    pub role: Role,
    /// Number of the segment, as a word tells it.
    pub part: u16,
    /// Where in the message its data belong.
    pub offset: u64,
    /// The memory.
    pub extents: Extents,
}

impl Lease {
    /// For memory that was not used yet.
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
    /// The first `count` of them.
    leases: S,
    count: usize,
}

/// How many leases there can be in the link queues of `own`: each has a page at least.
pub const fn leases(own: &Layout) -> usize {
    own.staging_pages()
}

impl<S: LeaseMemory> Buffers<S> {
    /// All of it free. `leases` is memory for [`leases`] of them.
    pub fn new(own: &Layout, leases: S) -> Self {
        Self {
            staging: Staging::new(own),
            leases,
            count: 0,
        }
    }

    /// Whether each page is free or leased, and none is both: so it is whenever nothing is taken
    /// without a lease.
    pub fn is_whole(&self) -> bool {
        let live = self.leases.as_ref().get(..self.count).unwrap_or_default();
        let extents = live.iter().flat_map(|lease| lease.extents.as_slice());
        let pages = |extent: &Extent| (extent.bytes as usize).div_ceil(PAGE_BYTES);
        let leased: usize = extents.map(pages).sum();
        self.staging.free_pages() + leased == self.staging.pages()
    }

    /// Takes memory for `bytes` bytes, or for as many as there are now; `None`: there is none.
    pub fn take(&mut self, bytes: u64) -> Option<Extents> {
        self.staging.take(bytes)
    }

    /// Gives back memory that is not leased.
    pub fn give(&mut self, extents: &Extents) {
        self.staging.give(extents);
    }

    /// Records that the peer is told of memory that was taken. False: there is no room for one more
    /// lease, and the memory is free again.
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

    /// The peer has said DONE: its lease, whose memory is to be given back by [`Buffers::give`].
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

    /// The peer has dropped request `psn` of this end.
    pub fn revoke(&mut self, qpn: u32, psn: u16) {
        let dropped = (qpn, psn, Role::Initiator);
        self.revoke_if(|lease| (lease.qpn, lease.psn, lease.role) == dropped);
    }

    /// The peer's queue pair does no more for this one, as it was in `epoch`; 0: in any.
    pub fn revoke_peer(&mut self, qpn: u32, peer_qpn: u32, epoch: u32) {
        self.revoke_if(|lease| {
            let of_pair = (lease.qpn, lease.peer_qpn) == (qpn, peer_qpn);
            of_pair && (epoch == 0 || lease.epoch == epoch)
        });
    }

    /// The peer has no queue pair of this number.
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
