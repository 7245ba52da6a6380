// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a port tells of shared endpoints: plain data, which can be kept in a file and
//! is the same in JSON. At the master of the fabric, to callers that may know, that is all of it;
//! elsewhere what is the host's own.

use super::assignment::{Assignment, State};
use super::hwid::Hwid;
use serde::{Deserialize, Serialize};

/// What a port tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// What is assigned, by endpoint.
    pub assignments: Vec<Assignment>,
    /// What the master has found; no other host tells, and that only to root.
    pub components: Option<Vec<Component>>,
    /// The hierarchy of this host, if it could be asked for; at the master, to root,
    /// behind it those of all others.
    pub hierarchies: Vec<Hierarchy>,
}

/// What the master has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Component {
    /// host, switch or endpoint.
    pub kind: String,
    /// Hardware id.
    pub hwid: Hwid,
    /// Local id, 0: none.
    pub lid: u32,
    /// It answers now.
    pub there: bool,
    /// Under its hardware id there was another one before.
    pub replaced: bool,
    /// Its VPD are in order; if not, the texts are empty.
    pub vpd_in_order: bool,
    /// It says that it supports sockets.
    pub sockets: bool,
    /// Of an endpoint, the host on the same hardware unit.
    pub resident: Option<Hwid>,
    /// How many ports it has.
    pub ports: u32,
    /// Virtual endpoints of an endpoint.
    pub ves: u32,
    /// Functions of each of them.
    pub functions: u32,
    /// Part number.
    pub part: String,
    /// Serial number.
    pub serial_number: String,
    /// The hardware unit that it sits on.
    pub blade: String,
}

/// The virtual hierarchy of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hierarchy {
    /// Hardware id of the host.
    pub root: Hwid,
    /// Its number, 0: none, as nothing is given to the host.
    pub number: u32,
    /// Depth first; the first is the host.
    pub places: Vec<Place>,
}

/// A place in a hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// host, switch or endpoint.
    pub kind: String,
    /// Hardware id.
    pub hwid: Hwid,
    /// Local id, 0: none.
    pub lid: u32,
    /// Links from the host.
    pub depth: u32,
    /// By which port of the one above it is reached.
    pub port: u32,
    /// What of it is the host's; without, it is only there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
}

/// A virtual endpoint that is the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Given {
    /// Which one.
    pub ve: u32,
    /// Its functions.
    pub functions: u32,
    /// The virtual plane on the host's link.
    pub plane: u32,
    /// First byte of what it has in the host's address space.
    pub base: u64,
    /// Last byte.
    pub limit: u64,
}

impl Hierarchy {
    /// Whether this virtual endpoint is the host's.
    pub fn has(&self, endpoint: Hwid, ve: u32) -> bool {
        let is = |place: &Place| place.given.is_some_and(|given| given.ve == ve);
        self.places.iter().any(|place| place.hwid == endpoint && is(place))
    }

    /// The number of the place above one.
    pub fn above(&self, place: usize) -> Option<usize> {
        let depth = self.places.get(place)?.depth;
        (0..place).rev().find(|above| self.places.get(*above).is_some_and(|p| p.depth < depth))
    }
}

/// Whose a virtual endpoint is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Which one.
    pub ve: u32,
    /// The host that has it, or is to have it; none: it is free.
    pub root: Option<Hwid>,
    /// What became of the assignment; `None`: the host has it, as it says itself.
    pub state: Option<State>,
}

impl Known {
    /// What the master has found under this id.
    pub fn component(&self, hwid: Hwid) -> Option<&Component> {
        self.components.iter().flatten().find(|component| component.hwid == hwid)
    }

    /// Whose the virtual endpoints of an endpoint are, as far as this host knows: at the
    /// master all, by the assignments and what became of them; elsewhere those of this host.
    pub fn owners(&self, endpoint: Hwid) -> Vec<Owner> {
        let assignments =
            || self.assignments.iter().filter(|assignment| assignment.endpoint == endpoint);
        if assignments().any(|assignment| assignment.state.is_none()) || self.assignments.is_empty()
        {
            // Not the master: what there is besides is not known.
            let own = self.hierarchies.first();
            let places = own.map_or(&[][..], |own| own.places.as_slice());
            let given = places.iter().filter(|p| p.hwid == endpoint).filter_map(|p| p.given);
            let root = own.map(|own| own.root);
            let mut own: Vec<Owner> =
                given.map(|given| Owner { ve: given.ve, root, state: None }).collect();
            self.free(endpoint, &mut own);
            return own;
        }
        let owner = |w: &Assignment| Owner { ve: w.ve, root: Some(w.root), state: w.state };
        let mut all = assignments().map(owner).collect();
        self.free(endpoint, &mut all);
        all
    }

    /// Adds those that no host has, where it is known how many there are.
    fn free(&self, endpoint: Hwid, all: &mut Vec<Owner>) {
        let ves = self.component(endpoint).map_or(0, |component| component.ves);
        for ve in 0..ves {
            if !all.iter().any(|owner| owner.ve == ve) {
                all.push(Owner { ve, root: None, state: None });
            }
        }
        all.sort_by_key(|owner| owner.ve);
    }
}
