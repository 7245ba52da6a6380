// SPDX-License-Identifier: GPL-2.0

//! The ioctls that describe a port and its links.

use super::call::{check, Call};
use crate::hw::Identity;
use crate::sys::ext::{self, weft_link_info, weft_port_info};
use kernel::{page::PAGE_SIZE, prelude::*};

/// What guards what, as [`weft_port_info`] has it. Registered memory is out of reach of every kind of
/// port: this kernel copies between an arena and the memory (see queues.rst, *Protection*).
fn protection(id: &Identity) -> u32 {
    let memory = ext::WEFT_PROT_BOUNCE;
    id.arenas
        | memory
        | id.doorbells
        | id.arenas << ext::WEFT_PROT_CHANNELS
        | memory << ext::WEFT_PROT_MEMORY
        | id.doorbells << ext::WEFT_PROT_DOORBELLS
}

/// `WEFT_PORT_INFO`.
pub(super) fn info(call: &Call<'_>, mut info: weft_port_info) -> Result {
    check(info.flags == 0)?;
    let node = &call.file.node;
    let port = node.port()?;
    let id = port.identity();
    info = weft_port_info {
        size: info.size,
        kind: id.kind,
        generation: id.generation,
        hwid: id.hwid,
        lid: port.router().map_or(0, |router| router.lid()),
        links: node.link_numbers(None)?.last().map_or(0, |n| n + 1) as u32,
        protection: protection(&id),
        ..Default::default()
    };
    drop(port);
    call.write(&info)
}

/// `WEFT_LINK_INFO`.
pub(super) fn link_info(call: &Call<'_>, mut info: weft_link_info) -> Result {
    check(info.flags == 0)?;
    let file = call.file;
    let link = file.node.link_info(info.link as usize)?;
    let (peer_hwid, peer_generation) = link.peer.unwrap_or_default();
    let taken = link.usage.pages.saturating_mul(PAGE_SIZE as u64);
    info = weft_link_info {
        size: info.size,
        link: info.link,
        state: match link.is_to_switch() {
            true => ext::WEFT_LINK_TO_SWITCH,
            false => link.state as u32,
        },
        speed: link.status.speed,
        width: link.status.width,
        role: match (link.is_loopback, link.status.endpoint) {
            (true, _) => ext::WEFT_ROLE_LOOPBACK,
            (false, true) => ext::WEFT_ROLE_ENDPOINT,
            (false, false) => ext::WEFT_ROLE_ROOT,
        },
        trained: link.status.trained,
        peer_hwid,
        peer_generation,
        channels: link.usage.open as u32,
        arena_bytes: link.arena_bytes,
        arena_free: link.arena_bytes.saturating_sub(taken),
        lid: link.aim.map_or(0, |aim| aim.lid),
        hops: link.aim.map_or(0, |aim| aim.hops),
        max_speed: link.status.max_speed,
        max_width: link.status.max_width,
        power: match link.power {
            Some(power) if power.auto => ext::WEFT_POWER_AUTO,
            _ => ext::WEFT_POWER_PERFORMANCE,
        },
        arena_share: file.channels.arena_share(info.link as usize, &file.payer)?,
        ..Default::default()
    };
    call.write(&info)
}
