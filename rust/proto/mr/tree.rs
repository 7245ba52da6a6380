// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The virtual hierarchy of a root complex: the endpoints that belong to it, and the switches that are
//! on the routes to them.
//!
//! Routes are the shortest ones through switches. Of several that are equally short, one is chosen by
//! the weights of their links. So there is one shortest route between any two components, it is the same
//! in both directions, and the routes to one component never part and meet again. Therefore route tables
//! need destinations only. This file is independent of tables.

use super::inventory::{Component, End, Inventory, Link};

/// Most links of a route: traffic does not go further.
pub const MAX_HOPS: u32 = 32;

/// Distance of a component from the root complex, and its link towards it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// Number of links, then the sum of their weights.
    cost: (u32, u64),
    /// Index of the next component towards the root complex.
    parent: usize,
    /// Index of the link to it.
    link: usize,
    settled: bool,
    /// It is in the tree.
    member: bool,
}

impl Reach {
    /// Not reached; also the initial value for memory.
    pub const NONE: Self = Self {
        cost: (u32::MAX, u64::MAX),
        parent: usize::MAX,
        link: usize::MAX,
        settled: false,
        member: false,
    };
}

/// A link of a route, seen from the root complex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The link.
    pub link: Link,
    /// Its end that is nearer to the root complex.
    pub upper: End,
    /// Its other end.
    pub lower: End,
}

/// A component of a tree in a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visit<'a> {
    /// Number of links from the root complex.
    pub depth: u32,
    /// The component.
    pub component: &'a Component,
    /// Port of the component above by which it is reached; `None` for the root complex.
    pub above: Option<End>,
}

/// The tree of one root complex.
pub struct Tree<'a, C, L> {
    inventory: &'a Inventory<C, L>,
    root: usize,
    reach: &'a mut [Reach],
}

/// Returns the weight of a link, a hash that differs between links with high probability.
fn weight(link: &Link) -> u64 {
    let mut mixed = 0u64;
    for end in link.ends() {
        for word in [end.hwid, end.port.into()] {
            mixed = mixed.wrapping_add(word).wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
        }
    }
    // A sum of MAX_HOPS of them does not overflow.
    mixed >> 8
}

impl<'a, C, L> Tree<'a, C, L>
where
    C: AsRef<[Component]> + AsMut<[Component]>,
    L: AsRef<[Link]> + AsMut<[Link]>,
{
    /// Creates the tree of `root`, of which only the root complex is a member yet. `None` if `reach` has
    /// not one element for each component, or there is no such root complex.
    pub fn new(inventory: &'a Inventory<C, L>, root: u64, reach: &'a mut [Reach]) -> Option<Self> {
        let reach = reach.get_mut(..inventory.components().len())?;
        reach.fill(Reach::NONE);
        let root = inventory.index(root)?;
        inventory.components().get(root).filter(|c| c.is_root())?;
        let first = reach.get_mut(root)?;
        first.cost = (0, 0);
        first.member = true;
        let mut tree = Self {
            inventory,
            root,
            reach,
        };
        while let Some(next) = tree.nearest() {
            tree.settle(next);
        }
        Some(tree)
    }

    /// Returns the inventory.
    pub(super) fn inventory(&self) -> &'a Inventory<C, L> {
        self.inventory
    }

    /// Returns the nearest component that is not settled and is less than [`MAX_HOPS`] away.
    fn nearest(&self) -> Option<usize> {
        let open = self.reach.iter().enumerate();
        let open = open.filter(|(_, r)| !r.settled && r.cost.0 < MAX_HOPS);
        Some(open.min_by_key(|(_, r)| r.cost)?.0)
    }

    /// Settles a component, which no shorter route can reach, and follows its links.
    fn settle(&mut self, at: usize) {
        let (Some(here), Some(component)) =
            (self.reach.get_mut(at), self.inventory.components().get(at))
        else {
            return;
        };
        here.settled = true;
        let cost = here.cost;
        if at != self.root && !component.is_switch() {
            return;
        }
        for (n, link) in self.inventory.links().iter().enumerate() {
            let Some((_, far)) = link.from(component.hwid) else {
                continue;
            };
            let Some(to) = self.inventory.index(far.hwid) else {
                continue;
            };
            let longer = (cost.0 + 1, cost.1.saturating_add(weight(link)));
            if let Some(reach) = self.reach.get_mut(to).filter(|r| longer < r.cost) {
                (reach.cost, reach.parent, reach.link) = (longer, at, n);
            }
        }
    }

    /// Iterates over the links of the route from a component up to the root complex; empty if there is
    /// none.
    pub fn way(&self, hwid: u64) -> impl Iterator<Item = Step> + '_ {
        let start = self.inventory.index(hwid).unwrap_or(usize::MAX);
        let mut at = start;
        core::iter::from_fn(move || {
            let lower = self.inventory.components().get(at)?;
            let reach = self.reach.get(at)?;
            let link = self.inventory.links().get(reach.link)?;
            let (lower, upper) = link.from(lower.hwid)?;
            at = reach.parent;
            Some(Step {
                link: *link,
                upper,
                lower,
            })
        })
    }

    /// Adds an endpoint, and the switches on the route to it, to the tree.
    pub fn add(&mut self, hwid: u64) {
        let mut at = self.inventory.index(hwid);
        while let Some(reach) = at.and_then(|at| self.reach.get_mut(at)) {
            if reach.member || reach.cost.0 == u32::MAX {
                break;
            }
            reach.member = true;
            at = Some(reach.parent);
        }
    }

    /// Walks the tree from the root complex on, depth first: each component before those below it, which
    /// are sorted by port.
    pub fn walk(&self) -> impl Iterator<Item = Visit<'_>> + '_ {
        let mut at = Some(self.root);
        core::iter::from_fn(move || {
            let here = at?;
            at = self.below(here, None).or_else(|| self.beside(here));
            self.visit(here)
        })
    }

    fn visit(&self, at: usize) -> Option<Visit<'_>> {
        Some(Visit {
            depth: self.reach.get(at)?.cost.0,
            component: self.inventory.components().get(at)?,
            above: self.above(at),
        })
    }

    /// Returns the port of its parent by which a component is reached.
    fn above(&self, at: usize) -> Option<End> {
        let link = self.inventory.links().get(self.reach.get(at)?.link)?;
        let (_, upper) = link.from(self.inventory.components().get(at)?.hwid)?;
        Some(upper)
    }

    /// Returns the first member below `parent` that is reached by a port after `after`.
    fn below(&self, parent: usize, after: Option<u8>) -> Option<usize> {
        let members = self.reach.iter().enumerate();
        let children = members.filter(|(_, r)| r.member && r.parent == parent);
        let ports = children.filter_map(|(at, _)| Some((self.above(at)?.port, at)));
        let rest = ports.filter(|(port, _)| after.is_none_or(|after| *port > after));
        Some(rest.min()?.1)
    }

    /// Returns the next component of a walk when all below `at` was visited.
    fn beside(&self, mut at: usize) -> Option<usize> {
        while at != self.root {
            let parent = self.reach.get(at)?.parent;
            if let Some(next) = self.below(parent, Some(self.above(at)?.port)) {
                return Some(next);
            }
            at = parent;
        }
        None
    }
}
