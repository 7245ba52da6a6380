// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The fabric configuration data structure: the components found, what each is, and the links between
//! them.
//!
//! What a component has said of itself is kept, so that one that comes back is known and one that was
//! put in another's place is noticed. Root complexes are found like endpoints. This file must not know
//! what the components are used for.

use super::{
    super::nm::port::{HOST_PORTS, PORTS},
    list::{Full, List},
    vpd::Vpd,
};

/// What a component is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A host, as the fabric sees it.
    Root,
    /// A multi-root aware switch.
    Switch {
        /// How many ports it has.
        ports: u8,
    },
    /// An endpoint that can be shared.
    Endpoint {
        /// Virtual endpoints, each for one hierarchy.
        ves: u8,
        /// Functions of each.
        functions: u8,
    },
}

impl Kind {
    /// Whether such a component can have so many ports and be come to by that one, so that it can be told
    /// of to a host. Who is asked may be broken.
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
    /// What it is.
    pub kind: Kind,
    /// What it says of itself.
    pub vpd: Vpd,
    /// Bytes it offers to whoever it is shared with: a root complex its memory, an endpoint those of
    /// one virtual endpoint.
    pub bytes: u64,
    /// Of a root complex: where in its address space others may be, first and last byte.
    pub window: (u64, u64),
    /// Co-residence field: the root complex on the same hardware unit, 0 for none.
    pub resident: u64,
}

impl Component {
    /// One of which nothing is known but its id and kind; and for memory that was not used yet.
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

    /// It is a host.
    pub fn is_root(&self) -> bool {
        self.kind == Kind::Root
    }

    /// It passes on what is not for it.
    pub fn is_switch(&self) -> bool {
        matches!(self.kind, Kind::Switch { .. })
    }

    /// It is an endpoint.
    pub fn is_endpoint(&self) -> bool {
        matches!(self.kind, Kind::Endpoint { .. })
    }

    /// Virtual endpoints it has.
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
    /// Whose.
    pub hwid: u64,
    /// Which.
    pub port: u8,
}

/// A link that is up. Its ends are in order, so that there is one name for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Link(End, End);

impl Link {
    /// For memory that was not used yet.
    pub const NONE: Self = Self(End { hwid: 0, port: 0 }, End { hwid: 0, port: 0 });

    /// The link between two ports.
    pub fn new(a: End, b: End) -> Self {
        if a <= b {
            Self(a, b)
        } else {
            Self(b, a)
        }
    }

    /// Its ends.
    pub fn ends(&self) -> [End; 2] {
        [self.0, self.1]
    }

    /// The end at `hwid`, and the other one.
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

/// What finding a component means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// It was not there before.
    New,
    /// It was, and says the same of itself.
    Known,
    /// It has the hardware id of one that said something else: it was replaced.
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
    /// Nothing found yet.
    pub fn new(components: C, links: L) -> Self {
        Self {
            components: List::new(components),
            links: List::new(links),
        }
    }

    /// All components, in the order in which they were found.
    pub fn components(&self) -> &[Component] {
        self.components.all()
    }

    /// All links.
    pub fn links(&self) -> &[Link] {
        self.links.all()
    }

    /// Where the component of this hardware id is.
    pub fn index(&self, hwid: u64) -> Option<usize> {
        self.components().iter().position(|c| c.hwid == hwid)
    }

    /// The component of this hardware id.
    pub fn get(&self, hwid: u64) -> Option<&Component> {
        self.components().iter().find(|c| c.hwid == hwid)
    }

    /// The link at a port.
    pub fn at(&self, end: End) -> Option<Link> {
        let mut links = self.links().iter();
        links.find(|l| l.ends().contains(&end)).copied()
    }

    /// Nothing is there until it is found again.
    pub fn clear(&mut self) {
        self.components.clear();
        self.links.clear();
    }

    /// A component was found; its co-residence field is not taken from what is said.
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

    /// A link was found. It takes the place of what was at its ports.
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

    /// Sets the co-residence field of every endpoint: the root complex on its hardware unit. One that
    /// does not say where it sits, sits where the switch in front of it says.
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
