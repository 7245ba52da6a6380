// SPDX-License-Identifier: GPL-2.0

//! The sysfs files of a port, in the directory of its PCI function: one table, one value a file.
//! `Documentation/ABI/testing/sysfs-bus-pci-drivers-weft` says what they mean.

use crate::{
    device::Device,
    fabric::{LinkInfo, LINK_DIRS},
    proto::{link::State, wire},
    sys::{
        ext,
        sysfs::{Attr, Group, Groups, GroupsRef, List, Value},
    },
};
use kernel::prelude::*;

mod manager;
mod power;
mod vfs;

/// Returns what is known of link `n`. `ENOENT`: the port does not have it.
fn link(data: &Device, n: usize) -> Result<LinkInfo> {
    data.node
        .link_info(n)
        .map_err(|e| if e == EINVAL { ENOENT } else { e })
}

fn hwid(data: &Device, _: usize) -> Result<Value> {
    Ok(Value::Hex64(data.node.identity()?.hwid))
}

fn generation(data: &Device, _: usize) -> Result<Value> {
    Ok(Value::Decimal(data.node.identity()?.generation.into()))
}

fn kind(data: &Device, _: usize) -> Result<Value> {
    Ok(Value::Text(match data.node.identity()?.kind {
        ext::WEFT_PORT_WEFT => c"weft",
        ext::WEFT_PORT_IVSHMEM => c"ivshmem",
        _ => c"unknown",
    }))
}

fn version(_: &Device, _: usize) -> Result<Value> {
    Ok(Value::Decimal(wire::VERSION.into()))
}

fn present(data: &Device, _: usize) -> Result<Value> {
    // The port of a function that does not answer cannot be entered.
    let present = data.node.port().is_ok_and(|port| port.is_present());
    Ok(Value::Decimal(present.into()))
}

/// How many endpoint slots the port has, for functions of shared endpoints.
fn endpoint_slots(data: &Device, _: usize) -> Result<Value> {
    let count = data
        .node
        .port()?
        .endpoint_slots()
        .map_or(0, |slots| slots.count());
    Ok(Value::Decimal(count as u64))
}

/// How often functions of shared endpoints have failed while programs used them.
fn endpoint_failures(data: &Device, _: usize) -> Result<Value> {
    Ok(Value::Decimal(data.node.failures()))
}

/// Whether the port is attached to a fabric. `ENOENT`: the hardware does not say.
fn attached(data: &Device, _: usize) -> Result<Value> {
    let fabric = data.node.port()?.fabric();
    Ok(Value::Decimal(fabric.ok_or(ENOENT)?.into()))
}

fn link_state(data: &Device, n: usize) -> Result<Value> {
    let link = link(data, n)?;
    Ok(Value::Text(match link.state {
        _ if link.is_to_switch() => c"switch",
        State::Down => c"down",
        State::Hello => c"hello",
        State::Ready => c"ready",
    }))
}

/// `ENOENT` for a link to a neighbour.
fn link_lid(data: &Device, n: usize) -> Result<Value> {
    let aim = link(data, n)?.aim.ok_or(ENOENT)?;
    Ok(Value::Decimal(aim.lid.into()))
}

fn link_hops(data: &Device, n: usize) -> Result<Value> {
    let aim = link(data, n)?.aim.ok_or(ENOENT)?;
    Ok(Value::Decimal(aim.hops.into()))
}

fn link_speed(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.status.speed.into()))
}

fn link_width(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.status.width.into()))
}

fn link_max_speed(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.status.max_speed.into()))
}

fn link_max_width(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.status.max_width.into()))
}

fn link_present(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.status.present.into()))
}

fn link_role(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Text(if link(data, n)?.status.endpoint {
        c"endpoint"
    } else {
        c"root"
    }))
}

fn link_trained(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.status.trained.into()))
}

fn link_peer_hwid(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Hex64(link(data, n)?.peer.map_or(0, |peer| peer.0)))
}

fn link_peer_generation(data: &Device, n: usize) -> Result<Value> {
    let peer = link(data, n)?.peer;
    Ok(Value::Decimal(peer.map_or(0, |peer| peer.1).into()))
}

fn link_arena_bytes(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.arena_bytes))
}

fn link_arena_wanted(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.arena_wanted))
}

fn link_peer_version(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.health.peer_version.into()))
}

fn link_hello_error(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Text(link(data, n)?.health.hello_error))
}

fn link_readied(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.health.readied))
}

fn link_ended(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Text(link(data, n)?.health.ended))
}

fn link_messages_bad(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.health.messages_bad))
}

fn link_echo_overdue(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.health.echo_overdue))
}

fn link_channels(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.usage.open))
}

fn link_channels_opened(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.usage.opened))
}

fn link_doorbells_lost(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.usage.doorbells_lost))
}

fn link_channels_broken(data: &Device, n: usize) -> Result<Value> {
    Ok(Value::Decimal(link(data, n)?.usage.broken))
}

/// The counters of all kinds of ports, by name. The first is one that all kinds have: without its first
/// file there is no directory.
const COUNTER_NAMES: [&CStr; 22] = [
    c"tx_messages",
    c"rx_messages",
    c"messages_dropped",
    c"tx_doorbells",
    c"rx_doorbells",
    c"doorbells_denied",
    c"interrupts",
    c"tx_writes",
    c"tx_write_bytes",
    c"tx_reads",
    c"tx_read_bytes",
    c"out_dropped",
    c"out_ones",
    c"in_denied",
    c"remaps",
    c"in_faults",
    c"route_denied",
    c"dma_transfers",
    c"dma_bytes",
    c"dma_errors",
    c"dma_writes",
    c"dma_reads",
];

/// `ENOENT` for a counter that this kind of port does not have.
fn counter(data: &Device, n: usize) -> Result<Value> {
    let name = COUNTER_NAMES.get(n).ok_or(ENOENT)?;
    let port = data.node.port()?;
    let mut counters = (0..).map_while(|n| port.counter(n));
    let found = counters.find(|c| c.name == *name).ok_or(ENOENT)?;
    Ok(Value::Decimal(found.value))
}

static ROOT: [Attr<Device>; 8] = [
    Attr::new(c"hwid", hwid, 0),
    Attr::new(c"generation", generation, 0),
    Attr::new(c"kind", kind, 0),
    Attr::new(c"version", version, 0),
    Attr::new(c"present", present, 0),
    Attr::new(c"fabric", attached, 0),
    Attr::new(c"endpoint_slots", endpoint_slots, 0),
    Attr::new(c"endpoint_failures", endpoint_failures, 0),
];
static ROOT_LIST: List<Device, 9> = List::new(&ROOT);

/// Files of a link.
const LINK_FILES: usize = 29;

const fn link_attrs(n: usize) -> [Attr<Device>; LINK_FILES] {
    let [power, target_speed, target_width, bytes_out, bytes_in] = power::attrs(n);
    [
        // The only file that is notified of changes.
        Attr::new(c"state", link_state, n),
        Attr::new(c"lid", link_lid, n),
        Attr::new(c"hops", link_hops, n),
        Attr::new(c"speed", link_speed, n),
        Attr::new(c"width", link_width, n),
        Attr::new(c"max_speed", link_max_speed, n),
        Attr::new(c"max_width", link_max_width, n),
        power,
        target_speed,
        target_width,
        bytes_out,
        bytes_in,
        Attr::new(c"present", link_present, n),
        Attr::new(c"role", link_role, n),
        Attr::new(c"trained", link_trained, n),
        Attr::new(c"peer_hwid", link_peer_hwid, n),
        Attr::new(c"peer_generation", link_peer_generation, n),
        Attr::new(c"peer_version", link_peer_version, n),
        Attr::new(c"hello_error", link_hello_error, n),
        Attr::new(c"readied", link_readied, n),
        Attr::new(c"ended", link_ended, n),
        Attr::new(c"messages_bad", link_messages_bad, n),
        Attr::new(c"echo_overdue", link_echo_overdue, n),
        Attr::new(c"arena_bytes", link_arena_bytes, n),
        Attr::new(c"arena_wanted", link_arena_wanted, n),
        Attr::new(c"channels", link_channels, n),
        Attr::new(c"channels_opened", link_channels_opened, n),
        Attr::new(c"channels_broken", link_channels_broken, n),
        Attr::new(c"doorbells_lost", link_doorbells_lost, n),
    ]
}

static LINK: [[Attr<Device>; LINK_FILES]; LINK_DIRS.len()] = [
    link_attrs(0),
    link_attrs(1),
    link_attrs(2),
    link_attrs(3),
    link_attrs(4),
    link_attrs(5),
    link_attrs(6),
    link_attrs(7),
    link_attrs(8),
    link_attrs(9),
    link_attrs(10),
    link_attrs(11),
];
static LINK_LISTS: [List<Device, { LINK_FILES + 1 }>; LINK_DIRS.len()] = [
    List::new(&LINK[0]),
    List::new(&LINK[1]),
    List::new(&LINK[2]),
    List::new(&LINK[3]),
    List::new(&LINK[4]),
    List::new(&LINK[5]),
    List::new(&LINK[6]),
    List::new(&LINK[7]),
    List::new(&LINK[8]),
    List::new(&LINK[9]),
    List::new(&LINK[10]),
    List::new(&LINK[11]),
];

static COUNTERS: [Attr<Device>; COUNTER_NAMES.len()] = {
    let mut attrs = [const { Attr::new(c"", counter, 0) }; COUNTER_NAMES.len()];
    let mut n = 0;
    while n < COUNTER_NAMES.len() {
        attrs[n] = Attr::new(COUNTER_NAMES[n], counter, n);
        n += 1;
    }
    attrs
};
static COUNTERS_LIST: List<Device, { COUNTER_NAMES.len() + 1 }> = List::new(&COUNTERS);

/// The most virtual functions that can have directories.
const VFS: usize = vfs::NAMES.len();

/// The groups of virtual functions begin here.
const VFS_AT: usize = 3 + LINK_DIRS.len();

static GROUPS: [Group<Device>; VFS_AT + VFS] = {
    let mut groups = [const { Group::new(None, &ROOT_LIST) }; VFS_AT + VFS];
    let mut n = 0;
    while n < LINK_DIRS.len() {
        groups[1 + n] = Group::new(Some(LINK_DIRS[n]), &LINK_LISTS[n]);
        n += 1;
    }
    groups[1 + n] = Group::new(Some(c"counters"), &COUNTERS_LIST);
    groups[2 + n] = Group::new(Some(c"manager"), &manager::LIST);
    let mut n = 0;
    while n < VFS {
        groups[VFS_AT + n] = Group::new(Some(vfs::NAMES[n]), &vfs::LISTS[n]);
        n += 1;
    }
    groups
};
static GROUPS_LIST: Groups<Device, { VFS_AT + VFS + 1 }> = Groups::new(&GROUPS);

/// Returns all groups.
pub(crate) fn groups() -> GroupsRef<Device> {
    GROUPS_LIST.get()
}
