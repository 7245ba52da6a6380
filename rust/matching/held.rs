// SPDX-License-Identifier: GPL-2.0

//! What the work of an interface leaves for the next step: messages that are matched and not stored yet, and the last
//! one that is stored, of which its source was not told.
//!
//! This file must not know interfaces.

use super::{
    lists::Source,
    peer::{Peer, TAKEN},
};
use crate::{proto::matching::outcome::Receipt, sys::ext::WEFT_MATCH_INLINE};
use kernel::{prelude::*, sync::Arc};

/// Bytes of a message that is taken at once.
pub(super) const BYTES: usize = WEFT_MATCH_INLINE as usize;

/// A message that is matched.
pub(super) struct Item {
    pub(super) receipt: Receipt,
    /// It goes to overflow memory.
    pub(super) unexpected: bool,
    pub(super) bytes: [u8; BYTES],
}

/// Messages that are matched, and are to be stored.
pub(super) struct Direct {
    /// Room for [`TAKEN`].
    pub(super) items: KVVec<Item>,
    /// So many of them are.
    pub(super) stored: usize,
}

impl Direct {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            items: KVVec::with_capacity(TAKEN, GFP_KERNEL_ACCOUNT)?,
            stored: 0,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.stored = 0;
    }
}

/// The last message that is stored, of those that one answer is for.
pub(super) struct Stored {
    pub(super) peer: Arc<Peer>,
    pub(super) source: Source,
    pub(super) cookie: u64,
    pub(super) count: usize,
}
