// SPDX-License-Identifier: GPL-2.0

//! The ioctls `WEFT_FABRIC_NODES`, `WEFT_FABRIC_ROUTES` and `WEFT_FABRIC_VH`: the members of the
//! fabric, the routes, and the virtual hierarchies, as this host's network manager knows them.

use super::{
    call::{as_admin, check, Call},
    manager::{as_master, manager},
};
use crate::{
    fabric::{Manager, Mode, View},
    proto::{
        bytes::flag,
        mr::{
            hierarchy::{Hierarchy, Place},
            inventory::Kind,
        },
        nm::{
            kind::{is_endpoint, is_host},
            member::Member,
        },
    },
    sys::ext::{self, weft_fabric_nodes, weft_fabric_route, weft_fabric_routes, weft_fabric_vh},
};
use kernel::prelude::*;

/// Returns one node.
pub(super) fn nodes(call: &Call<'_>, mut asked: weft_fabric_nodes) -> Result {
    check(asked.flags == 0)?;
    manager(call)?.look(|view| -> Result {
        let all = view.members();
        let member = all.get(asked.index as usize).ok_or(ENOENT)?;
        asked.nodes = all.len() as u32;
        asked.serial = view.serial();
        tell(&mut asked, member, view);
        Ok(())
    })?;
    call.write(&asked)
}

fn tell(to: &mut weft_fabric_nodes, member: &Member, view: &View) {
    let info = &member.info;
    let hwid = info.hwid;
    to.lid = info.lid;
    to.hwid = hwid;
    to.kind = match hwid {
        hwid if is_host(hwid) => ext::WEFT_NODE_HOST,
        hwid if is_endpoint(hwid) => ext::WEFT_NODE_ENDPOINT,
        _ => ext::WEFT_NODE_SWITCH,
    };
    to.state = flag(member.known, ext::WEFT_NODE_KNOWN)
        | flag(to.index == 0, ext::WEFT_NODE_SELF)
        | flag(view.standing().master == hwid, ext::WEFT_NODE_MASTER)
        | flag(view.standing().mode == Mode::Scale, ext::WEFT_NODE_SCALE);
    to.hops = member.path.hops() as u32;
    to.links = member.route.hops().unwrap_or(0);
    to.path = [0; ext::WEFT_FABRIC_HOPS as usize];
    for (place, port) in to.path.iter_mut().zip(member.path.ports()) {
        *place = *port;
    }
    for (place, port) in to.ports.iter_mut().zip(&member.ports) {
        place.peer = port.peer;
        place.speed = port.speed.into();
        place.width = port.width.into();
    }
}

/// Returns some of the routes.
pub(super) fn routes(call: &Call<'_>, mut asked: weft_fabric_routes) -> Result {
    check(asked.flags == 0)?;
    manager(call)?.look(|view| {
        let all = view.routes();
        asked.routes = all.len() as u32;
        asked.lid = view.standing().lid;
        asked.count = 0;
        asked.route = Default::default();
        let rest = all.get(asked.first as usize..).unwrap_or_default();
        for (route, place) in rest.iter().zip(&mut asked.route) {
            *place = weft_fabric_route {
                lid: route.lid,
                hops: u16::from(route.hops),
                link: u16::from(route.link),
            };
            asked.count += 1;
        }
    });
    call.write(&asked)
}

/// Returns one component of a hierarchy.
pub(super) fn vh(call: &Call<'_>, mut asked: weft_fabric_vh) -> Result {
    check(asked.flags == 0)?;
    let manager = manager(call)?;
    let me = call.file.node.identity()?.hwid;
    if asked.root == 0 || asked.root == me {
        manager.look(|view| own_place(&mut asked, me, view))?;
    } else {
        others_place(&mut asked, manager)?;
    }
    call.write(&asked)
}

/// Returns a component of this host's hierarchy, as the master has sent it.
fn own_place(to: &mut weft_fabric_vh, me: u64, view: &View) -> Result {
    let standing = view.standing();
    to.root = me;
    to.serial = standing.hierarchy;
    let at = to.index as usize;
    let place = match view.hierarchy() {
        Some(hierarchy) => {
            to.vh = hierarchy.vh().into();
            to.count = hierarchy.places().count() as u32;
            hierarchy.places().nth(at)
        }
        // Without a hierarchy from the master, the host itself is the only component.
        None => {
            to.vh = 0;
            to.count = 1;
            let alone = Place {
                depth: 0,
                kind: Kind::Root,
                port: 0,
                hwid: me,
                lid: standing.lid,
                given: None,
            };
            (at == 0).then_some(alone)
        }
    };
    tell_place(to, &place.ok_or(ENOENT)?);
    Ok(())
}

/// Returns a component of another host's hierarchy. `EPERM`: the caller may not administer the
/// fabric; `EREMOTE`: this host is not the master, which alone knows it.
fn others_place(to: &mut weft_fabric_vh, manager: &Manager) -> Result {
    as_admin()?;
    let pcim = as_master(manager)?.pcim();
    pcim.hierarchy(to.root, |serial, bytes| {
        let hierarchy = Hierarchy::parse(bytes).map_err(|_| ENOENT)?;
        to.serial = serial;
        to.vh = hierarchy.vh().into();
        to.count = hierarchy.places().count() as u32;
        let place = hierarchy.places().nth(to.index as usize);
        tell_place(to, &place.ok_or(ENOENT)?);
        Ok(())
    })
}

fn tell_place(to: &mut weft_fabric_vh, place: &Place) {
    let (kind, functions) = match place.kind {
        Kind::Root => (ext::WEFT_NODE_HOST, 0),
        Kind::Switch { .. } => (ext::WEFT_NODE_SWITCH, 0),
        Kind::Endpoint { functions, .. } => (ext::WEFT_NODE_ENDPOINT, functions),
    };
    to.kind = kind;
    to.depth = place.depth.into();
    to.port = place.port.into();
    to.hwid = place.hwid;
    to.lid = place.lid;
    to.functions = functions.into();
    let given = place.given;
    to.state = given.map_or(0, |_| ext::WEFT_VH_GIVEN);
    to.ve = given.map_or(0, |given| given.ve.into());
    to.vp = given.map_or(0, |given| given.out.vp.into());
    (to.base, to.limit) = given.map_or((0, 0), |given| (given.base, given.limit));
}
