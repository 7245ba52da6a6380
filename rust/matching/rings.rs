// SPDX-License-Identifier: GPL-2.0

//! The memory that a program maps: two command rings, an event ring, and counts.
//!
//! The program can write any of it at any time. The kernel keeps its own counts, and takes what the program has
//! counted for a hint: it reads no slot twice, and overwrites no event that was not consumed. This file must not know
//! what commands do.

use crate::{
    proto::slot::{Event, BYTES, WORDS},
    sys::{
        ext,
        pages::{look, publish, release, Pages},
        vma::NewVma,
    },
};
use kernel::{page::PAGE_SIZE, prelude::*};

/// One of the two command rings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ring {
    Target = 0,
    Initiator = 1,
}

/// Sizes of rings, in slots.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) commands: u32,
    pub(crate) events: u32,
}

impl Shape {
    /// `EINVAL`: they are no sizes of rings.
    pub(crate) fn check(&self) -> Result {
        let fits = |slots: u32, least: u32| {
            slots.is_power_of_two() && (least..=ext::WEFT_MATCH_MAX_SLOTS).contains(&slots)
        };
        match fits(self.commands, 2) && fits(self.events, 4) {
            true => Ok(()),
            false => Err(EINVAL),
        }
    }

    pub(super) fn commands_at(&self, ring: Ring) -> usize {
        let before = match ring {
            Ring::Target => 0,
            Ring::Initiator => self.commands as usize,
        };
        PAGE_SIZE + before * BYTES
    }

    pub(super) fn events_at(&self) -> usize {
        PAGE_SIZE + 2 * self.commands as usize * BYTES
    }

    pub(super) fn bytes(&self) -> usize {
        (self.events_at() + self.events as usize * BYTES).next_multiple_of(PAGE_SIZE)
    }
}

/// The memory.
pub(super) struct Rings {
    pages: Pages,
    pub(super) shape: Shape,
}

/// What the kernel has counted.
pub(super) struct Counts {
    pub(super) commands: [u64; 2],
    pub(super) events: u64,
    /// Where the producer's count was when it was looked at last.
    pub(super) seen: [u64; 2],
    pub(super) results: [u64; 4],
}

impl Counts {
    pub(super) const ZERO: Self = Self {
        commands: [0; 2],
        events: 0,
        seen: [0; 2],
        results: [0; 4],
    };

    /// Counts what was received, or is over.
    pub(super) fn count(&mut self, sent: bool, failed: bool) {
        let n = usize::from(sent) * 2 + usize::from(failed);
        if let Some(count) = self.results.get_mut(n) {
            *count = count.wrapping_add(1);
        }
    }
}

impl Rings {
    /// Allocates the memory, charged to the caller. Errors as [`Pages::new`].
    pub(super) fn new(shape: Shape) -> Result<Self> {
        Ok(Self {
            pages: Pages::new(shape.bytes())?,
            shape,
        })
    }

    pub(super) fn map(&self, vma: &NewVma<'_>) -> Result {
        self.pages.map(vma.first(), vma)
    }

    // All offsets are inside the memory, by its size.

    fn word(&self, at: u32) -> u64 {
        self.pages.read64(at as usize).unwrap_or(0)
    }

    fn set(&self, at: u32, value: u64) {
        let _ = self.pages.write64(at as usize, value);
    }

    /// Returns how many commands a program says that it has produced.
    pub(super) fn produced(&self, ring: Ring) -> u64 {
        self.word(match ring {
            Ring::Target => ext::WEFT_MATCH_TARGET_PRODUCED_AT,
            Ring::Initiator => ext::WEFT_MATCH_INITIATOR_PRODUCED_AT,
        })
    }

    /// Notes what a program has produced: it is not news, until something else has changed.
    pub(super) fn look_at(&self, counts: &mut Counts, ring: Ring) {
        if let Some(seen) = counts.seen.get_mut(ring as usize) {
            *seen = self.produced(ring);
        }
    }

    /// Copies the slot that is `ahead` of the next one; `None`: it is not produced.
    pub(super) fn slot(&self, counts: &mut Counts, ring: Ring, ahead: u64) -> Option<[u64; WORDS]> {
        let (n, produced) = (ring as usize, self.produced(ring));
        *counts.seen.get_mut(n)? = produced;
        let next = counts.commands.get(n)?.wrapping_add(ahead);
        let there = produced.wrapping_sub(next);
        if there == 0 || there > u64::from(self.shape.commands) {
            return None;
        }
        look();
        let number = next & u64::from(self.shape.commands - 1);
        let at = self.shape.commands_at(ring) + number as usize * BYTES;
        let words = self.pages.words(at, WORDS).ok()?;
        Some(core::array::from_fn(|n| words.load(n)))
    }

    /// Gives the places of `count` slots back.
    pub(super) fn consume(&self, counts: &mut Counts, ring: Ring, count: u64) {
        let Some(consumed) = counts.commands.get_mut(ring as usize) else {
            return;
        };
        *consumed = consumed.wrapping_add(count);
        release();
        let at = match ring {
            Ring::Target => ext::WEFT_MATCH_TARGET_CONSUMED_AT,
            Ring::Initiator => ext::WEFT_MATCH_INITIATOR_CONSUMED_AT,
        };
        self.set(at, *consumed);
    }

    /// Returns whether there is room for `count` events. If not, the program is asked to ring when there is, until
    /// [`Self::look_again`].
    pub(super) fn has_room(&self, counts: &Counts, count: u64) -> bool {
        let room = || {
            let consumed = self.word(ext::WEFT_MATCH_EVENTS_CONSUMED_AT);
            let there = counts.events.wrapping_sub(consumed);
            // More than there are: nonsense, and no room.
            u64::from(self.shape.events)
                .checked_sub(there)
                .is_some_and(|room| room >= count)
        };
        if room() {
            return true;
        }
        self.set(ext::WEFT_MATCH_WANTS_AT, 1);
        release();
        // If there is some now, the program is asked all the same: another one may have found too little before.
        room()
    }

    /// Takes back what was asked for: all that wants room looks for it from here on.
    pub(super) fn look_again(&self) {
        if self.word(ext::WEFT_MATCH_WANTS_AT) != 0 {
            self.set(ext::WEFT_MATCH_WANTS_AT, 0);
        }
    }

    /// Posts an event, for which there is room.
    pub(super) fn post(&self, counts: &mut Counts, event: &Event) {
        let number = counts.events & u64::from(self.shape.events - 1);
        let at = self.shape.events_at() + number as usize * BYTES;
        if let Ok(words) = self.pages.words(at, WORDS) {
            for (n, word) in event.encode().iter().enumerate() {
                words.store(n, *word);
            }
        }
        counts.events = counts.events.wrapping_add(1);
    }

    /// Shows the program the events that were posted, and the counts of results.
    pub(super) fn show(&self, counts: &Counts) {
        let places = (ext::WEFT_MATCH_RECEIVED_AT..).step_by(8);
        for (at, count) in places.zip(counts.results) {
            self.set(at, count);
        }
        // A program that sees the count sees the event.
        publish();
        self.set(ext::WEFT_MATCH_EVENTS_PRODUCED_AT, counts.events);
    }

    /// Returns whether there are events that the program has not consumed.
    pub(super) fn has_events(&self) -> bool {
        let produced = self.word(ext::WEFT_MATCH_EVENTS_PRODUCED_AT);
        produced != self.word(ext::WEFT_MATCH_EVENTS_CONSUMED_AT)
    }

    /// Says whether the interface sleeps. Before it does so it looks once more.
    pub(super) fn set_idle(&self, idle: bool) {
        self.set(ext::WEFT_MATCH_IDLE_AT, idle.into());
        if idle {
            release();
        }
    }

    /// Returns whether the program has produced something since the rings were looked at.
    pub(super) fn has_news(&self, counts: &Counts) -> bool {
        [Ring::Target, Ring::Initiator]
            .into_iter()
            .zip(counts.seen)
            .any(|(ring, seen)| self.produced(ring) != seen)
    }
}
