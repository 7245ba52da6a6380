// SPDX-License-Identifier: GPL-2.0

//! The directory `manager`: the state of this node in the fabric.

use crate::{
    device::Device,
    fabric::{Standing, View},
    sys::sysfs::{Attr, List, Value},
};
use kernel::prelude::*;

/// Returns a value of the manager's state. `ENOENT`: the port has no manager.
fn of(data: &Device, f: fn(&Standing) -> Value) -> Result<Value> {
    let manager = data.node.manager().ok_or(ENOENT)?;
    Ok(f(&manager.look(View::standing)))
}

fn role(data: &Device, _: usize) -> Result<Value> {
    of(data, |me| Value::Text(me.role.name()))
}

fn lid(data: &Device, _: usize) -> Result<Value> {
    of(data, |me| Value::Decimal(me.lid.into()))
}

fn master(data: &Device, _: usize) -> Result<Value> {
    of(data, |me| Value::Hex64(me.master))
}

fn term(data: &Device, _: usize) -> Result<Value> {
    of(data, |me| Value::Decimal(me.term.into()))
}

fn nodes(data: &Device, _: usize) -> Result<Value> {
    of(data, |me| Value::Decimal(me.nodes.into()))
}

fn routes(data: &Device, _: usize) -> Result<Value> {
    of(data, |me| Value::Decimal(me.routes.into()))
}

fn hierarchy(data: &Device, _: usize) -> Result<Value> {
    of(data, |me| Value::Decimal(me.hierarchy.into()))
}

fn allow(data: &Device, _: usize) -> Result<Value> {
    let manager = data.node.manager().ok_or(ENOENT)?;
    Ok(Value::Decimal(manager.allowed() as u64))
}

fn set_allow(data: &Device, _: usize, hwid: u64) -> Result {
    data.node.allow(hwid)
}

fn excluded(data: &Device, _: usize) -> Result<Value> {
    let manager = data.node.manager().ok_or(ENOENT)?;
    Ok(Value::Decimal(manager.excluded().into()))
}

fn set_excluded(data: &Device, _: usize, links: u64) -> Result {
    data.node.exclude(links)
}

fn assignments(data: &Device, _: usize) -> Result<Value> {
    let manager = data.node.manager().ok_or(ENOENT)?;
    Ok(Value::Decimal(manager.pcim().assignments_serial().into()))
}

/// The first eight are notified of their changes.
static ATTRS: [Attr<Device>; 10] = [
    Attr::new(c"role", role, 0),
    Attr::new(c"lid", lid, 0),
    Attr::new(c"master", master, 0),
    Attr::new(c"term", term, 0),
    Attr::new(c"nodes", nodes, 0),
    Attr::new(c"routes", routes, 0),
    Attr::new(c"assignments", assignments, 0),
    Attr::new(c"hierarchy", hierarchy, 0),
    Attr::writable(c"allow", allow, set_allow, 0),
    Attr::writable(c"excluded", excluded, set_excluded, 0),
];
pub(super) static LIST: List<Device, 11> = List::new(&ATTRS);
