// SPDX-License-Identifier: GPL-2.0

//! The ioctls `WEFT_FABRIC_ASSIGNMENTS`, `WEFT_FABRIC_ASSIGNMENT` and `WEFT_FABRIC_COMPONENT`: the
//! desired assignments of the fabric's endpoints, the outcome of each, and the components that can be
//! assigned.

use super::{
    call::{as_admin, check, Call},
    manager::{as_master, manager},
};
use crate::{
    fabric::{Manager, Refusal, Shown},
    proto::{
        bytes::flag,
        mr::{inventory::Kind, vpd::Text},
    },
    sys::{
        errno::ENOBUFS,
        ext::{self, weft_fabric_assignment, weft_fabric_assignments, weft_fabric_component},
    },
};
use kernel::{
    prelude::*,
    uaccess::{UserPtr, UserSlice},
};

/// Reads the assignments, or replaces them.
pub(super) fn assignments(call: &Call<'_>, mut asked: weft_fabric_assignments) -> Result {
    check(asked.flags & !ext::WEFT_ASSIGNMENTS_SET == 0 && asked.reserved == 0)?;
    let manager = manager(call)?;
    let at = UserPtr::from_addr(usize::try_from(asked.text)?);
    asked.line = 0;
    let done = match asked.flags {
        0 => read(call, manager, at, &mut asked),
        _ => set(call, manager, at, &mut asked),
    };
    // In these cases the structure describes the error.
    let told = done.is_ok() || asked.line != 0 || matches!(&done, Err(e) if *e == ENOBUFS);
    if told {
        call.write(&asked)?;
    }
    done
}

fn read(
    call: &Call<'_>,
    manager: &Manager,
    at: UserPtr,
    asked: &mut weft_fabric_assignments,
) -> Result {
    let (version, text) = manager.assignments()?;
    let room = asked.bytes as usize;
    asked.version = version;
    asked.bytes = text.len() as u32;
    if text.len() > room {
        return Err(ENOBUFS.into());
    }
    call.outside(|| UserSlice::new(at, text.len()).writer().write_slice(&text))
}

fn set(
    call: &Call<'_>,
    manager: &Manager,
    at: UserPtr,
    asked: &mut weft_fabric_assignments,
) -> Result {
    as_admin()?;
    let bytes = asked.bytes as usize;
    let room = ext::WEFT_ASSIGNMENTS_BYTES as usize;
    let mut text = KVVec::from_elem(0, bytes.min(room), GFP_KERNEL)?;
    let from = UserSlice::new(at, text.len());
    call.outside(|| from.reader().read_slice(&mut text))?;
    if bytes > room {
        // The first line that does not fit.
        asked.line = 1 + text.iter().filter(|b| **b == b'\n').count() as u32;
        return Err(ENOSPC);
    }
    let (line, why) = match manager.set_assignments(&*call.file.node, asked.version, &text) {
        Ok(version) => {
            asked.version = version;
            return Ok(());
        }
        Err(Refusal::Line(line)) => (line, EINVAL),
        Err(Refusal::Room(line)) => (line, ENOSPC),
        Err(Refusal::Other(why)) => (0, why),
    };
    asked.line = line;
    Err(why)
}

/// Returns the outcome of one assignment. `EREMOTE`: this host is not the master.
pub(super) fn assignment(call: &Call<'_>, asked: weft_fabric_assignment) -> Result {
    check(asked.flags == 0)?;
    let pcim = as_master(manager(call)?)?.pcim();
    let (count, serial, assignment) = pcim.assignment(asked.index as usize);
    let (assignment, outcome) = assignment.ok_or(ENOENT)?;
    call.write(&weft_fabric_assignment {
        size: asked.size,
        index: asked.index,
        count: count as u32,
        serial,
        state: outcome as u32,
        endpoint: assignment.endpoint,
        root: assignment.root,
        ve: assignment.ve.into(),
        ..Default::default()
    })
}

/// Returns one component. `EPERM`: the caller may not administer the fabric; `EREMOTE`: this host is
/// not the master.
pub(super) fn component(call: &Call<'_>, mut asked: weft_fabric_component) -> Result {
    check(asked.flags == 0 && asked.reserved == 0)?;
    let manager = manager(call)?;
    as_admin()?;
    let pcim = as_master(manager)?.pcim();
    let (count, serial, shown) = pcim.component(asked.index as usize);
    asked.count = count as u32;
    asked.serial = serial;
    tell(&mut asked, &shown.ok_or(ENOENT)?);
    call.write(&asked)
}

fn tell(to: &mut weft_fabric_component, shown: &Shown) {
    let component = &shown.component;
    to.state = flag(shown.there, ext::WEFT_COMPONENT_THERE)
        | flag(shown.replaced, ext::WEFT_COMPONENT_REPLACED)
        | flag(shown.is_broken, ext::WEFT_COMPONENT_NO_VPD)
        | flag(component.vpd.sockets, ext::WEFT_COMPONENT_SOCKETS);
    to.lid = component.lid;
    to.hwid = component.hwid;
    to.resident = component.resident;
    to.ports = shown.ports.into();
    (to.kind, to.ves, to.functions) = match component.kind {
        Kind::Root => (ext::WEFT_NODE_HOST, 0, 0),
        Kind::Switch { .. } => (ext::WEFT_NODE_SWITCH, 0, 0),
        Kind::Endpoint { ves, functions } => {
            (ext::WEFT_NODE_ENDPOINT, ves.into(), functions.into())
        }
    };
    put(&mut to.part, &component.vpd.part);
    put(&mut to.serial_number, &component.vpd.serial);
    put(&mut to.blade, &component.vpd.blade);
}

/// Copies a text, truncated to leave room for a NUL.
fn put(to: &mut [u8; ext::WEFT_VPD_TEXT as usize], text: &Text) {
    *to = [0; ext::WEFT_VPD_TEXT as usize];
    let room = to.len() - 1;
    for (place, byte) in to.iter_mut().take(room).zip(text.bytes()) {
        *place = *byte;
    }
}
