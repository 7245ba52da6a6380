// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What one node knows of another, and of all of them.

use super::{
    ask::Ask,
    message::Info,
    path::Path,
    port::{Port, PORTS},
};

/// No member.
pub const NOBODY: u16 = u16::MAX;

/// Another node.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// What it has said; of one that has not answered the hardware id only.
    pub info: Info,
    /// Who is at its ports, as it says.
    pub ports: [Port; PORTS],
    /// Whether it has answered.
    pub known: bool,
    /// How to reach it.
    pub path: Path,
    /// The question, or the write, that is on its way to it.
    pub ask: Ask,
    /// Which piece of an answer, or of a write, that has several.
    pub piece: u16,
    /// Bit n: its routes of n + 1 links are to be replaced.
    pub differ: u32,
    /// Who is at its ports, for data.
    pub next: [u16; PORTS],
    /// The route to it from wherever was last asked for.
    pub route: Reach,
}

/// A route, from the one node that [`super::route`] looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// What it costs, then how many links it has.
    pub length: (u32, u32),
    /// The port by which it begins.
    pub port: u8,
    /// Generation and lanes of its slowest link.
    pub slowest: (u8, u8),
    /// Nothing shorter will be found.
    pub(super) settled: bool,
}

impl Reach {
    /// There is none.
    pub const NONE: Self = Self {
        length: (u32::MAX, u32::MAX),
        port: 0,
        slowest: (0, 0),
        settled: false,
    };

    /// How many links it has, if there is one.
    pub fn hops(&self) -> Option<u32> {
        (self.length.0 != u32::MAX).then_some(self.length.1)
    }
}

impl Member {
    /// For memory that was not used yet.
    pub const NONE: Self = Self {
        info: Info {
            hwid: 0,
            life: 0,
            lid: 0,
            next_lid: 0,
            mastership: super::mastership::Mastership { term: 0, master: 0 },
            change: 0,
            assignments: 0,
        },
        ports: [Port::NONE; PORTS],
        known: false,
        path: Path::EMPTY,
        ask: Ask::DUE,
        piece: 0,
        differ: 0,
        next: [NOBODY; PORTS],
        route: Reach::NONE,
    };
}

/// All nodes that were found, in the order in which they were. The first is the node itself.
pub struct Members<M> {
    memory: M,
    count: usize,
    /// Of so many the neighbours are among the members too.
    pub(super) expanded: usize,
    /// Somebody was left out for want of memory.
    pub(super) too_many: bool,
    /// Somebody was left out because no path is that long.
    pub(super) too_far: bool,
}

impl<M: AsRef<[Member]> + AsMut<[Member]>> Members<M> {
    /// Nobody yet. `memory` is for as many nodes as there can be.
    pub fn new(memory: M) -> Self {
        Self {
            memory,
            count: 0,
            expanded: 0,
            too_many: false,
            too_far: false,
        }
    }

    /// The same as in `other`, as many as there is room for, with ways and routes as the first of them has them.
    pub fn copy<N: AsRef<[Member]> + AsMut<[Member]>>(&mut self, other: &Members<N>) {
        self.clear();
        for member in other.all() {
            self.push(*member);
        }
        (self.too_many, self.too_far) = (other.too_many, other.too_far);
        self.join();
        self.routes_from(0);
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.expanded = 0;
        self.too_many = false;
        self.too_far = false;
    }

    /// Appends one; whether there was room.
    pub(super) fn push(&mut self, member: Member) -> bool {
        let place = self.memory.as_mut().get_mut(self.count);
        let room = place.map(|place| *place = member).is_some() && self.count < usize::from(NOBODY);
        self.count += usize::from(room);
        room
    }

    /// All of them.
    pub fn all(&self) -> &[Member] {
        self.memory.as_ref().get(..self.count).unwrap_or_default()
    }

    /// All of them, to be changed.
    pub fn all_mut(&mut self) -> &mut [Member] {
        self.memory
            .as_mut()
            .get_mut(..self.count)
            .unwrap_or_default()
    }

    /// Where somebody is in the list.
    pub fn find(&self, hwid: u64) -> Option<usize> {
        self.all().iter().position(|m| m.info.hwid == hwid)
    }

    /// Somebody.
    pub fn get(&self, hwid: u64) -> Option<&Member> {
        self.all().iter().find(|m| m.info.hwid == hwid)
    }

    /// Whether nodes were left out: for want of memory, or because they are too far away.
    pub fn left_out(&self) -> (bool, bool) {
        (self.too_many, self.too_far)
    }
}
