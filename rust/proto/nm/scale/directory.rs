// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The directory of the master: which local id each node has.
//!
//! No other host has one. Where two nodes have the same local id, because their fabrics grew up apart, the
//! one that was noted first keeps it. What the master has no memory for is not noted; the node asks again. This
//! file is independent of how a node reaches the master.

use super::{area::area, letter::Name, store::Store};

/// A local id, and the node that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holder {
    /// The local id.
    pub lid: u32,
    /// Hardware id of the node.
    pub hwid: u64,
}

/// The directory. `N` is memory for names, `H` for holders.
pub struct Directory<N, H> {
    names: N,
    holders: H,
}

impl<N: Store<Name>, H: Store<Holder>> Directory<N, H> {
    /// Creates an empty directory.
    pub fn new(names: N, holders: H) -> Self {
        Self { names, holders }
    }

    /// Returns the number of nodes that were noted.
    pub fn count(&self) -> usize {
        self.names.all().len()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.names.clear();
        self.holders.clear();
    }

    fn name(&self, hwid: u64) -> Result<usize, usize> {
        self.names
            .all()
            .binary_search_by_key(&hwid, |name| name.hwid)
    }

    fn holder(&self, lid: u32) -> Result<usize, usize> {
        let all = self.holders.all();
        all.binary_search_by_key(&lid, |holder| holder.lid)
    }

    /// Returns the local id of a node; 0: it is not known.
    pub fn find(&self, hwid: u64) -> u32 {
        let known = self.name(hwid).ok().and_then(|at| self.names.all().get(at));
        known.map_or(0, |name| name.lid)
    }

    /// Notes the local id of a node. Returns whether it is that node's alone; `None`: there is no memory.
    pub fn note(&mut self, name: Name) -> Option<bool> {
        let place = match self.holder(name.lid) {
            Ok(at) => {
                let hwid = self.holders.all().get(at).map(|holder| holder.hwid);
                return Some(hwid == Some(name.hwid));
            }
            Err(place) => place,
        };
        let holder = Holder {
            lid: name.lid,
            hwid: name.hwid,
        };
        if !self.holders.insert(place, holder) {
            return None;
        }
        match self.name(name.hwid) {
            Ok(at) => {
                let known = self.names.all_mut().get_mut(at);
                let before = known.map(|known| core::mem::replace(&mut known.lid, name.lid));
                if let Some(Ok(at)) = before.map(|lid| self.holder(lid)) {
                    self.holders.remove(at);
                }
            }
            Err(at) => {
                if !self.names.insert(at, name) {
                    if let Ok(at) = self.holder(name.lid) {
                        self.holders.remove(at);
                    }
                    return None;
                }
            }
        }
        Some(true)
    }

    /// Returns the first of so many areas in a row, none below `from`, in which no node is known.
    pub fn free_areas(&self, from: u32, count: u32) -> u32 {
        let mut free = from;
        for holder in self.holders.all() {
            let used = area(holder.lid);
            if used >= free.saturating_add(count) {
                break;
            }
            if used >= free {
                free = used + 1;
            }
        }
        free
    }
}
