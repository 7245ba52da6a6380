// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a node knows of the other nodes.

use super::{
    ask::Ask,
    message::Info,
    path::Path,
    port::{Port, PORTS},
    seal::Origin,
};

/// No member.
pub const NO_MEMBER: u16 = u16::MAX;

/// Another node.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its answer; only the hardware id if it has not answered.
    pub info: Info,
    /// Its ports, as it reports them.
    pub ports: [Port; PORTS],
    /// Whether it has answered.
    pub known: bool,
    /// Whether the master has found it as it has answered, since [`Members::recall`].
    pub(super) fresh: bool,
    /// How to reach it.
    pub path: Path,
    /// Origin of the last message of it that was sealed, if any was.
    pub origin: Origin,
    /// The question, or the write, that is on its way to it.
    pub ask: Ask,
    /// The piece that is next, of an answer or a write that has several.
    pub piece: u16,
    /// Bit n: its routes of n + 1 links are to be replaced.
    pub differ: u32,
    /// Index of the member at each of its ports, if data may pass; else [`NO_MEMBER`].
    pub next: [u16; PORTS],
    /// The route to it from the source of the last [`Members::routes_from`].
    pub route: Reach,
}

/// A route from the source node of [`super::route`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// Its cost, and its number of links.
    pub length: (u32, u32),
    /// The port by which it leaves the source.
    pub port: u8,
    /// Generation and lanes of its slowest link.
    pub slowest: (u8, u8),
    /// No shorter one will be found.
    pub(super) settled: bool,
}

impl Reach {
    /// No route.
    pub const NONE: Self = Self {
        length: (u32::MAX, u32::MAX),
        port: 0,
        slowest: (0, 0),
        settled: false,
    };

    /// Returns how many links it has, if there is a route.
    pub fn hops(&self) -> Option<u32> {
        (self.length.0 != u32::MAX).then_some(self.length.1)
    }
}

impl Member {
    /// Initial value for memory.
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
        fresh: false,
        path: Path::EMPTY,
        origin: Origin {
            hwid: 0,
            nonce: 0,
            number: 0,
        },
        ask: Ask::DUE,
        piece: 0,
        differ: 0,
        next: [NO_MEMBER; PORTS],
        route: Reach::NONE,
    };
}

/// All nodes that were found, in the order in which they were found. The first is the node itself.
pub struct Members<M> {
    memory: M,
    count: usize,
    /// Number of members that this exploration has found. Those behind them were found by the last one.
    pub(super) placed: usize,
    /// Number of members that were expanded: their neighbours are in the list as well.
    pub(super) expanded: usize,
    /// A node was left out for want of memory.
    pub(super) too_many: bool,
    /// A node was left out because no path is that long.
    pub(super) too_far: bool,
}

impl<M: AsRef<[Member]> + AsMut<[Member]>> Members<M> {
    /// Creates an empty list. `memory` is for as many nodes as there can be.
    pub fn new(memory: M) -> Self {
        Self {
            memory,
            count: 0,
            placed: 0,
            expanded: 0,
            too_many: false,
            too_far: false,
        }
    }

    /// Copies the members of `other`, as many as there is room for, and computes neighbours, and routes
    /// from the first member.
    pub fn copy<N: AsRef<[Member]> + AsMut<[Member]>>(&mut self, other: &Members<N>) {
        self.clear();
        for member in other.all() {
            self.push(*member);
        }
        (self.too_many, self.too_far) = (other.too_many, other.too_far);
        self.join();
        self.routes_from(0);
    }

    /// Keeps the node itself alone, of which this is known.
    pub fn isolate(&mut self, info: Info, ports: [Port; PORTS]) {
        self.clear();
        self.push(Member {
            info,
            ports,
            known: true,
            ..Member::NONE
        });
        self.join();
        self.routes_from(0);
    }

    /// Removes all members.
    pub(super) fn clear(&mut self) {
        self.truncate(0);
        self.rewind();
    }

    /// Forgets how far the exploration has come, and what it has left out.
    pub(super) fn rewind(&mut self) {
        self.expanded = 0;
        self.too_many = false;
        self.too_far = false;
    }

    /// Removes all members from number `count` on.
    pub(super) fn truncate(&mut self, count: usize) {
        self.count = count.min(self.count);
        self.placed = self.placed.min(self.count);
    }

    /// Appends a member. Returns whether there was room.
    pub(super) fn push(&mut self, member: Member) -> bool {
        let place = self.memory.as_mut().get_mut(self.count);
        let room =
            place.map(|place| *place = member).is_some() && self.count < usize::from(NO_MEMBER);
        self.count += usize::from(room);
        room
    }

    /// Returns all members.
    pub fn all(&self) -> &[Member] {
        self.memory.as_ref().get(..self.count).unwrap_or_default()
    }

    /// Returns all members, to be changed.
    pub fn all_mut(&mut self) -> &mut [Member] {
        self.memory
            .as_mut()
            .get_mut(..self.count)
            .unwrap_or_default()
    }

    /// Returns the index of the member with this hardware id.
    pub fn find(&self, hwid: u64) -> Option<usize> {
        self.all().iter().position(|m| m.info.hwid == hwid)
    }

    /// Returns the member with this hardware id.
    pub fn get(&self, hwid: u64) -> Option<&Member> {
        self.all().iter().find(|m| m.info.hwid == hwid)
    }

    /// Returns whether nodes were left out: for want of memory, and because they are too far away.
    pub fn left_out(&self) -> (bool, bool) {
        (self.too_many, self.too_far)
    }
}
