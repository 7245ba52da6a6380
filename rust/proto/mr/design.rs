// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Computes the entries of all tables from the inventory and the assignments.
//!
//! An assignment is fulfilled completely or not at all; for each that is not, there is a reason.
//! Assignments are independent: one that cannot be fulfilled takes nothing from the others.

use super::{
    assignment::Assignment,
    inventory::{Component, End, Inventory, Link},
    list::{Full, List},
    plan::Entry,
    plane::{Hierarchy, Plane, Planes},
    tree::{Reach, Tree, MAX_HOPS},
};

/// Reason why an assignment is not fulfilled.
#[allow(
    clippy::enum_variant_names,
    reason = "each names what there is none of"
)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// No such endpoint was found.
    NoEndpoint,
    /// The endpoint has no such virtual endpoint.
    NoVe,
    /// No such root complex was found.
    NoRoot,
    /// The endpoint or the root complex has no local id yet.
    NoLid,
    /// There is no route between them through switches.
    NoWay,
    /// A link on the route has no virtual plane left.
    NoPlane,
}

/// Routes of the network manager: returns the port by which traffic for a local id leaves the switch or
/// root complex with a hardware id. The routes between two components may differ by direction.
pub type Routes<'a> = &'a dyn Fn(u64, u32) -> Option<u8>;

/// Computes the entries for all assignments, sorted, and calls `told` with the result of each
/// assignment. `reach` has an element for each component. `planes` has the memory that [`Planes::new`]
/// asks for. `entries` has room, for each assignment, for 3 entries and for 2 per switch on its route
/// there and on its route back.
pub fn design<C, L, H, P, E>(
    inventory: &Inventory<C, L>,
    routes: Routes<'_>,
    assignments: &[Assignment],
    planes: &mut Planes<H, P>,
    reach: &mut [Reach],
    entries: &mut List<Entry, E>,
    mut told: impl FnMut(&Assignment, Result<(), Why>),
) -> Result<(), Full>
where
    C: AsRef<[Component]> + AsMut<[Component]>,
    L: AsRef<[Link]> + AsMut<[Link]>,
    H: AsRef<[Hierarchy]> + AsMut<[Hierarchy]>,
    P: AsRef<[Plane]> + AsMut<[Plane]>,
    E: AsRef<[Entry]> + AsMut<[Entry]>,
{
    if reach.len() < inventory.components().len() {
        return Err(Full);
    }
    // Planes that are in use keep their numbers; only then are new numbers given.
    planes.begin();
    // Root complexes without an assignment need no tree.
    let has = |c: &&Component| c.is_root() && assignments.iter().any(|w| w.root == c.hwid);
    for root in inventory.components().iter().filter(has) {
        let Some(tree) = Tree::new(inventory, root.hwid, reach) else {
            continue;
        };
        for assignment in assignments.iter().filter(|w| w.root == root.hwid) {
            if let Ok(ends) = possible(&tree, routes, assignment) {
                planes.keep(root.hwid, None);
                tree.steps(routes, ends, |s| planes.keep(root.hwid, Some(&s.link)));
            }
        }
    }
    planes.sweep();
    entries.clear();
    for root in inventory.components().iter().filter(has) {
        let Some(tree) = Tree::new(inventory, root.hwid, reach) else {
            continue;
        };
        for assignment in assignments.iter().filter(|w| w.root == root.hwid) {
            let done = match possible(&tree, routes, assignment) {
                Err(why) => Err(why),
                Ok(ends) => fulfil(&tree, routes, assignment, ends, planes, entries)?,
            };
            told(assignment, done);
        }
    }
    let lost = |w: &&Assignment| !inventory.get(w.root).is_some_and(Component::is_root);
    for assignment in assignments.iter().filter(lost) {
        told(assignment, Err(Why::NoRoot));
    }
    Ok(())
}

/// Direction of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Down,
    Up,
}

/// A link of a route, and its direction.
struct Pass {
    link: Link,
    upper: End,
    lower: End,
    direction: Direction,
}

/// The root complex and the endpoint of an assignment.
type Ends<'a> = (&'a Component, &'a Component);

impl<C, L> Tree<'_, C, L>
where
    C: AsRef<[Component]> + AsMut<[Component]>,
    L: AsRef<[Link]> + AsMut<[Link]>,
{
    /// Calls `each` for the links of the routes between two ends, down and up. Returns whether both
    /// exist.
    fn steps(
        &self,
        routes: Routes<'_>,
        (root, endpoint): Ends<'_>,
        mut each: impl FnMut(Pass),
    ) -> bool {
        let down = self.follow(root, endpoint, routes, |link, upper, lower| {
            let direction = Direction::Down;
            each(Pass {
                link,
                upper,
                lower,
                direction,
            });
        });
        let up = self.follow(endpoint, root, routes, |link, lower, upper| {
            let direction = Direction::Up;
            each(Pass {
                link,
                upper,
                lower,
                direction,
            });
        });
        down && up
    }

    /// Follows the route from one end to the other. Returns whether it leads there.
    fn follow(
        &self,
        from: &Component,
        to: &Component,
        routes: Routes<'_>,
        mut each: impl FnMut(Link, End, End),
    ) -> bool {
        let mut at = *from;
        for _ in 0..MAX_HOPS {
            // An endpoint has one port, and no routes.
            let port = if at.is_endpoint() {
                Some(0)
            } else {
                routes(at.hwid, to.lid)
            };
            let Some(port) = port else {
                return false;
            };
            let out = End {
                hwid: at.hwid,
                port,
            };
            let links = self.inventory().links().iter();
            let Some(link) = links.into_iter().find(|l| l.ends().contains(&out)) else {
                return false;
            };
            let Some((_, far)) = link.from(at.hwid) else {
                return false;
            };
            each(*link, out, far);
            match self.inventory().get(far.hwid) {
                Some(next) if next.hwid == to.hwid => return true,
                Some(next) if next.is_switch() => at = *next,
                _ => return false,
            }
        }
        false
    }
}

/// Returns the ends of an assignment, if only a lack of planes can prevent it.
fn possible<'a, C, L>(
    tree: &Tree<'a, C, L>,
    routes: Routes<'_>,
    assignment: &Assignment,
) -> Result<Ends<'a>, Why>
where
    C: AsRef<[Component]> + AsMut<[Component]>,
    L: AsRef<[Link]> + AsMut<[Link]>,
{
    let inventory = tree.inventory();
    let root = inventory.get(assignment.root).ok_or(Why::NoRoot)?;
    let endpoint = inventory
        .get(assignment.endpoint)
        .filter(|c| c.is_endpoint());
    let endpoint = endpoint.ok_or(Why::NoEndpoint)?;
    if assignment.ve >= endpoint.ves() {
        return Err(Why::NoVe);
    }
    if root.lid == 0 || endpoint.lid == 0 {
        return Err(Why::NoLid);
    }
    if !tree.steps(routes, (root, endpoint), |_| ()) {
        return Err(Why::NoWay);
    }
    Ok((root, endpoint))
}

/// Adds the entries of one assignment.
fn fulfil<C, L, H, P, E>(
    tree: &Tree<'_, C, L>,
    routes: Routes<'_>,
    assignment: &Assignment,
    (root, endpoint): Ends<'_>,
    planes: &mut Planes<H, P>,
    entries: &mut List<Entry, E>,
) -> Result<Result<(), Why>, Full>
where
    C: AsRef<[Component]> + AsMut<[Component]>,
    L: AsRef<[Link]> + AsMut<[Link]>,
    H: AsRef<[Hierarchy]> + AsMut<[Hierarchy]>,
    P: AsRef<[Plane]> + AsMut<[Plane]>,
    E: AsRef<[Entry]> + AsMut<[Entry]>,
{
    let vh = planes.give_hierarchy(root.hwid)?;
    let mut fits = true;
    tree.steps(routes, (root, endpoint), |s| {
        fits &= planes.free_plane(&s.link, vh).is_some()
    });
    if !fits {
        return Ok(Err(Why::NoPlane));
    }
    // The entry of a switch's port: its plane belongs to the hierarchy.
    let at_switch = |entries: &mut List<Entry, E>, (switch, port), vp| {
        entries.insert(Entry::Plane {
            switch,
            port,
            vp,
            vh,
        })
    };
    let mut done = Ok(Ok(()));
    tree.steps(routes, (root, endpoint), |s| {
        let mut put = || -> Result<Result<(), Why>, Full> {
            let Some(vp) = planes.give_plane(&s.link, vh)? else {
                return Ok(Err(Why::NoPlane));
            };
            // Each end of a link has its own tables.
            if s.upper.hwid == root.hwid {
                let (root, link) = (root.hwid, s.upper.port);
                if s.direction == Direction::Down {
                    entries.insert(Entry::Own {
                        root,
                        lid: endpoint.lid,
                        link,
                        vp,
                    })?;
                }
                if s.direction == Direction::Up {
                    entries.insert(Entry::Open {
                        root,
                        from: endpoint.lid,
                        link,
                        vp,
                    })?;
                }
            } else {
                at_switch(entries, (s.upper.hwid, s.upper.port), vp)?;
            }
            if s.lower.hwid == endpoint.hwid {
                let (endpoint, ve) = (endpoint.hwid, assignment.ve);
                entries.insert(Entry::Base {
                    endpoint,
                    ve,
                    vp,
                    root: root.lid,
                })?;
            } else {
                at_switch(entries, (s.lower.hwid, s.lower.port), vp)?;
            }
            Ok(Ok(()))
        };
        if matches!(done, Ok(Ok(()))) {
            done = put();
        }
    });
    done
}
