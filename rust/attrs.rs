// SPDX-License-Identifier: GPL-2.0

//! The sysfs files of a port, in the directory of its PCI function: one table, one value a file.
//! `Documentation/ABI/testing/sysfs-bus-pci-drivers-weft` says what they mean.

use crate::{
    device::Device,
    fabric::{LinkInfo, Node, LINK_DIRS},
    proto::{link::State, wire},
    sys::{
        ext,
        sysfs::{Attr, Group, Groups, GroupsRef, List, Value, MOST_DECIMALS},
    },
};
use kernel::prelude::*;

/// Makes read-only files with argument `$n`, a line each: the name, and the value of what `$of` returns
/// for the device and the argument. The files `$more` follow. An `ENOENT` leaves a file out.
macro_rules! files {
    ($n:expr, $it:ident = $of:path { $($name:literal => $value:expr,)* } $($more:expr),*) => {
        [
            $(Attr::new(
                $name,
                |data, n| {
                    let $it = $of(data, n)?;
                    Ok(Value::from($value))
                },
                $n,
            ),)*
            $($more,)*
        ]
    };
}

/// Makes an array of `$count` elements of `$one`, in which `$n` is the index.
macro_rules! each {
    ($count:expr, $n:ident => $one:expr) => {{
        let mut all = [const {
            let $n = 0;
            $one
        }; $count];
        let mut $n = 0;
        while $n < $count {
            all[$n] = $one;
            $n += 1;
        }
        all
    }};
}

mod manager;
mod power;
mod vfs;

/// Returns what is known of link `n`. `ENOENT`: the port does not have it.
fn link(data: &Device, n: usize) -> Result<LinkInfo> {
    data.node
        .link_info(n)
        .map_err(|e| if e == EINVAL { ENOENT } else { e })
}

/// Returns the node itself, for files that are not of a link.
fn node(data: &Device, _: usize) -> Result<&Node> {
    Ok(&data.node)
}

/// Returns the users of link `n`. `ENOENT`: it is no routed link.
fn users(data: &Device, n: usize) -> Result<Value> {
    link(data, n)?.aim.ok_or(ENOENT)?;
    let mut uids = [0; MOST_DECIMALS];
    let count = data.shares().users_of(n, &mut uids);
    Ok(Value::Decimals(uids, count))
}

fn kind(kind: u32) -> &'static CStr {
    match kind {
        ext::WEFT_PORT_WEFT => c"weft",
        ext::WEFT_PORT_IVSHMEM => c"ivshmem",
        _ => c"unknown",
    }
}

fn link_state(link: &LinkInfo) -> &'static CStr {
    match link.state {
        _ if link.is_to_switch() => c"switch",
        State::Down => c"down",
        State::Hello => c"hello",
        State::Ready => c"ready",
    }
}

fn role(link: &LinkInfo) -> &'static CStr {
    match (link.is_loopback, link.status.endpoint) {
        (true, _) => c"loopback",
        (false, true) => c"endpoint",
        (false, false) => c"root",
    }
}

/// The counters of all kinds of ports, by name. The first is one that all kinds have: without its first
/// file there is no directory.
const COUNTER_NAMES: [&CStr; 23] = [
    c"tx_messages",
    c"rx_messages",
    c"messages_dropped",
    c"tx_doorbells",
    c"rx_doorbells",
    c"doorbells_denied",
    c"doorbells_limited",
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
    Ok(found.value.into())
}

static ROOT: [Attr<Device>; 10] = files!(0, node = node {
    c"hwid" => Value::Hex64(node.identity()?.hwid),
    c"generation" => node.identity()?.generation,
    c"kind" => kind(node.identity()?.kind),
    // The port of a function that does not answer cannot be entered.
    c"present" => node.port().is_ok_and(|port| port.is_present()),
    // Whether the port is attached to a fabric, if the hardware says it.
    c"fabric" => node.port()?.fabric().ok_or(ENOENT)?,
    // For functions of shared endpoints.
    c"endpoint_slots" => node.port()?.endpoint_slots().map_or(0, |slots| slots.count()) as u64,
    // How many of those programs use, how many of them are held until there is a route, and how often one has
    // failed.
    c"endpoint_functions" => node.functions().open,
    c"endpoint_held" => node.functions().held,
    c"endpoint_failures" => node.functions().failures,
} Attr::new(c"version", |_, _| Ok(wire::VERSION.into()), 0));
static ROOT_LIST: List<Device, 11> = List::new(&ROOT);

/// Files of a link.
const LINK_FILES: usize = 35;

const fn link_attrs(n: usize) -> [Attr<Device>; LINK_FILES] {
    let [power, target_speed, target_width, bytes_out, bytes_in] = power::attrs(n);
    files!(n, link = link {
        // The only file that is notified of changes.
        c"state" => link_state(&link),
        // A link to a neighbour has neither of these.
        c"lid" => link.aim.ok_or(ENOENT)?.lid,
        c"hops" => link.aim.ok_or(ENOENT)?.hops,
        c"speed" => link.status.speed,
        c"width" => link.status.width,
        c"max_speed" => link.status.max_speed,
        c"max_width" => link.status.max_width,
        c"present" => link.status.present,
        c"role" => role(&link),
        c"trained" => link.status.trained,
        c"peer_hwid" => Value::Hex64(link.peer.map_or(0, |peer| peer.0)),
        c"peer_generation" => link.peer.map_or(0, |peer| peer.1),
        c"peer_version" => link.health.peer_version,
        c"hello_error" => link.health.hello_error,
        c"readied" => link.health.readied,
        c"ended" => link.health.ended,
        c"messages_bad" => link.health.messages_bad,
        c"messages_dropped" => link.health.messages_dropped,
        c"hellos_refused" => link.health.hellos_refused,
        c"echo_overdue" => link.health.echo_overdue,
        c"arena_bytes" => link.arena_bytes,
        c"arena_wanted" => link.arena_wanted,
        c"arena_zeroed" => link.arena_zeroed,
        c"channels" => link.usage.open,
        c"channels_opened" => link.usage.opened,
        c"channels_broken" => link.usage.broken,
        c"queue_pairs" => link.usage.queue_pairs,
        c"sockets" => link.usage.sockets,
        c"doorbells_lost" => link.usage.doorbells_lost,
    } power, target_speed, target_width, bytes_out, bytes_in, Attr::private(c"users", users, n))
}

static LINK: [[Attr<Device>; LINK_FILES]; LINK_DIRS.len()] =
    each!(LINK_DIRS.len(), n => link_attrs(n));
static LINK_LISTS: [List<Device, { LINK_FILES + 1 }>; LINK_DIRS.len()] =
    each!(LINK_DIRS.len(), n => List::new(&LINK[n]));

static COUNTERS: [Attr<Device>; COUNTER_NAMES.len()] =
    each!(COUNTER_NAMES.len(), n => Attr::new(COUNTER_NAMES[n], counter, n));
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
