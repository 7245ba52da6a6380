// SPDX-License-Identifier: GPL-2.0

//! The ioctls `WEFT_FABRIC_SLOT` and `WEFT_FABRIC_ANNOUNCE`: the slots of switches, as their hot-plug controllers
//! see them, and the announcement of a component that will be put into one.

use super::{
    call::{as_admin, check, Call},
    manager::{as_master, manager},
};
use crate::{
    proto::bytes::flag,
    sys::{
        errno::{EREMOTE, ESTALE},
        ext::{self, weft_fabric_announce, weft_fabric_slot},
    },
};
use kernel::prelude::*;

/// Returns one slot. `EPERM`: the caller may not administer the fabric; `EREMOTE`: this host is not the
/// master.
pub(super) fn slot(call: &Call<'_>, asked: weft_fabric_slot) -> Result {
    check(asked.flags == 0)?;
    let manager = manager(call)?;
    as_admin()?;
    let (count, serial, slot) = as_master(manager)?.pcim().slot(asked.index as usize);
    let slot = slot.ok_or(ENOENT)?;
    let said = slot.controller;
    call.write(&weft_fabric_slot {
        size: asked.size,
        index: asked.index,
        count: count as u32,
        serial,
        port: slot.port.into(),
        hwid: slot.switch,
        state: flag(said.occupied, ext::WEFT_SLOT_OCCUPIED)
            | flag(said.announced, ext::WEFT_SLOT_ANNOUNCED)
            | flag(said.on, ext::WEFT_SLOT_POWER)
            | flag(said.up, ext::WEFT_SLOT_LINK),
        planes: slot.planes.into(),
        ..Default::default()
    })
}

/// Announces a component, or withdraws that. Errors as of [`slot`] and of
/// [`Node::announce`](crate::fabric::Node::announce). Sleeps, outside of the gate.
pub(super) fn announce(call: &Call<'_>, asked: weft_fabric_announce) -> Result {
    check(asked.flags & !ext::WEFT_ANNOUNCE_WITHDRAW == 0 && asked.reserved == 0)?;
    let manager = manager(call)?;
    as_admin()?;
    as_master(manager)?;
    let port = u8::try_from(asked.port).map_err(|_| ENOENT)?;
    let on = asked.flags & ext::WEFT_ANNOUNCE_WITHDRAW == 0;
    let done = call.outside(|| call.file.node.announce((asked.hwid, port), on));
    done.map_err(|e| match e == ESTALE {
        // Another host has become the master meanwhile.
        true => EREMOTE.into(),
        false => e,
    })
}
