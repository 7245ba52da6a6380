// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A matching endpoint: its lists, its classes of criteria and its state.
//!
//! The first [`CLASSES`] combinations of ignore bits and any-source that a program uses become the classes of
//! its endpoint. Entries of a class are found by hashing; entries of a further combination are in an ordered
//! list besides. This file is independent of the entries.

use super::{
    entry::{CLASSES, OTHER},
    pool::Ends,
    request::{Criteria, List},
    storage::NONE,
};

/// Which lists messages are matched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// None: messages are dropped.
    Disabled,
    /// Those of the engine.
    Enabled,
    /// None: the lists are being handed over to the program, and messages are held.
    Onload,
    /// Those of the program: messages are stored by the software request list.
    Software,
}

/// What an endpoint is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Messages are matched by source and match bits; else each list entry is for any message.
    pub matching: bool,
    /// Each message is preceded by a check for space in the event queue.
    pub space_check: bool,
    /// The program takes its lists over when entries run out.
    pub hand_over: bool,
    /// The most entries that the endpoint may have.
    pub limit: u32,
}

/// A class of criteria.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub ignore: u64,
    pub any_source: bool,
}

impl Class {
    pub fn of(criteria: &Criteria) -> Self {
        Self {
            ignore: criteria.ignore,
            any_source: criteria.source.is_none(),
        }
    }

    /// Returns the criteria of this class that are for a message.
    pub fn criteria(self, source: u32, bits: u64) -> Criteria {
        Criteria {
            source: (!self.any_source).then_some(source),
            bits,
            ignore: self.ignore,
        }
    }
}

/// Lists that an endpoint keeps: those of [`List`] up to and with [`List::Claimed`].
const LISTS: usize = 5;

/// An endpoint, as its engine knows it.
pub struct Endpoint {
    pub(super) number: u16,
    pub(super) config: Config,
    pub(super) state: State,
    /// The program gives its lists back.
    pub(super) returning: bool,
    /// A source was told NO_SPACE.
    pub(super) refused: bool,
    classes: [Class; CLASSES],
    used: u8,
    lists: [Ends; LISTS],
    /// The oldest buffers of further classes in the priority and the overflow list.
    pub(super) others: [u32; 2],
    /// A persistent buffer that is compared with the unexpected list.
    pub(super) appending: u32,
    /// Entries in its lists, and those that headers of its lists name.
    pub(super) entries: u32,
    /// The number of the next entry.
    pub(super) sequence: u64,
    /// Since when the lists of the program are short, in nanoseconds.
    pub(super) short_since: Option<u64>,
}

impl Endpoint {
    /// Makes an endpoint, which is disabled. `number` is below `ENDPOINTS`.
    pub const fn new(number: u16, config: Config) -> Self {
        Self {
            number,
            config,
            state: State::Disabled,
            returning: false,
            refused: false,
            classes: [Class {
                ignore: 0,
                any_source: false,
            }; CLASSES],
            used: 0,
            lists: [Ends::EMPTY; LISTS],
            others: [NONE; 2],
            appending: NONE,
            entries: 0,
            sequence: 0,
            short_since: None,
        }
    }

    /// Returns its state.
    #[cfg_attr(MODULE, expect(dead_code, reason = "ahead of its user"))]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns whether a message is matched at once: its lists are an engine's, and stay there.
    pub fn matches_now(&self) -> bool {
        self.state == State::Enabled && self.config.matching && !self.config.hand_over
    }

    /// Returns the number of entries in a list.
    pub fn count(&self, list: List) -> u32 {
        self.ends(list).count
    }

    /// Returns whether messages are to be held.
    pub(super) fn holds(&self) -> bool {
        self.state == State::Onload || self.state == State::Software && self.returning
    }

    pub(super) fn ends(&self, list: List) -> Ends {
        let found = self.lists.get(list as usize);
        found.copied().unwrap_or(Ends::EMPTY)
    }

    pub(super) fn ends_mut(&mut self, list: List) -> Option<&mut Ends> {
        self.lists.get_mut(list as usize)
    }

    /// Returns the classes, with their numbers.
    pub(super) fn classes(&self) -> impl Iterator<Item = (u8, Class)> {
        (0..self.used).zip(self.classes)
    }

    /// Returns the class of criteria; [`OTHER`] if there is none.
    pub(super) fn class_of(&self, criteria: &Criteria) -> u8 {
        let wanted = Class::of(criteria);
        let found = self.classes().find(|(_, class)| *class == wanted);
        found.map_or(OTHER, |(number, _)| number)
    }

    /// Adds a class, and returns its number, if there is room.
    pub(super) fn add_class(&mut self, class: Class) -> Option<u8> {
        let place = self.classes.get_mut(usize::from(self.used))?;
        *place = class;
        self.used += 1;
        Some(self.used - 1)
    }

    /// Returns the number of the next entry.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }
}
