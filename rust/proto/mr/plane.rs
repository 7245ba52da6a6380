// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Numbers of virtual hierarchies, and of the virtual planes that stand for them on each link.
//!
//! No packet carries the number of a hierarchy. On a link the plane (VP) identifies it, and the number
//! of the plane has a meaning on this link only. A hierarchy and its planes keep their numbers, so that
//! a change of one does not touch the others. This file is independent of why a hierarchy is on a link.

use super::{
    inventory::{Component, End, Inventory, Link},
    list::{Full, List},
    plan::Entry,
};

/// Planes of a link.
pub const PLANES: u8 = 16;
/// The plane, on every link, of the hierarchy that all root complexes share. It belongs to the network
/// manager.
pub const COMMON_VP: u8 = 0;
/// The hierarchy that all root complexes share.
pub const COMMON_VH: u16 = 1;

/// The hierarchy of a root complex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    root: u64,
    vh: u16,
    used: bool,
}

impl Hierarchy {
    /// Initial value for memory.
    pub const NONE: Self = Self {
        root: 0,
        vh: 0,
        used: false,
    };
}

/// A plane of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plane {
    link: Link,
    vh: u16,
    vp: u8,
    used: bool,
}

impl Plane {
    /// Initial value for memory.
    pub const NONE: Self = Self {
        link: Link::NONE,
        vh: 0,
        vp: 0,
        used: false,
    };
}

/// Returns whether the numbers are valid, and neither is the common hierarchy's.
fn is_ours(vp: u8, vh: u16) -> bool {
    vp > COMMON_VP && vp < PLANES && vh > COMMON_VH
}

/// All numbers that have been given.
pub struct Planes<H, P> {
    hierarchies: List<Hierarchy, H>,
    planes: List<Plane, P>,
}

impl<H, P> Planes<H, P>
where
    H: AsRef<[Hierarchy]> + AsMut<[Hierarchy]>,
    P: AsRef<[Plane]> + AsMut<[Plane]>,
{
    /// Creates the state without numbers. The memory has a hierarchy for each root complex, and a plane
    /// for each link of each hierarchy.
    pub fn new(hierarchies: H, planes: P) -> Self {
        Self {
            hierarchies: List::new(hierarchies),
            planes: List::new(planes),
        }
    }

    /// Returns the hierarchy of a root complex, if it has one.
    pub fn hierarchy(&self, root: u64) -> Option<u16> {
        Some(self.hierarchies.all().iter().find(|h| h.root == root)?.vh)
    }

    /// Returns the plane of a hierarchy on a link, if it has one.
    pub fn plane(&self, link: &Link, vh: u16) -> Option<u8> {
        let plane = self
            .planes
            .all()
            .iter()
            .find(|p| (&p.link, p.vh) == (link, vh))?;
        Some(plane.vp)
    }

    /// Takes over the numbers in the table entries that a former master has written, so that hierarchies
    /// and planes that stay keep their numbers. Entries that contradict each other, or the numbers known
    /// already, are left out, and so is a hierarchy if no entry names its root complex.
    pub fn adopt<C, L>(
        &mut self,
        inventory: &Inventory<C, L>,
        entries: &[Entry],
    ) -> Result<(), Full>
    where
        C: AsRef<[Component]> + AsMut<[Component]>,
        L: AsRef<[Link]> + AsMut<[Link]>,
    {
        let used = true;
        for entry in entries {
            let Entry::Plane {
                switch,
                port,
                vp,
                vh,
            } = *entry
            else {
                continue;
            };
            let end = End { hwid: switch, port };
            let Some(link) = inventory.at(end).filter(|_| is_ours(vp, vh)) else {
                continue;
            };
            let clashes = |p: &Plane| p.link == link && (p.vp == vp || p.vh == vh);
            if !self.planes.all().iter().any(clashes) {
                self.planes.push(Plane { link, vh, vp, used })?;
            }
        }
        // The virtual endpoints in a hierarchy name its root complex.
        for entry in entries {
            let Entry::Base {
                endpoint, vp, root, ..
            } = *entry
            else {
                continue;
            };
            let end = End {
                hwid: endpoint,
                port: 0,
            };
            let link = inventory.at(end);
            let mut planes = self.planes.all().iter();
            let plane = planes.find(|p| Some(p.link) == link && p.vp == vp);
            let mut roots = inventory.components().iter();
            let root = roots.find(|c| c.is_root() && c.lid == root && root != 0);
            let (Some(vh), Some(root)) = (plane.map(|p| p.vh), root.map(|c| c.hwid)) else {
                continue;
            };
            let clashes = |h: &Hierarchy| h.root == root || h.vh == vh;
            if !self.hierarchies.all().iter().any(clashes) {
                self.hierarchies.push(Hierarchy { root, vh, used })?;
            }
        }
        Ok(())
    }

    /// Removes all numbers.
    pub fn clear(&mut self) {
        self.hierarchies.clear();
        self.planes.clear();
    }

    /// Marks all numbers as unused, until [`Self::keep`] marks them as used.
    pub(super) fn begin(&mut self) {
        self.hierarchies
            .all_mut()
            .iter_mut()
            .for_each(|h| h.used = false);
        self.planes
            .all_mut()
            .iter_mut()
            .for_each(|p| p.used = false);
    }

    /// Marks the hierarchy of a root complex as used, and its plane on `link` if there is one.
    pub(super) fn keep(&mut self, root: u64, link: Option<&Link>) {
        let all = self.hierarchies.all_mut().iter_mut();
        let Some(hierarchy) = all.into_iter().find(|h| h.root == root) else {
            return;
        };
        hierarchy.used = true;
        let vh = hierarchy.vh;
        let planes = self.planes.all_mut().iter_mut();
        planes
            .filter(|p| p.vh == vh && Some(&p.link) == link)
            .for_each(|p| p.used = true);
    }

    /// Frees the numbers that are not used.
    pub(super) fn sweep(&mut self) {
        self.hierarchies.retain(|h| h.used);
        self.planes.retain(|p| p.used);
    }

    /// Returns the hierarchy of a root complex; gives the lowest free number to a new one.
    pub(super) fn give_hierarchy(&mut self, root: u64) -> Result<u16, Full> {
        if let Some(vh) = self.hierarchy(root) {
            return Ok(vh);
        }
        let taken = |vh: &u16| self.hierarchies.all().iter().any(|h| h.vh == *vh);
        let vh = (COMMON_VH + 1..=u16::MAX)
            .find(|vh| !taken(vh))
            .ok_or(Full)?;
        let used = true;
        self.hierarchies.push(Hierarchy { root, vh, used })?;
        Ok(vh)
    }

    /// Returns the plane of a hierarchy on a link; gives the lowest free number to a new one. `None` if
    /// the link has no free plane.
    pub(super) fn give_plane(&mut self, link: &Link, vh: u16) -> Result<Option<u8>, Full> {
        let Some(vp) = self.free_plane(link, vh) else {
            return Ok(None);
        };
        if self.plane(link, vh).is_none() {
            let (link, used) = (*link, true);
            self.planes.push(Plane { link, vh, vp, used })?;
        }
        Ok(Some(vp))
    }

    /// Returns the plane that [`Self::give_plane`] would give.
    pub(super) fn free_plane(&self, link: &Link, vh: u16) -> Option<u8> {
        let taken = |vp: &u8| {
            self.planes
                .all()
                .iter()
                .any(|p| (&p.link, p.vp) == (link, *vp))
        };
        let free = || (COMMON_VP + 1..PLANES).find(|vp| !taken(vp));
        self.plane(link, vh).or_else(free)
    }
}
