// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How nodes without a local id are made into areas: by the tree, in pieces of it that are not too large.
//!
//! Each node joins the smallest groups below it with itself, while they are no more than an area is to have;
//! what is left over, the largest, become areas. So each area is connected, and each but the last has at
//! least the fifth part of what a host's area may have. Sizes are reported for several limits at once; the
//! master, which alone knows how many areas there would be, decides. This file is independent of messages.

use super::super::port::PORTS;

/// Most nodes of an area: what the master can choose between. An area has room for more nodes to come.
pub const LIMITS: [u16; 5] = [8, 16, 32, 64, 128];

/// The nodes without a local id that are at or below a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// Those that belong to the area of this node, which has to be a new one, too.
    pub open: u16,
    /// Number of areas for the others.
    pub areas: u32,
}

/// Returns the group of a node, by those below it, and which of them it joins, a bit a port. `has_id`: the node itself
/// has a local id.
pub fn gather(limit: u16, has_id: bool, below: &[Option<Group>; PORTS]) -> (Group, u16) {
    let closed = |group: &Group| group.areas + u32::from(group.open != 0);
    let areas = |group: &Option<Group>| group.as_ref().map_or(0, closed);
    let mut all = Group {
        open: u16::from(!has_id),
        areas: below.iter().map(areas).fold(0, u32::saturating_add),
    };
    let mut joined = 0u16;
    if has_id {
        return (all, joined);
    }
    loop {
        let groups = below.iter().zip(0u8..);
        let open = groups.filter_map(|(group, port)| Some((group.as_ref()?.open, port)));
        let free = open.filter(|(open, port)| *open != 0 && joined & (1 << port) == 0);
        let Some((open, port)) = free.min() else {
            break;
        };
        if all.open.saturating_add(open) > limit {
            break;
        }
        all.open += open;
        all.areas -= 1;
        joined |= 1 << port;
    }
    (all, joined)
}

/// Returns which of [`LIMITS`] gives few enough areas for a fabric of `total` nodes: no more than four times the
/// root of it in routes, and some for what is to come; the last if none does.
pub fn choose(total: u32, areas: [u32; LIMITS.len()]) -> usize {
    let most = total.isqrt().saturating_mul(18) / 5;
    let few = |(at, areas): (usize, u32)| {
        let limit = LIMITS.get(at).map_or(0, |limit| u32::from(*limit));
        areas.saturating_add(limit) <= most
    };
    let mut all = areas.into_iter().enumerate();
    all.position(few).unwrap_or(LIMITS.len() - 1)
}
