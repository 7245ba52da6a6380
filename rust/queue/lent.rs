// SPDX-License-Identifier: GPL-2.0

//! Staging memory of this end that the peer was told of, and may write or read until it says DONE.
//!
//! It belongs to the trunk, not to a queue pair: one that is destroyed meanwhile leaves it behind, and
//! nobody else gets it before the peer has said that it is done with it.

use crate::proto::{
    request::{Extents, Role},
    staging::Staging,
    word::PARTS,
};
use kernel::prelude::*;

/// The number of a part of a long message, as a word tells it.
pub(super) fn part(number: u64) -> u16 {
    (number % u64::from(PARTS)) as u16
}

/// A piece of it.
#[derive(Clone, Copy)]
pub(super) struct Lease {
    /// Of this end.
    pub(super) qpn: u32,
    /// Of the peer.
    pub(super) peer_qpn: u32,
    pub(super) psn: u16,
    /// Of the queue pair when it lent it: it may have been reset since.
    pub(super) epoch: u32,
    /// What this end is in it: an initiator that reads, or a responder of a long message; if data are
    /// pulled, an initiator of a message, or a responder that is read from.
    pub(super) role: Role,
    pub(super) part: u16,
    /// Where in the message its data belong.
    pub(super) offset: u64,
    pub(super) extents: Extents,
}

/// All of it, on one link.
pub(super) struct Lent(KVec<Lease>);

impl Lent {
    pub(super) const fn new() -> Self {
        Self(KVec::new())
    }

    /// False: there is no memory to remember it, and what it is of is free again.
    pub(super) fn add(&mut self, lease: Lease, staging: &mut Staging) -> bool {
        let added = self.0.push(lease, GFP_KERNEL).is_ok();
        if !added {
            staging.give(&lease.extents);
        }
        added
    }

    /// The peer has said DONE.
    pub(super) fn take(&mut self, qpn: u32, psn: u16, role: Role, part: u16) -> Option<Lease> {
        let at = self.0.iter().position(|lease| {
            lease.qpn == qpn && lease.psn == psn && lease.role == role && lease.part == part
        })?;
        self.0.remove(at).ok()
    }

    /// The peer has dropped request `psn` of this end's.
    pub(super) fn dropped(&mut self, qpn: u32, psn: u16, staging: &mut Staging) {
        let dropped = (qpn, psn, Role::Initiator);
        self.end(staging, |lease| {
            (lease.qpn, lease.psn, lease.role) == dropped
        });
    }

    /// The peer's queue pair does no more for this one.
    pub(super) fn forget(&mut self, qpn: u32, peer_qpn: u32, staging: &mut Staging) {
        self.end(staging, |lease| {
            (lease.qpn, lease.peer_qpn) == (qpn, peer_qpn)
        });
    }

    /// The peer has no queue pair of this number.
    pub(super) fn lost(&mut self, peer_qpn: u32, staging: &mut Staging) {
        self.end(staging, |lease| lease.peer_qpn == peer_qpn);
    }

    fn end(&mut self, staging: &mut Staging, ends: impl Fn(&Lease) -> bool) {
        self.0.retain(|lease| {
            let stays = !ends(lease);
            if !stays {
                // Taken when it was lent.
                staging.give(&lease.extents);
            }
            stays
        });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
