// SPDX-License-Identifier: GPL-2.0

//! The plan: the entries of all tables, designed for the assignments. An assignment for which its host
//! has no room is left out as if it did not exist, so that the others are fulfilled.

use super::{
    found::Found, hierarchies::Hierarchies, outcome::Outcome, tables::MAX_ENTRIES, ways::Ways,
};
use crate::{
    proto::{
        mr::{
            assignment::{Assignment, Assignments},
            design::design,
            list::{Full, List},
            plan::Entry,
            plane::{Hierarchy, Plane, Planes},
            tree::Reach,
        },
        nm::node::MAX_NODES,
    },
    sys::memory::Memory,
};
use kernel::prelude::*;

/// The most assignments: their text is limited to that.
pub(in crate::fabric) const MAX_ASSIGNMENTS: usize = 256;
/// The most planes of all links together.
const MAX_PLANES: usize = 2048;

/// The numbers that hierarchies and planes were given.
pub(super) type Numbers = Planes<Memory<Hierarchy>, Memory<Plane>>;

/// The assignments, their outcomes, and what is to be written for them.
pub(super) struct Plan {
    pub(super) assignments: Assignments<Memory<Assignment>>,
    outcomes: Memory<Outcome>,
    /// The assignments for which there is room.
    chosen: List<Assignment, Memory<Assignment>>,
    pub(super) numbers: Numbers,
    pub(super) entries: List<Entry, Memory<Entry>>,
}

impl Plan {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            assignments: Assignments::new(Memory::new(Assignment::NONE, MAX_ASSIGNMENTS)?),
            outcomes: Memory::new(Outcome::Waits, MAX_ASSIGNMENTS)?,
            chosen: List::new(Memory::new(Assignment::NONE, MAX_ASSIGNMENTS)?),
            numbers: Planes::new(
                Memory::new(Hierarchy::NONE, MAX_NODES)?,
                Memory::new(Plane::NONE, MAX_PLANES)?,
            ),
            entries: List::new(Memory::new(Entry::NONE, MAX_ENTRIES)?),
        })
    }

    /// Returns the outcome of assignment number `n`.
    pub(super) fn outcome(&self, n: usize) -> Outcome {
        let outcome = self.outcomes.as_ref().get(n);
        outcome.copied().unwrap_or(Outcome::Waits)
    }

    pub(super) fn set(&mut self, n: usize, outcome: Outcome) {
        if let Some(place) = self.outcomes.as_mut().get_mut(n) {
            *place = outcome;
        }
    }

    /// Returns the number of the assignment of a virtual endpoint.
    pub(super) fn assignment_for(&self, endpoint: u64, ve: u8) -> Option<usize> {
        let mut all = self.assignments.all().iter();
        all.position(|w| (w.endpoint, w.ve) == (endpoint, ve))
    }

    /// Returns the numbers of the assignments of a host.
    pub(super) fn assignments_of(&self, root: u64) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let all = self.assignments.all().iter().enumerate();
        all.filter(move |(_, w)| w.root == root).map(|(n, _)| n)
    }

    /// Replaces the outcome of those assignments of a host that were fulfilled and for which `is_meant`
    /// is true. Returns true if there are any.
    pub(super) fn spoil(
        &mut self,
        root: u64,
        outcome: Outcome,
        is_meant: impl Fn(&Self, usize) -> bool,
    ) -> bool {
        let mut any = false;
        for n in 0..self.assignments.all().len() {
            let own = self
                .assignments
                .all()
                .get(n)
                .is_some_and(|w| w.root == root);
            if own && self.outcome(n) == Outcome::Done && is_meant(self, n) {
                self.set(n, outcome);
                any = true;
            }
        }
        any
    }

    /// Designs the plan. `ENOSPC`: there is not enough memory for it.
    pub(super) fn make(
        &mut self,
        found: &Found,
        ways: &Ways,
        hierarchies: &mut Hierarchies,
        reach: &mut [Reach],
    ) -> Result {
        self.outcomes.as_mut().fill(Outcome::Waits);
        // Each iteration leaves out one assignment.
        loop {
            self.design(found, ways, reach)?;
            let Some(over) = self.too_much(found, hierarchies, reach) else {
                return Ok(());
            };
            self.set(over, Outcome::NoRoom);
        }
    }

    fn design(&mut self, found: &Found, ways: &Ways, reach: &mut [Reach]) -> Result {
        let Self {
            assignments,
            outcomes,
            chosen,
            numbers,
            entries,
        } = self;
        let outcomes = outcomes.as_mut();
        let full = |Full| ENOSPC;
        chosen.clear();
        for (assignment, outcome) in assignments.all().iter().zip(outcomes.iter()) {
            if *outcome != Outcome::NoRoom {
                chosen.push(*assignment).map_err(full)?;
            }
        }
        let routes = |at, lid| ways.port(at, lid);
        let told = |assignment: &Assignment, done: core::result::Result<(), _>| {
            let at = assignments.all().iter().position(|w| w == assignment);
            if let Some(outcome) = at.and_then(|at| outcomes.get_mut(at)) {
                *outcome = done.map_or_else(Outcome::from, |()| Outcome::Done);
            }
        };
        let all = chosen.all();
        design(&found.things, &routes, all, numbers, reach, entries, told).map_err(full)
    }

    /// Returns the last assignment of a host that has no room for all of its own.
    fn too_much(
        &self,
        found: &Found,
        hierarchies: &mut Hierarchies,
        reach: &mut [Reach],
    ) -> Option<usize> {
        let is_done = |n: &usize| self.outcome(*n) == Outcome::Done;
        for root in found.things.components().iter().filter(|c| c.is_root()) {
            let Some(last) = self.assignments_of(root.hwid).rev().find(is_done) else {
                continue;
            };
            let vh = self.numbers.hierarchy(root.hwid).unwrap_or(0);
            let assignments = self.assignments.all();
            let given = |n| is_done(&n);
            let entries = self.entries.all();
            let made = hierarchies.make(found, (root, vh), assignments, given, entries, reach);
            if made.is_none() {
                return Some(last);
            }
        }
        None
    }
}
