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
#[derive(Clone)]
pub(super) struct Item {
    pub(super) receipt: Receipt,
    /// It goes to overflow memory.
    pub(super) unexpected: bool,
    bytes: [u8; BYTES],
}

impl Item {
    /// Returns memory that begins with what is to be stored of it.
    pub(super) fn raw(&self) -> [u8; BYTES] {
        self.bytes
    }
}

/// Messages that are matched, and are to be stored.
pub(super) struct Direct {
    /// Places for [`TAKEN`]: what is added is written where it stays.
    items: KVVec<Item>,
    count: usize,
    /// So many of them are stored.
    stored: usize,
}

impl Direct {
    /// Without places.
    pub(super) const EMPTY: Self = Self {
        items: KVVec::new(),
        count: 0,
        stored: 0,
    };

    pub(super) fn new() -> Result<Self> {
        let item = Item {
            receipt: Receipt::NONE,
            unexpected: false,
            bytes: [0; BYTES],
        };
        Ok(Self {
            items: KVVec::from_elem(item, TAKEN, GFP_KERNEL_ACCOUNT)?,
            count: 0,
            stored: 0,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a message, for which there is a place.
    pub(super) fn add(&mut self, receipt: &Receipt, unexpected: bool, payload: &[u8]) {
        let Some(item) = self.items.get_mut(self.count) else {
            return;
        };
        item.receipt = *receipt;
        item.unexpected = unexpected;
        if let Some(to) = item.bytes.get_mut(..payload.len()) {
            to.copy_from_slice(payload);
        }
        self.count += 1;
    }

    /// Returns the next one that is to be stored. There is none left when all are: then others can be added.
    pub(super) fn next(&mut self) -> Option<&Item> {
        if self.stored == self.count {
            (self.stored, self.count) = (0, 0);
            return None;
        }
        self.items.get(self.stored)
    }

    /// The next one is stored.
    pub(super) fn note(&mut self) {
        self.stored += 1;
    }
}

/// The last message that is stored, of those that one answer is for.
pub(super) struct Stored {
    pub(super) peer: Arc<Peer>,
    pub(super) source: Source,
    pub(super) cookie: u64,
    pub(super) count: usize,
}
