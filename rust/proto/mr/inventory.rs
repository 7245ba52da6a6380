// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The fabric configuration data structure: the components found, what each is, and the links between
//! them.
//!
//! The description of a component is kept, so that a component that comes back is recognized and one
//! that has replaced another is noticed. Root complexes are found like endpoints. This file is
//! independent of what the components are used for.

use super::{
    super::nm::port::{HOST_PORTS, PORTS},
    list::{Full, List},
    vpd::Vpd,
};

/// Kind of a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A host, as the fabric sees it.
    Root,
    /// A multi-root aware switch.
    Switch {
        /// Number of ports.
        ports: u8,
    },
    /// An endpoint that can be shared.
    Endpoint {
        /// Number of virtual endpoints, each for one hierarchy.
        ves: u8,
        /// Functions of each virtual endpoint.
        functions: u8,
    },
}

impl Kind {
    /// Returns whether a component of this kind can have `ports` ports and be reached by its port
    /// `port`. The numbers come from the component, which may be broken; a host is told of valid ones
    /// only.
    pub fn can_be(&self, ports: u8, port: u8) -> bool {
        let most = match *self {
            Self::Root => HOST_PORTS,
            Self::Switch { ports } => PORTS.min(ports.into()),
            Self::Endpoint { functions: 0, .. } => 0,
            Self::Endpoint { .. } => 1,
        };
        port < ports && usize::from(ports) <= most
    }
}

/// A component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Component {
    /// Its hardware id, not 0.
    pub hwid: u64,
    /// Its local id; 0 as long as it has none.
    pub lid: u32,
    /// Its kind.
    pub kind: Kind,
    /// Its description of itself.
    pub vpd: Vpd,
    /// Bytes that it offers to the components that share it: its memory for a root complex, that of one
    /// virtual endpoint for an endpoint.
    pub bytes: u64,
    /// Of a root complex: the range in its address space for other components, first and last byte.
    pub window: (u64, u64),
    /// Co-residence field: the root complex on the same hardware unit, 0 for none.
    pub resident: u64,
}

impl Component {
    /// Creates a component of which only id and kind are known; also the initial value for memory.
    pub const fn new(hwid: u64, kind: Kind) -> Self {
        Self {
            hwid,
            lid: 0,
            kind,
            vpd: Vpd::NONE,
            bytes: 0,
            window: (0, 0),
            resident: 0,
        }
    }

    /// Returns whether it is a host.
    pub fn is_root(&self) -> bool {
        self.kind == Kind::Root
    }

    /// Returns whether it is a switch.
    pub fn is_switch(&self) -> bool {
        matches!(self.kind, Kind::Switch { .. })
    }

    /// Returns whether it is an endpoint.
    pub fn is_endpoint(&self) -> bool {
        matches!(self.kind, Kind::Endpoint { .. })
    }

    /// Returns its number of virtual endpoints.
    pub fn ves(&self) -> u8 {
        match self.kind {
            Kind::Endpoint { ves, .. } => ves,
            _ => 0,
        }
    }
}

/// A port of a component.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct End {
    /// Hardware id of the component.
    pub hwid: u64,
    /// Number of the port.
    pub port: u8,
}

/// A link that is up. Its ends are sorted, so that a link has only one representation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Link(End, End);

impl Link {
    /// Initial value for memory.
    pub const NONE: Self = Self(End { hwid: 0, port: 0 }, End { hwid: 0, port: 0 });

    /// Creates the link between two ports.
    pub fn new(a: End, b: End) -> Self {
        if a <= b {
            Self(a, b)
        } else {
            Self(b, a)
        }
    }

    /// Returns its ends.
    pub fn ends(&self) -> [End; 2] {
        [self.0, self.1]
    }

    /// Returns the end at `hwid`, and the other one; `None` if no end is there.
    pub fn from(&self, hwid: u64) -> Option<(End, End)> {
        if self.0.hwid == hwid {
            Some((self.0, self.1))
        } else if self.1.hwid == hwid {
            Some((self.1, self.0))
        } else {
            None
        }
    }
}

/// Result of [`Inventory::found`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// It was not there before.
    New,
    /// It was there, with the same description.
    Known,
    /// The hardware id was there with another description: the component was replaced.
    Replaced,
}

/// All components and links.
pub struct Inventory<C, L> {
    components: List<Component, C>,
    links: List<Link, L>,
}

impl<C, L> Inventory<C, L>
where
    C: AsRef<[Component]> + AsMut<[Component]>,
    L: AsRef<[Link]> + AsMut<[Link]>,
{
    /// Creates an empty inventory.
    pub fn new(components: C, links: L) -> Self {
        Self {
            components: List::new(components),
            links: List::new(links),
        }
    }

    /// Returns all components, in the order in which they were found.
    pub fn components(&self) -> &[Component] {
        self.components.all()
    }

    /// Returns all links.
    pub fn links(&self) -> &[Link] {
        self.links.all()
    }

    /// Returns the index of the component with this hardware id.
    pub fn index(&self, hwid: u64) -> Option<usize> {
        self.components().iter().position(|c| c.hwid == hwid)
    }

    /// Returns the component with this hardware id.
    pub fn get(&self, hwid: u64) -> Option<&Component> {
        self.components().iter().find(|c| c.hwid == hwid)
    }

    /// Returns the link at a port.
    pub fn at(&self, end: End) -> Option<Link> {
        let mut links = self.links().iter();
        links.find(|l| l.ends().contains(&end)).copied()
    }

    /// Removes all components and links.
    pub fn clear(&mut self) {
        self.components.clear();
        self.links.clear();
    }

    /// Adds or updates a component that was found. Its co-residence field is computed, not taken from
    /// it.
    pub fn found(&mut self, mut component: Component) -> Result<Found, Full> {
        component.resident = 0;
        let known = self.components.all_mut().iter_mut();
        let found = match known.into_iter().find(|c| c.hwid == component.hwid) {
            Some(known) => {
                let same = (known.kind, known.vpd) == (component.kind, component.vpd);
                *known = component;
                if same {
                    Found::Known
                } else {
                    Found::Replaced
                }
            }
            None => {
                self.components.push(component)?;
                Found::New
            }
        };
        self.associate();
        Ok(found)
    }

    /// Adds a link that was found. It replaces other links at its ports.
    pub fn joined(&mut self, a: End, b: End) -> Result<(), Full> {
        let link = Link::new(a, b);
        if self.links().contains(&link) {
            return Ok(());
        }
        self.links
            .retain(|l| l.ends().iter().all(|e| *e != a && *e != b));
        self.links.push(link)?;
        self.associate();
        Ok(())
    }

    /// Sets the co-residence field of every endpoint: the root complex on its hardware unit. For an
    /// endpoint that does not name its unit, the switch in front of it does.
    fn associate(&mut self) {
        for at in 0..self.components().len() {
            let Some(component) = self.components.get(at).filter(|c| c.is_endpoint()) else {
                continue;
            };
            let blade = match component.vpd.blade {
                own if !own.is_empty() => own,
                _ => {
                    let far = self.links().iter().find_map(|l| l.from(component.hwid));
                    let switch = far.and_then(|(_, far)| self.get(far.hwid));
                    switch.map_or(component.vpd.blade, |s| s.vpd.resident)
                }
            };
            let same = |c: &&Component| c.is_root() && !blade.is_empty() && c.vpd.blade == blade;
            let resident = self.components().iter().find(same).map_or(0, |c| c.hwid);
            if let Some(component) = self.components.all_mut().get_mut(at) {
                component.resident = resident;
            }
        }
    }
}
