// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Two areas and what is on its way to them: the hardware of a channel, as unkind as it may be.
//!
//! A store through a window is posted: it lands when the test says so. Stores between two fences
//! land in any order, which is what write combining does; a fence is never overtaken.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use weft_proto::cell::Shape;
use weft_proto::fence::Fence;
use weft_proto::window::{Area, Window};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Store(usize, u64),
    Fence,
}

/// The memory of one end, and the way to it from the other.
pub struct Side {
    words: RefCell<Vec<u64>>,
    posted: RefCell<VecDeque<Event>>,
    /// All that was ever posted.
    pub log: RefCell<Vec<Event>>,
    /// Whether the fences of the other end are left out.
    pub unfenced: Cell<bool>,
}

impl Side {
    pub fn new(shape: Shape) -> Self {
        Side {
            words: RefCell::new(vec![0; shape.area_bytes() / 8]),
            posted: RefCell::default(),
            log: RefCell::default(),
            unfenced: Cell::new(false),
        }
    }

    fn post(&self, event: Event) {
        self.posted.borrow_mut().push_back(event);
        self.log.borrow_mut().push(event);
    }

    /// Lets one store land, of those that may be next: `choice` says which.
    pub fn land(&self, choice: usize) -> bool {
        let mut posted = self.posted.borrow_mut();
        while posted.front() == Some(&Event::Fence) {
            posted.pop_front();
        }
        let open = posted.iter().take_while(|e| **e != Event::Fence).count();
        if open == 0 {
            return false;
        }
        let mut chosen = choice % open;
        // Two stores to one address stay in order.
        if let Event::Store(at, _) = posted[chosen] {
            chosen = posted
                .iter()
                .position(|e| matches!(e, Event::Store(a, _) if *a == at))
                .unwrap_or(chosen);
        }
        if let Some(Event::Store(at, word)) = posted.remove(chosen) {
            self.poke(at, word);
        }
        true
    }

    pub fn land_all(&self) {
        while self.land(0) {}
    }

    /// Writes as a peer might that keeps to no rule.
    pub fn poke(&self, at: usize, word: u64) {
        assert_eq!(at % 8, 0);
        self.words.borrow_mut()[at / 8] = word;
    }
}

impl Area for Side {
    fn load(&self, at: usize) -> u64 {
        assert_eq!(at % 8, 0);
        self.words.borrow()[at / 8]
    }

    fn rmb(&self, _: Fence) {}
}

/// The window onto a side.
pub struct To<'a>(pub &'a Side);

impl Window for To<'_> {
    fn store(&self, at: usize, word: u64) {
        assert!(at % 8 == 0 && at / 8 < self.0.words.borrow().len());
        self.0.post(Event::Store(at, word));
    }

    fn wmb(&self, _: Fence) {
        if !self.0.unfenced.get() {
            self.0.post(Event::Fence);
        }
    }

    fn mb(&self, fence: Fence) {
        self.wmb(fence);
    }
}
