// SPDX-License-Identifier: GPL-2.0

//! Traverses the fabric by configuration requests: every link that is up, across switches. Other hosts
//! are found like endpoints; they do not forward requests.
//!
//! Life and local id of a component are those that the network manager knows. The vital product data of
//! a component are read once in a life. This must not know what anything is found for.

use super::{
    bus::Bus,
    found::{Contact, Found},
    vpd::{self, Said},
};
use crate::{
    proto::{
        mr::{
            hierarchy,
            inventory::{Component, End, Kind},
            vpd::Vpd,
        },
        nm::{
            kind::{is_endpoint, is_host},
            path::Path,
        },
    },
    sys::{errno::EHOSTUNREACH, ext},
};
use kernel::prelude::*;

/// Looks for all components. `before` is what was found the last time. Returns false if something was
/// left out because it could not be asked, or because there was no room. Errors as of [`Bus`].
pub(super) fn explore(bus: &Bus<'_>, found: &mut Found, before: &Found) -> Result<bool> {
    found.things.clear();
    let port = bus.network.port()?;
    let (me, links) = (port.identity().hwid, port.links());
    let up = (0..links).filter(|link| port.link_status(*link).up);
    let up = up.fold(0u32, |mask, link| mask | 1 << link);
    drop(port);
    let mut walk = Walk {
        bus,
        before,
        found,
        whole: true,
    };
    // Its own data are read below, when a switch was found through which they can be.
    let own = Component::new(me, Kind::Root);
    walk.put(own, (Path::EMPTY, links as u8), Said::Nothing);
    for link in (0..links).filter(|link| up & 1 << link != 0) {
        walk.cross(me, Path::EMPTY, link as u8)?;
    }
    // The list is in the order in which components are found: it grows while it is traversed.
    let mut at = 1;
    while let Some((component, contact)) = walk.found.at(at) {
        if let (Kind::Switch { ports }, hwid, path) = (component.kind, component.hwid, contact.path)
        {
            for port in 0..ports {
                let reg = ext::WEFT_CS_PORT + ext::WEFT_CS_PORT_STRIDE * u32::from(port);
                let known = walk.found.things.at(End { hwid, port }).is_some();
                if !known && walk.read(&path, reg)? & ext::WEFT_LINK_UP != 0 {
                    walk.cross(hwid, path, port)?;
                }
            }
        }
        at += 1;
    }
    walk.own(own, links as u8)?;
    Ok(walk.whole)
}

struct Walk<'a> {
    bus: &'a Bus<'a>,
    before: &'a Found,
    found: &'a mut Found,
    whole: bool,
}

impl Walk<'_> {
    /// Reads a register; returns 0 if the component cannot be reached any more.
    fn read(&mut self, path: &Path, reg: u32) -> Result<u32> {
        match self.bus.reg(path, reg) {
            Err(e) if e == EHOSTUNREACH => {
                self.whole = false;
                Ok(0)
            }
            done => done,
        }
    }

    /// Looks for the component at the other end of the link at a port, and adds it.
    fn cross(&mut self, hwid: u64, path: Path, port: u8) -> Result {
        let Some(path) = path.then(port) else {
            // The path would be too long: traffic cannot go further either.
            return Ok(());
        };
        let (far, kind, ports) = match self.identify(&path) {
            Ok(Some(identity)) => identity,
            Ok(None) => return Ok(()),
            Err(e) if e == EHOSTUNREACH => {
                self.whole = false;
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        if self.found.things.get(far.hwid).is_none() {
            let component = Component::new(far.hwid, kind);
            let said = self.ask(&component, &path)?;
            if matches!(said, Said::Nothing) {
                return Ok(());
            }
            self.put(component, (path, ports), said);
        }
        let near = End { hwid, port };
        self.whole &= self.found.things.joined(near, far).is_ok();
        Ok(())
    }

    /// Identifies the component at the end of a path. Returns its hardware id and the port by which the
    /// path comes in, its kind, and its number of ports. `None`: it does not belong into a fabric.
    fn identify(&self, path: &Path) -> Result<Option<(End, Kind, u8)>> {
        let bus = self.bus;
        let id = bus.reg(path, ext::WEFT_CS_ID)?;
        let ports = bus.reg(path, ext::WEFT_CS_PORTS)?;
        let hwid = bus.read64(path, ext::WEFT_SPACE_CONFIG, ext::WEFT_CS_HWID)?;
        let count = (ports & ext::WEFT_CS_PORT_COUNT) as u8;
        let port = ((ports & ext::WEFT_CS_PORT_IN) >> 8) as u8;
        let kind = match id >> 16 {
            ext::WEFT_DEVICE_ID_PF if is_host(hwid) => Some(Kind::Root),
            ext::WEFT_DEVICE_ID_SWITCH if !is_host(hwid) && !is_endpoint(hwid) => {
                Some(Kind::Switch { ports: count })
            }
            ext::WEFT_DEVICE_ID_ENDPOINT if is_endpoint(hwid) => {
                let cap = bus.reg(path, ext::WEFT_CS_CAP)?;
                Some(Kind::Endpoint {
                    ves: (cap & ext::WEFT_CS_CAP_VES).min(ext::WEFT_EP_MAX_VES) as u8,
                    functions: ((cap & ext::WEFT_CS_CAP_FUNCTIONS) >> 8) as u8,
                })
            }
            _ => None,
        };
        let Some(kind) = kind.filter(|kind| kind.can_be(count, port)) else {
            bus.network.complain(fmt!(
                "{:#018x}, a device {:#x} with port {} of {}, is nothing for a fabric",
                hwid,
                id >> 16,
                port,
                count
            ));
            return Ok(None);
        };
        Ok((hwid != 0).then_some((End { hwid, port }, kind, count)))
    }

    /// Returns the vital product data of a component: those that it had before in the same life, else
    /// reads them by that path.
    fn ask(&mut self, component: &Component, path: &Path) -> Result<Said> {
        if let Some(vpd) = self.known(component) {
            return Ok(Said::This(vpd));
        }
        match vpd::read(self.bus, path) {
            Err(e) if e == EHOSTUNREACH => {
                self.whole = false;
                Ok(Said::Nothing)
            }
            done => done,
        }
    }

    /// Returns the vital product data that were read in the present life of a component.
    fn known(&self, component: &Component) -> Option<Vpd> {
        let (before, contact) = self.before.get(component.hwid)?;
        let (_, life) = self.member(component.hwid);
        let same = life != 0 && life == contact.life && before.kind == component.kind;
        (same && contact.has_vpd).then_some(before.vpd)
    }

    /// Returns local id and life of a member of the fabric.
    fn member(&self, hwid: u64) -> (u32, u32) {
        self.bus.network.member(hwid)
    }

    fn put(&mut self, mut component: Component, (path, ports): (Path, u8), said: Said) {
        let (lid, life) = self.member(component.hwid);
        component.lid = lid;
        component.vpd = match said {
            Said::This(vpd) => vpd,
            Said::Nothing | Said::Nonsense => Vpd::NONE,
        };
        component.bytes = hierarchy::BYTES;
        component.window = hierarchy::WINDOW;
        let contact = Contact {
            path,
            ports,
            life,
            has_vpd: matches!(said, Said::This(_)),
            is_broken: matches!(said, Said::Nonsense),
            ..Contact::NONE
        };
        self.whole &= self.found.put(component, contact);
    }

    /// Reads the vital product data of this host as other nodes see them: by a path that leads back to
    /// it.
    fn own(&mut self, component: Component, ports: u8) -> Result {
        let me = component.hwid;
        let links = self.found.things.links().iter();
        let mut switches = links.filter_map(|link| {
            let (_, far) = link.from(me)?;
            let (switch, contact) = self.found.get(far.hwid)?;
            contact.path.then(far.port).filter(|_| switch.is_switch())
        });
        let Some(back) = switches.next() else {
            return Ok(());
        };
        drop(switches);
        let said = self.ask(&component, &back)?;
        self.put(component, (Path::EMPTY, ports), said);
        Ok(())
    }
}
