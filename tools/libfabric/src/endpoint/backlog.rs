// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A queue of messages and accesses that begin later. What they wait for, and when they go on, is in `fences.rs`, and in
//! `late.rs`.

use super::task::Held;
use std::collections::VecDeque;
use weft::matching::Address;

/// What begins later, in its order.
#[derive(Debug, Default)]
pub struct Backlog {
    all: VecDeque<Held>,
    /// The next one has found no slot, and no event says that there is one.
    pub stuck: bool,
}

impl Backlog {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether the program may take some of it for sent.
    pub fn is_injecting(&self) -> bool {
        self.all.iter().any(|held| held.act.inject())
    }

    pub fn any_to(&self, target: Address) -> bool {
        self.all.iter().any(|held| held.act.target() == Some(target))
    }

    pub fn push(&mut self, held: Held) {
        self.all.push_back(held);
    }

    pub fn pop(&mut self) -> Option<Held> {
        self.all.pop_front()
    }

    /// Puts back what was taken out.
    pub fn push_front(&mut self, held: Held) {
        self.all.push_front(held);
    }
}
