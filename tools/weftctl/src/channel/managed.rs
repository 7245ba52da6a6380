// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the manager of a port tells of the fabric and of the endpoints that hosts share,
//! and the assignments and announcements that it takes.

use super::Port;
use crate::failure::{Failure, Kind};
use crate::multiroot::{Assignment, Component, Given, Hierarchy, Hwid, Known, Place, Slot};
use weft::{AssignmentStatus, Assignments, Error, Fabric, FabricRoute};

impl Port {
    /// The nodes of the fabric.
    pub fn fabric(&self) -> Result<Fabric, Failure> {
        let fabric = self.0.fabric().map_err(|e| self.failure(&e))?;
        fabric.ok_or_else(|| self.unmanaged())
    }

    /// Its routes.
    pub fn routes(&self) -> Result<Vec<FabricRoute>, Failure> {
        let routes = self.0.routes().map_err(|e| self.failure(&e))?;
        routes.ok_or_else(|| self.unmanaged())
    }

    /// The text of the assignments.
    pub fn assignments(&self) -> Result<Assignments, Failure> {
        let assignments = self.0.assignments().map_err(|e| self.failure(&e))?;
        assignments.ok_or_else(|| self.unmanaged())
    }

    /// Replaces the assignments.
    pub fn set_assignments(&self, assignments: &mut Assignments) -> Result<Taken, Failure> {
        match self.0.set_assignments(assignments) {
            Ok(true) => Ok(Taken::Yes),
            Ok(false) => Err(self.unmanaged()),
            Err(Error::Stale) => Ok(Taken::Stale),
            Err(Error::NoMaster) => Ok(Taken::NoMaster),
            Err(Error::AssignmentLine(line)) => Ok(Taken::NoAssignment(line)),
            Err(Error::AssignmentRoom(line)) => Ok(Taken::NoRoom(line)),
            Err(e) => Err(self.failure(&e)),
        }
    }

    /// What became of each assignment; only the master says.
    pub fn assignment_statuses(&self) -> Result<Vec<Assignment>, Failure> {
        let all = self.0.assignment_statuses().map_err(|e| self.failure(&e))?;
        Ok(all.ok_or_else(|| self.unmanaged())?.iter().map(Assignment::from).collect())
    }

    /// What the master has found.
    pub fn components(&self) -> Result<Vec<Component>, Failure> {
        let all = self.0.components().map_err(|e| self.failure(&e))?;
        Ok(all.ok_or_else(|| self.unmanaged())?.into_iter().map(Component::from).collect())
    }

    /// The slots of all switches.
    pub fn slots(&self) -> Result<Vec<Slot>, Failure> {
        let all = self.0.slots().map_err(|e| self.failure(&e))?;
        Ok(all.ok_or_else(|| self.unmanaged())?.into_iter().map(Slot::from).collect())
    }

    /// Announces a component at a port of a switch or, if not `coming`, withdraws that.
    pub fn announce(&self, switch: Hwid, port: u32, coming: bool) -> Result<(), Failure> {
        match self.0.announce(switch.0, port, coming).map_err(|e| self.failure(&e))? {
            true => Ok(()),
            false => Err(self.unmanaged()),
        }
    }

    /// The virtual hierarchy of this host.
    pub fn own_hierarchy(&self) -> Result<Hierarchy, Failure> {
        let own = self.0.hierarchy(None).map_err(|e| self.failure(&e))?;
        own.map(Hierarchy::from).ok_or_else(|| self.unmanaged())
    }

    /// That of any host; `None`: there is no such host.
    pub fn hierarchy(&self, root: Hwid) -> Result<Option<Hierarchy>, Failure> {
        match self.0.hierarchy(Some(root.0)) {
            Ok(Some(hierarchy)) => Ok(Some(hierarchy.into())),
            Ok(None) => Err(self.unmanaged()),
            Err(Error::NoHost(_)) => Ok(None),
            Err(e) => Err(self.failure(&e)),
        }
    }

    /// All of it, as far as this host and this user are told.
    pub fn known(&self) -> Result<Known, Failure> {
        let failed = |e| self.failure(&e);
        let assignments = match self.0.assignment_statuses() {
            Err(Error::NotMaster | Error::NoMaster) => {
                let mut assignments: Vec<Assignment> =
                    self.assignments()?.all().map(Assignment::from).collect();
                assignments.sort_by_key(|assignment| (assignment.endpoint, assignment.ve));
                assignments
            }
            statuses => {
                let statuses = statuses.map_err(failed)?.ok_or_else(|| self.unmanaged())?;
                statuses.iter().map(Assignment::from).collect()
            }
        };
        let components = match self.0.components() {
            Err(Error::NotMaster | Error::NoMaster | Error::Privilege(_)) => None,
            found => {
                let found = found.map_err(failed)?.ok_or_else(|| self.unmanaged())?;
                Some(found.into_iter().map(Component::from).collect::<Vec<_>>())
            }
        };
        let own = self.own_hierarchy()?;
        let hosts = components.iter().flatten().filter(|c| c.kind == "host");
        let others: Vec<Hwid> = hosts.map(|c| c.hwid).filter(|hwid| *hwid != own.root).collect();
        let mut hierarchies = vec![own];
        for host in others {
            match self.0.hierarchy(Some(host.0)) {
                // It has gone meanwhile, or another host is master now.
                Err(Error::NoHost(_) | Error::NotMaster | Error::NoMaster) => {}
                other => hierarchies.extend(other.map_err(failed)?.map(Hierarchy::from)),
            }
        }
        Ok(Known { assignments, components, hierarchies })
    }

    fn unmanaged(&self) -> Failure {
        let path = self.0.path().display();
        Failure::new(Kind::Failed, format!("{path} takes no part in managing the fabric"))
            .hint("the first function of an endpoint with routes does; name another by --port")
    }
}

/// How new assignments were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// They are in force.
    Yes,
    /// Another program has replaced them since they were read.
    Stale,
    /// There is no master yet.
    NoMaster,
    /// This line, from 1, is none, or gives away what a line before it has.
    NoAssignment(u32),
    /// There is no room for this line.
    NoRoom(u32),
}

impl From<&AssignmentStatus> for Assignment {
    fn from(status: &AssignmentStatus) -> Self {
        Assignment { state: Some(status.state), ..status.assignment.into() }
    }
}

impl From<weft::Assignment> for Assignment {
    fn from(assignment: weft::Assignment) -> Self {
        let weft::Assignment { endpoint, ve, root } = assignment;
        Assignment { endpoint: Hwid(endpoint), ve: ve.into(), root: Hwid(root), state: None }
    }
}

/// A text that a component says of itself: nothing that a terminal obeys.
fn tame(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

impl From<weft::Component> for Component {
    fn from(found: weft::Component) -> Self {
        Component {
            kind: found.kind.to_string(),
            hwid: Hwid(found.hwid),
            lid: found.lid.unwrap_or(0),
            there: found.there,
            replaced: found.replaced,
            vpd_in_order: found.vpd_in_order,
            sockets: found.sockets,
            resident: found.resident.map(Hwid),
            ports: found.ports,
            ves: found.ves,
            functions: found.functions,
            part: tame(&found.part),
            serial_number: tame(&found.serial_number),
            blade: tame(&found.blade),
        }
    }
}

impl From<weft::Slot> for Slot {
    fn from(slot: weft::Slot) -> Self {
        let weft::Slot { switch, port, occupied, announced, power, link, planes } = slot;
        Slot { switch: Hwid(switch), port, occupied, announced, power, link, planes }
    }
}

impl From<weft::Hierarchy> for Hierarchy {
    fn from(hierarchy: weft::Hierarchy) -> Self {
        let given = |g: weft::Given| Given {
            ve: g.ve,
            functions: g.functions,
            plane: g.plane,
            base: g.base,
            limit: g.limit,
        };
        let place = |place: weft::Place| Place {
            kind: place.kind.to_string(),
            hwid: Hwid(place.hwid),
            lid: place.lid.unwrap_or(0),
            depth: place.depth,
            port: place.port,
            given: place.given.map(given),
        };
        Hierarchy {
            root: Hwid(hierarchy.root),
            number: hierarchy.number.unwrap_or(0),
            places: hierarchy.places.into_iter().map(place).collect(),
        }
    }
}
