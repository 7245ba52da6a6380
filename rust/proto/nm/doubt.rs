// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The nodes that were silent in the last exploration.
//!
//! A question that is lost because a cable is pulled looks like one that its node does not answer,
//! though there may be another path. So a node is taken for gone only if two explorations found it
//! silent.

use super::{ask::State, member::Member};

/// The silent nodes, as many as there is room for: the others are taken for gone at once.
#[derive(Clone, Copy)]
pub struct Doubts {
    silent: [u64; 16],
    count: usize,
}

impl Doubts {
    /// All nodes have answered.
    pub const NONE: Self = Self {
        silent: [0; 16],
        count: 0,
    };

    /// Returns whether the node was silent: then it is asked only a few times.
    pub fn has(&self, hwid: u64) -> bool {
        self.silent.iter().take(self.count).any(|s| *s == hwid)
    }

    /// Records the silent nodes of an exploration. Returns whether one of them was not silent before, so
    /// that another exploration is needed.
    pub fn look(&mut self, members: &[Member]) -> bool {
        let before = *self;
        self.count = 0;
        let silent = members.iter().filter(|m| m.ask.state == State::Silent);
        let mut again = false;
        for (member, place) in silent.zip(&mut self.silent) {
            *place = member.info.hwid;
            self.count += 1;
            again |= !before.has(member.info.hwid);
        }
        again
    }
}
