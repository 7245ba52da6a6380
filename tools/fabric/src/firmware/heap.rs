// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Memory of the network manager in the mode of a large fabric: it grows with the fabric.

use weft_proto::nm::{
    assignments::MAX_ASSIGNMENTS,
    port::PORTS,
    scale::{
        Memory, Parts, directory::Holder, entry::Entry, letter::Name, link::Link, store::Store,
        tree::Peer,
    },
};

/// A list that grows.
pub struct List<T>(Vec<T>);

impl<T> Store<T> for List<T> {
    fn all(&self) -> &[T] {
        &self.0
    }

    fn all_mut(&mut self) -> &mut [T] {
        &mut self.0
    }

    fn insert(&mut self, at: usize, what: T) -> bool {
        self.0.insert(at, what);
        true
    }

    fn remove(&mut self, at: usize) {
        self.0.remove(at);
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// The memory.
pub struct Heap;

impl Memory for Heap {
    type Routes = List<Entry>;
    type Names = List<Name>;
    type Holders = List<Holder>;
    type Bytes = Vec<u8>;
    type Peers = Vec<Peer>;
    type Links = Vec<Link>;
}

impl Heap {
    /// Memory of a node that has not begun.
    pub fn parts() -> Parts<Self> {
        Parts {
            routes: List(vec![]),
            names: List(vec![]),
            holders: List(vec![]),
            bytes: vec![0; 2 * MAX_ASSIGNMENTS],
            peers: vec![Peer::NONE; PORTS],
            links: vec![Link::DOWN; PORTS],
        }
    }
}
