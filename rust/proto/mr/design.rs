// SPDX-License-Identifier: GPL-2.0 OR MIT

//! From what there is and what is assigned to the entries of all tables.
//!
//! An assignment is fulfilled whole or not at all, and each that is not has a reason. Assignments are independent:
//! one that cannot be fulfilled takes nothing from the others.

use super::{
    assignment::Assignment,
    inventory::{Component, End, Inventory, Link},
    list::{Full, List},
    plan::Entry,
    plane::{Hierarchy, Plane, Planes},
    tree::{Reach, Tree, MAX_HOPS},
};

/// Why an assignment is not fulfilled.
#[allow(
    clippy::enum_variant_names,
    reason = "each names what there is none of"
)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// No such endpoint was found.
    NoEndpoint,
    /// It has no such virtual endpoint.
    NoVe,
    /// No such root complex was found.
    NoRoot,
    /// One of the two has no local id yet.
    NoLid,
    /// There is no way between them through switches.
    NoWay,
    /// A link on the way has no virtual plane left.
    NoPlane,
}

/// Routes of the network manager: by which port traffic for a local id leaves a switch or a root complex,
/// by hardware id. They may differ there and back.
pub type Routes<'a> = &'a dyn Fn(u64, u32) -> Option<u8>;

/// Makes the entries for all assignments, sorted. Tells of each assignment whether it is fulfilled. There is to be
/// a `reach` for each component; `entries` and `planes` are to hold what [`Planes::new`] says, and for
/// each assignment 3 entries and 2 for each switch on its way there, and on its way back.
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
    // What is in use keeps its number; only then are new ones given.
    planes.begin();
    // Who is given nothing has no tree to look for.
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

/// Which way a step is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Down,
    Up,
}

/// A link of a way, and which way it is taken.
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
    /// Goes over the ways between two ends. Whether there are any, there and back.
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

    /// Follows routes from one end to the other. Whether they lead there.
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

/// The ends of an assignment, if nothing but the number of planes can be in its way.
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

/// The entries of one assignment.
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
    // Of a switch's port: the plane there, and who is reached by it.
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
            // Each end of a link has tables of its own.
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
