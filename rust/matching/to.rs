// SPDX-License-Identifier: GPL-2.0

//! An interface of a host, in a session with it. This file must not know what is sent there.

use super::peer::Peer;
use crate::proto::envelope::{Address, Body, Envelope};
use kernel::sync::Arc;

/// An interface that something is sent to, in a session.
#[derive(Clone)]
pub(super) struct To {
    pub(super) peer: Arc<Peer>,
    pub(super) epoch: u32,
    pub(super) address: Address,
}

impl To {
    /// Makes it in the session that there is now.
    pub(super) fn now(peer: Arc<Peer>, address: Address) -> Self {
        Self {
            epoch: peer.epoch(),
            peer,
            address,
        }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.peer, &other.peer)
            && self.epoch == other.epoch
            && self.address == other.address
    }

    /// Returns whether it is this interface of a host, which says something.
    pub(super) fn says(&self, peer: &Arc<Peer>, endpoint: u16) -> bool {
        Arc::ptr_eq(&self.peer, peer) && self.address.endpoint == endpoint
    }

    /// Makes an envelope for it.
    pub(super) fn envelope(&self, from: Address, cookie: u64, body: Body) -> Envelope {
        Envelope {
            to: self.address,
            from,
            cookie,
            body,
        }
    }

    /// Sends it an answer, now or later.
    pub(super) fn reply(&self, from: Address, cookie: u64, body: Body) {
        self.peer.reply(&self.envelope(from, cookie, body));
    }

    /// Returns whether the session is over.
    pub(super) fn is_lost(&self) -> bool {
        self.peer.epoch() != self.epoch
    }
}

/// Bytes that a host has asked for.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) offset: u64,
    pub(super) length: u32,
    /// By which the host knows them.
    pub(super) chunk: u64,
}
