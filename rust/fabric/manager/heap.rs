// SPDX-License-Identifier: GPL-2.0

//! Memory of the machine in the mode of a large fabric: it grows with the fabric, up to a limit, for what is in it
//! comes from neighbours.

use crate::{
    proto::nm::{
        assignments::MAX_ASSIGNMENTS,
        port::PORTS,
        scale::{
            self, directory::Holder, entry::Entry, letter::Name, link::Link, store::Store,
            tree::Peer, Parts,
        },
    },
    sys::memory::Memory,
};
use kernel::prelude::*;

/// The most nodes in the directory of a master.
pub(super) const MAX_NAMES: usize = 65_536;
/// The most destinations: four times the root of the number of nodes, and an area.
pub(super) const MAX_DESTINATIONS: usize = 4 * 256 + 256;

/// A list that grows, up to a number of elements.
pub(super) struct Growing<T> {
    all: KVVec<T>,
    most: usize,
}

impl<T> Growing<T> {
    const fn new(most: usize) -> Self {
        Self {
            all: KVVec::new(),
            most,
        }
    }
}

impl<T> Store<T> for Growing<T> {
    fn all(&self) -> &[T] {
        &self.all
    }

    fn all_mut(&mut self) -> &mut [T] {
        &mut self.all
    }

    fn insert(&mut self, at: usize, what: T) -> bool {
        let room = self.all.len() < self.most && self.all.reserve(1, GFP_KERNEL).is_ok();
        room && self.all.insert_within_capacity(at, what).is_ok()
    }

    fn remove(&mut self, at: usize) {
        let _ = self.all.remove(at);
    }

    fn clear(&mut self) {
        self.all = KVVec::new();
    }
}

/// The memory.
pub(super) struct Heap;

impl scale::Memory for Heap {
    type Routes = Growing<Entry>;
    type Names = Growing<Name>;
    type Holders = Growing<Holder>;
    type Bytes = Memory<u8>;
    type Peers = Memory<Peer>;
    type Links = Memory<Link>;
}

impl Heap {
    /// Allocates the memory of a node that has not begun.
    pub(super) fn parts() -> Result<Parts<Self>> {
        Ok(Parts {
            routes: Growing::new(MAX_DESTINATIONS),
            names: Growing::new(MAX_NAMES),
            holders: Growing::new(MAX_NAMES),
            bytes: Memory::new(0, 2 * MAX_ASSIGNMENTS)?,
            peers: Memory::new(Peer::NONE, PORTS)?,
            links: Memory::new(Link::DOWN, PORTS)?,
        })
    }
}
