// SPDX-License-Identifier: GPL-2.0

//! The directory `manager`: the state of this node in the fabric.

use crate::{
    device::Device,
    fabric::{Manager, Reaching, Standing, View},
    proto::nm::node::Mismatch,
    sys::sysfs::{Attr, List, Value},
};
use kernel::prelude::*;

/// Returns the state of this node. `ENOENT`: the port has no manager.
fn standing(data: &Device, n: usize) -> Result<Standing> {
    Ok(manager(data, n)?.look(View::standing))
}

/// Returns the manager. `ENOENT`: the port has none.
fn manager(data: &Device, _: usize) -> Result<&Manager> {
    data.node.manager().ok_or(ENOENT)
}

/// Returns the routed links. `ENOENT`: the port cannot have any.
fn far(data: &Device, _: usize) -> Result<&Reaching> {
    data.node.far().ok_or(ENOENT)
}

fn allow(data: &Device, n: usize) -> Result<Value> {
    Ok((manager(data, n)?.allowed() as u64).into())
}

fn full_nodes(data: &Device, n: usize) -> Result<Value> {
    Ok((manager(data, n)?.full_nodes() as u64).into())
}

fn excluded(data: &Device, n: usize) -> Result<Value> {
    Ok(manager(data, n)?.excluded().into())
}

fn refused(data: &Device, n: usize) -> Result<Value> {
    Ok(manager(data, n)?.writes_refused().into())
}

/// By what this node believes messages of managers.
fn authenticated(data: &Device, _: usize) -> Result<Value> {
    let by = match data.node.authentication()? {
        (true, true) => c"fabric+key",
        (true, false) => c"fabric",
        (false, true) => c"key",
        (false, false) => c"nothing",
    };
    Ok(by.into())
}

fn unsealed(data: &Device, n: usize) -> Result<Value> {
    Ok(manager(data, n)?.messages_refused().into())
}

fn mismatch(data: &Device, n: usize) -> Result<Value> {
    let how = match manager(data, n)?.mismatch() {
        None => c"none",
        Some((Mismatch::Here, _)) => c"here",
        Some((Mismatch::There, _)) => c"there",
        Some((Mismatch::Differs, _)) => c"differs",
    };
    Ok(how.into())
}

fn mismatch_hwid(data: &Device, n: usize) -> Result<Value> {
    let with = manager(data, n)?.mismatch().map_or(0, |(_, hwid)| hwid);
    Ok(Value::Hex64(with))
}

fn routed_links(data: &Device, _: usize) -> Result<Value> {
    Ok((data.node.routed()?.0 as u64).into())
}

fn routed_used(data: &Device, _: usize) -> Result<Value> {
    Ok((data.node.routed()?.1.own as u64).into())
}

fn routed_claimed(data: &Device, _: usize) -> Result<Value> {
    Ok((data.node.routed()?.1.peers as u64).into())
}

fn routed_bytes(data: &Device, _: usize) -> Result<Value> {
    Ok(data.node.routed_bytes()?.into())
}

fn routed_idle(data: &Device, n: usize) -> Result<Value> {
    Ok(far(data, n)?.routed_idle().into())
}

fn set_routed_idle(data: &Device, n: usize, seconds: u64) -> Result {
    far(data, n)?.set_routed_idle(seconds)
}

fn calls_refused(data: &Device, n: usize) -> Result<Value> {
    Ok(far(data, n)?.calls_refused().into())
}

fn assignments(data: &Device, n: usize) -> Result<Value> {
    Ok(manager(data, n)?.pcim().assignments_serial().into())
}

/// The first nine are notified of their changes.
static ATTRS: [Attr<Device>; 24] = files!(0, me = standing {
    c"mode" => me.mode.name(),
    c"role" => me.role.name(),
    c"lid" => me.lid,
    c"master" => Value::Hex64(me.master),
    c"term" => me.term,
    c"nodes" => me.nodes,
    c"routes" => me.routes,
    c"hierarchy" => me.hierarchy,
}
    Attr::new(c"assignments", assignments, 0),
    Attr::new(c"writes_refused", refused, 0),
    Attr::new(c"routed_links", routed_links, 0),
    Attr::new(c"routed_used", routed_used, 0),
    Attr::new(c"routed_claimed", routed_claimed, 0),
    Attr::new(c"routed_bytes", routed_bytes, 0),
    Attr::writable(c"routed_idle", routed_idle, set_routed_idle, 0),
    Attr::new(c"calls_refused", calls_refused, 0),
    Attr::new(c"authenticated", authenticated, 0),
    Attr::new(c"messages_refused", unsealed, 0),
    Attr::new(c"key_mismatch", mismatch, 0),
    Attr::new(c"key_mismatch_hwid", mismatch_hwid, 0),
    Attr::secret(c"key", refused, |data, _, text| data.node.set_key(text), 0),
    Attr::writable(c"allow", allow, |data, _, hwid| data.node.allow(hwid), 0),
    Attr::writable(c"full_nodes", full_nodes, |data, _, nodes| data.node.set_full_nodes(nodes), 0),
    Attr::writable(c"excluded", excluded, |data, _, links| data.node.exclude(links), 0));
pub(super) static LIST: List<Device, 25> = List::new(&ATTRS);
