// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The queue of messages and accesses that wait for room. When they wait, and go on, is in `late.rs`.

use super::task::Held;
use std::collections::VecDeque;
use weft::matching::Address;

/// How many wait at most: a program that has more does not take what has come.
pub const BACKLOG: usize = 1 << 16;

/// What waits for room.
#[derive(Debug, Default)]
pub struct Backlog {
    all: VecDeque<Held>,
    /// Those of them that the program is not told of.
    injected: usize,
    /// The first one has found no slot, and no event says that there is one.
    pub stuck: bool,
}

impl Backlog {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn is_injecting(&self) -> bool {
        self.injected > 0
    }

    pub fn any_to(&self, target: Address) -> bool {
        self.all.iter().any(|held| held.act.target() == Some(target))
    }

    pub fn push(&mut self, held: Held) {
        self.injected += usize::from(held.act.inject());
        self.all.push_back(held);
    }

    pub fn pop(&mut self) -> Option<Held> {
        let held = self.all.pop_front()?;
        self.injected -= usize::from(held.act.inject());
        Some(held)
    }

    /// Puts back what was taken out.
    pub fn push_front(&mut self, held: Held) {
        self.injected += usize::from(held.act.inject());
        self.all.push_front(held);
    }
}
