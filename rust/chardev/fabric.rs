// SPDX-License-Identifier: GPL-2.0

//! `WEFT_FABRIC_NODES`, `WEFT_FABRIC_ROUTES`: who is in the fabric, as its manager here knows it.

use super::ioctl::{check, Call};
use crate::{
    fabric::{Manager, View},
    proto::nm::{
        kind::{is_endpoint, is_host},
        member::Member,
    },
    sys::{
        errno::EOPNOTSUPP,
        ext::{self, weft_fabric_nodes, weft_fabric_route, weft_fabric_routes},
    },
};
use kernel::prelude::*;

fn manager<'a>(call: &Call<'a>) -> Result<&'a Manager> {
    call.file.node.manager().ok_or(EOPNOTSUPP.into())
}

/// Tells of one node.
pub(super) fn nodes(call: &Call<'_>) -> Result {
    let (user, mut asked) = call.read::<weft_fabric_nodes>()?;
    check(asked.flags == 0)?;
    manager(call)?.look(|view| -> Result {
        let all = view.members();
        let member = all.get(asked.index as usize).ok_or(ENOENT)?;
        asked.nodes = all.len() as u32;
        asked.serial = view.serial();
        tell(&mut asked, member, view);
        Ok(())
    })?;
    user.write(&asked)
}

fn tell(to: &mut weft_fabric_nodes, member: &Member, view: &View) {
    let info = &member.info;
    let hwid = info.hwid;
    let flag = |set: bool, bit: u32| if set { bit } else { 0 };
    to.lid = info.lid;
    to.hwid = hwid;
    to.kind = match hwid {
        hwid if is_host(hwid) => ext::WEFT_NODE_HOST,
        hwid if is_endpoint(hwid) => ext::WEFT_NODE_ENDPOINT,
        _ => ext::WEFT_NODE_SWITCH,
    };
    to.state = flag(member.known, ext::WEFT_NODE_KNOWN)
        | flag(to.index == 0, ext::WEFT_NODE_SELF)
        | flag(view.standing().master == hwid, ext::WEFT_NODE_MASTER);
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

/// Tells some of the routes.
pub(super) fn routes(call: &Call<'_>) -> Result {
    let (user, mut asked) = call.read::<weft_fabric_routes>()?;
    check(asked.flags == 0)?;
    manager(call)?.look(|view| {
        let all = view.routes();
        asked.routes = all.len() as u32;
        asked.lid = view.standing().lid;
        asked.count = 0;
        asked.route = Default::default();
        let rest = all.get(asked.first as usize..).unwrap_or_default();
        for ((lid, hops, link), place) in rest.iter().zip(&mut asked.route) {
            *place = weft_fabric_route {
                lid: *lid,
                hops: u16::from(*hops),
                link: u16::from(*link),
            };
            asked.count += 1;
        }
    });
    user.write(&asked)
}
