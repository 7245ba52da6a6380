// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Numbers of virtual hierarchies, and of the virtual planes that stand for them on each link.
//!
//! No packet carries the number of a hierarchy. On a link it is told by the plane (VP), and that number
//! means something on this link only. What has a number keeps it, so that a change for one does not
//! touch the others. This file must not know why a hierarchy is on a link.

use super::{
    inventory::Link,
    list::{Full, List},
};

/// Planes of a link.
pub const PLANES: u8 = 16;
/// The plane of the hierarchy that all root complexes have in common, on every link. The network
/// manager's, not ours.
pub const COMMON_VP: u8 = 0;
/// That hierarchy.
pub const COMMON_VH: u16 = 1;

/// The hierarchy of a root complex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    root: u64,
    vh: u16,
    used: bool,
}

impl Hierarchy {
    /// For memory that was not used yet.
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
    /// For memory that was not used yet.
    pub const NONE: Self = Self {
        link: Link::NONE,
        vh: 0,
        vp: 0,
        used: false,
    };
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
    /// None given. There is to be a hierarchy for each root complex, and a plane for each link of each
    /// hierarchy.
    pub fn new(hierarchies: H, planes: P) -> Self {
        Self {
            hierarchies: List::new(hierarchies),
            planes: List::new(planes),
        }
    }

    /// The hierarchy of a root complex, if it has one.
    pub fn hierarchy(&self, root: u64) -> Option<u16> {
        Some(self.hierarchies.all().iter().find(|h| h.root == root)?.vh)
    }

    /// The plane of a hierarchy on a link, if it has one.
    pub fn plane(&self, link: &Link, vh: u16) -> Option<u8> {
        let plane = self
            .planes
            .all()
            .iter()
            .find(|p| (&p.link, p.vh) == (link, vh))?;
        Some(plane.vp)
    }

    /// Nothing is in use until it is said to be.
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

    /// A root complex, and if there is one a link, remain in use.
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

    /// Numbers that are not in use can be given to others.
    pub(super) fn sweep(&mut self) {
        self.hierarchies.retain(|h| h.used);
        self.planes.retain(|p| p.used);
    }

    /// The hierarchy of a root complex; the lowest free number for a new one.
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

    /// The plane of a hierarchy on a link; the lowest free number for a new one. `None` if the link
    /// has no more.
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

    /// The plane that [`Self::give_plane`] would give.
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
